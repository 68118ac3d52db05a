# Each target sets up what it needs, on a fresh clone, with nothing but python3.
# Another Python has an environment of its own: `make test PYTHON=python3.13` fills .venv-3.13.
PYTHON ?= python3
VENV ?= .venv$(patsubst python%,-%,$(filter python3.%,$(notdir $(PYTHON))))
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# one thread per process: two processes side by side are faster than one with two threads
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test test-slow lint format signatures browser docs build bench attack study clean

demo: $(VENV)/core
	$(BIN)/cmdpax demo --out demo

test: $(VENV)/dev lint
	$(BIN)/python -m pytest -n 2

test-slow: $(VENV)/dev
	$(BIN)/python -m pytest -n 2 -m slow

lint: $(VENV)/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(VENV)/dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# what tests/whole/test_public.py compares with: run it when a public signature changed on purpose
signatures: $(VENV)/dev
	$(BIN)/python tests/whole/test_public.py

# Chromium for the tests of the report; never fails, without it they are skipped
browser:
	.ci/browser

# a fresh environment each time: a page that Sphinx remembers is not warned about again
docs: $(VENV)/docs
	$(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet docs build/docs
	@echo "open build/docs/index.html"

build: $(VENV)/dev
	$(BIN)/python -m build --no-isolation --outdir dist

bench: $(VENV)/bench
	$(BIN)/python benchmarks/vs_lp.py --quick

# slow, and resumable: kills, damaged files, certificates; SHARD=2/8 does the second of eight parts
attack: $(VENV)/dev
	$(BIN)/python benchmarks/attack.py $(if $(SHARD),--shard $(SHARD))

# the paper's deep study: some thirty CPU-hours, two runs at a time at the lowest priority; resumable
SWEEP := nice -n 19 $(BIN)/cmdpax sweep
study: $(VENV)/dev
	$(SWEEP) deep --workers 2
	$(SWEEP) held-out --workers 2
	$(SWEEP) two-limits --workers 2
	$(SWEEP) paper-search --workers 2
	$(BIN)/cmdpax reproduce deep --figure paper-search --store runs/paper-search
	$(SWEEP) results/deep/paper-settings.toml --workers 2
	$(SWEEP) penalties --workers 2
	$(SWEEP) dual-steps --workers 2

$(VENV)/python:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/core: $(VENV)/python pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

$(VENV)/dev: $(VENV)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/core

$(VENV)/docs: $(VENV)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]'
	touch $@ $(VENV)/core

$(VENV)/bench: $(VENV)/dev
	$(PIP) --editable '.[dev,bench]'
	touch $@

clean:
	rm -rf .venv .venv-3.* demo build dist *.egg-info src/*.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
