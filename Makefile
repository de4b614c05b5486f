# One command each on a fresh machine; `make help` lists them. Everything is installed into .venv, nothing elsewhere,
# except that `make test` asks apt for Debian's chromium where there is none.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/
READY := $(VENV)/.ready
ENVIRONMENTS := $(CURDIR)/build/environments
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export JUPYTER_PLATFORM_DIRS := 1

.PHONY: help setup demo lab labs docs oneccl test test-all environments clusters check browser clean tests-of-trials tests-of-ranks tests-of-pages tests-of-entries tests-of-machine tests-of-notebooks other-tests

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Create .venv and install accel-workbench into it, with the tools that the tests need

$(READY): pyproject.toml
	@test -x $(RUN)pip || $(PYTHON) -m venv $(VENV) || \
	  { echo "No virtual environment could be made with $(PYTHON). On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Installing into $(VENV) (torch is large: this takes minutes the first time) ..."
	@$(RUN)python -m pip install --quiet --editable ".[dev]"
	@touch $@

demo: $(READY) ## Run the quickstart notebook, print what it shows, write quickstart.html
	@$(RUN)python notebooks/run_quickstart.py --html quickstart.html

lab: $(READY) ## Open JupyterLab on the quickstart notebook, on this machine only
	@$(RUN)jupyter lab --ServerApp.ip=127.0.0.1 $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/quickstart.ipynb

labs: $(READY) ## Run every lab of the course once, in quick mode, on copies in build/labs, with the environments that are there
	@rm -rf build/labs && mkdir -p build/labs && cp notebooks/labs/*.ipynb build/labs/
	@ACCEL_LABS=quick ACCEL_ENVIRONMENTS=$(ENVIRONMENTS) ACCEL_HISTORY=$(CURDIR)/build/labs/history.sqlite $(RUN)python -m pytest --nbmake --nbmake-timeout=240 --timeout=300 --durations=0 build/labs

docs: $(READY) ## Build the documentation into build/site, to be read offline
	@NO_MKDOCS_2_WARNING=1 $(RUN)mkdocs build --quiet --clean
	@echo "Read it: build/site/index.html"

oneccl: $(READY) ## Build the optional oneCCL backend into your cache (downloads Intel's wheels); its tests then run
	@$(RUN)accel oneccl --build

test: $(READY) browser ## Run the tests, in a real browser too where there is one
	@$(MAKE) --no-print-directory --keep-going -j4 tests-of-trials tests-of-ranks tests-of-pages other-tests tests-of-entries tests-of-machine tests-of-notebooks

# Four processes side by side, each prints whole lines; others follow as these end. Pages are apart: Playwright's event loop
# would run under all other tests. tests/test_project.py is part of `make check`, tests/clusters of `make clusters`.
RANKS := tests/distributed tests/cells tests/notebook
PAGES := tests/browser tests/widgets
MACHINE := tests/machine tests/measuring tests/profiling tests/traces tests/exporting
APART := $(RANKS) $(PAGES) $(MACHINE) tests/clusters tests/workers tests/accelerations tests/notebooks tests/test_project.py
tests-of-trials: ; @$(RUN)python -m pytest tests/workers | sed -u ""
tests-of-ranks: ; @$(RUN)python -m pytest $(RANKS) | sed -u ""
tests-of-pages: ; @$(RUN)python -m pytest $(PAGES) | sed -u ""
tests-of-machine: ; @$(RUN)python -m pytest $(MACHINE) | sed -u ""
tests-of-notebooks: ; @$(RUN)python -m pytest tests/notebooks | sed -u ""
tests-of-entries: ; @$(RUN)python -m pytest tests/accelerations | sed -u ""
other-tests: ; @$(RUN)python -m pytest tests $(APART:%=--ignore=%) | sed -u ""

test-all: test ## Run the tests that take minutes too: cells of Hugging Face, Lightning, timm, and whole trials of all cells
	@$(RUN)python -m pytest -m whole --timeout=1800

# NNI's shares its torch with Intel's. They outlive a run.
environments: $(READY) browser ## Make the environments intel, nni and openmp in build/environments (8 GB), and run the tests that need them
	@for name in intel nni openmp; do ACCEL_ENVIRONMENTS=$(ENVIRONMENTS) $(RUN)accel env create $$name; done
	@ACCEL_REQUIRE_ENVIRONMENTS=1 $(RUN)python -m pytest -m environment tests/environments tests/accelerations/test_prune.py
	@ACCEL_REQUIRE_ENVIRONMENTS=1 $(RUN)python -m pytest -m environment tests/browser

# Root, network namespaces and Debian's packages: .ci/clusters installs them. Nothing of it outlives the tests.
clusters: $(READY) ## Bring up a SLURM of two nodes and two hosts for mpirun on this machine, and run the tests of jobs there
	@.ci/clusters
	@ACCEL_REQUIRE_CLUSTERS=1 $(RUN)python -m pytest tests/clusters tests/exporting/test_cluster_scripts.py

browser:
	@.ci/chromium

check: $(READY) docs ## Check format, style, types, imports, notebooks and documents
	@$(RUN)ruff format --check .
	@$(RUN)ruff check .
	@$(RUN)mypy
	@$(RUN)lint-imports
	@$(RUN)nbstripout --verify notebooks/*.ipynb notebooks/labs/*.ipynb
	@$(RUN)python -m pytest tests/test_project.py

clean: ## Remove .venv and everything that was made here
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist test-results quickstart.html
	@find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
