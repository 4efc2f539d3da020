# Two commands matter: `make demo` and `make test`. Both create .venv once and reuse it.
PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
WHEEL := .venv-wheel
DOCS := .venv-docs
BUILD := .venv-build
# For another build of torch, for example TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
TORCH_FLAGS := $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
PIP_FLAGS := --disable-pip-version-check --quiet
# Neighbours share what a file sets up, so that each process takes a half of the files; the one
# that is done first takes from the other's.
PARALLEL := -n auto --dist worksteal
# Test processes share compiled modules, also where the environment forbids writing them.
export PYTHONDONTWRITEBYTECODE :=
# A process for each core: threads of scikit-learn's trees would wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1
# Tests of torch alone, of processes, of documentation and of files of this repository.
OF_ANY_VERSION := tests/docs tests/gpu tests/losses tests/modules \
	tests/test_concurrency.py tests/test_no_waiting.py tests/test_package.py \
	tests/test_resources.py tests/training/test_distributed.py

.PHONY: demo dist test test-oldest test-wheel test-nightly test-docs docs docs-serve notebooks audit lint bench clean

demo: $(VENV)/.installed
	$(ONE_THREAD) $(VENV)/bin/python examples/demo.py

test: lint
	$(ONE_THREAD) $(VENV)/bin/python -m pytest $(PARALLEL)

lint: $(VENV)/.installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports --no-cache
	$(VENV)/bin/pyrefly check
	$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml

# The oldest scikit-learn and skorch that pyproject.toml allows, with the same torch.
test-oldest: $(OLDEST)/.installed
	$(ONE_THREAD) $(OLDEST)/bin/python -m pytest $(PARALLEL) \
		$(addprefix --ignore=,$(OF_ANY_VERSION))

# The wheel with its core dependencies alone, in a new environment: without bytecode, which takes
# most of a minute to write, for one process to read.
test-wheel: $(VENV)/.installed
	rm -rf $(WHEEL) dist
	$(VENV)/bin/python -m build --wheel --no-isolation --outdir dist > /dev/null
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/pip install $(PIP_FLAGS) --no-compile -c constraints.txt $(TORCH_FLAGS) torch
	$(WHEEL)/bin/pip install $(PIP_FLAGS) --no-compile -c constraints.txt dist/*.whl
	$(WHEEL)/bin/python -I tests/installed_wheel.py

# What a release uploads, built by programs whose hashes are known.
dist: $(BUILD)/.installed
	rm -rf dist
	$(BUILD)/bin/python -m build --no-isolation --outdir dist > /dev/null

# Property tests on 10 000 new examples each.
test-nightly: $(VENV)/.installed
	$(VENV)/bin/python -m pytest $(PARALLEL) --hypothesis-profile=nightly \
		tests/losses/test_thresholds.py tests/metrics/test_properties.py tests/test_samplers.py

# Warnings are errors, and every example runs.
docs: $(DOCS)/.installed
	OMP_NUM_THREADS=1 $(DOCS)/bin/python -m sphinx -W --keep-going -b html docs docs/_build/html

docs-serve: docs
	$(DOCS)/bin/python -m http.server --directory docs/_build/html 8000

# The built site in a browser: needs Debian's chromium and chromium-driver.
test-docs: docs
	$(DOCS)/bin/python -m pytest tests/docs

notebooks: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n auto --nbmake --nbmake-timeout=300 examples/notebooks

# Known weaknesses of what is installed; asks the advisory databases on the network.
audit: $(VENV)/.installed
	$(VENV)/bin/pip install $(PIP_FLAGS) pip-audit
	$(VENV)/bin/pip-audit --skip-editable

bench: $(VENV)/.installed
	$(VENV)/bin/pip install $(PIP_FLAGS) -c constraints.txt -e ".[bench]"
	# Without the packages for images and graphs that it asks for: pyproject.toml says why.
	$(VENV)/bin/pip install $(PIP_FLAGS) -c constraints.txt --no-deps libauc
	$(VENV)/bin/python benchmarks/loss_speed.py
	$(VENV)/bin/python benchmarks/fit_speed.py
	$(VENV)/bin/python benchmarks/import_time.py

# .installed is written last: an installation that broke off is taken up again.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install $(PIP_FLAGS) -c constraints.txt $(TORCH_FLAGS) torch
	$(VENV)/bin/pip install $(PIP_FLAGS) -c constraints.txt -e ".[plot,onnx,test,notebooks]"
	touch $@

$(OLDEST)/.installed: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install $(PIP_FLAGS) -c constraints-oldest.txt $(TORCH_FLAGS) torch
	$(OLDEST)/bin/pip install $(PIP_FLAGS) -c constraints-oldest.txt -e ".[plot,test]"
	touch $@

$(BUILD)/.installed: requirements-build.txt
	$(PYTHON) -m venv $(BUILD)
	$(BUILD)/bin/pip install $(PIP_FLAGS) --require-hashes --only-binary :all: -r $<
	touch $@

$(DOCS)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install $(PIP_FLAGS) -c constraints.txt $(TORCH_FLAGS) torch
	$(DOCS)/bin/pip install $(PIP_FLAGS) -c constraints.txt -e ".[plot,onnx,test,docs]"
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) $(WHEEL) $(DOCS) $(BUILD) docs/_build docs/gallery docs/api/generated build dist demo.png
