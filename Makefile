# `make demo` and `make test` need Python >= 3.11 (with venv) and make; everything else goes into .venv.

VENV   := .venv
STAMP  := $(VENV)/.installed
LINT   := $(VENV)/.linters
BIN    := $(VENV)/bin
TKC    := $(BIN)/tkc
OUT    := out
TARGET := sm_100a

# The first Python that is new enough and can make a virtual environment; PYTHON=... decides otherwise.
CANDIDATES := $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python

.PHONY: help demo test soak bless lint format install bytecode clean

help:
	@echo 'make demo    compile and assemble examples/gemm_bf16.tk for $(TARGET), say what was made, run it where a GPU is'
	@echo 'make test    every test'
	@echo 'make soak    long seeded runs: SEED=n chooses, MINUTES=n bounds'
	@echo 'make bless   rewrite the golden files, then read the diff'
	@echo 'make lint    ruff and basedpyright'
	@echo 'make format  ruff format, tkc fmt'
	@echo 'make install set up .venv only; make clean removes it and out/'

$(STAMP): pyproject.toml
	@python=; for p in $(CANDIDATES); do \
	  if "$$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	  then python=$$p; break; fi; done; \
	if [ -z "$$python" ]; then \
	  echo 'tkc needs Python 3.11 or newer with the venv module; found none (PYTHON=path names one)' >&2; exit 1; fi; \
	test -x $(BIN)/python || "$$python" -m venv $(VENV)
	@echo 'installing tkc and its tools into $(VENV) (a few minutes the first time)'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[assemble,gpu,dev]'
	@touch $@

$(LINT): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[lint]'
	@touch $@

install: bytecode

# Where PYTHONDONTWRITEBYTECODE is set, Python would compile this package anew in every process: 0.1 s each, and as much
# for the methods of dataclasses (tkc/generated_code.py), which a first run keeps.
bytecode: $(STAMP)
	@$(BIN)/python -m compileall -q tkc
	@PYTHONDONTWRITEBYTECODE= $(TKC) compile examples/gemm_bf16.tk --no-cache -o - >/dev/null

demo: bytecode
	@$(BIN)/python examples/demo.py --target $(TARGET) --out $(OUT)

test: bytecode
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n auto --dist worksteal

soak: $(STAMP)
	@TKC_SOAK_MINUTES=$(or $(MINUTES),10) TKC_SEED=$(SEED) $(BIN)/python -m pytest -q -m soak

bless: $(STAMP)
	@$(BIN)/python -m pytest -q --bless
	@git --no-pager diff --stat -- tests/golden

lint: $(LINT)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(TKC) fmt --check examples lit_tests
	@$(BIN)/basedpyright

format: $(LINT)
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .
	@$(TKC) fmt examples lit_tests

clean:
	rm -rf $(VENV) $(OUT)
