// Products of which some are to be kept, handed to other warps of the block that look which
// (filter_codes_wide.cu): a warp that compares products is one of four that multiply together, so each would
// wait for the slowest.
#pragma once

#include <cstdint>

#include "brute_force/cuda/append.cuh"
#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/mma.cuh"
#include "brute_force/cuda/wgmma.cuh"

namespace kith::brute_force::cuda {

/// Products of one row with 16 queries, a thread's, take a place. In shared memory, one
/// a warp that puts; another one takes, 32 places at a time.
template <class Value>
struct KeptQueue {
  static constexpr int each = 16;
  static constexpr std::uint32_t part = 32;
  static constexpr std::uint32_t parts = 2;
  static constexpr std::uint32_t places = part * parts;
  Value products[each][places];
  Value least[places];            // what product and limit must reach
  std::uint32_t rows[places];     // tile * code_tile_rows + column
  std::uint32_t columns[places];  // of the first query
  std::uint32_t count[parts];     // places that are taken; fewer than all in the last part
  std::uint64_t full[parts];      // barriers, one for all 32 threads
  std::uint64_t empty[parts];
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Value>
__device__ inline void init_queue(KeptQueue<Value>& queue) {
  for (std::uint32_t p = 0; p < KeptQueue<Value>::parts; ++p) {
    init_barrier(shared_address(queue.full + p), 32);
    init_barrier(shared_address(queue.empty + p), 32);
  }
}

/// The end of a queue that a warp puts into, its threads together.
template <class Value>
class QueueIn {
 public:
  using Queue = KeptQueue<Value>;

  __device__ explicit QueueIn(Queue* queue) : queue_(queue) {}

  /// Of 64 products of a thread, its two rows with 32 pairs of queries from `first_column` on, the quarters
  /// that hold one to be kept: 2 h + r is half h of the queries with row r, the largest score of which is
  /// most[2 h + r] and must reach least0 or least1. `row`: of the first one.
  __device__ void put(const Value (&all)[64], const Value (&most)[4], Value least0, Value least1,
                      std::uint32_t row, std::uint32_t first_column) {
    const auto lane = threadIdx.x % 32;
    unsigned who[4];
#pragma unroll
    for (int s = 0; s < 4; ++s)
      who[s] = __ballot_sync(0xffffffffU, most[s] >= (s % 2 == 0 ? least0 : least1));
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      if (who[s] == 0) continue;
      const std::uint32_t end = put_ + static_cast<std::uint32_t>(__popc(who[s]));
      const bool fills = end / Queue::part != put_ / Queue::part;
      if (fills) wait_for_part(end / Queue::part);
      if ((who[s] >> lane & 1U) != 0) {
        const std::uint32_t at =
            (put_ + static_cast<std::uint32_t>(__popc(who[s] & ((1U << lane) - 1U)))) % Queue::places;
#pragma unroll
        for (int e = 0; e < Queue::each; ++e) {
          queue_->products[e][at] = all[(s / 2 * 8 + e / 2) * 4 + s % 2 * 2 + e % 2];
        }
        queue_->least[at] = s % 2 == 0 ? least0 : least1;
        queue_->rows[at] = row + static_cast<std::uint32_t>(s % 2 * 8);
        queue_->columns[at] = first_column + static_cast<std::uint32_t>(s / 2 * 64) + lane % 4 * 2;
      }
      if (fills) hand_over(put_ / Queue::part, Queue::part);
      put_ = end;
    }
  }
  /// What is in the last part, or that there is nothing.
  __device__ void close() {
    hand_over(put_ / Queue::part, put_ % Queue::part);
  }

 private:
  __device__ void wait_for_part(std::uint32_t part) {
    wait(shared_address(queue_->empty + part % Queue::parts), (part / Queue::parts & 1U) ^ 1U);
  }
  __device__ void hand_over(std::uint32_t part, std::uint32_t count) {
    if (threadIdx.x % 32 == 0) queue_->count[part % Queue::parts] = count;
    arrive(shared_address(queue_->full + part % Queue::parts));
  }
  Queue* queue_;
  std::uint32_t put_ = 0;
};

/// The other end: what is put into the queues first, first + step, ... is looked through until they are
/// closed. By one warp, its threads together. `limits` and `names` are those of the block's queries.
template <class S>
__device__ inline void look_through(KeptQueue<typename S::Value>* queues, int first, int step, int count,
                                    const typename S::Value* limits, const std::uint32_t* names,
                                    const Stage& stage, Appender& appender) {
  using Queue = KeptQueue<typename S::Value>;
  const auto lane = threadIdx.x % 32;
  static_assert(Queue::parts == 2);
  std::uint32_t parts = 0;  // of queue i, bits 2 i and 2 i + 1: how many so far
  unsigned open = 0;
  for (int i = first; i < count; i += step) open |= 1U << i;
  while (open != 0) {
    bool found = false;
#pragma unroll 1
    for (int i = first; i < count; i += step) {
      if ((open >> i & 1U) == 0) continue;
      Queue& queue = queues[i];
      const std::uint32_t so_far = parts >> (2 * i) & 3U;
      const std::uint32_t part = so_far % 2;
      const bool here = passed(shared_address(queue.full + part), so_far / 2);
      if (!__all_sync(0xffffffffU, here)) continue;
      found = true;
      parts = (parts & ~(3U << (2 * i))) | ((so_far + 1U) & 3U) << (2 * i);
      const std::uint32_t many = queue.count[part];
      if (many < Queue::part) open &= ~(1U << i);
      const bool mine = lane < many;
      const std::uint32_t at = part * Queue::part + lane;
      const std::uint32_t column = mine ? queue.columns[at] : 0;
      const std::uint32_t row = mine ? queue.rows[at] : 0;
      const auto least = mine ? queue.least[at] : typename S::Value{};
      unsigned hits = 0;
      if (mine) {
#pragma unroll
        for (int e = 0; e < Queue::each; ++e) {
          const bool hit = S::sum(queue.products[e][at], limits[column + e / 2 * 8 + e % 2]) >= least;
          hits |= hit ? 1U << e : 0U;
        }
      }
      const auto id = static_cast<std::uint32_t>(stage.row(row / code_tile_rows, row % code_tile_rows));
#pragma unroll 1
      while (__any_sync(0xffffffffU, hits != 0)) {
        const int e = hits != 0 ? __ffs(static_cast<int>(hits)) - 1 : 0;
        const std::int32_t score =
            hits != 0 ? S::order(S::sum(queue.products[e][at], S::opposite(least))) : S::no_score;
        appender.add(hits != 0, names[column + e / 2 * 8 + e % 2], make_candidate(score, id));
        hits &= hits - 1U;
      }
      arrive(shared_address(queue.empty + part));
    }
    if (!found) __nanosleep(500);
  }
}

#endif

}  // namespace kith::brute_force::cuda
