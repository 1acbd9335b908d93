#!/usr/bin/env bash
# Installs what is missing: Debian packages, and Python packages into a virtual environment of the build.
#   tools/setup.sh GROUP...    groups: build, test-cpp, test, test-ray, browser, demo, docs, lint, fuzz, arm, wheels, wheels-debian11, bench, bench-tiles, bench-build, gpu-bundle, cache
# Quick and without network when everything is there. KITH_VENV names the virtual environment
# (default build/venv). KITH_SETUP=off skips all of it, for machines that provide the tools another way.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ ${KITH_SETUP:-on} != off ]] || exit 0

venv=${KITH_VENV:-$PWD/build/venv}
packages=()
requirements=()
foreign=  # another architecture whose packages are among them
for group in "$@"; do
  case $group in
    build)
      packages+=(g++ make cmake ninja-build libtbb-dev libfmt-dev nlohmann-json3-dev libcli11-dev
        libhdf5-dev libxxhash-dev liburing-dev) ;;
    test-cpp) packages+=(libgtest-dev librapidcheck-dev) ;;
    test)
      packages+=(libgtest-dev librapidcheck-dev python3 python3-venv python3-dev)
      requirements+=(python/requirements-test.txt) ;;
    test-ray)
      packages+=(python3 python3-venv python3-dev)
      requirements+=(python/requirements-ray.txt) ;;
    browser) packages+=(chromium) ;;  # the report's layout is looked at in one; its test is skipped without
    demo)
      packages+=(python3 python3-venv python3-dev gmt-gshhg-full libcgal-demo tzdata plasma-workspace-wallpapers
        gnome-backgrounds)
      requirements+=(tools/requirements-demo.txt) ;;
    docs)
      packages+=(doxygen python3 python3-venv)
      requirements+=(tools/requirements-docs.txt) ;;
    lint)
      # clang-tidy from PyPI: Debian's (14) spends most of its time in the system's headers.
      packages+=(clang-format git python3 python3-venv)
      requirements+=(tools/requirements-lint.txt) ;;
    fuzz) packages+=(clang libclang-rt-dev libgtest-dev librapidcheck-dev) ;;
    arm)
      foreign=arm64
      packages+=(g++-aarch64-linux-gnu qemu-user libtbb-dev:arm64 libfmt-dev:arm64 libgtest-dev:arm64
        librapidcheck-dev:arm64) ;;
    wheels)
      packages+=(binutils g++-aarch64-linux-gnu qemu-user python3 python3-venv)
      requirements+=(python/requirements-wheels.txt) ;;
    wheels-debian11) packages+=(debootstrap) ;;
    bench)
      packages+=(libbenchmark-dev python3 python3-venv gmt-gshhg-full wordnet-base plasma-workspace-wallpapers gnome-backgrounds
        python3-opencv libcgal-demo libnanoflann-dev)
      requirements+=(benchmarks/requirements.txt) ;;
    bench-tiles)
      packages+=(python3 python3-venv)
      requirements+=(benchmarks/tiles/requirements.txt) ;;
    cache) packages+=(ccache) ;;
    bench-build) packages+=(libbenchmark-dev libnanoflann-dev) ;;
    gpu-bundle) packages+=(libgtest-dev librapidcheck-dev libbenchmark-dev binutils) ;;
    *)
      echo "tools/setup.sh: group '$group' is unknown; see its first lines" >&2
      exit 2 ;;
  esac
done

need_debian() {
  if ! command -v dpkg-query >/dev/null; then
    echo "Kith's setup knows Debian and its relatives only. Install these by hand: ${packages[*]}" >&2
    echo "then run with KITH_SETUP=off." >&2
    exit 1
  fi
}

# The packages of the list that are not installed, one a line.
missing() {
  local package architecture native
  native=$(dpkg --print-architecture)
  for package in "${packages[@]}"; do
    architecture=$native
    [[ $package != *:* ]] || architecture=${package#*:}
    dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$package" 2>/dev/null |
      grep -qxE "(all|$architecture) installed" || echo "$package"
  done
}

install_packages() {
  local absent root=()
  mapfile -t absent < <(missing | sort -u)
  ((${#absent[@]})) || return 0
  echo "Kith: installing from Debian: ${absent[*]}"
  if [[ $(id -u) != 0 ]]; then
    if ! command -v sudo >/dev/null; then
      echo "These Debian packages are missing, and neither root nor sudo is there to install them:" >&2
      echo "  apt-get install --no-install-recommends ${absent[*]}" >&2
      exit 1
    fi
    root=(sudo)
  fi
  local apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  [[ -z $foreign ]] || "${root[@]}" dpkg --add-architecture "$foreign"
  # A broken third-party source must not stop us: what counts is whether the install works.
  "${apt[@]}" update -q || echo "Kith: apt-get update reported errors; going on with the lists there are" >&2
  if ! "${apt[@]}" install -q -y --no-install-recommends "${absent[@]}"; then
    echo "Kith: apt-get could not install: ${absent[*]}" >&2
    echo "Kith needs Debian 12 (bookworm) or newer with its 'main' component enabled." >&2
    exit 1
  fi
}

# The Python to build against: the system's, since its headers come from python3-dev.
find_python() {
  local candidate
  for candidate in /usr/bin/python3 python3; do
    if command -v "$candidate" >/dev/null &&
      "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  echo "Kith: no Python 3.10 or newer with the venv module; install python3-venv" >&2
  exit 1
}

install_python() {
  local file present=() stamp
  for file in "${requirements[@]}"; do
    [[ ! -f $file ]] || present+=("$file")
  done
  ((${#present[@]})) || return 0
  if ! "$venv/bin/python" -c '' 2>/dev/null; then
    rm -rf "$venv"
    "$(find_python)" -m venv "$venv"
  fi
  for file in "${present[@]}"; do
    # One stamp a file, named by its content: the second run asks nobody.
    stamp=$venv/.installed-$(sha256sum <"$file" | cut -c1-16)
    [[ ! -e $stamp ]] || continue
    echo "Kith: installing from PyPI: $file"
    "$venv/bin/python" -m pip install --disable-pip-version-check -q -r "$file"
    touch "$stamp"
  done
}

need_debian
install_packages
install_python
