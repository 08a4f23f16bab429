# Needs only Python 3.11 or newer (set PYTHON to choose another one) and make.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test lint types tests docs lock clean

demo: $(READY)          ## train plain replay and MOCA on split digits, print the table, write demo/report.html
	$(BIN)/moca demo

test: lint types tests  ## everything that must hold before a commit lands

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

tests: $(READY) .venv/triton
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

docs: $(READY)          ## a site of the pages in docs/, in site/index.html; any warning is an error
	$(BIN)/sphinx-build -W --keep-going --fresh-env --quiet -b html docs site

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("moca needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	touch $@

# Triton's interpreter runs the GPU kernels on the CPU. Only the tests need it, and there is one for Linux only.
.venv/triton: $(READY)
	[ "$$(uname -s)" != Linux ] || $(BIN)/pip install --quiet --disable-pip-version-check "triton==3.9.0"
	touch $@

clean:
	rm -rf .venv

lock:                   ## write requirements.lock anew from pyproject.toml
	$(PYTHON) -m pip install --quiet --dry-run --ignore-installed --report .lock.json "torch==2.13.0" --editable ".[dev]"
	$(PYTHON) -c "import json; print('# Written by make lock; torch is pinned exactly, pyproject.toml gives its range.'); \
	print(*sorted(f\"{m['name']}=={m['version'].split('+')[0]}\" for m in (i['metadata'] for i in \
	json.load(open('.lock.json'))['install']) if m['name'] != 'moca-cl'), sep='\n')" > requirements.lock
	rm .lock.json
