# Everything a developer or CI needs; wants Python 3.10+ and Java 17+, nothing else.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: help setup demo test test-long test-rare chaos simulate lint format engine clean bench-check bench-flowkv

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv with everything in it

# Without isolation pip does not fetch Spark a second time just to link the sources in.
$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "tailrace needs Python 3.10 or newer: make setup PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $$($(BIN)/python -c 'import re; print(re.search(r"setuptools==[\d.]+", open("pyproject.toml").read())[0])')
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[dev]'
	@touch $@

engine: setup  ## compile the engine if its sources changed
	@$(BIN)/python -c 'import tailrace; print(tailrace.jar())'

demo: engine  ## tailrace beside RocksDB, in under two minutes
	@$(BIN)/tailrace demo

test: lint engine  ## lint, then all tests
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not long and not rare"

test-long: engine  ## more tests: every failpoint, kills, rules (about 20 minutes)
	$(BIN)/python -m pytest -n 3 --dist worksteal -m long

test-rare: engine  ## the rest: Spark's own stores, queries of the bench, repetitions
	$(BIN)/python -m pytest -n 3 --dist worksteal -m rare

# CHAOS_KILLS=20 make chaos: a short one. TAILRACE_SEED=n draws the same kills again.
chaos: engine  ## 200 kills of queries at work, about 35 minutes; CHAOS_KILLS=20 takes 4
	PYTHONPATH=tests $(BIN)/python -m chaos $(CHAOS_ARGUMENTS)

# make simulate SEEDS=1000: fewer. make simulate REPLAY=4711: one history, event by event.
SEEDS ?= 100000
simulate: engine  ## 100,000 simulated histories of the commit protocol, about 5 minutes
	PYTHONPATH=tests $(BIN)/python -m simulate --seeds $(SEEDS) $(if $(REPLAY),--replay $(REPLAY))

bench-check: engine  ## every workload against its reference, a million events each (long)
	$(BIN)/tailrace bench check

bench-flowkv: engine  ## the FlowKV suite and its report, in under 15 minutes
	$(BIN)/tailrace bench nexmark --suite flowkv --out build/flowkv.json
	$(BIN)/tailrace report build/flowkv.json --out build/report

lint: setup  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove what was built; .venv stays
	rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
