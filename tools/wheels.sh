#!/usr/bin/env bash
# Wheels that run on glibc 2.31 (Debian 11, Ubuntu 20.04) and newer, for Python 3.11 and, by the stable interface, 3.12 and up.
# `make wheels` calls it.
#   tools/wheels.sh BUILD [JOBS]     leaves BUILD/wheels/*.whl
# PYTHON: an interpreter with what python/requirements-wheels.txt lists (default BUILD/venv/bin/python).
#
# Debian 11's g++ 10 does not know the C++20 that Kith is written in, so g++ 12 compiles against Debian 11's C library, which
# is unpacked from its packages, and its own C++ library goes into the module. oneTBB and fmt are compiled the same way, from
# Debian 12's sources. Python's headers are those of Debian 12 (3.11) and 13 (3.13, limited to what 3.12 has); nothing of
# that is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath -m "$1")
jobs=${2:-$(nproc)}
python=$(realpath -s "${PYTHON:-$build/venv/bin/python}")
work=$build/wheels
export KITH_SYSROOT=$work/sysroot
mirror=${KITH_DEBIAN_MIRROR:-http://deb.debian.org/debian}
key=/usr/share/keyrings/debian-archive-keyring.gpg
if [[ $(dpkg --print-architecture) != amd64 ]]; then
  echo "tools/wheels.sh: this machine's architecture is $(dpkg --print-architecture); wheels are made on amd64 alone" >&2
  exit 1
fi

# apt with lists and a cache of its own; nothing is installed.
own_apt() {
  local own=$work/apt
  mkdir -p "$own"/{lists,archives}/partial
  if [[ ! -f $own/sources.list ]]; then
    for suite in bullseye bookworm trixie; do echo "deb [signed-by=$key] $mirror $suite main"; done >"$own/sources.list"
    echo "deb-src [signed-by=$key] $mirror bookworm main" >>"$own/sources.list"
  fi
  apt-get -q -o APT::Architectures=amd64 -o APT::Sandbox::User=root -o Dir::State::Lists="$own/lists" \
    -o Dir::State::Status=/dev/null -o Dir::Cache="$own" -o Dir::Etc::SourceList="$own/sources.list" \
    -o Dir::Etc::SourceParts=- "$@"
}

# Unpacks packages into a folder. Symbolic links to / point into it afterwards.
unpack() {
  local folder=$1 package link
  shift
  mkdir -p "$work/packages" "$folder"
  rm -f "$work/packages"/*.deb
  (cd "$work/packages" && own_apt download "$@")
  for package in "$work/packages"/*.deb; do dpkg-deb -x "$package" "$folder"; done
  find "$folder" -type l -lname '/*' | while read -r link; do
    ln -sfnr "$folder$(readlink "$link")" "$link"
  done
}

# Configures, builds and installs a library of a source archive into the folder that KITH_SYSROOT names.
build_library() {
  local name=$1
  shift
  cmake -S "$work/sources/$name" -B "$work/$name" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/older-glibc.cmake" -DCMAKE_INSTALL_PREFIX="$KITH_SYSROOT/usr" \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF "$@" >"$work/$name.log"
  cmake --build "$work/$name" -j "$jobs" --target install >>"$work/$name.log"
}

# Debian 11's C library, and what Kith is linked to.
make_sysroot() {
  rm -rf "$KITH_SYSROOT" "$work"/{tbb,fmt,sources}
  unpack "$KITH_SYSROOT" libc6/bullseye libc6-dev/bullseye linux-libc-dev/bullseye libcrypt1/bullseye \
    libcrypt-dev/bullseye liburing-dev/bullseye
  [[ -e $KITH_SYSROOT/lib64 ]] || ln -s lib "$KITH_SYSROOT/lib64"
  gcc -O2 -fPIC --sysroot="$KITH_SYSROOT" -c tools/wheels/compat.c -o "$KITH_SYSROOT/compat.o"
  mkdir -p "$work/sources"/{tbb,fmt}
  (cd "$work/sources" && own_apt source --download-only onetbb fmtlib)
  tar -xf "$work"/sources/onetbb_*.orig.tar.* -C "$work/sources/tbb" --strip-components=1
  tar -xf "$work"/sources/fmtlib_*.orig.tar.* -C "$work/sources/fmt" --strip-components=1
  build_library tbb -DTBB_TEST=OFF -DTBB_STRICT=OFF -DTBBMALLOC_BUILD=OFF -DTBB_DISABLE_HWLOC_AUTOMATIC_SEARCH=ON
  build_library fmt -DFMT_TEST=OFF -DFMT_DOC=OFF
  # Headers alone.
  cp /usr/include/xxhash.h "$KITH_SYSROOT/usr/include/"
  cp -r /usr/include/nlohmann "$KITH_SYSROOT/usr/include/"
  mkdir -p "$KITH_SYSROOT/usr/share/cmake"
  cp -r /usr/share/cmake/nlohmann_json "$KITH_SYSROOT/usr/share/cmake/"
  touch "$KITH_SYSROOT/complete"
}

# Python 3.13 of Debian 13 with Debian 13's C library: it runs from its folder and knows the stable interface.
make_newer_python() {
  local own=$work/python-3.13 loader
  [[ ! -x $own/python ]] || return 0
  rm -rf "$own"
  unpack "$own" python3.13-minimal libpython3.13-minimal libpython3.13-stdlib libc6/trixie libexpat1/trixie \
    zlib1g/trixie libstdc++6/trixie libgcc-s1/trixie
  loader=$(find "$own/usr" -name 'ld-linux-*' | head -1)
  "$python" -m pip install --disable-pip-version-check -q --target "$own/site" --python-version 3.13 --only-binary :all: \
    pip $(grep -E '^(nanobind|scikit-build-core)' python/requirements-wheels.txt)
  cat >"$own/python" <<SCRIPT
#!/bin/sh
exec env PYTHONHOME=$own/usr PYTHONPATH="$own/site\${PYTHONPATH:+:\$PYTHONPATH}" $loader --library-path $(dirname "$loader") \\
  --argv0 $own/python $own/usr/bin/python3.13 "\$@"
SCRIPT
  chmod +x "$own/python"
}

# A wheel by an interpreter, into raw/. Arguments: the version of its headers, and the interpreter.
make_wheel() {
  local headers=$work/python-headers/usr/include version=$1 interpreter=$2 options=() define
  for define in CMAKE_TOOLCHAIN_FILE="$PWD/cmake/older-glibc.cmake" Python_INCLUDE_DIR="$headers/python$version" \
    KITH_CUDA=OFF KITH_HDF5=OFF; do
    options+=(--config-settings "cmake.define.$define")
  done
  if command -v ccache >/dev/null; then
    options+=(--config-settings cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  KITH_PYTHON_HEADERS=$headers CMAKE_BUILD_PARALLEL_LEVEL=$jobs \
    "$interpreter" -m pip wheel --disable-pip-version-check -q --no-deps --no-build-isolation "${options[@]}" \
    --config-settings build-dir="$work/$version" -w "$work/raw" .
}

rm -rf "$work/raw" "$work"/*.whl
if [[ ! -e $KITH_SYSROOT/complete ]]; then
  own_apt update
  make_sysroot
fi
[[ -d $work/python-headers ]] || unpack "$work/python-headers" libpython3.11-dev libpython3.13-dev
make_newer_python
make_wheel 3.11 "$python"
make_wheel 3.13 "$work/python-3.13/python"
for wheel in "$work"/raw/*.whl; do
  PATH=$(dirname "$python"):$PATH "$python" -m auditwheel repair --plat manylinux_2_31_x86_64 -w "$work" "$wheel"
done
ls -l "$work"/*.whl
