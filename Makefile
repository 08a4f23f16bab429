# Needs only Python 3.11 or newer (set PYTHON to choose another one) and make.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
DEV := .venv/dev

.PHONY: demo test lint types tests docs lock clean

demo: $(READY)          ## train plain replay and MOCA on split digits, print the table, write demo/report.html
	$(BIN)/moca demo

test: lint types tests  ## everything that must hold before a commit lands

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

# Three workers are one more than two cores, as many tests wait for processes of their own; these need not compile moca.
tests: $(DEV) .venv/triton
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n 3 --dist worksteal

docs: $(DEV)            ## a site of the pages in docs/, in site/index.html; any warning is an error
	$(BIN)/sphinx-build -W --keep-going --fresh-env --quiet -b html docs site

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("moca needs Python 3.11.4 or newer" if sys.version_info < (3, 11, 4) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $@

$(DEV): $(READY) requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	touch $@

# Triton's interpreter runs the GPU kernels on the CPU. Only the tests need it, and there is one for Linux only.
.venv/triton: $(DEV)
	[ "$$(uname -s)" != Linux ] || $(BIN)/pip install --quiet --disable-pip-version-check "triton==3.9.0"
	touch $@

clean:
	rm -rf .venv

lock:                   ## write both lock files anew from pyproject.toml
	$(PYTHON) .ci/lock.py
