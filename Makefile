# Everything runs in a virtual environment of the project's own, made when it is first needed.
# `make demo` and `make test` are all that a newcomer needs.

PYTHON ?= python3
VENV ?= .venv
TORCH_OPTIONS ?=
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test test-all check format bench clean

help:
	@echo "make demo      install, cluster the embedded digits, show a table and a picture"
	@echo "make test      the tests, with coverage"
	@echo "make test-all  the slow tests too"
	@echo "make check     formatting, lint and types"
	@echo "make format    put the formatting right"
	@echo "make bench     measure speed and memory against named references"
	@echo "make clean     remove the environment and everything that was made"

demo: $(READY)
	$(BIN)/dwcl demo --out demo

test: $(READY)
	$(BIN)/python -m pytest --cov --cov-report=term

test-all: $(READY)
	$(BIN)/python -m pytest -m "slow or not slow" --cov --cov-report=term

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	$(BIN)/dwcl bench speed
	$(BIN)/dwcl bench memory

clean:
	rm -rf $(VENV) build dist demo runs .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# PyTorch goes first, alone and pinned, so that no other package's request decides its version. The
# build that pip finds may be one for GPUs, with gigabytes of libraries; TORCH_OPTIONS can name the
# index of another build.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "dwcl needs Python 3.11 or newer; name one with: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
		echo "Making $(VENV) failed; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@echo "installing PyTorch and then the rest into $(VENV) …"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt $(TORCH_OPTIONS) torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[tables]" --group dev
	@touch $@
