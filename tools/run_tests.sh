#!/usr/bin/env bash
# Runs ctest and pytest on a finished build, adds up their results. `make test` calls it.
#   BUILD, PYTHON, RESULTS: build folder, interpreter, folder for JUnit files; arguments: pytest folders
set -euo pipefail
cd "$(dirname "$0")/.."
status=0

echo "== C++ tests"
# shellcheck disable=SC2086
ctest --test-dir "$BUILD" --output-on-failure --no-tests=error -j "${JOBS:-2}" \
  --output-junit "$RESULTS/ctest.xml" ${CTEST_FLAGS:-} || status=1

if (($#)); then
  echo "== Python and command-line tests"
  # A process a core, a file of tests in one of them: what a file prepares once is prepared once. PYTEST_FLAGS come
  # last: "-n 0" is one process, for --pdb and -s.
  workers=${JOBS:-2}
  # What they write they read once; how files fare on a disk the C++ tests have seen.
  room=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1) || room=0
  if [[ -z ${TMPDIR:-} ]] && ((room > 12000000)); then export TMPDIR=/dev/shm; fi
  # shellcheck disable=SC2086
  KITH=$BUILD/bin/kith PYTHONPATH=$BUILD/python "$PYTHON" -m pytest -q -rs -p no:cacheprovider \
    -o tmp_path_retention_policy=failed --durations=25 --durations-min=5 -n $((workers < 8 ? workers : 8)) --dist loadfile \
    --junit-xml="$RESULTS/pytest.xml" ${PYTEST_FLAGS:-} "$@" || status=1
fi

python3 tools/check_gpu_selection.py "$RESULTS" || status=1
python3 tools/count_tests.py "$RESULTS" || status=1
exit $status
