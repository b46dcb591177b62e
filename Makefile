# The verbs people expect. `make help` lists them; each sets up what it needs in .venv, as uv.lock says.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
export NO_MKDOCS_2_WARNING := 1

# A Python of 3.11 or newer: $(PYTHON) when given, else python3.11, else python3 when it is new enough.
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
PYTHON ?= $(shell for candidate in python3.11 python3; do \
	$$candidate $(NEW_ENOUGH) && echo $$candidate && break; done)

VENV := .venv
BIN := $(VENV)/bin
UV := $(shell sed -n 's/.*"\(uv==[0-9.]*\)".*/\1/p' pyproject.toml)
SYNC := VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv sync --active --locked --quiet
LOCKED := pyproject.toml uv.lock
JOBS ?= 2
SEEDS ?= 2000

$(BIN)/uv: pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) $(NEW_ENOUGH) || { \
		echo "oneread needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(UV)"
	@touch $@

# What running on the embedded store needs. --inexact: a later `make demo` must not take the developers' tools away again.
$(VENV)/.runtime: $(BIN)/uv $(LOCKED)
	@$(SYNC) --no-default-groups --group setup --inexact
	@touch $@

# What developing needs as well.
$(VENV)/.everything: $(BIN)/uv $(LOCKED)
	@$(SYNC) --all-extras
	@touch $(VENV)/.runtime $@

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## /\1\t/p' Makefile | expand -t 10

.PHONY: setup
setup: $(VENV)/.everything ## everything that developing needs, in .venv

.PHONY: demo
demo: $(VENV)/.runtime ## a shop on an embedded store: every page is one read
	@$(BIN)/python -m examples.shop demo

.PHONY: test
test: setup postgres lint types ## every check there is: lint, types, layers, tests with coverage
	$(BIN)/pytest -n $(JOBS) --cov --cov-report=term:skip-covered tests

.PHONY: postgres
postgres: setup
	@$(BIN)/python -m tools.servers.postgres install

.PHONY: lint
lint: setup ## style, layout, layers, and that the synchronous face is up to date
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tools.unasync --check

.PHONY: types
types: setup ## two type checkers, both strict
	$(BIN)/mypy
	$(BIN)/basedpyright

.PHONY: format
format: setup ## rewrite the tree as `make lint` wants it
	$(BIN)/python -m tools.unasync
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: sim
sim: setup ## simulation with SEEDS seeds: crashes and interleavings at every request, interrupts at every bytecode
	ONEREAD_SIM_SEEDS=$(SEEDS) $(BIN)/pytest -n $(JOBS) tests/simulation tests/failures/test_interrupts.py

.PHONY: bench
bench: setup postgres ## every benchmark against its peers
	$(BIN)/python -m benchmarks run

.PHONY: docs
docs: setup ## the documentation, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.PHONY: clean
clean: ## take away what tools made, the virtual environment included
	rm -rf $(VENV) site htmlcov dist build .coverage* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
