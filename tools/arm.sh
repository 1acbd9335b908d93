#!/usr/bin/env bash
# Runs tests of a build for 64-bit ARM under qemu-user, which knows every instruction set there is; and, as older processors,
# without some. Programs that fork do not end there and are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
export KITH_CONFORMANCE=brief
results=$PWD/build/arm/test-results

# run NAME PROGRAM FILTER: leaves NAME.xml
run() {
  echo "$1, $QEMU_CPU"
  KITH_CONFORMANCE_COUNTS=$results/$1.counts.json timeout 900 qemu-aarch64 "build/arm/bin/tests/$2" --gtest_brief=1 \
    --gtest_filter="$3" --gtest_output="xml:$results/$1.xml"
}

export QEMU_CPU=max
run conformance conformance '-*_cuda_*'
run recall_curves recall_curves '*'
run unit_core unit_core 'InstructionSets.*'
run unit_distance unit_distance '*'
# What the conformance suite does not reach: planes of neighbourhoods, bounds of filters at their ends.
run unit_point_tree unit_point_tree 'PackedLists*:*Planes*:*Normals*-*Cuda*'
run unit_brute_force unit_brute_force '*InstructionSets/*'

# What a processor has decides at run time: dot products of bytes of one kind alone, and none.
for kind in cortex-a76:neon cortex-a72:portable; do
  export QEMU_CPU=${kind%:*}
  run "$QEMU_CPU-core" unit_core 'InstructionSets.*'
  KITH_INSTRUCTION_SET=${kind#*:} run "$QEMU_CPU" conformance '*_f32_sqeuclidean*:*_u8_sqeuclidean*'
done
