// How the kernels over codes hand on what they keep: a small buffer a warp in shared memory, emptied 32
// entries at a time, so that a warp waits for the atomics of 32 candidates at once and not for each.
#pragma once

#include <cstdint>

#include "brute_force/cuda/bound.cuh"
#include "brute_force/cuda/kernels.hpp"

namespace kith::brute_force::cuda {

struct WarpBuffer {
  static constexpr int capacity = 64;
  std::uint64_t entries[capacity];
  std::uint32_t queries[capacity];
};

/// A stage that keeps everything: a row has its place. A score below `least` is that of no row.
__device__ inline void keep_in_place(const Candidates& out, std::int64_t queries, const Stage& stage,
                                     std::int64_t q, std::int64_t position, int column, std::uint32_t row,
                                     std::int32_t score, std::int32_t least) {
  if (q >= queries) return;
  const std::int64_t place = position * code_tile_rows + column;
  if (place == 0) out.counts[q] = static_cast<std::uint32_t>(stage.count * code_tile_rows);
  out.entries[q * out.room + place] = score < least ? no_candidate : make_candidate(score, row);
}

/// Owned by one warp, whose threads call together; `filled` is the same in all of them. What was written last
/// gets its place when the next is written: nobody waits for the atomics.
class Appender {
 public:
  __device__ Appender(WarpBuffer* buffer, const Candidates& out) : buffer_(buffer), out_(out) {}

  /// Every thread may bring one candidate.
  __device__ void add(bool hit, std::int64_t query, std::uint64_t entry) {
    const unsigned hits = __ballot_sync(0xffffffffU, hit);
    if (hits == 0) return;
    const unsigned lane = threadIdx.x % 32;
    if (hit) {
      const int at = filled_ + __popc(hits & ((1U << lane) - 1U));
      buffer_->entries[at] = entry;
      buffer_->queries[at] = static_cast<std::uint32_t>(query);
    }
    filled_ += __popc(hits);
    if (filled_ >= 32) {
      __syncwarp();
      write(true);
      // What is beyond the first 32 moves to the front.
      const bool moves = static_cast<int>(lane) < filled_ - 32;
      const std::uint64_t kept = moves ? buffer_->entries[32 + lane] : 0;
      const std::uint32_t whose = moves ? buffer_->queries[32 + lane] : 0;
      __syncwarp();
      if (moves) {
        buffer_->entries[lane] = kept;
        buffer_->queries[lane] = whose;
      }
      filled_ -= 32;
    }
  }
  __device__ void flush() {
    __syncwarp();
    write(static_cast<int>(threadIdx.x % 32) < filled_);
    put_last();
    filled_ = 0;
  }

 private:
  __device__ void write(bool mine) {
    put_last();
    if (!mine) return;
    const unsigned lane = threadIdx.x % 32;
    query_ = buffer_->queries[lane];
    entry_ = buffer_->entries[lane];
    at_ = atomicAdd(out_.counts + query_, 1U);
  }
  __device__ void put_last() {
    if (at_ < out_.room) out_.entries[query_ * static_cast<std::int64_t>(out_.room) + at_] = entry_;
    at_ = none;
  }
  static constexpr std::uint32_t none = 0xffffffffU;  // no room is so large
  std::uint32_t at_ = none;
  std::uint32_t query_ = 0;
  std::uint64_t entry_ = 0;
  WarpBuffer* buffer_;
  const Candidates& out_;
  int filled_ = 0;
};

/// Calls take(i, found) with each bit i of a thread's words, the threads of a warp together: each brings the
/// first that it has left, wherever that is, and false, with any i, where it has none. Few have more than
/// one.
template <int words, class Take>
__device__ inline void take_found(unsigned (&found)[words], Take take) {
#pragma unroll 1
  while (true) {
    int word = words - 1;
    unsigned left = found[words - 1];
#pragma unroll
    for (int w = words - 2; w >= 0; --w) {
      if (found[w] == 0) continue;
      word = w;
      left = found[w];
    }
    if (!__any_sync(0xffffffffU, left != 0)) return;
    take(word * 32 + (left != 0 ? __ffs(static_cast<int>(left)) - 1 : 0), left != 0);
#pragma unroll
    for (int w = 0; w < words; ++w) {
      if (w == word) found[w] = left & (left - 1U);
    }
  }
}

}  // namespace kith::brute_force::cuda
