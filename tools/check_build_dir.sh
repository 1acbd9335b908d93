#!/usr/bin/env bash
# Refuses a build folder that was configured with another generator, with a message that says what to do.
set -euo pipefail
build=$1
cache=$build/CMakeCache.txt
[[ -f $cache ]] || exit 0
generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$cache")
if [[ $generator != Ninja ]]; then
  echo "The folder '$build' was configured with the generator '$generator'; Kith's Makefile uses Ninja." >&2
  echo "Remove it with 'make clean', or build elsewhere: 'make BUILD=another-folder'." >&2
  exit 1
fi
source_dir=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache")
if [[ $(realpath -m "$source_dir") != "$(pwd -P)" ]]; then
  echo "The folder '$build' belongs to the sources in '$source_dir', not to this clone." >&2
  echo "Remove it with 'make clean', or build elsewhere: 'make BUILD=another-folder'." >&2
  exit 1
fi
