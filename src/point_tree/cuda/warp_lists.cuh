// What a warp keeps of the points that one query meets. A short list lies across the lanes, sorted; a long
// one in memory, where candidates are appended and now and then cut to the k smallest. All lanes call
// together.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "point_tree/cuda/search_kernels.hpp"

namespace kith::point_tree::cuda {
namespace {

constexpr unsigned everyone = 0xffffffffU;
constexpr std::int64_t most = INT64_MAX;

template <class T>
__device__ T infinite() {
  return static_cast<T>(INFINITY);
}

template <class T>
__device__ bool before(T a, std::int64_t a_row, T b, std::int64_t b_row) {
  return a < b || (a == b && a_row < b_row);
}

// Sorts entries by (distance, row), `lane` of `lanes` threads at work, between whose steps `meet` is called.
// All comparisons point upwards (Batcher's bitonic sort with its first step mirrored), so any count will do:
// what would lie behind the last entry is greater than all.
template <class T, class Meet>
__device__ void sort_entries(T* distances, std::int64_t* rows, std::int64_t count, int lane, int lanes,
                             const Meet& meet) {
  const auto order = [&](std::int64_t low, std::int64_t high) {
    if (high >= count) return;
    const T a = distances[low];
    const T b = distances[high];
    const std::int64_t a_row = rows[low];
    const std::int64_t b_row = rows[high];
    if (!before(b, b_row, a, a_row)) return;
    distances[low] = b;
    distances[high] = a;
    rows[low] = b_row;
    rows[high] = a_row;
  };
  for (std::int64_t size = 2; size / 2 < count; size *= 2) {
    const std::int64_t half = size / 2;
    // Pairs whose lower one is at or behind the count do nothing.
    const std::int64_t pairs = (count + size - 1) / size * half;
    meet();
    for (std::int64_t i = lane; i < pairs; i += lanes) {
      const std::int64_t start = i / half * size;
      order(start + i % half, start + size - 1 - i % half);
    }
    for (std::int64_t stride = half / 2; stride > 0; stride /= 2) {
      meet();
      for (std::int64_t i = lane; i < pairs; i += lanes) {
        const std::int64_t low = i / stride * 2 * stride + i % stride;
        order(low, low + stride);
      }
    }
  }
  meet();
}

// The k smallest, sorted, entry i in lane i.
template <class T>
class LaneList {
 public:
  using Place = std::int64_t;
  __device__ LaneList(const WarpSearch<T>& search, std::int64_t /*warp*/, int lane)
      : k_(static_cast<int>(search.answer.k)), lane_(lane) {}
  __device__ void start(T radius) {
    distance_ = radius;
    row_ = most;
    bound_ = radius;
    worst_ = most;
  }
  __device__ T bound() const { return bound_; }
  /// All lanes together; true if the bound may have changed.
  __device__ bool offer(bool has, T distance, std::int64_t row) {
    bool changed = false;
    unsigned mask = __ballot_sync(everyone, has && before(distance, row, bound_, worst_));
    for (; mask != 0; mask &= mask - 1) {
      const int from = __ffs(static_cast<int>(mask)) - 1;
      const T d = __shfl_sync(everyone, distance, from);
      const std::int64_t r = __shfl_sync(everyone, row, from);
      if (!before(d, r, bound_, worst_)) continue;
      const int place = __popc(__ballot_sync(everyone, before(distance_, row_, d, r)));
      const T d_below = __shfl_up_sync(everyone, distance_, 1);
      const std::int64_t r_below = __shfl_up_sync(everyone, row_, 1);
      if (lane_ > place) {
        distance_ = d_below;
        row_ = r_below;
      } else if (lane_ == place) {
        distance_ = d;
        row_ = r;
      }
      bound_ = __shfl_sync(everyone, distance_, k_ - 1);
      worst_ = __shfl_sync(everyone, row_, k_ - 1);
      changed = true;
    }
    return changed;
  }
  __device__ void finish(const WarpSearch<T>& search, std::int64_t number, std::int64_t answer) {
    if (lane_ < k_) {
      const std::int64_t cell = answer * k_ + lane_;
      search.answer.indices[cell] = row_ == most ? -1 : row_;
      search.answer.distances[cell] = row_ == most ? infinite<T>() : distance_;
    }
    const T last = worst_ == most ? infinite<T>() : bound_;
    if (search.answer.unfilled.count != nullptr && lane_ == 0 && !(last < infinite<T>())) {
      search.answer.unfilled.queries[atomicAdd(search.answer.unfilled.count, 1ULL)] = number;
    }
  }

 private:
  const int k_;
  const int lane_;
  T distance_ = 0;
  std::int64_t row_ = most;
  T bound_ = 0;  // of lane k - 1
  std::int64_t worst_ = most;
};

// The 32 M smallest, sorted, as integers: distance bits above the row. Entry i is register i / 32 of lane i
// % 32.
template <int M>
class PackedList {
  using Key = unsigned long long;

