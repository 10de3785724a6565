# Shortcuts for developers; `./up`, `./down` and `./test` need no make.
BENCHES = config_check webhook operator_alone bring_up up_stages day2 cells questions

.PHONY: check generate lint unit e2e faults tempest bench $(addprefix bench-,$(BENCHES)) catalogues lock

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

bench: ## all measurements of docs/benchmarks.md, one after the other, whatever one finds; as root, without the machine's cloud
	$(MAKE) --keep-going --jobs=1 $(addprefix bench-,$(BENCHES))

bench-webhook: SIZE = --calls 300
bench-operator_alone bench-bring_up bench-day2: SIZE = --rounds 3
bench-up_stages: SIZE = --rounds 2 --cold

# Each publishes its figures: bench/NAME.py with its options, and the file of its result.
$(addprefix bench-,$(BENCHES)): bench-%:
	PYTHONPATH=src $(PYTHON) bench/$*.py $(SIZE) --output bench/results/$(subst _,-,$*).json --docs docs

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
