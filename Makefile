# Two commands set up everything on a fresh machine: `make demo` and `make test`. Each makes its own venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Editable installs leave no copy behind: what you edit is what runs.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check

.PHONY: demo test test-fast lint types bench mutants docs lock clean setup

setup: $(STAMP)

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "inference-watchdog needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make a venv (Debian and Ubuntu: apt install python3-venv)."; exit 1; }
	$(INSTALL) --require-hashes -r requirements/dev.txt
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

demo: $(STAMP)  ## the whole story in under two minutes
	$(BIN)/inference-watchdog demo

test: $(STAMP)  ## everything: first in parallel, then what measures time by itself; what is missing here says so
	$(BIN)/pytest -n 3 --dist loadgroup -q -m "not alone"
	$(BIN)/pytest -q -m alone

test-fast: $(STAMP)  ## the pure core and the quick integration tests
	$(BIN)/pytest -q -m "not slow and not real"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/codespell watchdog tests/unit tests/integration docs config README.md CONTRIBUTING.md CHANGELOG.md

types: $(STAMP)
	$(BIN)/mypy

bench: $(STAMP)  ## budgets of docs/benchmarks.md, as ratios in one run; SECONDS_IDLE=600 for the ten idle minutes
	$(BIN)/python -m benchmarks.scan
	$(BIN)/python -m benchmarks.idle --seconds $${SECONDS_IDLE:-600}
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.fleet
	$(BIN)/python -m benchmarks.latency

mutants: $(STAMP)  ## how many small wrong changes to the deciding code the tests notice; half an hour; SAMPLE=20 for a taste
	$(BIN)/python -m tests.mutants --sample $${SAMPLE:-150}

lock:  ## needs uv; writes hash-pinned requirements that name no index host
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" -c requirements/constraints.in pyproject.toml requirements/dev.in -o requirements/dev.txt
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" -c requirements/constraints.in pyproject.toml -o requirements/run.txt
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" -c requirements/constraints.in requirements/lab.in -o requirements/lab.txt
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --custom-compile-command "make lock" -c requirements/constraints.in requirements/packaging.in -o requirements/packaging.txt

clean:
	rm -rf $(VENV) .lab .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
