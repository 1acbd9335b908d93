// The nearest row of every 16 for each query, by the filter's scores: a first bound needs no more of a
// sample, and no better order than Scores::with_place leaves.
#pragma once

#include <cstdint>

#include "brute_force/cuda/kernels.hpp"

namespace kith::brute_force::cuda {

/// The larger of what two threads have, `step` apart: of 2 n values the upper half in the upper one of them.
template <int n>
__device__ inline void halve(std::int32_t (&values)[32], int step) {
  const bool upper = (threadIdx.x & static_cast<unsigned>(step)) != 0;
#pragma unroll
  for (int i = 0; i < n; ++i) {
    const std::int32_t given = __shfl_xor_sync(0xffffffffU, upper ? values[i] : values[i + n], step);
    values[i] = max(upper ? values[i + n] : values[i], given);
  }
}

/// What Scores::with_place takes for row i of a run: the lower row is the larger of equal ones.
__device__ inline int place_in_run(int i) {
  return look_rows - 1 - i;
}

/// Writes a run's largest value of a query into the run's place: of run `run` of the stage, whose rows begin
/// at `first_row` of a tile.
template <class S>
__device__ inline void put_run(const Candidates& out, const Stage& stage, std::int64_t q, std::int64_t run,
                               std::int64_t tile, int first_row, std::int32_t largest) {
  const std::int32_t score = S::without_place(largest);
  const int row = first_row + place_in_run(largest & (look_rows - 1));
  out.entries[q * out.room + run] =
      S::is_row(score) ? make_candidate(score, static_cast<std::uint32_t>(stage.row(tile, row)))
                       : no_candidate;
  if (run == 0) {
    out.counts[q] = static_cast<std::uint32_t>(stage.count * (code_tile_rows / look_rows));
  }
}

}  // namespace kith::brute_force::cuda