 public:
  using Place = int;  // of a tree that packs
  __device__ PackedList(const WarpSearch<float>& search, std::int64_t /*warp*/, int lane)
      : k_(static_cast<int>(search.answer.k)), lane_(lane) {}
  __device__ void start(float radius) {
    worst_ = pack(radius, no_row);
#pragma unroll
    for (int r = 0; r < M; ++r) keys_[r] = worst_;
  }
  __device__ float bound() const {
    return __uint_as_float(static_cast<unsigned>(worst_ >> 32U));
  }
  /// All lanes together; true if the bound may have changed.
  __device__ bool offer(bool has, float distance, std::int64_t row) {
    Key key = has ? pack(distance, static_cast<std::uint32_t>(row)) : ~Key{0};
    unsigned mask = __ballot_sync(everyone, key < worst_);
    if (mask == 0) return false;
    if (M == 1 && k_ == 1) {
      // The least distance, and of those the least row.
      const bool in = mask >> lane_ & 1U;
      const unsigned least = __reduce_min_sync(everyone, in ? static_cast<unsigned>(key >> 32U) : ~0U);
      const bool best = in && static_cast<unsigned>(key >> 32U) == least;
      const unsigned its = __reduce_min_sync(everyone, best ? static_cast<unsigned>(key) : ~0U);
      keys_[0] = worst_ = static_cast<Key>(least) << 32U | its;
      return true;
    }
    if (__popc(mask) <= 3) {
      for (; mask != 0; mask &= mask - 1)
        insert(__shfl_sync(everyone, key, __ffs(static_cast<int>(mask)) - 1));
    } else {
      merge(key);
    }
#pragma unroll
    for (int r = 0; r < M; ++r) {
      const Key its = __shfl_sync(everyone, keys_[r], (k_ - 1) % 32);
      if (r == (k_ - 1) / 32) worst_ = its;
    }
    return true;
  }
  __device__ void finish(const WarpSearch<float>& search, std::int64_t number, std::int64_t answer) {
#pragma unroll
    for (int r = 0; r < M; ++r) {
      const int rank = r * 32 + lane_;
      if (rank >= k_) continue;
      const bool none = static_cast<std::uint32_t>(keys_[r]) == no_row;
      search.answer.indices[answer * k_ + rank] = none ? -1 : static_cast<std::int64_t>(keys_[r] & no_row);
      search.answer.distances[answer * k_ + rank] =
          none ? INFINITY : __uint_as_float(static_cast<unsigned>(keys_[r] >> 32U));
    }
    const bool filled = static_cast<std::uint32_t>(worst_) != no_row && bound() < INFINITY;
    if (search.answer.unfilled.count != nullptr && lane_ == 0 && !filled) {
      search.answer.unfilled.queries[atomicAdd(search.answer.unfilled.count, 1ULL)] = number;
    }
  }

 private:
  static constexpr std::uint32_t no_row = 0xffffffffU;
  __device__ static Key pack(float distance, std::uint32_t row) {
    return static_cast<Key>(__float_as_uint(distance)) << 32U | row;
  }
  __device__ static Key ordered(Key a, Key b, bool low) {
    return (a < b) == low ? a : b;
  }

  __device__ void insert(Key key) {
#pragma unroll
    for (int r = M - 1; r >= 0; --r) {
      Key below = __shfl_up_sync(everyone, keys_[r], 1);
      const Key before = r > 0 ? __shfl_sync(everyone, keys_[r > 0 ? r - 1 : 0], 31) : 0;
      if (lane_ == 0) below = before;
      keys_[r] = keys_[r] < key ? keys_[r] : (below < key ? key : below);
    }
  }

  template <int stride>
  __device__ void order_registers() {
#pragma unroll
    for (int i = 0; i < M / 2; ++i) {
      const int r = i / stride * 2 * stride + i % stride;
      const Key a = keys_[r];
      const Key b = keys_[r + stride];
      keys_[r] = a < b ? a : b;
      keys_[r + stride] = a < b ? b : a;
    }
  }

