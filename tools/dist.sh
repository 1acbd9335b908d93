#!/usr/bin/env bash
# What a release consists of: the source archive of HEAD and a wheel for the Python of the virtual environment. The
# wheel is installed into a folder of its own, and tests of the package run there. `make dist` calls it.
#   tools/dist.sh BUILD [JOBS]     leaves BUILD/dist
# PYTHON: the interpreter, with what python/requirements-test.txt lists (default BUILD/venv/bin/python).
# DIST_CMAKE: more for the wheel's CMake, NAME=VALUE... (KITH_CUDA=ON: a wheel with the CUDA backend).
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath -m "$1")
# The compiler by the name that CMake finds it by, not the one Python was compiled with.
export CC=${CC:-cc} CXX=${CXX:-c++}
export CMAKE_BUILD_PARALLEL_LEVEL=${2:-$(nproc)}
python=$(realpath -s "${PYTHON:-$build/venv/bin/python}")
dist=$build/dist
version=$(sed -n 's/#define KITH_VERSION_STRING "\(.*\)"/\1/p' include/kith/version.hpp)

rm -rf "$dist"
mkdir -p "$dist"
git archive --prefix="kith-$version/" -o "$dist/kith-$version.tar.gz" HEAD
# The wheel is made of what lies here, and its objects are kept for the next one: beside BUILD, not in it, since a
# compiler cache then knows what BUILD has compiled with the same options.
options=(--config-settings "build-dir=$build-wheel")
for define in ${DIST_CMAKE:-}; do options+=(--config-settings "cmake.define.$define"); done
if command -v ccache >/dev/null; then
  export CCACHE_SLOPPINESS=pch_defines,time_macros # as in the Makefile: for KITH_PRECOMPILED_HEADERS
  for language in CXX CUDA; do
    options+=(--config-settings "cmake.define.CMAKE_${language}_COMPILER_LAUNCHER=ccache")
  done
fi
"$python" -m pip wheel --disable-pip-version-check -q --no-deps --no-build-isolation "${options[@]}" -w "$dist" .

wheel=("$dist"/kith-"$version"-*.whl)
"$python" -m pip install --disable-pip-version-check -q --no-deps --no-index --target "$dist/site" "${wheel[@]}"
(
  cd "$dist" # beside no sources
  PYTHONPATH=$dist/site "$python" - "$version" "$dist/site" <<'PYTHON'
import sys

import kith

assert kith.__version__ == sys.argv[1], kith.__version__
assert kith.__file__.startswith(sys.argv[2]), kith.__file__
assert kith._kith.__file__.startswith(sys.argv[2]), kith._kith.__file__
PYTHON
)
PYTHONPATH=$dist/site "$python" -m pytest -q -p no:cacheprovider --junit-xml="$dist/test-results/wheel.xml" \
  tests/python/test_knn.py tests/python/test_index.py
rm -rf "$dist/site"
ls -l "$dist"/*.whl "$dist"/*.tar.gz
