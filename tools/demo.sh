#!/usr/bin/env bash
# Kith's demo: where is the nearest coast? Run by `make demo`, which installs and builds what it needs.
#   BUILD   the build folder with bin/kith (default build); everything is written to $BUILD/demo
#   PYTHON  a Python with tools/requirements-demo.txt (default $BUILD/venv/bin/python)
# The grid is as fine as --seconds (default 25) allow: brute force takes time in proportion to points x queries,
# so half the spacing is four times the time.
# Arguments go to the demo itself: --grid DEGREES, --seconds N, --threads N, --help.
set -euo pipefail
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
PYTHON=${PYTHON:-$BUILD/venv/bin/python}
exec env PYTHONPATH="$PWD" "$PYTHON" -m tools.coast_demo --kith "$BUILD/bin/kith" --out "$BUILD/demo" "$@"
