#!/usr/bin/env bash
# The GPU tests of this folder.
#   ./run-tests.sh                 conformance suite, unit tests, rungs of the ladder; with Python tests of bin/kith and,
#                                  where it is here, of the package
#   ./run-tests.sh TOOL...         conformance suite, unit tests and rungs, reduced, under compute-sanitizer's tools:
#                                  memcheck racecheck initcheck synccheck
# KITH_CONFORMANCE=brief: less of it, for racecheck.
# CONFORMANCE (default *_cuda_*), UNIT (default *Cuda*:*_cuda*) and LADDER (default -*engine*): which tests, as
# --gtest_filter.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
status=0

run() {
  echo "== $*"
  "$@" || status=1
}

tests() {
  run "$@" bin/conformance --gtest_brief=1 --gtest_filter="${CONFORMANCE:-*_cuda_*}"
  run "$@" bin/unit_brute_force --gtest_brief=1 --gtest_filter="${UNIT:-*Cuda*:*_cuda*}"
  run "$@" bin/unit_point_tree --gtest_brief=1 --gtest_filter="${UNIT:-*Cuda*:*_cuda*}"
  run "$@" bin/unit_vamana --gtest_brief=1 --gtest_filter="${UNIT:-*Cuda*:*_cuda*}"
  run "$@" bin/unit_sharded --gtest_brief=1 --gtest_filter="${UNIT:-*Cuda*:*_cuda*}"
  run "$@" bin/unit_point_tiles --gtest_brief=1 --gtest_filter="${UNIT:-*Cuda*:*_cuda*}"
  run "$@" bin/ladder --gtest_brief=1 --gtest_filter="${LADDER:--*engine*}"
}

if (($# == 0)); then
  tests
  pytest=(python3 -m pytest -q -rs -p no:cacheprovider -k gpu)
  if ! python3 -c 'import numpy, pytest'; then
    echo "run-tests.sh: the tests of bin/kith are left out: this python3 lacks pytest or NumPy"
  else
    run env KITH="$PWD/bin/kith" "${pytest[@]}" tests/cli
    if [[ -d python ]] && ! PYTHONPATH=python python3 -c 'import kith'; then
      echo "run-tests.sh: the tests of the Python package are left out: it is for another version of Python"
    elif [[ -d python ]]; then
      run env PYTHONPATH=python "${pytest[@]}" tests/python
    fi
  fi
else
  export KITH_CONFORMANCE=${KITH_CONFORMANCE:-reduced}
  for tool in "$@"; do
    case $tool in
      memcheck | racecheck | initcheck | synccheck) ;;
      *)
        echo "run-tests.sh: '$tool' is no tool of compute-sanitizer's; use memcheck, racecheck, initcheck or synccheck" >&2
        exit 2 ;;
    esac
    tests compute-sanitizer --tool "$tool" --error-exitcode 9
  done
fi
if ((status)); then echo "run-tests.sh: FAILED"; else echo "run-tests.sh: all passed"; fi
exit $status
