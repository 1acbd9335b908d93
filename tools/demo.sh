#!/usr/bin/env bash
# Kith's demo: where is the nearest coast, which way does a wall face, in which other picture is the same detail, and what
# does a terrain look like that does not fit in memory? Run by `make demo`, which installs and builds what it needs.
#   tools/demo.sh [coast|scan|photo|relief] [ARGUMENTS]    one scene, or all; a scene's --help lists its arguments
#   BUILD   the build folder with bin/kith (default build); everything is written to $BUILD/demo
#   PYTHON  a Python with tools/requirements-demo.txt (default $BUILD/venv/bin/python)
# Without the name of a scene the arguments go to the coast: --grid DEGREES, --threads N.
set -euo pipefail
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
PYTHON=${PYTHON:-$BUILD/venv/bin/python}

scene() {
  local name=$1
  shift
  env PYTHONPATH="$PWD" "$PYTHON" -m "tools.${name}_demo" --kith "$BUILD/bin/kith" --out "$BUILD/demo" "$@"
}

case ${1:-} in
  coast | scan | photo | relief) scene "$@" ;;
  -h | --help) scene coast --help ;;
  *)
    scene coast "$@"
    echo
    scene scan
    echo
    scene photo
    echo
    scene relief ;;
esac
