#!/usr/bin/env bash
# Runs the C++ tests of a sanitizer build.
#   tools/sanitize.sh asan|tsan [JOBS]
# Left out: what compiles (headers, package), curves of recall, whose walks are unit_vamana's, and under TSan the rooms that
# start no threads.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
jobs=${2:-$(nproc)}
export KITH_CONFORMANCE=reduced RC_PARAMS=max_success=40
# Tests of files wait for the disk most of their time; how they do on one is seen by the plain build.
room=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1) || room=0
if ((room > 4000000)); then export TMPDIR=/dev/shm; fi
prefix=()
case $preset in
  asan)
    export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1
    export UBSAN_OPTIONS=print_stacktrace=1
    select=(-LE 'headers|package' -E recall_curves) ;;
  tsan)
    # oneTBB itself is not built with TSan: its internal hand-over is hidden from it.
    export TSAN_OPTIONS=suppressions=$PWD/tools/tsan.supp:second_deadlock_stack=1
    # Its shadow memory wants a fixed layout, which kernels that randomise more than 28 bits deny.
    if setarch -R true 2>/dev/null; then prefix=(setarch -R); fi
    select=(-R 'conformance_(f32|u8)|unit_(brute_force|point_tree|any_index|core|sharded)|property') ;;
  *)
    echo "tools/sanitize.sh: preset '$preset' is unknown; use asan or tsan" >&2
    exit 2 ;;
esac
${prefix[@]+"${prefix[@]}"} ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$jobs" "${select[@]}" \
  --output-junit "$PWD/build/$preset/test-results/ctest.xml"
