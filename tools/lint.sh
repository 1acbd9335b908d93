#!/usr/bin/env bash
# clang-tidy over the library and the program; every finding is an error.
#   tools/lint.sh [BUILD [JOBS [FILE...]]]    default: all of src/ and cli/, from the compile commands of BUILD
# CLANG_TIDY names the program (default: BUILD/venv/bin/clang-tidy, where `make lint` puts it). The analyzer has its
# whole budget for a function in src/, and a quarter of it in cli/, which takes a third of the time there: a command is
# options and text, and the readers, kernels and pointers are in src/. LINT_NODES sets one budget for all.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
jobs=${2:-$(nproc)}
shift $(($# < 2 ? $# : 2))
if [[ ! -f $build/compile_commands.json ]]; then
  cmake -S . -B "$build" -G Ninja -DKITH_BUILD_TESTS=OFF
fi
files=("$@")
if ((!${#files[@]})); then
  mapfile -t files < <(git ls-files 'src/*.cpp' 'cli/*.cpp')
fi
tidy=${CLANG_TIDY:-$build/venv/bin/clang-tidy}
check() {
  local budget=225000
  [[ $1 != cli/* ]] || budget=60000
  "$tidy" -p "$build" --quiet --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang \
    --extra-arg=max-nodes="${LINT_NODES:-$budget}" --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-ignored-optimization-argument --extra-arg=-Wno-unused-command-line-argument "$1"
}
export -f check
export tidy build
# The longest first, so that no processor waits for the last one.
ls -S -- "${files[@]}" | tr '\n' '\0' | xargs -0 -n 1 -P "$jobs" bash -c 'check "$0"'
echo "clang-tidy: ${#files[@]} files are clean"
