// RaBitQ and PQ codes as a warp compares them with its query: in the place of WarpCodes.
#pragma once

#include <cstdint>

#include "codes/cuda/bit_planes.hpp"
#include "vamana/cuda/codes.cuh"

namespace kith::vamana::cuda {
namespace {

using codes::RabitqFactors;
using codes::RabitqQuery;

/// A query where a warp reads it: copied to shared memory, `bytes` of them, a multiple of 16, or left where
/// it is.
__device__ inline const unsigned char* placed(const unsigned char* query, int bytes, unsigned char* memory) {
  if (bytes == 0) return query;
  const auto* from = reinterpret_cast<const uint4*>(query);
  auto* to = reinterpret_cast<uint4*>(memory);
  for (int i = lane_of_warp(); i < bytes / 16; i += 32) to[i] = from[i];
  __syncwarp();
  return memory;
}

/// As many threads as divide a code's blocks among themselves read it together.
class WarpRabitq : public Offers {
 public:
  /// @param memory takes query_bytes and Offers::bytes, aligned to 16, and is moved on
  __device__ WarpRabitq(const unsigned char* codes, int code_bytes, const codes::cuda::RabitqShape& shape,
                        const unsigned char* query, const RabitqQuery& scalars, int query_bytes,
                        unsigned char*& memory)
      : Offers(memory + query_bytes),
        codes_(codes),
        code_bytes_(code_bytes),
        shape_(shape),
        query_(placed(query, query_bytes, memory)),
        scalars_(scalars) {
    memory += query_bytes + Offers::bytes;
    // The most whose last round leaves no more than a fifth of them idle.
    for (team_ = 8; team_ > 1; team_ /= 2) {
      const int rounded = (shape.blocks + team_ - 1) / team_ * team_;
      if (4 * rounded <= 5 * shape.blocks) break;
    }
  }

  /// The keys of the first `count` of `found`, to `offered`.
  __device__ void estimate(int count) {
    dots(count, [&](int i, const RabitqFactors& code, std::int32_t dot) {
      offered[i] = make_key(ordered(codes::rabitq_distance(code, scalars_, dot)), found[i]);
    });
  }
  /// How near the first `count` of `found` may be.
  __device__ void bound(int count, double* nearest) {
    const std::int64_t dim = std::int64_t{shape_.blocks} * codes::cuda::block_values;
    dots(count, [&](int i, const RabitqFactors& code, std::int32_t dot) {
      const float distance = codes::rabitq_distance(code, scalars_, dot);
      const float error = codes::rabitq_bound(code, scalars_, shape_.deviations, dim);
      nearest[i] = static_cast<double>(distance) - static_cast<double>(error);
    });
  }

 private:
  // Calls take(i, factors, product) by one thread for each.
  template <class Take>
  __device__ void dots(int count, const Take& take) {
    const int rows = 32 / team_;
    const int mine = lane_of_warp() / team_;
    const int part = lane_of_warp() % team_;
    for (int base = 0; base < count; base += rows) {
      const int i = base + mine;
      const std::uint32_t node = found[i < count ? i : count - 1];
      const auto* words = reinterpret_cast<const unsigned*>(codes_ + std::int64_t{node} * code_bytes_);
      const RabitqFactors factors{__uint_as_float(__ldg(words)), __uint_as_float(__ldg(words + 1)),
                                  __uint_as_float(__ldg(words + 2))};
      std::int32_t sum = 0;
      for (int b = part; b < shape_.blocks; b += team_) sum = add_block(words + 3 + b * shape_.bits, b, sum);
      for (int apart = team_ / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(whole_warp, sum, apart);
      if (part == 0 && i < count) take(i, factors, sum);
    }
    __syncwarp();
  }

  __device__ std::int32_t add_block(const unsigned* words, int b, std::int32_t sum) const {
    unsigned planes[codes::cuda::most_planes];
#pragma unroll
    for (int j = 0; j < codes::cuda::most_planes; ++j) planes[j] = j < shape_.bits ? __ldg(words + j) : 0;
    codes::cuda::Block block;
#pragma unroll
    for (int j = 0; j < codes::cuda::most_planes; ++j) {
      if (j < shape_.bits) block.add_plane(planes[j], j);
    }
    const auto* values = reinterpret_cast<const uint4*>(query_ + b * codes::cuda::block_bytes);
    const uint4 parts[] = {values[0], values[1], values[2], values[3]};
    return block.dot(
        [&](int i) {
          const uint4& four = parts[i / 4];
          return i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w;
        },
        sum);
  }

  const unsigned char* codes_;
  int code_bytes_;
  const codes::cuda::RabitqShape& shape_;
  const unsigned char* query_;
  RabitqQuery scalars_;
  int team_ = 1;
};

/// A thread sums the entries of a code, in the order of its parts.
class WarpPq : public Offers {
 public:
  /// @param memory takes query_bytes and Offers::bytes, aligned to 16, and is moved on
  __device__ WarpPq(const unsigned char* codes, int code_bytes, const unsigned char* query, int query_bytes,
                    unsigned char*& memory)
      : Offers(memory + query_bytes),
        codes_(codes),
        code_bytes_(code_bytes),
        table_(reinterpret_cast<const float*>(placed(query, query_bytes, memory))) {
    memory += query_bytes + Offers::bytes;
  }

  /// The keys of the first `count` of `found`, to `offered`.
  __device__ void estimate(int count) {
    for (int base = 0; base < count; base += 32) {
      const int i = base + lane_of_warp();
      const std::uint32_t node = found[i < count ? i : count - 1];
      const float distance = sum_of(codes_ + std::int64_t{node} * code_bytes_);
      if (i < count) offered[i] = make_key(ordered(distance), node);
    }
    __syncwarp();
  }

 private:
  static constexpr int width = codes::cuda::table_entries;

  __device__ float sum_of(const unsigned char* code) const {
    float sum = 0;
    const float* entries = table_;
    const auto add_four = [&](unsigned word) {
#pragma unroll
      for (int j = 0; j < 4; ++j) sum += entries[j * width + (word >> (8 * j) & 255U)];
      entries += 4 * width;
    };
    if (code_bytes_ % 16 == 0) {
      for (int j = 0; j < code_bytes_; j += 16) {
        const uint4 piece = __ldg(reinterpret_cast<const uint4*>(code + j));
        add_four(piece.x);
        add_four(piece.y);
        add_four(piece.z);
        add_four(piece.w);
      }
    } else if (code_bytes_ % 4 == 0) {
      for (int j = 0; j < code_bytes_; j += 4) add_four(__ldg(reinterpret_cast<const unsigned*>(code + j)));
    } else {
      for (int j = 0; j < code_bytes_; ++j) sum += entries[j * width + __ldg(code + j)];
    }
    return sum;
  }

  const unsigned char* codes_;
  int code_bytes_;
  const float* table_;
};

}  // namespace
}  // namespace kith::vamana::cuda
