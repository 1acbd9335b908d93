// Robust prune (Subramanya et al. 2019; Pruner of cpu/prune.hpp) by a warp and its tensor cores.
//
// Whether a candidate is chosen depends on those before it, but the products that decide it do not: they are
// made for 16 candidates at a time, with all nodes chosen so far and with each other, as integers and
// therefore without rounding; then the 16 are judged in their order by masks of bits. A thread of four reads
// 16 bytes of a code, and takes them for whichever values the tensor cores ask of it: sums of products do
// not mind their order, as long as both sides have the same.
#pragma once

#include <cstdint>

#include "vamana/cuda/build_kernels.hpp"
#include "vamana/cuda/codes.cuh"

namespace kith::vamana::cuda {
namespace {

/// Four sums of products of 8-bit values more: a tile of 16 x 8, 32 values deep. a: rows g and g + 8 of the
/// left side, two parts each; b: row g of the right one, for thread 4 g + t.
__device__ inline void multiply_tile(int (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <bool halves>
class WarpPruner {
 public:
  /// @param memory bytes() of shared memory, aligned to 8
  __device__ WarpPruner(const BuildView& graph, unsigned char* memory)
      : graph_(graph),
        chosen_(reinterpret_cast<std::uint32_t*>(memory)),
        squares_(chosen_ + padded(graph.max_degree)) {}
  __host__ __device__ static std::size_t bytes(int max_degree) {
    return 2 * static_cast<std::size_t>(padded(max_degree)) * sizeof(std::uint32_t);
  }

  /// Chooses among ascending keys, some of them given more than once; how many of chosen() there are.
  __device__ int prune(const Key* candidates, int count) {
    int size = 0;
    for (int first = 0; first < count && size < graph_.max_degree; first += tile) {
      size = judge(candidates + first, min(tile, count - first), size);
    }
    return size;
  }
  __device__ const std::uint32_t* chosen() const { return chosen_; }

 private:
  static constexpr int tile = 16;
  static constexpr int groups = 8;  // of 8 chosen nodes whose products are made together

  __host__ __device__ static constexpr int padded(int max_degree) { return (max_degree + 7) / 8 * 8; }

  // A thread's 16 bytes of 64 of a code.
  __device__ uint4 piece(std::uint32_t node, int at) const {
    const auto* code = graph_.codes + std::int64_t{node} * graph_.code_bytes + at;
    const int part = lane_of_warp() % 4;
    if (at + 64 <= graph_.code_bytes) return __ldg(reinterpret_cast<const uint4*>(code) + part);
    const uint2 two = __ldg(reinterpret_cast<const uint2*>(code) + part);  // 32 are left
    return {two.x, two.y, 0, 0};
  }

  // Products of 64 bytes of codes.
  __device__ static void multiply(int (&sums)[4], const uint4& low, const uint4& high, const uint4& right) {
    const auto both = [&](const auto& of) {
      multiply_tile(sums, {of(low.x), of(high.x), of(low.y), of(high.y)}, of(right.x), of(right.y));
      multiply_tile(sums, {of(low.z), of(high.z), of(low.w), of(high.w)}, of(right.z), of(right.w));
    };
    if constexpr (halves) {
      both([](unsigned four) { return four & 0x0f0f0f0fU; });
      both([](unsigned four) { return four >> 4U & 0x0f0f0f0fU; });
    } else {
      both([](unsigned four) { return four; });
    }
  }
  __device__ static unsigned add_squares(const uint4& values, unsigned sum) {
    unsigned unused = 0;
    add_products<halves>(values, values, unused, sum);
    return sum;
  }

  __device__ bool covers(unsigned squares, unsigned its_squares, int product, std::int64_t distance) const {
    const auto estimate =
        static_cast<std::int32_t>(squares + its_squares - 2 * static_cast<unsigned>(product));
    return graph_.alpha * estimate <= distance;
  }

  // Candidates [0, some) of a tile, after `size` nodes were chosen; how many there are then.
  __device__ int judge(const Key* candidates, int some, int size) {
    const int lane = lane_of_warp();
    const int row = lane / 4;     // of a tile: candidates `row` and `row` + 8
    const int column = lane % 4;  // nodes 2 `column` and the next
    const Key mine = candidates[min(lane % tile, some - 1)];
    const std::uint32_t node = node_of(mine);
    const std::uint32_t low = __shfl_sync(whole_warp, node, row);
    const std::uint32_t high = __shfl_sync(whole_warp, node, row + 8);
    const std::int64_t distance = std::int64_t{estimate_of(mine)} << 16U;
    const std::int64_t low_distance = __shfl_sync(whole_warp, distance, row);
    const std::int64_t high_distance = __shfl_sync(whole_warp, distance, row + 8);
    const int bytes = graph_.code_bytes;

    // With each other, and their squares.
    int own[2][4] = {};
    unsigned low_squares = 0;
    unsigned high_squares = 0;
    for (int at = 0; at < bytes; at += 64) {
      const uint4 a = piece(low, at);
      const uint4 b = piece(high, at);
      low_squares = add_squares(a, low_squares);
      high_squares = add_squares(b, high_squares);
      multiply(own[0], a, b, a);
      multiply(own[1], a, b, b);
    }
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) {
      low_squares += __shfl_xor_sync(whole_warp, low_squares, apart);
      high_squares += __shfl_xor_sync(whole_warp, high_squares, apart);
    }
    unsigned low_by = 0;  // a bit for each of the 16 that covers it
    unsigned high_by = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int other = 2 * column + j % 2 + 8 * (j / 2);
      const unsigned its_squares =
          __shfl_sync(whole_warp, j < 2 ? low_squares : high_squares, 4 * (other % 8));
      if (covers(low_squares, its_squares, own[j / 2][j % 2], low_distance)) low_by |= 1U << other;
      if (covers(high_squares, its_squares, own[j / 2][2 + j % 2], high_distance)) high_by |= 1U << other;
    }

    // With those chosen before.
    bool low_covered = false;
    bool high_covered = false;
    for (int first = 0; first < size; first += 8 * groups) {
      __syncwarp();
      int sums[groups][4] = {};
      for (int at = 0; at < bytes; at += 64) {
        const uint4 a = piece(low, at);
        const uint4 b = piece(high, at);
#pragma unroll
        for (int g = 0; g < groups; ++g) {
          if (first + 8 * g >= size) break;
          const uint4 right = piece(chosen_[min(first + 8 * g + row, size - 1)], at);
          multiply(sums[g], a, b, right);
        }
      }
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        if (first + 8 * g >= size) break;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int other = first + 8 * g + 2 * column + j;
          if (other >= size) continue;
          const unsigned its_squares = squares_[other];
          low_covered = low_covered || covers(low_squares, its_squares, sums[g][j], low_distance);
          high_covered = high_covered || covers(high_squares, its_squares, sums[g][2 + j], high_distance);
        }
      }
    }
    const unsigned low_mask = __ballot_sync(whole_warp, low_covered);
    const unsigned high_mask = __ballot_sync(whole_warp, high_covered);
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) {
      low_by |= __shfl_xor_sync(whole_warp, low_by, apart);
      high_by |= __shfl_xor_sync(whole_warp, high_by, apart);
    }

    // In their order.
    unsigned takes = 0;
    int there = size;
    for (int i = 0; i < some && there < graph_.max_degree; ++i) {
      const unsigned by = __shfl_sync(whole_warp, i < 8 ? low_by : high_by, 4 * (i % 8));
      const bool before = ((i < 8 ? low_mask : high_mask) >> (4 * (i % 8)) & 15U) != 0;
      if (before || (by & takes) != 0) continue;
      takes |= 1U << i;
      ++there;
    }
    const unsigned from_low = __shfl_sync(whole_warp, low_squares, 4 * (lane % 8));
    const unsigned from_high = __shfl_sync(whole_warp, high_squares, 4 * (lane % 8));
    if (lane < tile && (takes >> lane & 1U) != 0) {
      const int to = size + __popc(takes & lanes_below());
      chosen_[to] = node;
      squares_[to] = lane < 8 ? from_low : from_high;
    }
    __syncwarp();
    return there;
  }

  const BuildView& graph_;
  std::uint32_t* chosen_;   // [max_degree]
  std::uint32_t* squares_;  // of their codes
};

}  // namespace
}  // namespace kith::vamana::cuda
