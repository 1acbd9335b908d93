// What those who re-rank lists have in common (rerank_lists.cu, rerank_few.cu).
#pragma once

#include <math_constants.h>

#include "brute_force/cuda/rerank_block.cuh"

namespace kith::brute_force::cuda {
namespace {

// The last block of all says what happened, and leaves the counters as it found them. By one thread a block,
// when all of its threads have written their answers.
template <class R>
__device__ void count_in(const Answer<R>& answer, unsigned long long evaluated,
                         unsigned long long unanswered) {
  if (evaluated > 0) atomicAdd(answer.totals, evaluated);
  if (unanswered > 0) atomicAdd(answer.totals + 1, unanswered);
  __threadfence();  // this block's counts come before its arrival
  if (atomicAdd(answer.totals + 3, 1ULL) != gridDim.x - 1ULL) return;
  volatile unsigned long long* seen = answer.seen;
  for (int i = 0; i < 3; ++i) seen[i] = atomicExch(answer.totals + i, 0ULL);
  answer.totals[3] = 0;
  __threadfence_system();  // the host, which waits for the ticket, then finds the rest
  seen[3] = answer.ticket;
}

template <class R>
__device__ void write_answer(const Answer<R>& answer, std::int64_t at, const Key<R>& key) {
  answer.indices[at] = key.is_none() ? -1 : answer.base + key.row();
  answer.distances[at] = key.is_none() ? static_cast<R>(CUDART_INF) : key.distance();
}

// The score of a row: what the look at all pairs has found and not kept.
__device__ inline std::int32_t score_of(const Lists& lists, const CodeShape& shape, std::int64_t q,
                                        std::int64_t row) {
  const std::int64_t place = row % lists.shape.tiles * code_tile_rows + row / lists.shape.tiles;
  std::int32_t sum = lists.bias[place];
#pragma unroll 8
  for (int column = 0; column < shape.row_bytes(); column += 16) {
    const auto* x = reinterpret_cast<const int4*>(lists.codes + shape.offset(place, column, code_tile_rows));
    const auto* y =
        reinterpret_cast<const int4*>(lists.query_codes + shape.offset(q, column, lists.query_tile));
    const int4 a = __ldg(x);
    const int4 b = __ldg(y);
    sum = __dp4a(a.x, b.x, __dp4a(a.y, b.y, __dp4a(a.z, b.z, __dp4a(a.w, b.w, sum))));
  }
  return sum;
}

}  // namespace
}  // namespace kith::brute_force::cuda
