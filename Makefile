# Shortcuts for developers; `./up`, `./down` and `./test` need no make.
.PHONY: check generate lint unit e2e tempest catalogues lock bench-alone

PYTHON ?= python3

check: ## everything that must hold before a change lands
	./test

lint: ## style, types, layers
	ruff check . && mypy && lint-imports

unit: ## tests that need no cloud
	$(PYTHON) -m pytest -m "not e2e"

e2e: ## end-to-end tests; RELEASE=2025.1 for another release, on a machine whose cloud is not of a third one
	OPENSTACK_OPERATOR_E2E_RELEASE=$(RELEASE) $(PYTHON) -m pytest tests/e2e

tempest: ## OpenStack's own smoke tests against the cloud of ./up
	./scripts/tempest.sh

bench-alone: ## the operator beside kopf and controller-runtime, into docs/benchmarks.md; half an hour on an idle machine
	PYTHONPATH=src $(PYTHON) bench/operator_alone.py --rounds 3 --output bench/results/operator-alone.json --docs docs

generate: ## CRDs, access rules, install manifest, reference
	PYTHONPATH=src $(PYTHON) -m openstack_operator.cli.generate

catalogues: ## options and policy rules of every release, from its own packages; as root
	PYTHONPATH=src $(PYTHON) -m openstack_operator.cli.catalogues $(RELEASES)

COMPILE = uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate \
	--python-version 3.11 pyproject.toml

lock: ## requirements/*.txt from pyproject.toml; add UPGRADE=--upgrade for newer versions
	$(COMPILE) $(UPGRADE) -o requirements/runtime.txt
	$(COMPILE) --extra client -c requirements/runtime.txt -o requirements/client.txt
	$(COMPILE) --extra client --extra test -c requirements/client.txt -o requirements/test.txt
