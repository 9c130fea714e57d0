# Everything a fresh machine needs beyond this file: git, make, Python 3.11 or newer, and an index that pip can reach.

PYTHON ?= python3
# More for pytest, as in: make test PYTEST_ARGS="-k gate -x"
PYTEST_ARGS ?=
# So many processes share the tests, a file each at a time in the order of their names; 0 runs them in one, as a debugger wants it.
PROCESSES ?= 2

BIN := .venv/bin
READY := .venv/.ready
PYTEST := $(BIN)/python -m pytest -q

.DEFAULT_GOAL := help
# The targets share one .venv and one set of caches: under -j they take turns.
.NOTPARALLEL:
.PHONY: bench check clean demo help rows test test-all

help: ## say what the targets do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|' 2>/dev/null \
		|| grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST)

demo: $(READY) ## run the refund desk, a small app that waits for a person
	@$(BIN)/python examples/refund_desk/demo.py

test: check ## check, then the tests and those of the examples (what CI runs)
	@$(PYTEST) -n $(PROCESSES) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)
	@$(call examples,)

test-all: check ## the same with the slow tests
	@HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-ci} $(PYTEST) -n $(PROCESSES) --dist loadfile --no-loadscope-reorder -m "slow or not slow" -o faulthandler_timeout=2000 $(PYTEST_ARGS)
	@$(call examples,-m "slow or not slow")

check: $(READY) ## format, lint, types, import rules, loom check
	@$(BIN)/ruff format --check --quiet . || { echo "some files are not formatted; run: $(BIN)/ruff format ." >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo >.venv/imports.log 2>&1 || { cat .venv/imports.log >&2; exit 1; }
	@$(BIN)/loom check examples 2>.venv/check.log || { cat .venv/check.log >&2; exit 1; }
	@echo "check: format, lint, types and import rules hold, and the examples would replay"

bench: $(READY) ## measure, as JSON lines
	@$(BIN)/python -m tests.benchmarks

rows: $(READY) ## print the requirements that no test proves yet
	@$(BIN)/python tests/rows.py

clean: ## remove what make and the tools made
	@rm -rf .venv build dist .coverage htmlcov .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each example is an app of its own: its tests run from its folder, with the Python of this checkout.
define examples
set -e; here="$$PWD"; for tests in examples/*/tests; do \
	[ -d "$$tests" ] || continue; app="$${tests%/tests}"; echo "$$app"; \
	(cd "$$app" && "$$here"/$(PYTEST) $(1) tests); \
done
endef

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Loom needs Python 3.11 or newer; name one: make PYTHON=python3.12" >&2; exit 1; }
	@echo "making .venv (once, and again when pyproject.toml changes)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $@
