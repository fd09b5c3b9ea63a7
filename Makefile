# Two commands matter: `make run` does the main job on real data, `make test` runs the tests.
# Both build their own virtual environment first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP     = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# A path, not a finder: scripts beside the clone then find the package too.
EDITABLE = --config-settings editable_mode=compat

.PHONY: run test fuzz mutations lint types bench notebooks docs clean

run: $(VENV)/run.stamp
	$(BIN)/flowsim run --overwrite

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist loadfile

# What the suite does with few cases: mutated inputs, and runs that are killed at random moments.
fuzz: $(VENV)/dev.stamp
	FLOWSIM_FUZZ_CASES=10000 FLOWSIM_FUZZ_PROCESSES=30 FLOWSIM_FUZZ_KILLS=4 \
		$(BIN)/python -m pytest -n 2 tests/fuzz

# Ten wrong signs, factors and indices, each of which a test must notice.
mutations: $(VENV)/dev.stamp
	$(BIN)/python tests/mutations.py

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy

bench: $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks

# Runs the notebooks and stores them with their outputs, and the picture of the README.
notebooks: $(VENV)/notebooks.stamp
	$(BIN)/python notebooks/execute.py

# The API reference from the docstrings: build/docs/index.html.
docs: $(VENV)/docs.stamp
	$(BIN)/python docs/reference.py build/docs

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) $(EDITABLE) -e '.[data]'
	touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) $(EDITABLE) -e '.[data,dev]'
	touch $@

$(VENV)/bench.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) $(EDITABLE) -e '.[data,dev,bench]'
	touch $@

$(VENV)/notebooks.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) $(EDITABLE) -e '.[data,notebooks]'
	touch $@

$(VENV)/docs.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) $(EDITABLE) -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
