#!/usr/bin/env bash
# clang-tidy over the library and the program; every finding is an error.
#   tools/lint.sh [BUILD [JOBS [FILE...]]]    default: all of src/ and cli/, from the compile commands of BUILD
# CLANG_TIDY names the program (default: BUILD/venv/bin/clang-tidy, where `make lint` puts it). The analyzer has its
# whole budget for a function in src/, and a quarter of it in cli/, which takes a third of the time there: a command is
# options and text, and the readers, kernels and pointers are in src/. LINT_NODES sets one budget for all.
# A file that came out clean is not checked again while what it is compiled from, the checks and clang-tidy stay as they
# are: LINT_CACHE (default ~/.cache/kith-lint) remembers, and LINT_CACHE= forgets. Of a finished build the files are known
# (lint_keys.py), which takes a second for all; what it has not compiled is preprocessed, which takes minutes.
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

# What the compiler sees of a file: its key, or else its text, comments (NOLINT) included, line markers (paths) left out.
# Fails for a file that this build does not compile.
content() {
  awk -v file="$1" '$2 == file { print $1; found = 1 } END { exit !found }' "$keys" || preprocessed "$1"
}
preprocessed() {
  python3 - "$build/compile_commands.json" "$1" <<'PYTHON'
import json, os, shlex, subprocess, sys

path = os.path.abspath(sys.argv[2])
entries = [e for e in json.load(open(sys.argv[1])) if os.path.join(e["directory"], e["file"]) == path]
if not entries:
    sys.exit(1)
entry = entries[0]
command = shlex.split(entry["command"])
output = command.index("-o")
del command[output : output + 2]
if "-fpch-preprocess" in command:  # would name the precompiled header, by this folder's path
    command.remove("-fpch-preprocess")
while "=" in command[0] or os.path.basename(command[0]) in ("env", "ccache"):
    del command[0]
sys.exit(subprocess.run([*command, "-E", "-P", "-C"], cwd=entry["directory"]).returncode)
PYTHON
}

check() {
  local budget=225000 key=
  [[ $1 != cli/* ]] || budget=60000
  budget=${LINT_NODES:-$budget}
  if [[ -n $cache ]]; then
    key=$(set -o pipefail; { echo "$1 $budget $checks"; content "$1"; } | sha256sum | cut -c1-64) || key=
    [[ -z $key || ! -e $cache/$key ]] || return 0
  fi
  "$tidy" -p "$build" --quiet --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang \
    --extra-arg=max-nodes="$budget" --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-ignored-optimization-argument --extra-arg=-Wno-unused-command-line-argument "$1" || return 1
  [[ -z $key ]] || touch "$cache/$key"
}
export -f check content preprocessed
export tidy build cache keys checks
# The longest first, so that no processor waits for the last one.
ls -S -- "${files[@]}" | tr '\n' '\0' | xargs -0 -n 1 -P "$jobs" bash -c 'check "$0"'
echo "clang-tidy: ${#files[@]} files are clean"
