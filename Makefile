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
UV_VERSION := $(shell awk '/^name = "uv"$$/ { getline; gsub(/[^0-9.]/, ""); print }' uv.lock)
UV := $(or $(shell command -v uv 2>/dev/null),$(BIN)/uv)
ARGS ?=

export PYTHONPATH := tests/support
PYTEST := $(PY) -m pytest -p time_per_folder
# Three processes share the tests, a file at a time, and one set of servers: tests wait more than they compute.
# STREAMS=0: one, for a debugger.
STREAMS ?= 3

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: install
install: $(SYNCED) ## everything Python needs, in .venv, from the lock file

$(SYNCED): uv.lock pyproject.toml | $(UV)
	$(UV) sync --frozen --quiet
	@touch $@

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Skybridge needs Python 3.11 or newer. Cure: install one and run 'make PYTHON=python3.11 $(MAKECMDGOALS)'." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments. Cure on Debian: apt install python3-venv; or install uv." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# The console is built beside the demo, with what processors have left; it ends with it.
.PHONY: demo
demo: install ## set up, start, send a feed, show every event's way and the closing account (ARGS=--stay: stay)
	@$(PY) tests/support/console_build.py --lenient --aside & build=$$!; \
	trap 'kill $$build 2>/dev/null || true' EXIT; $(BIN)/skybridge demo $(ARGS)

CONSOLE ?=
.PHONY: console
console: install ## the page for operators, from app/console/web (Node.js comes from PyPI where it is absent)
	@$(PY) tests/support/console_build.py $(CONSOLE)

.PHONY: serve
serve: install ## the service on the embedded log (ARGS="--config FILE" for your own)
	$(BIN)/skybridge serve $(ARGS)

.PHONY: servers
servers: install ## the servers that tests run against, into .servers (ARGS=--start: run them, ARGS=--stop)
	@$(PY) tests/support/servers.py $(if $(filter servers,$(MAKECMDGOALS)),$(ARGS))

.PHONY: test
test: install ## what a newcomer and CI run, with the time per folder at the end
	@$(MAKE) --no-print-directory -j2 ARGS= CONSOLE=--lenient servers console
	$(PYTEST) -n $(STREAMS) --dist loadfile --no-loadscope-reorder -m "not nightly" $(ARGS)

.PHONY: nightly
nightly: install servers ## all that `make test` leaves out, into docs/nightly.md (ARGS="--part faults"): hours
	$(PY) tests/support/nightly.py $(ARGS)

.PHONY: impacted
impacted: install ## the tests whose imports reach what changed since main (ARGS="--list", "--since HEAD~3")
	$(PY) tests/support/impacted.py $(ARGS)

.PHONY: properties
properties: install ## every property with 100,000 examples: hours (ARGS="-k headers")
	$(PYTEST) tests/properties --hypothesis-profile=nightly --timeout=0 $(ARGS)

.PHONY: check
check: install ## lint, format, types, import contracts, spelling, one version everywhere
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell
	$(PY) -m pytest -q -p no:randomly tests/docs/test_versions.py

.PHONY: words
words: install ## words that slow a reader down, counted by folder (ARGS=app/api: list those of a folder, ARGS=--lower)
	@$(PY) -m words_count $(ARGS)

.PHONY: bench
bench: install servers ## CPU per event beside plain floors (ARGS="--short", "--http", "--write docs/figures.md"): docs/guides/bench.md
	$(PY) tests/bench/run.py $(ARGS)

.PHONY: capacity
capacity: install servers ## what an installation has to have: CPU, memory, disk (ARGS="--write docs/capacity.md")
	PYTHONPATH=tests/support:tests/bench:. $(PY) tests/bench/capacity.py $(ARGS)

.PHONY: soak
soak: install servers ## half load for half an hour: does anything grow? (ARGS="--minutes 2 --log embedded", "--write docs/soak.md")
	PYTHONPATH=tests/support:tests/bench:. $(PY) tests/bench/soak.py $(ARGS)

.PHONY: bench-pipeline
bench-pipeline: install servers ## the pipeline on Spark: decode, archive, report (ARGS="--short", "--events 2000000 --write docs/pipeline-figures.md")
	$(PY) tests/bench/pipeline.py $(ARGS)

.PHONY: opinions
opinions: install servers ## what the official SDKs of other languages make of the corpus, into docs/opinions.md
	$(PY) tests/opinions/table.py --write docs/opinions.md

.PHONY: contract
contract: install servers ## the broker contract on every log, into docs/contract.md
	$(PY) tests/support/contract_table.py $(ARGS)

.PHONY: openapi
openapi: install ## write openapi/openapi.json again
	$(BIN)/skybridge openapi --out openapi/openapi.json

.PHONY: chart
chart: install ## the golden renderings of the chart, and the secrets that its schema names
	$(PY) tests/support/chart.py

.PHONY: sbom
sbom: install ## what the image holds, as CycloneDX, into sbom.json
	$(UV) export --quiet --frozen --no-dev --all-extras --no-extra pipeline --format cyclonedx1.5 --preview-features sbom-export --output-file sbom.json

.PHONY: docs
docs: install ## write the generated pages
	$(PY) tests/support/configuration_page.py > docs/configuration.md.new
	@mv docs/configuration.md.new docs/configuration.md
	$(PY) tests/support/kafka_apis_page.py