  // Of 32 keys, one a lane: sorted among themselves, then merged (Batcher's bitonic networks).
  __device__ void merge(Key key) {
#pragma unroll
    for (int size = 2; size <= 32; size *= 2) {
#pragma unroll
      for (int stride = size / 2; stride > 0; stride /= 2) {
        const Key other = __shfl_xor_sync(everyone, key, stride);
        key = ordered(key, other, ((lane_ & stride) == 0) == ((lane_ & size) == 0 || size == 32));
      }
    }
    const Key reversed = __shfl_sync(everyone, key, 31 - lane_);
    keys_[M - 1] = reversed < keys_[M - 1] ? reversed : keys_[M - 1];
    if constexpr (M >= 8) order_registers<4>();
    if constexpr (M >= 4) order_registers<2>();
    if constexpr (M >= 2) order_registers<1>();
#pragma unroll
    for (int stride = 16; stride > 0; stride /= 2) {
#pragma unroll
      for (int r = 0; r < M; ++r) {
        const Key other = __shfl_xor_sync(everyone, keys_[r], stride);
        keys_[r] = ordered(keys_[r], other, (lane_ & stride) == 0);
      }
    }
  }

  const int k_;
  const int lane_;
  Key keys_[M];
  Key worst_ = 0;  // the k-th
};

// Any k: entries are appended, and cut to the k smallest when there are enough of them.
template <class T>
class LongList {
 public:
  using Place = std::int64_t;
  __device__ LongList(const WarpSearch<T>& search, std::int64_t warp, int lane)
      : k_(search.answer.k), longest_(search.longest), lane_(lane) {
    unsigned char* memory = search.lists + warp * search.list_room * static_cast<std::int64_t>(8 + sizeof(T));
    rows_ = reinterpret_cast<std::int64_t*>(memory);
    distances_ = reinterpret_cast<T*>(rows_ + search.list_room);
  }
  __device__ void start(T radius) {
    bound_ = radius;
    worst_ = most;
    count_ = 0;
    full_ = false;
  }
  __device__ T bound() const { return bound_; }
  __device__ bool offer(bool has, T distance, std::int64_t row) {
    const bool keep = has && before(distance, row, bound_, worst_);
    const unsigned mask = __ballot_sync(everyone, keep);
    if (mask == 0) return false;
    if (keep) {
      const std::int64_t to = count_ + __popc(mask & ((1U << lane_) - 1U));
      distances_[to] = distance;
      rows_[to] = row;
    }
    count_ += __popc(mask);
    if (count_ < (full_ ? longest_ : k_)) return false;
    cut();
    return true;
  }
  __device__ void finish(const WarpSearch<T>& search, std::int64_t number, std::int64_t answer) {
    sort_entries(distances_, rows_, count_, lane_, 32, [] { __syncwarp(); });
    for (std::int64_t i = lane_; i < k_; i += 32) {
      search.answer.indices[answer * k_ + i] = i < count_ ? rows_[i] : -1;
      search.answer.distances[answer * k_ + i] = i < count_ ? distances_[i] : infinite<T>();
    }
    if (search.answer.unfilled.count != nullptr && lane_ == 0 &&
        !(count_ >= k_ && distances_[k_ - 1] < infinite<T>())) {
      search.answer.unfilled.queries[atomicAdd(search.answer.unfilled.count, 1ULL)] = number;
    }
    __syncwarp();
  }

 private:
  __device__ void cut() {
    sort_entries(distances_, rows_, count_, lane_, 32, [] { __syncwarp(); });
    count_ = k_;
    full_ = true;
    bound_ = distances_[k_ - 1];
    worst_ = rows_[k_ - 1];
    __syncwarp();
  }
  const std::int64_t k_, longest_;
  const int lane_;
  T* distances_;
  std::int64_t* rows_;
  std::int64_t count_ = 0;
  T bound_ = 0;
  std::int64_t worst_ = most;
  bool full_ = false;
};

// All within the radius: counted, or written where earlier counting says.
template <class T>
class Collector {
 public:
  using Place = std::int64_t;
  __device__ Collector(const WarpSearch<T>& search, std::int64_t /*warp*/, int lane)
      : s_(search), lane_(lane) {}
  __device__ void start(T radius) {
    radius_ = radius;
    count_ = 0;
  }
  __device__ void start_writing(std::int64_t number) { to_ = s_.offsets != nullptr ? s_.offsets[number] : 0; }
  __device__ T bound() const { return radius_; }
  __device__ bool offer(bool has, T distance, std::int64_t row) {
    const bool keep = has && distance <= radius_;
    const unsigned mask = __ballot_sync(everyone, keep);
    if (keep && s_.offsets != nullptr) {
      const std::int64_t to = to_ + count_ + __popc(mask & ((1U << lane_) - 1U));
      s_.rows[to] = row;
      s_.distances[to] = distance;
    }
    count_ += __popc(mask);
    return false;
  }
  __device__ void finish(const WarpSearch<T>& search, std::int64_t number, std::int64_t /*answer*/) {
    if (search.found != nullptr && lane_ == 0) search.found[number] = count_;
  }

 private:
  const WarpSearch<T>& s_;
  const int lane_;
  T radius_ = 0;
  std::int64_t count_ = 0;
  std::int64_t to_ = 0;
};

}  // namespace
}  // namespace kith::point_tree::cuda
