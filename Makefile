# Each target sets up what it needs, on a fresh clone, with nothing but python3.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# one thread per process: two processes side by side are faster than one with two threads
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test test-slow browser docs bench lint clean

demo: .venv/core
	$(BIN)/cmdpax demo --out demo

test: .venv/dev lint
	$(BIN)/python -m pytest -n 2

test-slow: .venv/dev
	$(BIN)/python -m pytest -n 2 -m slow

lint: .venv/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Chromium for the tests of the report; never fails, without it they are skipped
browser:
	.ci/browser

docs: .venv/docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --jobs auto docs build/docs
	@echo "open build/docs/index.html"

bench: .venv/bench
	$(BIN)/python benchmarks/vs_lp.py --quick

.venv/python: constraints.txt
	$(PYTHON) -m venv .venv
	touch $@

.venv/core: .venv/python pyproject.toml
	$(PIP) --editable .
	touch $@

.venv/dev: .venv/python pyproject.toml
	$(PIP) --editable '.[dev]'
	touch $@ .venv/core

.venv/docs: .venv/python pyproject.toml
	$(PIP) --editable '.[docs]'
	touch $@ .venv/core

.venv/bench: .venv/dev
	$(PIP) --editable '.[dev,bench]'
	touch $@

clean:
	rm -rf .venv demo build *.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache
