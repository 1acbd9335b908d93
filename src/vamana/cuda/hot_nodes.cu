// Which nodes of a graph in host memory are worth a copy in the device's: those that walks to rows of a
// sample came to most often.
#include <algorithm>

#include <cub/device/device_scan.cuh>

#include "cuda/runtime.hpp"
#include "vamana/cuda/hot_nodes.hpp"

namespace kith::vamana::cuda {
namespace {

constexpr int threads = 256;
constexpr unsigned whole_warp = 0xffffffffU;
constexpr unsigned most_counted = 1023;  // visits, above which it makes no difference
constexpr int tie_bits = 6;

// Nodes with more visits first; of as many, a share that does not depend on their order.
__device__ unsigned rank_of(unsigned visits, std::int64_t node) {
  const unsigned tie = (static_cast<unsigned>(node) * 0x9E3779B1U) >> (32 - tie_bits);
  return min(visits, most_counted) << tie_bits | tie;
}

__global__ void rank_kernel(const unsigned* visits, std::int64_t nodes, unsigned long long* counts) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < nodes) atomicAdd(counts + rank_of(visits[i], i), 1ULL);
}

// A warp a word of 32 nodes.
__global__ void mark_kernel(const unsigned* visits, std::int64_t nodes, unsigned least, uint2* words,
                            unsigned* sizes) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const bool hot = i < nodes && rank_of(visits[i], i) >= least;
  const unsigned mask = __ballot_sync(whole_warp, hot);
  if (threadIdx.x % 32 == 0 && i < nodes) {
    words[i / 32].x = mask;
    sizes[i / 32] = static_cast<unsigned>(__popc(mask));
  }
}

__global__ void number_kernel(const unsigned* before, std::int64_t count, uint2* words) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) words[i].y = before[i];
}

// A warp a node.
__global__ void gather_kernel(const std::uint32_t* edges, std::int64_t stride, std::int64_t nodes,
                              const uint2* words, std::uint32_t* to) {
  const std::int64_t node = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (node >= nodes) return;
  const std::int64_t place = hot_place(words, node);
  if (place < 0) return;
  for (std::int64_t i = threadIdx.x % 32; i < stride; i += 32)
    to[place * stride + i] = edges[node * stride + i];
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

}  // namespace

std::int64_t mark_hot(const unsigned* visits, std::int64_t nodes, std::int64_t most, uint2* words,
                      cudaStream_t stream) {
  const std::int64_t count = hot_words(nodes);
  constexpr std::int64_t ranks = std::int64_t{most_counted + 1} << tie_bits;
  const Buffer<unsigned long long> counts(ranks, stream);
  KITH_CUDA(cudaMemsetAsync(counts.data(), 0, counts.bytes(), stream));
  rank_kernel<<<blocks_for(nodes), threads, 0, stream>>>(visits, nodes, counts.data());
  check_launch("rank_kernel");
  std::vector<unsigned long long> held(ranks);
  KITH_CUDA(cudaMemcpyAsync(held.data(), counts.data(), counts.bytes(), cudaMemcpyDeviceToHost, stream));
  KITH_CUDA(cudaStreamSynchronize(stream));
  std::int64_t hot = 0;
  std::int64_t least = ranks;
  for (; least > 0; --least) {
    const auto more = static_cast<std::int64_t>(held[static_cast<std::size_t>(least) - 1]);
    if (hot + more > most) break;
    hot += more;
  }

  const Buffer<unsigned> sizes(2 * count, stream);
  unsigned* const before = sizes.data() + count;
  mark_kernel<<<blocks_for(nodes), threads, 0, stream>>>(visits, nodes, static_cast<unsigned>(least), words,
                                                         sizes.data());
  check_launch("mark_kernel");
  std::size_t bytes = 0;
  KITH_CUDA(cub::DeviceScan::ExclusiveSum(nullptr, bytes, sizes.data(), before, count, stream));
  const Buffer<unsigned char> temporary(static_cast<std::int64_t>(bytes), stream);
  KITH_CUDA(cub::DeviceScan::ExclusiveSum(temporary.data(), bytes, sizes.data(), before, count, stream));
  number_kernel<<<blocks_for(count), threads, 0, stream>>>(before, count, words);
  check_launch("number_kernel");
  return hot;
}

void gather_hot(const std::uint32_t* edges, std::int64_t nodes, std::int64_t stride, const uint2* words,
                std::uint32_t* to, cudaStream_t stream) {
  gather_kernel<<<blocks_for(nodes * 32), threads, 0, stream>>>(edges, stride, nodes, words, to);
  check_launch("gather_kernel");
}

}  // namespace kith::vamana::cuda
