# Shortcuts for developers; `./up`, `./down` and `./test` need no make.
.PHONY: check generate lint unit e2e faults tempest bench bench-alone catalogues lock

PYTHON ?= python3

check: ## everything that must hold before a change lands
	./test

lint: ## style, types, layers
	ruff check --no-cache . && mypy && lint-imports

unit: ## tests that need no cloud
	$(PYTHON) -m pytest -m "not e2e"

e2e: ## end-to-end tests; RELEASE=2025.1 for another release, on a machine whose cloud is not of a third one
	OPENSTACK_OPERATOR_E2E_RELEASE=$(RELEASE) $(PYTHON) -m pytest tests/e2e

FAULTS_RESULT ?= bench/results/faults.json

faults: ## breaks everything that there is, each thing several times, on the cloud of ./up; FAULTS="-k memcached" for some
	OPENSTACK_OPERATOR_FAULTS=all OPENSTACK_OPERATOR_FAULTS_RESULT=$(FAULTS_RESULT) $(PYTHON) -m pytest tests/faults $(FAULTS)
	$(PYTHON) tests/faults/records.py $(FAULTS_RESULT) docs

tempest: ## OpenStack's own tests against the cloud of ./up; SETS="identity image network compute scenario" for more
	./scripts/tempest.sh $(SETS)

# Each publishes its figures: bench/NAME.py with options, and the file of its result.
BENCH = PYTHONPATH=src $(PYTHON) bench/$(1).py $(2) --output bench/results/$(subst _,-,$(1)).json --docs docs

bench: ## all measurements of docs/benchmarks.md, one after the other; as root, takes the cloud of this machine down meanwhile
	$(call BENCH,config_check,)
	$(call BENCH,webhook,--calls 300)
	$(call BENCH,operator_alone,--rounds 3)
	$(call BENCH,bring_up,--rounds 3)
	$(call BENCH,up_stages,--rounds 2 --cold)
	$(call BENCH,day2,--rounds 3)
	$(call BENCH,cells,)
	$(call BENCH,questions,)

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
