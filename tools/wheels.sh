#!/usr/bin/env bash
# Wheels that run on glibc 2.31 (Debian 11, Ubuntu 20.04) and newer, for Python 3.11 and, by the stable interface, 3.12 and up:
# of kith for x86-64 and 64-bit ARM and, where nvcc is there, of kith-cuda13 for x86-64. `make wheels` calls it.
#   tools/wheels.sh BUILD [JOBS]     leaves BUILD/wheels/*.whl
# PYTHON: an interpreter with what python/requirements-wheels.txt lists (default BUILD/venv/bin/python).
# KITH_WHEELS_FOR: the processors (default "x86_64 aarch64"); aarch64 takes the module's stub from x86_64, which comes before it.
#
# Debian 11's g++ 10 does not know the C++20 that Kith is written in, so g++ 12 compiles against Debian 11's C library, which
# is unpacked from its packages, and its own C++ library goes into the module. oneTBB, fmt, HDF5 and zlib are compiled the same
# way, from Debian 12's sources. Python's headers are those of Debian 12 (3.11) and 13 (3.13, limited to what 3.12 has);
# nothing of that is installed. What is for ARM is cross-compiled, and runs under qemu-user.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath -m "$1")
jobs=${2:-$(nproc)}
python=$(realpath -s "${PYTHON:-$build/venv/bin/python}")
machines=${KITH_WHEELS_FOR:-x86_64 aarch64}
work=$build/wheels
. tools/wheels/apt.sh
toolchain=$PWD/cmake/older-glibc.cmake
if [[ $(dpkg --print-architecture) != amd64 ]]; then
  echo "tools/wheels.sh: this machine's architecture is $(dpkg --print-architecture); wheels are made on amd64 alone" >&2
  exit 1
fi

# Debian's name of a processor.
architecture() {
  case $1 in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *)
      echo "tools/wheels.sh: KITH_WHEELS_FOR has '$1'; it may have x86_64 and aarch64" >&2
      exit 1 ;;
  esac
}

