#!/usr/bin/env bash
# clang-tidy over the library and the program; every finding is an error.
#   tools/lint.sh [BUILD [JOBS [FILE...]]]    default: all of src/ and cli/, from the compile commands of BUILD
# CLANG_TIDY names the program (default: BUILD/venv/bin/clang-tidy, where `make lint` puts it); LINT_NODES is the
# analyzer's budget for a function. What the analyzer finds it finds early: 60,000 steps, a quarter of its default,
# take a third of the time.
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
# The longest first, so that no processor waits for the last one.
ls -S -- "${files[@]}" | tr '\n' '\0' |
  xargs -0 -n 1 -P "$jobs" "$tidy" -p "$build" --quiet --extra-arg=-Xclang --extra-arg=-analyzer-config \
    --extra-arg=-Xclang --extra-arg=max-nodes="${LINT_NODES:-60000}" --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-ignored-optimization-argument --extra-arg=-Wno-unused-command-line-argument
echo "clang-tidy: ${#files[@]} files are clean"
