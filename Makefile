# Kith. `make` builds, `make demo` shows, `make test` checks; each works alone on a fresh Debian machine
# (as root or with sudo) and installs what is missing. `make help` lists the rest.
BUILD ?= build
JOBS ?= $(shell nproc)
# More arguments for cmake, for example CMAKE_FLAGS="-DKITH_CUDA=OFF".
CMAKE_FLAGS ?=
# More arguments for pytest and ctest.
PYTEST_FLAGS ?=
CTEST_FLAGS ?=

PYTHON := $(abspath $(BUILD))/venv/bin/python
RESULTS := $(abspath $(BUILD))/test-results
COMMA := ,
# Without the sloppiness ccache leaves alone what is compiled with a precompiled header. It stands in the launcher, so that
# "cmake --build" has it as well.
LAUNCHER := $(if $(shell command -v ccache),-DCMAKE_CUDA_COMPILER_LAUNCHER=ccache \
  -DCMAKE_CXX_COMPILER_LAUNCHER="env;CCACHE_SLOPPINESS=pch_defines$(COMMA)time_macros;ccache")
CONFIGURE = tools/check_build_dir.sh $(BUILD) && cmake -S . -B $(BUILD) -G Ninja $(LAUNCHER)
PYTHON_TESTS = $(if $(wildcard python/requirements-test.txt),$(wildcard tests/cli tests/python tests/tools tests/benchmarks))

.DEFAULT_GOAL := all
.PHONY: all
all: ## build the library and build/bin/kith
	@tools/setup.sh build
	$(CONFIGURE) $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DKITH_BUILD_TESTS=OFF) $(CMAKE_FLAGS)
	cmake --build $(BUILD) -j $(JOBS)

.PHONY: demo
demo: ## find the nearest coast of 300 cities and 660,000 places, the normals of a scan, the same detail in other pictures, a terrain larger than memory in relief: tables and pictures
	@KITH_VENV=$(abspath $(BUILD))/venv tools/setup.sh build demo
	$(CONFIGURE) $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DKITH_BUILD_TESTS=OFF) $(CMAKE_FLAGS)
	cmake --build $(BUILD) -j $(JOBS)
	BUILD=$(abspath $(BUILD)) PYTHON=$(PYTHON) tools/demo.sh

.PHONY: test
test: build-tests ## build everything and run every test
	@rm -rf $(RESULTS) && mkdir -p $(RESULTS)
	@BUILD=$(abspath $(BUILD)) PYTHON=$(PYTHON) RESULTS=$(RESULTS) JOBS=$(JOBS) \
	  CTEST_FLAGS="$(CTEST_FLAGS)" PYTEST_FLAGS="$(PYTEST_FLAGS)" tools/run_tests.sh $(PYTHON_TESTS)

.PHONY: build-tests
build-tests:
	@KITH_VENV=$(abspath $(BUILD))/venv tools/setup.sh build test
	$(CONFIGURE) -DKITH_BUILD_TESTS=ON $(if $(wildcard python/CMakeLists.txt),-DKITH_BUILD_PYTHON=ON) \
	  -DPython_EXECUTABLE=$(PYTHON) $(CMAKE_FLAGS)
	cmake --build $(BUILD) -j $(JOBS)

.PHONY: test-peers
test-peers: ## graph files against diskannpy, faiss and hnswlib, each in an environment of its own: KITH_PEERS
	@KITH_VENV=$(abspath $(BUILD))/venv tools/setup.sh build test
	$(CONFIGURE) $(CMAKE_FLAGS)
	cmake --build $(BUILD) -j $(JOBS) --target kith_cli
	KITH=$(abspath $(BUILD))/bin/kith $(PYTHON) -m pytest -q -s -rs -p no:cacheprovider $(PYTEST_FLAGS) tests/peers

