# The verbs of this project. `.ci/run` and a person at a laptop call the same ones.
#
# Python 3.11 or newer is all that has to be there: `uv` comes from PyPI into the project's own
# .venv where it is absent, and brings everything else from the lock file.

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
SYNCED := $(VENV)/.synced
RUNS := $(VENV)/.runs
# Read by the one program that has to be there.
UV_VERSION = $(shell $(PYTHON) -c 'print(open("uv.lock").read().partition("\nname = \"uv\"\nversion = \"")[2].partition("\"")[0])')
UV := $(or $(shell command -v uv 2>/dev/null),$(BIN)/uv)
ARGS ?=

export PYTHONPATH := tests/support
PYTEST := $(PY) -m pytest -p time_per_folder
# Four processes share the tests, a file at a time, and one set of servers: tests wait more than they compute.
# STREAMS=0: one, for a debugger.
STREAMS ?= 4

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: install
install: $(SYNCED) ## install all Python packages into .venv, from the lock file; those of the tests too

$(SYNCED): uv.lock pyproject.toml | $(UV)
	$(UV) sync --frozen --quiet
	@: >$@

# What runs the service alone is a tenth of it, and a new user waits for it. It removes nothing that is there.
$(RUNS): uv.lock pyproject.toml | $(UV)
	@if [ $(SYNCED) -nt uv.lock ] && [ $(SYNCED) -nt pyproject.toml ]; then exit; fi; set -x; \
	  $(UV) sync --frozen --quiet --no-dev --extra formats --extra otel --inexact
	@: >$@

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Skybridge needs Python 3.11 or newer. Cure: install one and run 'make PYTHON=python3.11 $(MAKECMDGOALS)'." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments. Cure on Debian: apt install python3-venv; or install uv." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# The console is built beside the demo, with what processors have left. The build outlasts a short demo.
.PHONY: demo
demo: $(RUNS) ## start a service, send a feed, show the way of every event and the final account (ARGS=--stay: keep it running)
	@$(PY) tests/support/console_build.py --lenient --aside >/dev/null 2>&1 & \
	$(BIN)/skybridge demo $(ARGS)

CONSOLE ?=
.PHONY: console
console: $(RUNS) ## build the page for operators from app/console/web (installs Node.js from PyPI if it is missing)
	@$(PY) tests/support/console_build.py $(CONSOLE)

