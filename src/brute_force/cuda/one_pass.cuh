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

// The score of a row: what the look at all pairs has found and not kept. Places are worked out once, not for
// each piece: this code is run once a search, and what takes long is to bring it to the processor.
__device__ inline std::int32_t score_of(const Lists& lists, const CodeShape& shape, std::int64_t q,
                                        std::int64_t row) {
  const auto tiles = static_cast<std::uint32_t>(lists.shape.tiles);
  const std::uint32_t tile = static_cast<std::uint32_t>(row) % tiles;
  const int in_tile = static_cast<int>(static_cast<std::uint32_t>(row) / tiles);
  const int query = static_cast<int>(q) % lists.query_tile;
  const std::uint8_t* x = lists.codes + shape.first_of(tile, in_tile, code_tile_rows);
  const std::uint8_t* y =
      lists.query_codes + shape.first_of(static_cast<int>(q) / lists.query_tile, query, lists.query_tile);
  const int swap = shape.swap(in_tile);
  const int query_swap = shape.swap(query);
  std::int32_t sum = lists.bias[static_cast<std::int64_t>(tile) * code_tile_rows + in_tile];
#pragma unroll 1
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
#pragma unroll 4
    for (int unit = 0; unit < shape.width / 16; ++unit) {
      const int4 a = __ldg(reinterpret_cast<const int4*>(x) + (unit ^ swap));
      const int4 b = __ldg(reinterpret_cast<const int4*>(y) + (unit ^ query_swap));
      sum = __dp4a(a.x, b.x, __dp4a(a.y, b.y, __dp4a(a.z, b.z, __dp4a(a.w, b.w, sum))));
    }
    x += code_tile_rows * shape.width;
    y += lists.query_tile * shape.width;
  }
  return sum;
}

}  // namespace
}  // namespace kith::brute_force::cuda