# Unpacks packages of a processor, NAME/SUITE each, into a folder. Symbolic links to / point into it afterwards.
unpack() {
  local folder=$1 kind package link packages=()
  kind=$(architecture "$2")
  shift 2
  for package in "$@"; do packages+=("${package%/*}:$kind/${package#*/}"); done
  mkdir -p "$work/packages" "$folder"
  rm -f "$work/packages"/*.deb
  (cd "$work/packages" && own_apt download "${packages[@]}")
  for package in "$work/packages"/*.deb; do dpkg-deb -x "$package" "$folder"; done
  find "$folder" -type l -lname '/*' | while read -r link; do
    ln -sfnr "$folder$(readlink "$link")" "$link"
  done
}

# Names what cmake/older-glibc.cmake builds for.
for_machine() {
  export KITH_TARGET=$1-linux-gnu KITH_SYSROOT=$work/$1/sysroot
}

# Configures, builds and installs a library of a source archive into the folder that KITH_SYSROOT names.
build_library() {
  local name=$1 folder
  folder=$(dirname "$KITH_SYSROOT")/$1
  shift
  mkdir -p "$folder"
  # HDF5's checks leave a file where they are run.
  (cd "$folder" && cmake -S "$work/sources/$name" -B . -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DCMAKE_INSTALL_PREFIX="$KITH_SYSROOT/usr" \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF "$@") >"$folder.log" 2>&1 ||
    { tail -n 30 "$folder.log" >&2; return 1; }
  cmake --build "$folder" -j "$jobs" --target install >>"$folder.log" || { tail -n 30 "$folder.log" >&2; return 1; }
}

# Sources of libraries, once for all processors.
get_sources() {
  local name package
  rm -rf "$work/sources"
  for name in tbb:onetbb fmt:fmtlib hdf5:hdf5 zlib:zlib; do
    package=${name#*:}
    mkdir -p "$work/sources/${name%:*}"
    (cd "$work/sources" && own_apt source --download-only "$package")
    tar -xf "$work/sources/${package}"_*.orig.tar.* -C "$work/sources/${name%:*}" --strip-components=1
  done
  mkdir -p "$work/sources/zlib/win32"
  touch "$work/sources/zlib/win32/zlib1.rc" # Debian has left it out, and CMakeLists.txt wants to see it
  touch "$work/sources/complete"
}

# What a wheel has in it of others, and on what terms.
write_notices() {
  local package name
  {
    echo "Parts of these libraries are in this package, on the terms below."
    for name in onetbb fmtlib hdf5 zlib; do
      printf '\n===== %s\n\n' "$name"
      tar -xOf "$work/sources/$name"_*.debian.tar.* debian/copyright
    done
    for package in nlohmann-json3-dev libxxhash-dev; do
      printf '\n===== %s\n\n' "$package"
      cat "/usr/share/doc/$package/copyright"
    done
    printf '\n===== liburing\n\n'
    cat "$work/${machines%% *}/sysroot/usr/share/doc/liburing-dev/copyright"
    printf '\n===== nanobind\n\n'
    "$python" -c 'import importlib.metadata as m; print(next(f for f in m.files("nanobind") if "LICENSE" in f.name).read_text())'
  } >"$work/THIRD_PARTY.txt"
}

# Debian 11's C library, and what Kith is linked to.
make_sysroot() {
  for_machine "$1"
  rm -rf "$work/$1"
  unpack "$KITH_SYSROOT" "$1" libc6/bullseye libc6-dev/bullseye linux-libc-dev/bullseye libcrypt1/bullseye \
    libcrypt-dev/bullseye libgcc-s1/bullseye liburing-dev/bullseye
  [[ -e $KITH_SYSROOT/lib64 ]] || ln -s lib "$KITH_SYSROOT/lib64"
  "$KITH_TARGET-gcc" -O2 -fPIC --sysroot="$KITH_SYSROOT" -c tools/wheels/compat.c -o "$KITH_SYSROOT/compat.o"
  build_library tbb -DTBB_TEST=OFF -DTBB_STRICT=OFF -DTBBMALLOC_BUILD=OFF -DTBB_DISABLE_HWLOC_AUTOMATIC_SEARCH=ON
  build_library fmt -DFMT_TEST=OFF -DFMT_DOC=OFF
  build_library zlib
  rm -f "$KITH_SYSROOT"/usr/lib/libz.so*
  build_library hdf5 -DBUILD_TESTING=OFF -DHDF5_BUILD_TOOLS=OFF -DHDF5_BUILD_EXAMPLES=OFF -DHDF5_BUILD_HL_LIB=OFF \
    -DHDF5_BUILD_CPP_LIB=OFF -DHDF5_ENABLE_Z_LIB_SUPPORT=ON -DHDF5_ENABLE_SZIP_SUPPORT=OFF
  # Headers alone.
  cp /usr/include/xxhash.h "$KITH_SYSROOT/usr/include/"
  cp -r /usr/include/nlohmann "$KITH_SYSROOT/usr/include/"
  mkdir -p "$KITH_SYSROOT/usr/share/cmake"
  cp -r /usr/share/cmake/nlohmann_json "$KITH_SYSROOT/usr/share/cmake/"
  touch "$KITH_SYSROOT/complete"
}

# An interpreter with its own C library, run from its folder. Arguments: the processor, the version, its suite, and more packages.
make_python() {
  local machine=$1 version=$2 suite=$3 own=$work/$1/python-$2 package packages=() loader emulator=
  shift 3
  [[ ! -x $own/python ]] || return 0
  rm -rf "$own"
  for package in "python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib" libc6 libexpat1 zlib1g \
    libstdc++6 libgcc-s1 "$@"; do
    packages+=("$package/$suite")
  done
  unpack "$own" "$machine" "${packages[@]}"
  loader=$(find "$own" -name 'ld-linux-*' -type f | head -1)
  [[ $machine == x86_64 ]] || emulator=qemu-$machine
  cat >"$own/python" <<SCRIPT
#!/bin/sh
exec env PYTHONHOME=$own/usr PYTHONPATH="$own/site\${PYTHONPATH:+:\$PYTHONPATH}" $emulator $loader \\
  --library-path $(dirname "$loader"):$own/usr/lib/$machine-linux-gnu --argv0 $own/python $own/usr/bin/python$version "\$@"
SCRIPT
  chmod +x "$own/python"
}

# A wheel, into raw/. Arguments: the folder of its pyproject.toml, the processor, the version of the interpreter whose headers it is
# compiled with, and that interpreter, for this machine.
make_wheel() {
  local project=$1 machine=$2 version=$3 interpreter=$4 name headers options=() define language
  for_machine "$machine"
  name=$(basename "$(dirname "$project/.")") headers=$work/$machine/python-headers/usr/include
  for define in CMAKE_TOOLCHAIN_FILE="$toolchain" Python_INCLUDE_DIR="$headers/python$version" \
    KITH_PYTHON_NOTICES="$work/THIRD_PARTY.txt"; do
    options+=(--config-settings "cmake.define.$define")
  done
  if command -v ccache >/dev/null; then
    for language in CXX CUDA; do
      options+=(--config-settings "cmake.define.CMAKE_${language}_COMPILER_LAUNCHER=ccache")
    done
  fi
  if [[ $machine != x86_64 ]]; then
    # Its own stub would be made by importing it. The functions are those of the other.
    local stub=$work/x86_64/kith-$version/python/kith/_kith.pyi
    if [[ ! -e $stub ]]; then
      echo "tools/wheels.sh: there is no $stub; name x86_64 before $machine in KITH_WHEELS_FOR" >&2
      return 1
    fi
    options+=(--config-settings "cmake.define.KITH_PYTHON_STUB=$stub")
    export _PYTHON_HOST_PLATFORM=linux-$machine SETUPTOOLS_EXT_SUFFIX=.cpython-${version/./}-$KITH_TARGET.so
  fi
  [[ $project != . ]] || name=kith
  KITH_PYTHON_HEADERS=$headers CMAKE_BUILD_PARALLEL_LEVEL=$jobs \
    "$interpreter" -m pip wheel --disable-pip-version-check -q --no-deps --no-build-isolation "${options[@]}" \
    --config-settings build-dir="$work/$machine/$name-$version" -w "$work/raw" "$project"
  unset _PYTHON_HOST_PLATFORM SETUPTOOLS_EXT_SUFFIX
}

rm -rf "$work/raw" "$work"/*.whl
for machine in $machines; do
  architecture "$machine" >/dev/null
  if [[ ! -e $work/$machine/sysroot/complete ]]; then
    [[ -e $work/sources/complete ]] || { own_apt update && get_sources; }
    make_sysroot "$machine"
  fi
  [[ -d $work/$machine/python-headers ]] ||
    unpack "$work/$machine/python-headers" "$machine" libpython3.11-dev/bookworm libpython3.13-dev/trixie
done
write_notices
make_python x86_64 3.13 trixie
newer=$work/x86_64/python-3.13
[[ -d $newer/site ]] ||
  "$python" -m pip install --disable-pip-version-check -q --target "$newer/site" --python-version 3.13 --only-binary :all: \
    pip $(grep -E '^(nanobind|scikit-build-core)' python/requirements-wheels.txt)
projects=(.)
if command -v nvcc >/dev/null || [[ -n ${CUDACXX:-} ]]; then
  projects+=(python/cuda13)
else
  echo "tools/wheels.sh: no nvcc is on PATH; wheels of kith-cuda13 are left out" >&2
fi
for machine in $machines; do
  if [[ $machine != x86_64 ]]; then
    projects=(.)
    make_python "$machine" 3.11 bookworm libffi8
    make_python "$machine" 3.13 trixie libffi8
  fi
  for project in "${projects[@]}"; do
    make_wheel "$project" "$machine" 3.11 "$python"
    make_wheel "$project" "$machine" 3.13 "$newer/python"
  done
done
for wheel in "$work"/raw/*.whl; do
  machine=${wheel%.whl}
  machine=${machine##*linux_}
  platform=manylinux_2_31_$machine
  [[ $machine == x86_64 ]] || platform=auto # auditwheel takes names of this machine's processor alone
  PATH=$(dirname "$python"):$PATH "$python" -m auditwheel repair --plat "$platform" -w "$work" "$wheel"
done
ls -l "$work"/*.whl
