#!/usr/bin/env bash
# A folder to copy to a GPU host that has a driver and nothing else: programs, GPU tests and benchmark with every
# shared library they need beside them. `make gpu-bundle` calls it.
#   tools/gpu_bundle.sh BUILD [JOBS]     leaves BUILD/gpu-bundle
# CMAKE_CUDA_ARCHITECTURES: what to compile for, default "80-real;80-virtual;90a-real" (PTX for what comes later).
# BUNDLE_PYTHON: an interpreter (python3.12); the Python package for it goes along. None by default.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1/gpu
bundle=$1/gpu-bundle
jobs=${2:-$(nproc)}
architectures=${CMAKE_CUDA_ARCHITECTURES:-80-real;80-virtual;90a-real}

options=(-DKITH_CUDA=ON -DKITH_BUNDLE=ON -DKITH_BUILD_TESTS=ON -DKITH_BUILD_BENCHMARKS=ON
  "-DCMAKE_CUDA_ARCHITECTURES=$architectures")
targets=(kith_cli conformance unit_brute_force unit_point_tree unit_vamana unit_sharded unit_point_tiles ladder gpu_search gpu_trees)
if [[ -n ${BUNDLE_PYTHON:-} ]]; then
  # The module is compiled for one version of Python: nanobind and the interpreter's headers are all it takes.
  venv=$(realpath -m "$build/venv-$("$BUNDLE_PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')")
  [[ -x $venv/bin/python ]] || "$BUNDLE_PYTHON" -m venv "$venv"
  "$venv/bin/python" -c 'import nanobind' 2>/dev/null ||
    "$venv/bin/python" -m pip install --disable-pip-version-check -q "$(grep '^nanobind' python/requirements-test.txt)"
  options+=(-DKITH_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$venv/bin/python")
  targets+=(kith_python)
else
  options+=(-DKITH_BUILD_PYTHON=OFF)
fi
if command -v ccache >/dev/null; then
  options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
fi
tools/check_build_dir.sh "$build"
cmake -S . -B "$build" -G Ninja "${options[@]}"
cmake --build "$build" -j "$jobs" --target "${targets[@]}"

rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib"
cp "$build"/bin/{kith,gpu_search,gpu_trees} "$build"/bin/tests/{conformance,unit_brute_force,unit_point_tree,unit_vamana,unit_sharded,unit_point_tiles,ladder} "$bundle/bin/"
programs=("$bundle"/bin/*)
# Files with Python tests that need a GPU; tools/check_gpu_selection.py reads this list.
gpu_tests=(tests/cli/test_devices.py tests/cli/test_knn.py tests/cli/test_ladder.py tests/cli/test_tiles_gpu.py tests/cli/test_trees.py tests/python/test_gpu.py)
mkdir -p "$bundle/tests/cli" "$bundle/tests/python"
cp tests/cli/{conftest,oracle,program,test_terminal}.py "$bundle/tests/cli/"
for file in "${gpu_tests[@]}"; do cp "$file" "$bundle/$file"; done
if [[ -n ${BUNDLE_PYTHON:-} ]]; then
  mkdir -p "$bundle/python/kith"
  cp "$build"/python/kith/*.py "$build"/python/kith/*.pyi "$build"/python/kith/*.so python/kith/py.typed \
    "$bundle/python/kith/"
  programs+=("$bundle"/python/kith/*.so)
fi
strip "${programs[@]}"

# glibc's own libraries belong to the system that loads the program, libcuda to its driver.
system='/(ld-linux[^/]*|libc|libm|libpthread|libdl|librt|libresolv|libutil|libanl|libcuda|libnvidia-[^/]*)\.so'
for program in "${programs[@]}"; do ldd "$program"; done | awk '/=> \//{print $3}' | sort -u |
  { grep -vE "$system" || true; } | while read -r library; do cp -L "$library" "$bundle/lib/"; done
chmod u+w "$bundle"/lib/*

cp tools/gpu_bundle_tests.sh "$bundle/run-tests.sh"
cp benchmarks/brute_force/gpu_torch.py "$bundle/"
mkdir -p "$bundle/share/kith/report"
cp python/kith/report/*.{py,css} "$bundle/share/kith/report/"
cat >"$bundle/README.txt" <<TEXT
Kith $("$bundle/bin/kith" --version | awk '{print $NF}') with its GPU backend, compiled for CUDA architectures $architectures.
Needs an NVIDIA driver for CUDA $(nvcc --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p') and a Linux with glibc $(ldd --version | awk 'NR==1{print $NF}') or newer; nothing is installed.

  bin/kith devices              what it can run on
  bin/kith knn BASE QUERIES --device cuda
  ./run-tests.sh                the conformance suite and the unit tests on the GPU
  ./run-tests.sh memcheck       the same under compute-sanitizer, in the reduced form; racecheck, initcheck, synccheck
  bin/gpu_search                the benchmark of brute force; --json FILE keeps its figures
  bin/gpu_trees                 that of the trees; likewise
  python3 gpu_torch.py FILE     its peers, where Python has torch
  bin/kith report FILE -o report.html           the figures as a page, where Python has matplotlib
TEXT
[[ ! -d $bundle/python ]] || cat >>"$bundle/README.txt" <<TEXT
  PYTHONPATH=python python3 -c 'import kith'      for Python $("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') with NumPy
TEXT

# Every library must be found in the bundle or belong to the system; the programs' DT_RPATH holds for the
# libraries of libraries, too.
strays=$(for program in "${programs[@]}"; do ldd "$program"; done |
  awk '/=> not found/{print $1} /=> \//{print $3}' | sort -u | { grep -vE "$system|^$(realpath "$bundle")/" || true; })
if [[ -n $strays ]]; then
  echo "tools/gpu_bundle.sh: these would not be found on another machine:" >&2
  echo "$strays" >&2
  exit 1
fi
echo "$bundle: $(du -sh "$bundle" | cut -f1), of it $(du -sh "$bundle/lib" | cut -f1) libraries; bin/kith $(du -h "$bundle/bin/kith" | cut -f1)"
