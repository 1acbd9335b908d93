// The steps of a build: a warp walks and prunes for a node, or prunes the edges of one.
#include <thrust/iterator/counting_iterator.h>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "cuda/launch.hpp"
#include "vamana/cuda/build_kernels.hpp"
#include "vamana/cuda/tuning.hpp"
#include "vamana/cuda/walk.cuh"

namespace kith::vamana::cuda {
namespace {

// Robust prune (Pruner of cpu/prune.hpp) by a warp.
template <int T, int P, bool halves>
class WarpPruner {
 public:
  using Codes = WarpCodes<T, P, halves>;
  /// @param memory bytes() of shared memory, aligned to 4
  __device__ WarpPruner(const BuildView& graph, Codes& codes, unsigned char* memory)
      : graph_(graph), codes_(codes), chosen_(reinterpret_cast<std::uint32_t*>(memory)) {}
  __host__ __device__ static std::size_t bytes(int max_degree) {
    return (static_cast<std::size_t>(max_degree) * sizeof(std::uint32_t) + 7) / 8 * 8;
  }

  /// Chooses among ascending keys, some of them given more than once; how many of chosen() there are.
  __device__ int prune(const Key* candidates, int count) {
    int size = 0;
    Key before = no_key;
    for (int i = 0; i < count && size < graph_.max_degree; ++i) {
      const Key candidate = candidates[i];
      if (candidate == before) continue;
      before = candidate;
      if (covered(candidate, size)) continue;
      __syncwarp();
      if (lane_of_warp() == 0) chosen_[size] = node_of(candidate);
      ++size;
      __syncwarp();
    }
    return size;
  }
  __device__ const std::uint32_t* chosen() const { return chosen_; }

 private:
  // Whether one of the nodes chosen so far is nearer to a candidate, by the factor alpha.
  __device__ bool covered(Key candidate, int size) {
    constexpr int at_once = 16;
    if (size == 0) return false;
    codes_.set_query(node_of(candidate));
    const std::int64_t distance = std::int64_t{estimate_of(candidate)} << 16U;
    for (int from = 0; from < size; from += at_once) {
      const int some = min(at_once, size - from);
      if (lane_of_warp() < some) codes_.found[lane_of_warp()] = chosen_[from + lane_of_warp()];
      __syncwarp();
      codes_.estimate(some);
      const bool covers =
          lane_of_warp() < some && graph_.alpha * estimate_of(codes_.offered[lane_of_warp()]) <= distance;
      if (__any_sync(whole_warp, covers)) return true;
    }
    return false;
  }

