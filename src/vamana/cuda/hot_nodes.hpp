// Nodes of a graph in host memory whose edges the device has a copy of.
#pragma once

#include <cstdint>
#include <vector>

#include <cuda_runtime_api.h>

#include "cuda/host_device.hpp"
#include "vamana/graph.hpp"

namespace kith::vamana::cuda {

using namespace kith::cuda;

/// Words of 32 nodes each: a bit for each that is hot, and how many are in the words before.
constexpr std::int64_t hot_words(std::int64_t nodes) {
  return (nodes + 31) / 32;
}
/// Bytes that a choice takes beside the words, while it goes on.
constexpr std::uint64_t hot_scratch(std::int64_t nodes) {
  return static_cast<std::uint64_t>(nodes) * sizeof(unsigned) +
         static_cast<std::uint64_t>(hot_words(nodes)) * 2 * sizeof(unsigned) + (std::uint64_t{3} << 20U);
}

/// Chooses at most `most` nodes, those with the most visits; returns how many.
/// @param visits [nodes], of the device
/// @param words [hot_words(nodes)]
std::int64_t mark_hot(const unsigned* visits, std::int64_t nodes, std::int64_t most, uint2* words,
                      cudaStream_t stream);
/// Their edges, in their order.
/// @param edges [nodes, stride], of host memory that the device reads
void gather_hot(const std::uint32_t* edges, std::int64_t nodes, std::int64_t stride, const uint2* words,
                std::uint32_t* to, cudaStream_t stream);

#ifdef __CUDACC__
/// Where the edges of a node are in the copy; -1: they are not.
__device__ inline std::int64_t hot_place(const uint2* words, std::int64_t node) {
  const uint2 word = __ldg(words + node / 32);
  const unsigned bit = 1U << (node % 32);
  if ((word.x & bit) == 0) return -1;
  return static_cast<std::int64_t>(word.y) + __popc(word.x & (bit - 1));
}
#endif

}  // namespace kith::vamana::cuda
