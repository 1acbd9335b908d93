// The steps of a build: a warp walks and prunes for a node, or prunes the edges of one.
#include <thrust/iterator/counting_iterator.h>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>

#include "cuda/launch.hpp"
#include "vamana/cuda/build_kernels.hpp"
#include "vamana/cuda/prune.cuh"
#include "vamana/cuda/tuning.hpp"
#include "vamana/cuda/walk.cuh"

namespace kith::vamana::cuda {
namespace {

// Threads of a block that prunes, a warp for each node: fewer where that takes much shared memory.
constexpr int prune_threads = 128;
constexpr std::size_t much_shared = 48 << 10;

__device__ int warp_of_block() {
  return static_cast<int>(threadIdx.x / 32);
}
__device__ std::int64_t warp_of_grid() {
  return static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + warp_of_block();
}

// Edges that a node has; the same in all threads.
__device__ int degree_of_warp(const std::uint32_t* edges, int stride) {
  for (int base = 0; base < stride; base += 32) {
    const int at = base + lane_of_warp();
    const unsigned mask = __ballot_sync(whole_warp, at >= stride || edges[at] == no_node);
    if (mask != 0) return base + __ffs(static_cast<int>(mask)) - 1;
  }
  return stride;
}

// The walk of a node that is inserted: what it expands.
template <int T, int B, bool halves>
__global__ void __launch_bounds__(32, 32) see_kernel(const __grid_constant__ InsertJob job) {
  extern __shared__ __align__(16) unsigned char memory[];
  const std::int64_t i = blockIdx.x;
  unsigned char* room = memory;
  WarpCodes<T, B, halves> codes(job.graph.codes, job.graph.code_bytes, room);
  const GraphView graph{job.graph.edges, job.graph.stride,     job.graph.codes,
                        job.entries,     job.graph.code_bytes, job.entry_count};
  WarpWalk<WarpCodes<T, B, halves>, WarpList<false>> walk(graph, job.shape, codes, room);
  if (!job.shape.list_in_shared) walk.place_list(job.lists + i * job.shape.capacity, nullptr);
  Seen seen{job.seen + i * seen_room, seen_room, static_cast<int>(tuning::most_candidates)};
  codes.set_query(job.nodes[i]);
  walk.run(no_node, {}, &seen);
  if (lane_of_warp() == 0) job.seen_count[i] = seen.count;
}

// Its edges: those that a prune of what the walk has seen leaves.
template <bool halves>
__global__ void __launch_bounds__(prune_threads) choose_kernel(const __grid_constant__ InsertJob job) {
  extern __shared__ __align__(16) unsigned char memory[];
  const std::int64_t i = warp_of_grid();
  if (i >= job.count) return;
  WarpPruner<halves> pruner(job.graph,
                            memory + warp_of_block() * WarpPruner<halves>::bytes(job.graph.max_degree));
  Key* seen = job.seen + i * seen_room;
  const int count = job.seen_count[i];
  sort_in_memory(seen, count);
  const int size = pruner.prune(seen, min(count, static_cast<int>(tuning::most_candidates)));
  // No walk of this batch can come here: nothing leads to the node yet.
  std::uint32_t* edges = job.graph.edges + std::int64_t{job.nodes[i]} * job.graph.stride;
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
template <int T, int B, bool halves>
__device__ int prune_edges(const BuildView& graph, std::uint32_t node, const std::uint32_t* edges, int degree,
                           const std::uint64_t* more, std::int64_t count, Key* keys,
                           WarpCodes<T, B, halves>& codes, WarpPruner<halves>& pruner) {
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

// The memory of a warp that prunes edges.
template <int T, int B, bool halves>
struct PruneMemory {
  WarpCodes<T, B, halves> codes;
  WarpPruner<halves> pruner;
  __device__ PruneMemory(const BuildView& graph, unsigned char* memory)
      : codes(graph.codes, graph.code_bytes, memory), pruner(graph, memory) {}
  __host__ __device__ static std::size_t bytes(const BuildView& graph) {
    return WarpCodes<T, B, halves>::bytes(graph.code_bytes) + WarpPruner<halves>::bytes(graph.max_degree);
  }
};

template <int T, int B, bool halves>
__global__ void __launch_bounds__(prune_threads) back_edges_kernel(const __grid_constant__ BackEdgeJob job) {
  extern __shared__ __align__(16) unsigned char memory[];
  const std::int64_t i = warp_of_grid();
  if (i >= job.count) return;
  const auto g = static_cast<std::uint32_t>(job.first + i);
  const std::uint32_t begin = job.begins[g];
  const std::uint32_t end = g + 1 < job.groups ? job.begins[g + 1] : job.valid;
  const auto target = static_cast<std::uint32_t>(job.back[begin] >> 32U);
  const int stride = static_cast<int>(job.graph.stride);
  std::uint32_t* edges = job.graph.edges + std::int64_t{target} * stride;
  const int degree = degree_of_warp(edges, stride);
  if (static_cast<std::int64_t>(degree) + (end - begin) <= stride) {
    for (std::uint32_t j = begin + lane_of_warp(); j < end; j += 32)
      edges[degree + (j - begin)] = static_cast<std::uint32_t>(job.back[j]);
    return;
  }
  using Memory = PruneMemory<T, B, halves>;
  Memory with(job.graph, memory + warp_of_block() * Memory::bytes(job.graph));
  const std::int64_t edges_before = begin - job.begins[job.first];
  Key* keys = job.room + room_of(i, edges_before, stride);
  const int size = prune_edges(job.graph, target, edges, degree, job.back + begin, end - begin, keys,
                               with.codes, with.pruner);
  __syncwarp();
  for (int j = lane_of_warp(); j < stride; j += 32) edges[j] = j < size ? with.pruner.chosen()[j] : no_node;
}

template <int T, int B, bool halves>
__global__ void __launch_bounds__(prune_threads)
    finish_kernel(const __grid_constant__ BuildView graph, std::int64_t first, std::int64_t count,
                  std::uint32_t* out, Key* room) {
  extern __shared__ __align__(16) unsigned char memory[];
  const std::int64_t i = warp_of_grid();
  if (i >= count) return;
  const auto node = static_cast<std::uint32_t>(first + i);
  const int stride = static_cast<int>(graph.stride);
  const std::uint32_t* edges = graph.edges + std::int64_t{node} * stride;
  std::uint32_t* to = out + i * graph.max_degree;
  const int degree = degree_of_warp(edges, stride);
  if (degree <= graph.max_degree) {
    for (int j = lane_of_warp(); j < graph.max_degree; j += 32) to[j] = j < degree ? edges[j] : no_node;
    return;
  }
  using Memory = PruneMemory<T, B, halves>;
  Memory with(graph, memory + warp_of_block() * Memory::bytes(graph));
  const int size = prune_edges(graph, node, edges, degree, nullptr, 0, room + room_of(i, 0, stride),
                               with.codes, with.pruner);
  __syncwarp();
  for (int j = lane_of_warp(); j < graph.max_degree; j += 32)
    to[j] = j < size ? with.pruner.chosen()[j] : no_node;
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

// The nearest of nodes [first, ...), `step` apart, most_offered of them each time: of those that this thread
// has compared.
template <class Codes>
__device__ Key nearest_of(Codes& codes, const std::uint32_t* nodes, std::int64_t count, std::int64_t first,
                          std::int64_t step) {
  Key best = no_key;
  for (std::int64_t base = first; base < count; base += step) {
    const int some = static_cast<int>(min(count - base, static_cast<std::int64_t>(most_offered)));
    for (int i = lane_of_warp(); i < some; i += 32) codes.found[i] = nodes[base + i];
    __syncwarp();
    codes.estimate(some);
    for (int i = lane_of_warp(); i < some; i += 32) best = min(best, codes.offered[i]);
    __syncwarp();
  }
  return best;
}

template <int T, int B, bool halves>
__global__ void __launch_bounds__(32)
    nearest_kernel(const unsigned char* codes, int code_bytes, const unsigned char* code,
                   const std::uint32_t* nodes, std::int64_t count, unsigned long long* least) {
  extern __shared__ __align__(16) unsigned char memory[];
  unsigned char* room = memory;
  WarpCodes<T, B, halves> its(codes, code_bytes, room);
  its.set_query(code);
  const Key best = nearest_of(its, nodes, count, static_cast<std::int64_t>(blockIdx.x) * most_offered,
                              static_cast<std::int64_t>(gridDim.x) * most_offered);
  if (best != no_key) atomicMin(least, static_cast<unsigned long long>(best));
}

// Nodes under the nearest of some others.
template <int T, int B, bool halves>
__global__ void __launch_bounds__(32)
    assign_kernel(const __grid_constant__ BuildView graph, const std::uint32_t* nodes, std::int64_t count,
                  const std::uint32_t* others, std::int64_t other_count, std::uint64_t* assigned) {
  extern __shared__ __align__(16) unsigned char memory[];
  unsigned char* room = memory;
  WarpCodes<T, B, halves> its(graph.codes, graph.code_bytes, room);
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    its.set_query(nodes[i]);
    Key best = nearest_of(its, others, other_count, 0, most_offered);
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) best = min(best, __shfl_xor_sync(whole_warp, best, apart));
    if (lane_of_warp() == 0) assigned[i] = static_cast<std::uint64_t>(node_of(best)) << 32U | nodes[i];
  }
}

__global__ void take_assigned_kernel(const std::uint64_t* assigned, std::int64_t count,
                                     std::uint32_t* nodes) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) nodes[i] = static_cast<std::uint32_t>(assigned[i]);
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

// Launches a kernel with a warp for each of `count`.
template <class Kernel, class... Arguments>
void launch_prunes(Kernel kernel, const char* name, std::int64_t count, std::size_t warp_bytes, int device,
                   cudaStream_t stream, const Arguments&... arguments) {
  const int threads = prune_threads / 32 * warp_bytes <= much_shared ? prune_threads : 32;
  const int warps = threads / 32;
  const std::size_t bytes = static_cast<std::size_t>(warps) * warp_bytes;
  allow_shared(kernel, threads, bytes, device);
  kernel<<<static_cast<unsigned>((count + warps - 1) / warps), threads, bytes, stream>>>(arguments...);
  check_launch(name);
}

}  // namespace

void insert(const InsertJob& job, int device, cudaStream_t stream) {
  if (job.count == 0) return;
  visit_codes(job.graph.code_bytes, job.graph.four_bits, [&]<int T, int B, bool halves>() {
    const std::size_t bytes = WarpCodes<T, B, halves>::bytes(job.graph.code_bytes) +
                              WarpWalk<WarpCodes<T, B, halves>, WarpList<false>>::bytes(job.shape);
    allow_shared(see_kernel<T, B, halves>, 32, bytes, device);
    see_kernel<T, B, halves><<<static_cast<unsigned>(job.count), 32, bytes, stream>>>(job);
  });
  check_launch("see_kernel");
  const std::size_t bytes = WarpPruner<false>::bytes(job.graph.max_degree);
  launch_prunes(job.graph.four_bits ? choose_kernel<true> : choose_kernel<false>, "choose_kernel", job.count,
                bytes, device, stream, job);
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
  visit_codes(job.graph.code_bytes, job.graph.four_bits, [&]<int T, int B, bool halves>() {
    launch_prunes(back_edges_kernel<T, B, halves>, "back_edges_kernel", job.count,
                  PruneMemory<T, B, halves>::bytes(job.graph), device, stream, job);
  });
}

void finish_edges(const BuildView& graph, std::int64_t first, std::int64_t count, std::uint32_t* out,
                  Key* room, int device, cudaStream_t stream) {
  if (count == 0) return;
  visit_codes(graph.code_bytes, graph.four_bits, [&]<int T, int B, bool halves>() {
    launch_prunes(finish_kernel<T, B, halves>, "finish_kernel", count,
                  PruneMemory<T, B, halves>::bytes(graph), device, stream, graph, first, count, out, room);
  });
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
  visit_codes(code_bytes, four_bits, [&]<int T, int B, bool halves>() {
    const std::size_t bytes = WarpCodes<T, B, halves>::bytes(code_bytes);
    allow_shared(nearest_kernel<T, B, halves>, 32, bytes, device);
    const std::int64_t parts = (count + most_offered - 1) / most_offered;
    const auto blocks = static_cast<unsigned>(min(parts, static_cast<std::int64_t>(processors(device)) * 64));
    nearest_kernel<T, B, halves><<<blocks, 32, bytes, stream>>>(codes, code_bytes, code, nodes, count, least);
  });
  check_launch("nearest_kernel");
}

void assign(const BuildView& graph, const std::uint32_t* nodes, std::int64_t count,
            const std::uint32_t* others, std::int64_t other_count, std::uint64_t* assigned, int device,
            cudaStream_t stream) {
  if (count == 0) return;
  visit_codes(graph.code_bytes, graph.four_bits, [&]<int T, int B, bool halves>() {
    const std::size_t bytes = WarpCodes<T, B, halves>::bytes(graph.code_bytes);
    allow_shared(assign_kernel<T, B, halves>, 32, bytes, device);
    const auto blocks = static_cast<unsigned>(min(count, static_cast<std::int64_t>(processors(device)) * 64));
    assign_kernel<T, B, halves>
        <<<blocks, 32, bytes, stream>>>(graph, nodes, count, others, other_count, assigned);
  });
  check_launch("assign_kernel");
}

void take_assigned(const std::uint64_t* assigned, std::int64_t count, std::uint32_t* nodes,
                   cudaStream_t stream) {
  if (count == 0) return;
  constexpr int threads = 256;
  const auto blocks = static_cast<unsigned>((count + threads - 1) / threads);
  take_assigned_kernel<<<blocks, threads, 0, stream>>>(assigned, count, nodes);
  check_launch("take_assigned_kernel");
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
