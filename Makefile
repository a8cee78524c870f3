# Every target sets up what it needs in .venv. Start with `make run`.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.tilewright-installed
JOBS   ?= 2
ARGS   ?=

.PHONY: run test test-long check lint types house bench docs clean help

help:
	@echo "make run        the main job: six kernels, checked and timed beside numpy"
	@echo "make test       the test suite          make test ARGS='-k affine'"
	@echo "make test-long  the tests that take minutes"
	@echo "make check      ruff (lint), pyright (types), layers and budgets (house)"
	@echo "make bench      every workload beside every library, one table (10 minutes)"
	@echo "make docs       the reference, written anew from the pages"

run: $(STAMP)
	$(BIN)/python examples/showcase.py $(ARGS)

test: $(STAMP)
	@$(BIN)/python -c "import torch" 2>/dev/null \
		|| echo "torch is not installed: the tests that need it are skipped"
	$(BIN)/python -m pytest -q -n $(JOBS) $(ARGS)

test-long: $(STAMP)
	$(BIN)/python -m pytest -q -n $(JOBS) -m long --timeout 1200 $(ARGS)

check: lint types house

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/pyright

house: $(STAMP)
	$(BIN)/python -m pytest -q --durations=0 \
		tests/test_layers.py tests/test_budgets.py tests/test_public_api.py

bench: $(STAMP)
	@for peer in numba jax; do \
		$(BIN)/python -m pip install --quiet -e ".[$$peer]" \
			|| echo "$$peer did not install: its column stays blank"; done
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(STAMP)
	$(BIN)/python docs/generate.py

# torch is optional: where it does not install, its tests are skipped and nothing else changes.
$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	$(BIN)/python -m pip install --quiet -e ".[torch]" \
		|| echo "torch did not install: the tests that need it are skipped"
	touch $(STAMP)

clean:
	rm -rf build_output .pytest_cache .ruff_cache .hypothesis