.PHONY: test-ray
test-ray: ## kith.ray on a cluster of four nodes on this machine, in an environment of its own: some 750 MB
	@KITH_VENV=$(abspath $(BUILD))/venv tools/setup.sh build test
	@KITH_VENV=$(abspath $(BUILD))/venv-ray tools/setup.sh test-ray
	$(CONFIGURE) -DKITH_BUILD_PYTHON=ON -DPython_EXECUTABLE=$(PYTHON) $(CMAKE_FLAGS)
	cmake --build $(BUILD) -j $(JOBS) --target kith_python
	PYTHONPATH=$(abspath $(BUILD))/python $(BUILD)/venv-ray/bin/python -m pytest -q -s -rs -p no:cacheprovider \
	  $(PYTEST_FLAGS) tests/cluster

# Under ThreadSanitizer only what has threads.
TSAN_TESTS := conformance property unit_brute_force unit_point_tree unit_any_index unit_core unit_sharded

.PHONY: asan tsan
asan tsan: ## the C++ tests under sanitizers, the conformance suite in its reduced form
	@tools/setup.sh build test-cpp
	cmake --preset $@ $(LAUNCHER) $(CMAKE_FLAGS)
	cmake --build build/$@ -j $(JOBS) $(if $(filter tsan,$@),--target $(TSAN_TESTS))
	rm -rf build/$@/test-results
	tools/sanitize.sh $@ $(JOBS)

# The kernels of another processor.
ARM_TESTS := conformance recall_curves unit_core unit_distance unit_point_tree unit_brute_force

.PHONY: test-arm
test-arm: ## cross-compile for 64-bit ARM and run the conformance suite in its brief form under qemu
	@tools/setup.sh build test-cpp arm
	cmake --preset arm $(LAUNCHER) $(CMAKE_FLAGS)
	cmake --build build/arm -j $(JOBS) --target $(ARM_TESTS)
	rm -rf build/arm/test-results && mkdir -p build/arm/test-results
	tools/arm.sh $(JOBS)

SOURCES = $(shell git ls-files '*.cpp' '*.hpp' '*.inc' '*.cu' '*.cuh')
.PHONY: format format-check lint tiers
RUFF = $(abspath $(BUILD))/venv/bin/ruff
format: ## format all C++ and Python files in place
	@KITH_VENV=$(abspath $(BUILD))/venv tools/setup.sh lint
	clang-format -i $(SOURCES)
	$(RUFF) format .
format-check: ## fail where a C++ or Python file is not formatted
	@KITH_VENV=$(abspath $(BUILD))/venv tools/setup.sh lint
	clang-format --dry-run -Werror $(SOURCES)
	$(RUFF) format --check .
lint: ## clang-tidy over the library and the program, ruff over Python
	@KITH_VENV=$(abspath $(BUILD))/venv tools/setup.sh build lint
	$(RUFF) check .
	CLANG_TIDY=$(abspath $(BUILD))/venv/bin/clang-tidy tools/lint.sh $(BUILD) $(JOBS)
tiers: ## check that includes go down only
	python3 tools/check_tiers.py

.PHONY: bench
bench: ## measure Kith beside its peers: benchmarks/results and docs/benchmarks.md
	@KITH_VENV=$(abspath $(BUILD))/venv-peers tools/setup.sh build bench
	$(CONFIGURE) $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DKITH_BUILD_TESTS=OFF) $(CMAKE_FLAGS)
	cmake --build $(BUILD) -j $(JOBS)
	$(BUILD)/venv-peers/bin/python -m benchmarks.run --kith $(BUILD)/bin/kith
	$(BUILD)/venv-peers/bin/python -m benchmarks.report