  const BuildView& graph_;
  Codes& codes_;
  std::uint32_t* chosen_;
};

// Edges that a node has; the same in all threads.
__device__ int degree_of_warp(const std::uint32_t* edges, int stride) {
  for (int base = 0; base < stride; base += 32) {
    const int at = base + lane_of_warp();
    const unsigned mask = __ballot_sync(whole_warp, at >= stride || edges[at] == no_node);
    if (mask != 0) return base + __ffs(static_cast<int>(mask)) - 1;
  }
  return stride;
}

template <int T, int P, bool halves>
__global__ void __launch_bounds__(32) insert_kernel(const __grid_constant__ InsertJob job) {
  extern __shared__ __align__(16) unsigned char memory[];
  const std::int64_t i = blockIdx.x;
  const std::uint32_t node = job.nodes[i];
  unsigned char* room = memory;
  WarpCodes<T, P, halves> codes(job.graph.codes, job.graph.code_bytes, room);
  const GraphView graph{job.graph.edges, job.graph.stride,     job.graph.codes,
                        job.entries,     job.graph.code_bytes, job.entry_count};
  using Walk = WarpWalk<T, P, halves, false>;
  Walk walk(graph, job.shape, codes, room);
  WarpPruner<T, P, halves> pruner(job.graph, codes, room + Walk::bytes(job.shape));
  if (!job.shape.list_in_shared) walk.place_list(job.lists + i * job.shape.capacity, nullptr);
  Seen seen{job.seen + i * seen_room, seen_room, static_cast<int>(tuning::most_candidates)};
  codes.set_query(node);
  walk.run(no_node, {}, &seen);
  seen.sort();
  const int size = pruner.prune(seen.keys, min(seen.count, static_cast<int>(tuning::most_candidates)));
  // No walk of this batch can come here: nothing leads to the node yet.
  std::uint32_t* edges = job.graph.edges + std::int64_t{node} * job.graph.stride;
  for (int j = lane_of_warp(); j < size; j += 32) edges[j] = pruner.chosen()[j];
}

__global__ void list_back_edges_kernel(BuildView graph, const std::uint32_t* nodes, std::int64_t count,
                                       std::uint64_t* back, unsigned long long* valid) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  bool there = false;
  if (i < count * graph.max_degree) {
    const std::uint32_t source = nodes[i / graph.max_degree];
    const std::uint32_t target = graph.edges[source * graph.stride + i % graph.max_degree];
    there = target != no_node;
    back[i] = there ? static_cast<std::uint64_t>(target) << 32U | source : ~std::uint64_t{0};
  }
  const int more = __syncthreads_count(there ? 1 : 0);
  if (threadIdx.x == 0 && more > 0) atomicAdd(valid, static_cast<unsigned long long>(more));
}

struct BeginsGroup {
  const std::uint64_t* back;
  __device__ bool operator()(std::uint32_t i) const {
    const std::uint64_t target = back[i] >> 32U;
    return target != no_node && (i == 0 || back[i - 1] >> 32U != target);
  }
};

// A node's edges and some more nodes, in any order and perhaps more than once, pruned to max_degree.
template <int T, int P, bool halves>
__device__ int prune_edges(const BuildView& graph, std::uint32_t node, const std::uint32_t* edges, int degree,
                           const std::uint64_t* more, std::int64_t count, Key* keys,
                           WarpCodes<T, P, halves>& codes, WarpPruner<T, P, halves>& pruner) {
  codes.set_query(node);
  const std::int64_t all = degree + count;
  int filled = 0;
  for (std::int64_t base = 0; base < all; base += most_offered) {
    const int some = static_cast<int>(min(all - base, static_cast<std::int64_t>(most_offered)));
    for (int i = lane_of_warp(); i < some; i += 32) {
      const std::int64_t at = base + i;
      codes.found[i] = at < degree ? edges[at] : static_cast<std::uint32_t>(more[at - degree]);
    }
    __syncwarp();
    codes.estimate(some);
    for (int i = lane_of_warp(); i < (some + 31) / 32 * 32; i += 32) {
      const bool takes = i < some && codes.found[i] != node;
      const unsigned mask = __ballot_sync(whole_warp, takes);
      if (takes) keys[filled + __popc(mask & lanes_below())] = codes.offered[i];
      filled += __popc(mask);
    }
    __syncwarp();
  }
  sort_in_memory(keys, filled);
  return pruner.prune(keys, filled);
}

template <int T, int P, bool halves>
__global__ void __launch_bounds__(32) back_edges_kernel(const __grid_constant__ BackEdgeJob job) {
  extern __shared__ __align__(16) unsigned char memory[];
  const std::uint32_t g = job.first + blockIdx.x;
  const std::uint32_t begin = job.begins[g];
  const std::uint32_t end = g + 1 < job.groups ? job.begins[g + 1] : job.valid;
  const auto target = static_cast<std::uint32_t>(job.back[begin] >> 32U);
  const int stride = static_cast<int>(job.graph.stride);
  std::uint32_t* edges = job.graph.edges + std::int64_t{target} * stride;
  const int degree = degree_of_warp(edges, stride);
  if (static_cast<std::int64_t>(degree) + (end - begin) <= stride) {
    for (std::uint32_t i = begin + lane_of_warp(); i < end; i += 32)
      edges[degree + (i - begin)] = static_cast<std::uint32_t>(job.back[i]);
    return;
  }
  unsigned char* room = memory;
  WarpCodes<T, P, halves> codes(job.graph.codes, job.graph.code_bytes, room);
  WarpPruner<T, P, halves> pruner(job.graph, codes, room);
  const std::int64_t edges_before = begin - job.begins[job.first];
  Key* keys = job.room + room_of(blockIdx.x, edges_before, stride);
  const int size =
      prune_edges(job.graph, target, edges, degree, job.back + begin, end - begin, keys, codes, pruner);
  __syncwarp();
  for (int i = lane_of_warp(); i < stride; i += 32) edges[i] = i < size ? pruner.chosen()[i] : no_node;
}

template <int T, int P, bool halves>
__global__ void __launch_bounds__(32) finish_kernel(const __grid_constant__ BuildView graph,
                                                    std::int64_t first, std::uint32_t* out, Key* room) {
  extern __shared__ __align__(16) unsigned char memory[];
  const std::int64_t i = blockIdx.x;
  const auto node = static_cast<std::uint32_t>(first + i);
  const int stride = static_cast<int>(graph.stride);
  const std::uint32_t* edges = graph.edges + std::int64_t{node} * stride;
  std::uint32_t* to = out + i * graph.max_degree;
  const int degree = degree_of_warp(edges, stride);
  if (degree <= graph.max_degree) {
    for (int j = lane_of_warp(); j < graph.max_degree; j += 32) to[j] = j < degree ? edges[j] : no_node;
    return;
  }
  unsigned char* at = memory;
  WarpCodes<T, P, halves> codes(graph.codes, graph.code_bytes, at);
  WarpPruner<T, P, halves> pruner(graph, codes, at);
  const int size =
      prune_edges(graph, node, edges, degree, nullptr, 0, room + room_of(i, 0, stride), codes, pruner);
  __syncwarp();
  for (int j = lane_of_warp(); j < graph.max_degree; j += 32) to[j] = j < size ? pruner.chosen()[j] : no_node;
}

constexpr int nodes_a_block = 512;  // of sum_codes_kernel

__global__ void sum_codes_kernel(const unsigned char* codes, int code_bytes, bool halves,
                                 const std::uint32_t* nodes, std::int64_t count, unsigned long long* sums) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * nodes_a_block;
  const std::int64_t last = min(count, first + nodes_a_block);
  for (int j = static_cast<int>(threadIdx.x); j < code_bytes; j += static_cast<int>(blockDim.x)) {
    unsigned low = 0;
    unsigned high = 0;
    for (std::int64_t i = first; i < last; ++i) {
      const unsigned byte = codes[std::int64_t{nodes[i]} * code_bytes + j];
      low += halves ? byte & 15U : byte;
      high += byte >> 4U;
    }
    atomicAdd(sums + j, static_cast<unsigned long long>(low));
    if (halves) atomicAdd(sums + code_bytes + j, static_cast<unsigned long long>(high));
  }
}

