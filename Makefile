# Every target works from a bare checkout: it makes .venv and installs what it needs, once, and again only
# when pyproject.toml changes. An existing .venv keeps what it holds (PyTorch and JAX, say, which the tests
# then use as oracles).
#
#   make demo   four chapters, one report in out/             make demo ARGS="--full", the sizes for a GPU
#   make test   lint, types, layers, and the tests that cover every op, rule, layer, kernel and page once, in minutes
#                                                             make test ARGS="-k hessian -x"
#   make test-all   the same with all tests                   make test-all ARGS="tests/ops"
#   make docs   the documentation as a site in out/site, with an API reference and pictures of the examples
#   make bench  the benchmarks, beside PyTorch and JAX        make bench ARGS="--device cuda"
#
# Another Python in an environment of its own:                make test PYTHON=python3.13 VENV=.venv313

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin

.PHONY: demo test test-all run smoke docs bench lint types layers clean
.DELETE_ON_ERROR:

demo: $(VENV)/.demo
	$(BIN)/python -m benchmarks.demo $(ARGS)

# With `make -j 2 test` the types, which take one core, are checked beside the tests.
test: lint types layers run smoke

run: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not more" $(ARGS)

# The CUDA path: on the GPU where there is one, else emulated. All of it: pytest --device cuda.
smoke: run
	$(if $(ARGS),,$(BIN)/python -m pytest -n auto --dist worksteal --device cuda -m "not more and smoke")

test-all: lint types layers
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m pytest -n auto --dist worksteal --device cuda -m smoke)

# Checked as well: links, public names. The examples are those of the extra [demo].
docs: $(VENV)/.docs
	$(BIN)/python -m ci.site $(ARGS)

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks $(ARGS)

# Not `ruff format`: it would spread `def grad_a(F, g, b): return g * b` over two lines, and one derivative
# on one line is how a family of ops is read.
lint: $(VENV)/.dev
	$(BIN)/ruff check

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/python ci/check_layers.py
	$(BIN)/python ci/check_ops.py

# .venv stays: it is slow to make, and may be the user's own. `rm -rf .venv` is the way to start afresh.
clean:
	rm -rf build dist out .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find autograd_gpu benchmarks ci tests -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "autograd_gpu needs Python 3.11 or newer, and '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; } >&2
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# The driver is asked after the base install, which brings the library that can ask.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(INSTALL) --editable '.[demo]'
	extra=$$($(BIN)/python ci/cuda_extra.py) && { [ -z "$$extra" ] || $(INSTALL) --editable ".[$$extra]"; }
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(INSTALL) --editable '.[dev]'
	extra=$$($(BIN)/python ci/cuda_extra.py --without-gpu emulator) && \
	  { [ -z "$$extra" ] || $(INSTALL) --editable ".[$$extra]"; }
	touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(INSTALL) --editable '.[docs,demo]'
	touch $@

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(INSTALL) --editable '.[bench]'
	touch $@
