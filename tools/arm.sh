#!/usr/bin/env bash
# Runs tests of a build for 64-bit ARM under qemu-user, which knows every instruction set there is; and, as older processors,
# without some. Programs that fork do not end there and are left out.
#   tools/arm.sh [JOBS]
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-$(nproc)}
export KITH_CONFORMANCE=brief
export results=$PWD/build/arm/test-results

# run NAME PROGRAM FILTER CPU [INSTRUCTION_SET]: leaves NAME.xml
run() {
  [[ -z ${5:-} ]] || export KITH_INSTRUCTION_SET=$5
  local said status=0
  said=$(QEMU_CPU=$4 KITH_CONFORMANCE_COUNTS=$results/$1.counts.json timeout 900 qemu-aarch64 "build/arm/bin/tests/$2" \
    --gtest_brief=1 --gtest_filter="$3" --gtest_output="xml:$results/$1.xml" 2>&1) || status=$?
  printf '%s, %s\n%s\n' "$1" "$4" "$said"
  return "$status"
}
export -f run

# Each takes one core; the longest first. What the conformance suite does not reach: planes of neighbourhoods, bounds of
# filters at their ends. What a processor has decides at run time: dot products of bytes of one kind alone, and none.
some='*_f32_sqeuclidean*:*_u8_sqeuclidean*'
printf '%s\0' \
  unit_point_tree unit_point_tree 'PackedLists*:*Planes*:*Normals*-*Cuda*' max '' \
  conformance conformance '-*_cuda_*' max '' \
  unit_brute_force unit_brute_force '*InstructionSets/*' max '' \
  recall_curves recall_curves '*' max '' \
  cortex-a76 conformance "$some" cortex-a76 neon \
  cortex-a72 conformance "$some" cortex-a72 portable \
  unit_distance unit_distance '*' max '' \
  unit_core unit_core 'InstructionSets.*' max '' \
  cortex-a76-core unit_core 'InstructionSets.*' cortex-a76 '' \
  cortex-a72-core unit_core 'InstructionSets.*' cortex-a72 '' |
  xargs -0 -n 5 -P "$jobs" bash -euo pipefail -c 'run "$@"' run
