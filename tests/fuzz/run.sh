#!/bin/sh
# tests/fuzz/run.sh SECONDS [FORMAT...]: builds the fuzzers and runs each for that long, two at a time; one line
# each. JOBS=n changes the two, FUZZ_BUILD the folder. Exit status 1 when any reader crashed.
set -eu
seconds=${1:?usage: tests/fuzz/run.sh SECONDS [FORMAT...]}
shift
cd "$(dirname "$0")/../.."
build=${FUZZ_BUILD:-build/fuzz}
compiler=$(command -v clang++ || command -v clang++-14 || true)
[ -n "$compiler" ] || { echo "tests/fuzz/run.sh: clang++ is missing; install clang" >&2; exit 2; }

mkdir -p "$build"
log="$build/build.log"
launcher=
if command -v ccache >/dev/null; then launcher=-DCMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
# Only once: naming the compiler again would throw the configuration away.
[ -f "$build"/CMakeCache.txt ] || cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DKITH_CUDA=OFF -DKITH_BUILD_CLI=OFF -DKITH_BUILD_TESTS=ON \
  -DKITH_BUILD_FUZZERS=ON $launcher > "$log" 2>&1 || { cat "$log" >&2; rm -f "$build"/CMakeCache.txt; exit 2; }
nice cmake --build "$build" --target fuzzers make_seeds > "$log" 2>&1 || { cat "$log" >&2; exit 2; }
# The starting corpus comes from Kith's own writers.
"$build"/bin/make_seeds "$build"/corpus

all="fvecs bvecs ivecs fbin u8bin i8bin ibin npy hdf5 pcd ply las xyz json table index \
diskann diskann-disk hnswlib faiss bang diskann-pq rotation shards tiles-manifest tiles-journal"
[ $# -gt 0 ] || set -- $all
export build seconds
printf '%s\n' "$@" | xargs -P "${JOBS:-2}" -I{} sh -c '
  format={}
  mkdir -p "$build/found/$format"
  log="$build/found/$format.log"
  if nice "$build/bin/fuzz_$format" -max_total_time="$seconds" -max_len=16384 -timeout=30 -rss_limit_mb=3000 \
      -artifact_prefix="$build/found/$format/" -print_final_stats=1 "$build/corpus/$format" > "$log" 2>&1; then
    result=clean
  else
    result="FAILED, see $log"
  fi
  runs=$(sed -n "s/^stat::number_of_executed_units: *//p" "$log")
  cover=$(sed -n "s/.* cov: \([0-9]*\) .*/\1/p" "$log" | tail -1)
  printf "%-12s %10s inputs, %5s edges covered: %s\n" "$format" "${runs:-0}" "${cover:-?}" "$result"
  [ "$result" = clean ]
'
