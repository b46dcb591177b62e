# The verbs people expect. `make help` lists them; each sets up what it needs in .venv, as requirements/ says.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
export NO_MKDOCS_2_WARNING := 1
# Tests start hundreds of processes: with this set, each would compile all of the tree.
unexport PYTHONDONTWRITEBYTECODE

# A Python of 3.11 or newer: $(PYTHON) when given, else python3.11, else python3 when it is new enough.
NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
PYTHON ?= $(shell for candidate in python3.11 python3; do \
	$$candidate $(NEW_ENOUGH) && echo $$candidate && break; done)

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock" $(UPGRADE)
# Processes that run tests: one more than two cores, since a quarter of the time is spent waiting for servers.
JOBS ?= 3
SEEDS ?= 2000
FIRST ?= 0
POWER_FAILURES ?= 300
SERVER_KILLS ?= 100
WRITER_KILLS ?= 200
ENGINE ?= bigtable
HOSTILE_SEQUENCES ?= 5000

$(BIN)/pip:
	@test -n "$(PYTHON)" && $(PYTHON) $(NEW_ENOUGH) || { \
		echo "oneread needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

# $(call INSTALL,file): what the file pins, then the tree itself, built by the pinned hatchling. The file names all that
# is needed; pip would look for extras of it (coverage[toml]) in newer versions than the pinned ones, and refuse them.
# pip removes nothing, so a later `make demo` leaves the developers' tools in place.
INSTALL = $(PIP) install --require-hashes --no-deps --requirement $(1) && \
	$(PIP) install --no-deps --no-build-isolation --editable .

# What running on the embedded store needs.
$(VENV)/.runtime: $(BIN)/pip pyproject.toml requirements/run.txt
	@$(call INSTALL,requirements/run.txt)
	@touch $@

# What developing needs as well.
$(VENV)/.everything: $(BIN)/pip pyproject.toml requirements/run.txt requirements/develop.txt
	@$(call INSTALL,requirements/develop.txt)
	@touch $(VENV)/.runtime $@

# The compiled binding to LMDB, where there is a C compiler.
$(VENV)/.native: $(VENV)/.everything $(wildcard native/*.* native/src/* native/lmdb/*.* native/lmdb/patches/*)
	@$(BIN)/python -m tools.native install $@

$(BIN)/uv:
	@$(MAKE) setup

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## /\1\t/p' Makefile | expand -t 10

.PHONY: setup
setup: $(VENV)/.everything $(VENV)/.native ## everything that developing needs, in .venv

.PHONY: demo
demo: $(if $(filter hbase:% bigtable:%,$(DB)),$(VENV)/.everything,$(VENV)/.runtime) ## a shop on an embedded store, or in DB='memory://?span=row', 'hbase://...', 'bigtable://...': every page is one read
	@$(BIN)/python -m examples.shop demo $(if $(DB),--db '$(DB)')

.PHONY: test
test: setup postgres redis memcached hbase bigtable browser ## every check there is: lint, types, layers, tests with coverage
	@$(MAKE) --jobs 2 --output-sync lint mypy basedpyright
	$(BIN)/pytest -n $(JOBS) --dist worksteal -rsfE --cov --cov-report=term:skip-covered tests

.PHONY: postgres
postgres: setup
	@$(BIN)/python -m tools.servers.postgres install

.PHONY: redis
redis: setup
	@$(BIN)/python -m tools.servers.redis install

.PHONY: memcached
memcached: setup
	@$(BIN)/python -m tools.servers.memcached install

.PHONY: hbase
hbase: setup
	@$(BIN)/python -m tools.servers.hbase install

.PHONY: bigtable
bigtable: setup
	@$(BIN)/python -m tools.servers.bigtable install

.PHONY: browser
browser: setup
	@$(BIN)/python -m tools.browser install

.PHONY: servers
servers: setup postgres redis memcached hbase bigtable ## HBase of several processes, Bigtable's emulator, memcached, Redis and PostgreSQL until Ctrl-C; SERVERS='hbase bigtable' some of them
	@$(BIN)/python -m tools.servers $(SERVERS)

.PHONY: lint
lint: setup ## style, layout, layers, and that the synchronous face and the map of the house are up to date
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tools.unasync --check
	$(BIN)/python -m tools.house_map --check

.PHONY: types mypy basedpyright
types: mypy basedpyright ## two type checkers, both strict

mypy: setup
	$(BIN)/mypy

basedpyright: setup
	$(BIN)/basedpyright

.PHONY: format
format: setup ## rewrite the tree as `make lint` wants it
	$(BIN)/python -m tools.unasync
	$(BIN)/python -m tools.house_map
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: lock
lock: $(BIN)/uv ## pin what pyproject.toml asks for, with hashes, in requirements/; UPGRADE=--upgrade takes newer versions
	$(COMPILE) pyproject.toml --all-extras --no-emit-package oneread-native --group dev --output-file requirements/develop.txt
	$(COMPILE) pyproject.toml --group build --constraint requirements/develop.txt --output-file requirements/run.txt
	$(COMPILE) --group wheels --output-file requirements/wheels.txt

# Compilers for all platforms, which nothing else needs: 400 MB.
$(VENV)/zig: $(VENV)/.everything requirements/wheels.txt
	@rm -rf $@
	@$(PIP) install --require-hashes --no-deps --requirement requirements/wheels.txt --target $@

.PHONY: wheels
wheels: setup $(VENV)/zig ## what is published, in dist/: wheels and source distributions, compiled for all platforms on this machine
	@$(BIN)/python -m tools.wheels dist $(VENV)/zig/ziglang/zig

.PHONY: sim
sim: setup $(if $(SCHEMAS)$(filter row,$(SPAN)),,redis memcached hbase bigtable) ## SEEDS seeds of crashes and interleavings, ten times the examples of each property, interrupts at each bytecode, POWER_FAILURES below each run; SPAN=row: with counts of what was met, most of them of stores that change one row at a time; SCHEMAS=20000: random schemas and histories over them, from seed FIRST on
ifdef SCHEMAS
	$(BIN)/python -m tests.schemas.report --schemas $(SCHEMAS) --first $(FIRST) --jobs $(JOBS)
else ifeq ($(SPAN),row)
	$(BIN)/python -m tests.simulation.report --seeds $(SEEDS) --jobs $(JOBS)
else
	ONEREAD_SIM_SEEDS=$(SEEDS) ONEREAD_POWER_FAILURES=$(POWER_FAILURES) HYPOTHESIS_PROFILE=sim $(BIN)/pytest -n $(JOBS) -rsfE tests/simulation tests/properties tests/conformance tests/power tests/failures/test_interrupts.py
endif

.PHONY: soak
soak: setup $(if $(filter hbase,$(ENGINE)),hbase,bigtable) ## HOSTILE_SEQUENCES of calls of the compiled binding, then SERVER_KILLS faults of servers and WRITER_KILLS killed programs on ENGINE=bigtable or hbase; SEED= for the order of faults
	ONEREAD_HOSTILE_SEQUENCES=$(HOSTILE_SEQUENCES) $(BIN)/pytest -rsfE tests/unit/engines/lmdb/test_sanitized.py
	$(BIN)/python -m tests.soak --engine $(ENGINE) --server-kills $(SERVER_KILLS) --writer-kills $(WRITER_KILLS) $(if $(SEED),--seed $(SEED))

.PHONY: bench
bench: setup postgres redis ## every benchmark against its peers
	$(BIN)/python -m benchmarks run

.PHONY: docs
docs: setup ## the documentation, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

.PHONY: clean
clean: ## take away what tools made, the virtual environment included
	rm -rf $(VENV) site htmlcov dist build .coverage* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