.PHONY: bench-trees
bench-trees: ## measure the trees beside nanoflann, SciPy and pykdtree; NANOFLANN=folder takes another nanoflann.hpp
	@KITH_VENV=$(abspath $(BUILD))/venv-peers tools/setup.sh build bench
	$(CONFIGURE) -DKITH_BUILD_BENCHMARKS=ON $(if $(NANOFLANN),-DNANOFLANN_INCLUDE_DIR=$(NANOFLANN)) $(CMAKE_FLAGS)
	cmake --build $(BUILD) -j $(JOBS) --target kith_cli tree_bench tree_crossover
	$(BUILD)/venv-peers/bin/python -m benchmarks.trees.run --kith $(BUILD)/bin/kith \
	  --tree-bench $(BUILD)/bin/tree_bench --crossover $(BUILD)/bin/tree_crossover
	$(BUILD)/venv-peers/bin/python -m benchmarks.trees.charts
	$(BUILD)/venv-peers/bin/python -m benchmarks.report

.PHONY: bench-tiles
bench-tiles: ## measure point tiles beside Open3D, a script of tiles, and the tree in memory
	@KITH_VENV=$(abspath $(BUILD))/venv-tiles tools/setup.sh build bench-tiles
	$(CONFIGURE) $(if $(wildcard $(BUILD)/CMakeCache.txt),,-DKITH_BUILD_TESTS=OFF) $(CMAKE_FLAGS)
	cmake --build $(BUILD) -j $(JOBS) --target kith_cli
	KITH=$(BUILD)/bin/kith $(BUILD)/venv-tiles/bin/python -m benchmarks.tiles.peers
	KITH=$(BUILD)/bin/kith $(BUILD)/venv-tiles/bin/python -m benchmarks.tiles.in_memory
	$(BUILD)/venv-tiles/bin/python -m benchmarks.report

DOCS_VENV = $(abspath $(BUILD))/venv-docs
.PHONY: docs
docs: ## these pages and references of Python and C++ as a site, its links and layout tested: build/docs/index.html
	@KITH_VENV=$(DOCS_VENV) tools/setup.sh docs
	$(DOCS_VENV)/bin/python -m tools.docs_site $(BUILD)/docs
	KITH_DOCS_SITE=$(BUILD)/docs $(DOCS_VENV)/bin/python -m pytest -q -p no:cacheprovider \
	  --junitxml=$(BUILD)/docs-test-results/docs.xml tests/docs_site

.PHONY: gpu-bundle
gpu-bundle: ## a folder for a GPU host that has only a driver: build/gpu-bundle
	@tools/setup.sh build gpu-bundle
	tools/gpu_bundle.sh $(BUILD) $(JOBS)

.PHONY: dist
dist: ## a source archive and a wheel, tried: build/dist
	@KITH_VENV=$(abspath $(BUILD))/venv tools/setup.sh build test
	DIST_CMAKE="$(DIST_CMAKE)" PYTHON=$(PYTHON) tools/dist.sh $(BUILD) $(JOBS)

.PHONY: wheels
wheels: ## wheels for glibc 2.31 and newer, each tried where nothing else of Kith is: build/wheels
	@KITH_VENV=$(abspath $(BUILD))/venv tools/setup.sh build test wheels
	PYTHON=$(PYTHON) tools/wheels.sh $(BUILD) $(JOBS)
	KITH_WHEELS=$(abspath $(BUILD))/wheels $(PYTHON) -m pytest -q -s -rs -p no:cacheprovider $(PYTEST_FLAGS) tests/wheels

.PHONY: test-wheels-debian11
test-wheels-debian11: ## tries them in a root of Debian 11, which it makes: needs root, debootstrap
	@KITH_VENV=$(abspath $(BUILD))/venv tools/setup.sh wheels-debian11
	PYTHON=$(PYTHON) tools/wheels/debian11.sh $(BUILD) $(JOBS)

.PHONY: install clean help
install: all ## install into PREFIX (default /usr/local)
	cmake --install $(BUILD) $(if $(PREFIX),--prefix $(PREFIX))
clean: ## remove the build folder
	rm -rf $(BUILD)
help: ## this list
	@grep -hE '^[a-z][a-z -]*:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z -]+):.*## (.*)/\1\t\2/' | \
	  awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'
