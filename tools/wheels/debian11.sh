#!/usr/bin/env bash
# Tries the wheels of `make wheels` in Debian 11: a root made by debootstrap, and CPython 3.11 compiled in it from Debian 12's
# source, since its own Python (3.9) is older than Kith takes. `make test-wheels-debian11` calls it, as root.
#   tools/wheels/debian11.sh BUILD [JOBS]
# PYTHON: an interpreter with pip, which fetches what the wheels need (default BUILD/venv/bin/python).
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath -m "$1")
jobs=${2:-$(nproc)}
python=$(realpath -s "${PYTHON:-$build/venv/bin/python}")
work=$build/wheels
root=$work/debian11
. tools/wheels/apt.sh
shopt -s nullglob

make_root() {
  local source=$work/python-source
  rm -rf "$root" "$source"
  mkdir -p "$source"
  debootstrap --variant=minbase --include=gcc,libc6-dev,libffi-dev,libssl-dev,make,zlib1g-dev bullseye "$root" "$mirror"
  own_apt update
  (cd "$source" && own_apt source --download-only python3.11)
  mkdir -p "$root/python-source"
  tar -xf "$source"/python3.11_*.orig.tar.* -C "$root/python-source" --strip-components=1
  chroot "$root" sh -ec "
    cd /python-source
    ./configure -q --prefix=/opt/python --with-ensurepip=install --disable-test-modules
    make -s -j $jobs
    make -s install
    rm -rf /python-source" >"$work/debian11.log" 2>&1 || { tail -n 30 "$work/debian11.log" >&2; return 1; }
  touch "$root/complete"
}

wheels=("$work"/kith{,_cuda13}-*-cp311-cp311-*_x86_64.whl)
if [[ ${#wheels[@]} -eq 0 ]]; then
  echo "tools/wheels/debian11.sh: no wheels for Python 3.11 in $work; run make wheels first" >&2
  exit 1
fi
[[ -e $root/complete ]] || make_root
rm -rf "$root/kith"
mkdir -p "$root/kith/wheels" "$root/kith/tests"
cp "${wheels[@]}" "$root/kith/wheels/"
cp tests/wheels/first_use.py "$root/kith/"
# The docs' examples, which are run as tests.
cp -r docs "$root/kith/"
cp -r tests/python "$root/kith/tests/"
cp pyproject.toml "$root/kith/"
"$python" -m pip download -q --disable-pip-version-check --only-binary :all: --python-version 3.11 --platform manylinux_2_28_x86_64 \
  --platform manylinux2014_x86_64 --platform manylinux_2_31_x86_64 -d "$root/kith/wheels" \
  numpy scikit-learn pyarrow ml_dtypes pytest
# Each alone, then both.
PIP_FIND_LINKS='' chroot "$root" sh -ec '
  cd /kith
  . /etc/os-release
  echo "$PRETTY_NAME, $(ldd --version | head -n 1), $(/opt/python/bin/python3 --version)"
  for packages in kith "kith kith_cuda13"; do
    case $packages in
      *_*) ls wheels/kith_cuda13-* >/dev/null 2>&1 || continue ;;
    esac
    rm -rf venv
    /opt/python/bin/python3 -m venv venv
    venv/bin/pip install -q --disable-pip-version-check --no-index --find-links wheels $packages scikit-learn pyarrow \
      ml_dtypes pytest
    venv/bin/python first_use.py >first-use.json
    cat first-use.json
    venv/bin/python - ${packages##* } <<PYTHON
import json, sys
said = json.load(open("first-use.json"))
assert said["exact"] and said["same_after_load"] and said["same_from_hdf5"], said
assert said["module"].startswith("/kith/venv/lib/python3.11/site-packages/" + sys.argv[1] + "/"), said
PYTHON
    venv/bin/python -m pytest -q -p no:cacheprovider tests/python/test_docs.py
  done'
