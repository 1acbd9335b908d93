#!/usr/bin/env bash
# clang-tidy over the library and the program; every finding is an error.
#   tools/lint.sh [BUILD [JOBS [FILE...]]]    default: all of src/ and cli/, from the compile commands of BUILD
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
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$jobs" clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-ignored-optimization-argument --extra-arg=-Wno-unused-command-line-argument
echo "clang-tidy: ${#files[@]} files are clean"
