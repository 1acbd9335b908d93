#!/usr/bin/env bash
# clang-tidy over the library and the program; every finding is an error.
#   tools/lint.sh [BUILD [JOBS [FILE...]]]    default: all of src/ and cli/, from the compile commands of BUILD
# CLANG_TIDY names the program (default: BUILD/venv/bin/clang-tidy, where `make lint` puts it). The analyzer has its
# whole budget for a function in src/, and a quarter of it in cli/, which takes a third of the time there: a command is
# options and text, and the readers, kernels and pointers are in src/. LINT_NODES sets one budget for all.
# A file that came out clean is not checked again while what it is compiled from, the checks and clang-tidy stay as they
# are: LINT_CACHE (default ~/.cache/kith-lint) remembers, and LINT_CACHE= forgets. What that is a finished build knows
# (lint_keys.py); a file that BUILD has not compiled since it was changed is checked every time.
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
cache=${LINT_CACHE-${XDG_CACHE_HOME:-$HOME/.cache}/kith-lint}
if [[ -n $cache ]]; then
  mkdir -p "$cache"
  find "$cache" -type f -mtime +60 -delete
  keys=$(mktemp)
  trap 'rm -f "$keys"' EXIT
  python3 tools/lint_keys.py "$build" "${files[@]}" >"$keys" || true
  checks=$({ "$tidy" --version; cat tools/lint.sh .clang-tidy; } | sha256sum)
fi

check() {
  local budget=225000 key= content
  [[ $1 != cli/* ]] || budget=60000
  budget=${LINT_NODES:-$budget}
  if [[ -n $cache ]] && content=$(awk -v file="$1" '$2 == file { print $1; found = 1 } END { exit !found }' "$keys"); then
    key=$(sha256sum <<<"$1 $budget $checks $content" | cut -c1-64)
    [[ ! -e $cache/$key ]] || return 0
  fi
  "$tidy" -p "$build" --quiet --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang \
    --extra-arg=max-nodes="$budget" --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-ignored-optimization-argument --extra-arg=-Wno-unused-command-line-argument "$1" || return 1
  [[ -z $key ]] || touch "$cache/$key"
}
export -f check
export tidy build cache keys checks
# The longest first, so that no processor waits for the last one.
ls -S -- "${files[@]}" | tr '\n' '\0' | xargs -0 -n 1 -P "$jobs" bash -c 'check "$0"'
echo "clang-tidy: ${#files[@]} files are clean"