template <int T, int P, bool halves>
__global__ void __launch_bounds__(32)
    nearest_kernel(const unsigned char* codes, int code_bytes, const unsigned char* code,
                   const std::uint32_t* nodes, std::int64_t count, unsigned long long* least) {
  extern __shared__ __align__(16) unsigned char memory[];
  unsigned char* room = memory;
  WarpCodes<T, P, halves> its(codes, code_bytes, room);
  its.set_query(code);
  Key best = no_key;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * most_offered;
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * most_offered; base < count; base += step) {
    const int some = static_cast<int>(min(count - base, static_cast<std::int64_t>(most_offered)));
    for (int i = lane_of_warp(); i < some; i += 32) its.found[i] = nodes[base + i];
    __syncwarp();
    its.estimate(some);
    for (int i = lane_of_warp(); i < some; i += 32) best = its.offered[i] < best ? its.offered[i] : best;
    __syncwarp();
  }
  if (best != no_key) atomicMin(least, static_cast<unsigned long long>(best));
}

__global__ void spread_kernel(const std::uint32_t* edges, std::int64_t stride, const std::uint32_t* front,
                              std::uint32_t count, unsigned* flags, std::uint32_t* next,
                              unsigned* next_count) {
  const std::int64_t warp = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (warp >= count) return;
  const std::uint32_t* its = edges + std::int64_t{front[warp]} * stride;
  for (std::int64_t i = lane_of_warp(); i < stride; i += 32) {
    const std::uint32_t node = its[i];
    if (node == no_node) break;
    const unsigned bit = 1U << (node % 32);
    if ((flags[node / 32] & bit) != 0) continue;
    if ((atomicOr(flags + node / 32, bit) & bit) == 0) next[atomicAdd(next_count, 1U)] = node;
  }
}

std::size_t codes_bytes(const BuildView& graph) {
  return WarpCodes<2, 0, false>::bytes(graph.code_bytes) + WarpPruner<2, 0, false>::bytes(graph.max_degree);
}

}  // namespace

void choose_build_memory(WalkShape& shape, const BuildView& graph, int device) {
  choose_memory(shape, graph.code_bytes + static_cast<int>(WarpPruner<2, 0, false>::bytes(graph.max_degree)),
                device);
}

void insert(const InsertJob& job, int device, cudaStream_t stream) {
  if (job.count == 0) return;
  visit_codes(job.graph.code_bytes, job.graph.four_bits, [&]<int T, int P, bool halves>() {
    const std::size_t bytes = codes_bytes(job.graph) + WarpWalk<T, P, halves, false>::bytes(job.shape);
    allow_shared(insert_kernel<T, P, halves>, 32, bytes, device);
    insert_kernel<T, P, halves><<<static_cast<unsigned>(job.count), 32, bytes, stream>>>(job);
  });
  check_launch("insert_kernel");
}

void list_back_edges(const BuildView& graph, const std::uint32_t* nodes, std::int64_t count,
                     std::uint64_t* back, unsigned long long* valid, cudaStream_t stream) {
  constexpr int threads = 256;
  const std::int64_t all = count * graph.max_degree;
  if (all == 0) return;
  list_back_edges_kernel<<<static_cast<unsigned>((all + threads - 1) / threads), threads, 0, stream>>>(
      graph, nodes, count, back, valid);
  check_launch("list_back_edges_kernel");
}

