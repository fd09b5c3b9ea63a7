# Two commands matter: `make run` does the main job on real data, `make test` runs the tests.
# Both build their own virtual environment first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP     = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# A path, not a finder: scripts beside the clone then find the package too.
EDITABLE = --config-settings editable_mode=compat

.PHONY: run test lint types bench clean

run: $(VENV)/run.stamp
	$(BIN)/flowsim run --overwrite

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy

bench: $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks

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

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