.PHONY: wheel
wheel: $(RUNS) console ## build dist/*.whl with the console in it: uvx --from dist/*.whl skybridge demo needs no make and no Node.js
	@rm -f dist/*.whl
	$(UV) build --quiet --wheel --out-dir dist
	@echo "Try it: uvx --from $$(ls dist/*.whl) skybridge demo"

.PHONY: serve
serve: $(RUNS) ## start the service on the embedded log (ARGS="--config FILE" for your own configuration)
	$(BIN)/skybridge serve $(ARGS)

.PHONY: servers
servers: install ## install the servers for tests into .servers (ARGS="kafka rabbitmq": start these alone, ARGS=--start: start all, ARGS=--stop: end them)
	@$(PY) tests/support/servers.py $(if $(filter servers,$(MAKECMDGOALS)),$(ARGS))

.PHONY: kafka
kafka: $(RUNS) ## start Apache Kafka on this machine, and print a configuration to paste (ARGS=--stop: end it)
	@$(PY) tests/support/servers.py kafka $(if $(filter kafka,$(MAKECMDGOALS)),$(ARGS))

.PHONY: test
test: install ## run the tests that CI runs, with the time per folder at the end
	@$(MAKE) --no-print-directory -j2 ARGS= CONSOLE=--lenient servers console
	$(PYTEST) -p streams --streams $(STREAMS) -m "not nightly" $(ARGS)

.PHONY: nightly
nightly: install servers console ## run the tests that `make test` leaves out, for hours, and write docs/nightly.md (ARGS="--part faults")
	$(PY) tests/support/nightly.py $(ARGS)

.PHONY: impacted
impacted: install ## run the tests whose imports reach a change since main (ARGS="--list", "--since HEAD~3")
	$(PY) tests/support/impacted.py $(ARGS)

.PHONY: properties
properties: install ## run every property with 100,000 examples, for hours (ARGS="-k headers")
	$(PYTEST) tests/properties --hypothesis-profile=nightly --timeout=0 $(ARGS)

.PHONY: fuzz
fuzz: install ## change inputs of pure parsers until one fails (ARGS="--list", "--target cesql --seconds 300")
	@PYTHONPATH=tests/support:tests $(PY) -m fuzz.run $(ARGS)

.PHONY: check
check: install ## check lint, format, types, import contracts, spelling, that all files name one version, and the site
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell
	$(PY) -m pytest -q -p no:randomly tests/docs/test_versions.py
	$(PY) tests/support/site_build.py

.PHONY: words
words: install ## count hard words by folder, in code and pages (ARGS=app/api: list those of a folder, ARGS=--lower: lower the ceilings)
	@$(PY) -m words_count $(ARGS)

.PHONY: bench
bench: install servers ## measure CPU per event compared with plain floors (ARGS="--short", "--http", "--write docs/figures.md"): docs/guides/bench.md
	$(PY) tests/bench/run.py $(ARGS)

.PHONY: capacity
capacity: install servers ## measure the CPU, memory and disk that an installation needs (ARGS="--write docs/capacity.md")
	PYTHONPATH=tests/support:tests/bench:. $(PY) tests/bench/capacity.py $(ARGS)

.PHONY: soak
soak: install servers ## run at half load for half an hour and check that nothing grows (ARGS="--minutes 2 --log embedded", "--write docs/soak.md")
	PYTHONPATH=tests/support:tests/bench:. $(PY) tests/bench/soak.py $(ARGS)

.PHONY: operator-day
operator-day: install ## break targets, see and cure it by the command line, with the seconds of each step (ARGS="--write docs/guides/operators.md")
	PYTHONPATH=tests/support:tests/bench:. $(PY) tests/bench/operator_seconds.py $(ARGS)

.PHONY: bench-pipeline
bench-pipeline: install servers ## measure the pipeline on Spark: decode, archive, report (ARGS="--short", "--events 2000000 --write docs/pipeline-figures.md")
	$(PY) tests/bench/pipeline.py $(ARGS)

.PHONY: opinions
opinions: install servers ## run the official SDKs of other languages on the corpus, and write docs/opinions.md
	$(PY) tests/opinions/table.py --write docs/opinions.md

.PHONY: contract
contract: install servers ## run the broker contract on every log, and write docs/contract.md
	$(PY) tests/support/contract_table.py $(ARGS)

.PHONY: image
image: install ## build the image of the service with Docker or buildah (ARGS="--tag NAME", "--commit HEAD~20", "--save FILE")
	@PYTHONPATH=tests/support:tests/kubernetes $(PY) tests/kubernetes/image_build.py $(ARGS)

.PHONY: kubernetes
kubernetes: install ## run the chart in a real Kubernetes under load (ARGS="--list", "--only single", "--context NAME", "--write docs/guides/deploy.md")
	@PYTHONPATH=tests/support:tests/bench:tests/kubernetes $(PY) tests/kubernetes/laboratory_run.py $(ARGS)

.PHONY: proof
proof: install ## attack the guarantees on clusters of hosts whose networks fail, as root (ARGS="--list", "--scenario kafka-leader --seed 7", "--write docs/proof.md")
	@PYTHONPATH=tests/support:tests $(PY) -m proof.run $(ARGS)

.PHONY: openapi
openapi: install ## write openapi/openapi.json
	$(BIN)/skybridge openapi --out openapi/openapi.json

.PHONY: chart
chart: install ## write the golden renderings of the chart, the secrets in its schema, and the kind Subscription
	$(PY) tests/support/chart.py

.PHONY: sbom
sbom: install ## write the contents of the image to sbom.json, as CycloneDX
	$(UV) export --quiet --frozen --no-dev --all-extras --no-extra pipeline --no-emit-package pygments --format cyclonedx1.5 --preview-features sbom-export --output-file sbom.json

.PHONY: pictures
pictures: install console ## take the pictures of the pages: the README's terminals, and the console in light and dark
	@$(PY) -m terminal_pictures
	@$(PY) -m console_pictures

.PHONY: docs
docs: install ## write the generated pages
	$(PY) tests/support/reference_pages.py
	$(PY) tests/support/kafka_apis_page.py

.PHONY: site
site: install ## build the site of the documentation into build/docs/site, strictly, and check its links
	@$(PY) tests/support/site_build.py