std::size_t sort_bytes(std::int64_t count) {
  cub::DoubleBuffer<std::uint64_t> keys;
  std::size_t bytes = 0;
  KITH_CUDA(cub::DeviceRadixSort::SortKeys(nullptr, bytes, keys, count));
  return bytes;
}

int sort(std::uint64_t* const keys[2], std::int64_t count, void* temporary, std::size_t temporary_bytes,
         cudaStream_t stream) {
  cub::DoubleBuffer<std::uint64_t> buffers(keys[0], keys[1]);
  KITH_CUDA(cub::DeviceRadixSort::SortKeys(temporary, temporary_bytes, buffers, count, 0, 64, stream));
  return buffers.selector;
}

std::size_t group_bytes(std::int64_t count) {
  std::size_t bytes = 0;
  KITH_CUDA(cub::DeviceSelect::If(nullptr, bytes, thrust::counting_iterator<std::uint32_t>(0),
                                  static_cast<std::uint32_t*>(nullptr), static_cast<unsigned*>(nullptr),
                                  count, BeginsGroup{nullptr}));
  return bytes;
}

void group(const std::uint64_t* back, std::int64_t count, std::uint32_t* begins, unsigned* groups,
           void* temporary, std::size_t temporary_bytes, cudaStream_t stream) {
  KITH_CUDA(cub::DeviceSelect::If(temporary, temporary_bytes, thrust::counting_iterator<std::uint32_t>(0),
                                  begins, groups, count, BeginsGroup{back}, stream));
}

void add_back_edges(const BackEdgeJob& job, int device, cudaStream_t stream) {
  if (job.count == 0) return;
  visit_codes(job.graph.code_bytes, job.graph.four_bits, [&]<int T, int P, bool halves>() {
    const std::size_t bytes = codes_bytes(job.graph);
    allow_shared(back_edges_kernel<T, P, halves>, 32, bytes, device);
    back_edges_kernel<T, P, halves><<<job.count, 32, bytes, stream>>>(job);
  });
  check_launch("back_edges_kernel");
}

void finish_edges(const BuildView& graph, std::int64_t first, std::int64_t count, std::uint32_t* out,
                  Key* room, int device, cudaStream_t stream) {
  if (count == 0) return;
  visit_codes(graph.code_bytes, graph.four_bits, [&]<int T, int P, bool halves>() {
    const std::size_t bytes = codes_bytes(graph);
    allow_shared(finish_kernel<T, P, halves>, 32, bytes, device);
    finish_kernel<T, P, halves><<<static_cast<unsigned>(count), 32, bytes, stream>>>(graph, first, out, room);
  });
  check_launch("finish_kernel");
}

void sum_codes(const unsigned char* codes, int code_bytes, bool four_bits, const std::uint32_t* nodes,
               std::int64_t count, unsigned long long* sums, cudaStream_t stream) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + nodes_a_block - 1) / nodes_a_block);
  sum_codes_kernel<<<blocks, 256, 0, stream>>>(codes, code_bytes, four_bits, nodes, count, sums);
  check_launch("sum_codes_kernel");
}

void find_nearest(const unsigned char* codes, int code_bytes, bool four_bits, const unsigned char* code,
                  const std::uint32_t* nodes, std::int64_t count, unsigned long long* least, int device,
                  cudaStream_t stream) {
  if (count == 0) return;
  visit_codes(code_bytes, four_bits, [&]<int T, int P, bool halves>() {
    const std::size_t bytes = WarpCodes<T, P, halves>::bytes(code_bytes);
    allow_shared(nearest_kernel<T, P, halves>, 32, bytes, device);
    const std::int64_t parts = (count + most_offered - 1) / most_offered;
    const auto blocks = static_cast<unsigned>(min(parts, static_cast<std::int64_t>(processors(device)) * 64));
    nearest_kernel<T, P, halves><<<blocks, 32, bytes, stream>>>(codes, code_bytes, code, nodes, count, least);
  });
  check_launch("nearest_kernel");
}

void spread(const std::uint32_t* edges, std::int64_t stride, const std::uint32_t* front, std::uint32_t count,
            unsigned* flags, std::uint32_t* next, unsigned* next_count, cudaStream_t stream) {
  if (count == 0) return;
  constexpr int threads = 256;
  const auto blocks = static_cast<unsigned>((static_cast<std::int64_t>(count) * 32 + threads - 1) / threads);
  spread_kernel<<<blocks, threads, 0, stream>>>(edges, stride, front, count, flags, next, next_count);
  check_launch("spread_kernel");
}

}  // namespace kith::vamana::cuda
