# Every target brings its own environment: Python 3.10 or newer, git and make are enough.

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-sglang check format lint types imports bench schemas metrics pictures package clean environment packages

BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
SOURCES := ddwatch sidecar tests tools docs

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## watch a simulated service (DEMO="--scenario founding" chooses one; q quits)
	@tools/environment runtime
	@$(BIN)/ddwatch demo $(DEMO)

environment:
	@tools/environment dev

packages: environment
	@tools/packages tmux promtool prometheus prometheus-alertmanager amtool journalctl systemd-journal-remote zsh fish

test: packages ## the whole test suite (TESTS="tests/core -k flags" runs a part)
	@$(BIN)/python -m pytest $(TESTS)

test-fast: environment ## the pure core and the laws of the house, in seconds
	@$(BIN)/python -m pytest tests/core tests/scenarios tests/schemas tests/architecture

test-sglang: environment ## ddwatch on a real SGLang on the CPU (about 5 minutes, 1.7 GB in .cache the first time)
	@tools/sglang
	@$(BIN)/python -m pytest -m sglang tests/e2e/real_sglang

check: lint types imports test ## formatting, lint, types, import laws, tests: what CI runs

format: environment ## format the code and fix what ruff can fix
	@$(BIN)/ruff format $(SOURCES)
	@$(BIN)/ruff check --fix $(SOURCES)

lint: environment
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/ruff check $(SOURCES)

types: environment
	@$(BIN)/mypy

imports: environment
	@$(BIN)/lint-imports --no-cache

bench: ## measure the budgets against their peers and print tables (BENCH="detection" runs a part)
	@tools/environment bench
	@tools/packages mtail
	@find tests/bench -path '*$(BENCH)*' -name 'bench_*.py' | sort | sed 's,/,.,g; s,\.py$$,,' | while read -r module; do \
		echo; $(BIN)/python -m "$$module" </dev/null || exit 1; done

package: environment ## build sdist and wheel into dist, then prove them in a fresh environment
	@$(BIN)/python -m hatchling build
	@$(BIN)/python -m pytest tests/package

metrics: environment ## write docs/metrics.md anew from the metric table
	@$(BIN)/python -m docs.metrics

schemas: environment ## write docs/schemas anew from the types
	@$(BIN)/python -m docs.schemas.write

pictures: environment ## draw docs/pictures anew from a seeded demo
	@$(BIN)/python -m tools.pictures

clean: ## remove the environment and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
