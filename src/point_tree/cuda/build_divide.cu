// Sorted codes to nodes.
#include "point_tree/cuda/build_common.cuh"
#include "point_tree/tuning.hpp"

namespace kith::point_tree::build_steps {
namespace {

// A child that is not decided yet.
constexpr std::int32_t stuck_child = -3;

template <class Id>
__global__ void start_kernel(std::int64_t rows, Sketch<Id>* nodes, Counts* counts) {
  const auto points = rows - static_cast<std::int64_t>(counts->nan_rows + counts->infinite_rows);
  counts->steps[0] = points > 0 ? 1 : 0;
  nodes[0].begin[0] = 0;
  nodes[0].begin[1] = static_cast<Id>(points);
  nodes[0].key = 0;
  nodes[0].parent = -1;
  nodes[0].level_slot = 0;
}

__device__ std::uint32_t largest(std::uint32_t value) {
  return __reduce_max_sync(full, value);
}
__device__ std::int64_t largest(std::int64_t value) {
  for (int step = 16; step > 0; step /= 2) {
    const std::int64_t other = __shfl_xor_sync(full, value, step);
    value = other > value ? other : value;
  }
  return value;
}

// How many of `count` sorted keys are below `key`: the whole warp looks at 32 places at once.
template <class Id>
__device__ Id keys_below(const std::uint64_t* keys, Id count, std::uint64_t key) {
  const auto lane = static_cast<Id>(threadIdx.x % 32);
  Id low = 0;  // keys before it are below
  while (count > 32) {
    const Id step = count / 32;
    const Id place = low + step * (lane + 1) - 1;  // at most the last
    const auto passed = static_cast<Id>(__popc(__ballot_sync(full, keys[place] < key)));
    low += step * passed;
    count = passed == 32 ? count - 32 * step : step;
  }
  const bool below = lane < count && keys[low + lane] < key;
  return low + static_cast<Id>(__popc(__ballot_sync(full, below)));
}

constexpr int divide_threads = cuda::constants.divide_threads;
constexpr int held_codes = cuda::constants.divide_codes;  // of a warp, in shared memory

// A warp divides a node: a part is cut at the highest bit in which its codes differ, until there are 16 parts
// or none is too large for a leaf. The largest part comes first, as in the octree on the CPU, until each
// would about fill a node with leaves; then the smallest that is no leaf, so that the places that are left
// take leaves, and the parts that stay nodes are full ones. Lane i holds part i; parts stay in order.
template <class Id>
__global__ void __launch_bounds__(divide_threads)
    divide_kernel(const std::uint64_t* keys, Sketch<Id>* nodes, Range<Id>* stuck, Counts* counts, int step,
                  Id leaf, Id fill) {
  __shared__ std::uint64_t held[divide_threads / 32][held_codes];
  std::uint64_t* mine = held[threadIdx.x / 32];
  const auto lane = static_cast<int>(threadIdx.x % 32);
  auto first = static_cast<std::int64_t>(counts->first);
  for (int s = 0; s < step; ++s) first += counts->steps[s];
  const std::int64_t end = first + counts->steps[step];
  for (std::int64_t node = first + this_thread() / 32; node < end; node += all_threads() / 32) {
    Sketch<Id>& sketch = nodes[node];
    const Id all_begin = sketch.begin[0];
    const Id all_end = sketch.begin[1];
    const std::uint64_t* codes = keys + sketch.key;
    const std::uint32_t level = sketch.level_slot / node_width;
    __syncwarp();
    // Most nodes are small: looking for where to cut them takes longer than loading them once.
    if (all_end - all_begin <= held_codes) {
      for (int i = lane; i < static_cast<int>(all_end - all_begin); i += 32) mine[i] = codes[i];
      codes = mine;
      __syncwarp();
    }
    Id begin = 0;
    Id count = lane == 0 ? all_end - all_begin : 0;
    bool same = false;  // one code
    int parts = 1;
    while (parts < node_width) {
      Id rank = 0;
      if (count > leaf && !same) rank = count > fill ? count : fill + 1 - count;
      const Id first_rank = largest(rank);
      if (first_rank == 0) break;
      const int who = __ffs(static_cast<int>(__ballot_sync(full, rank == first_rank))) - 1;
      const Id from = __shfl_sync(full, begin, who);
      const Id most = __shfl_sync(full, count, who);
      const std::uint64_t low = codes[from];
      const std::uint64_t high = codes[from + most - 1];
      if (low == high) {
        same = same || lane == who;
        continue;
      }
      const int below = 63 - __clzll(static_cast<long long>(low ^ high));
      const Id left = keys_below(codes + from, most, high >> below << below);
      const Id begin_before = __shfl_up_sync(full, begin, 1);
      const Id count_before = __shfl_up_sync(full, count, 1);
      const bool same_before = __shfl_up_sync(full, static_cast<int>(same), 1) != 0;
      if (lane == who) {
        count = left;
      } else if (lane == who + 1) {
        begin = from + left;
        count = most - left;
        same = false;
      } else if (lane > who) {
        begin = begin_before;
        count = count_before;
        same = same_before;
      }
      ++parts;
    }
    const bool part = lane < parts;
    const bool large = part && count > leaf;
    same = large && (same || codes[begin] == codes[begin + count - 1]);
    const unsigned below = __ballot_sync(full, large && !same);
    const unsigned left = __ballot_sync(full, same);
    const unsigned before = (1U << lane) - 1;
    std::int32_t child = leaf_child;
    if (below != 0) {
      std::uint32_t base = 0;
      if (lane == 0) base = atomicAdd(&counts->steps[step + 1], static_cast<unsigned>(__popc(below)));
      base = __shfl_sync(full, base, 0);
      if (large && !same) {
        child = static_cast<std::int32_t>(end + base + __popc(below & before));
        Sketch<Id>& to = nodes[child];
        to.begin[0] = all_begin + begin;
        to.begin[1] = all_begin + begin + count;
        to.key = sketch.key + begin;
        to.parent = static_cast<std::int32_t>(node);
        to.level_slot = (level + 1) * node_width + static_cast<std::uint32_t>(lane);
      }
    }
    if (left != 0) {
      unsigned long long sum = same ? static_cast<unsigned long long>(count) : 0;  // of lanes up to this one
      for (int s = 1; s < 32; s *= 2) {
        const unsigned long long other = __shfl_up_sync(full, sum, s);
        if (lane >= s) sum += other;
      }
      const unsigned long long total = __shfl_sync(full, sum, 31);
      unsigned long long base = 0;
      if (lane == 0) {
        base =
            atomicAdd(&counts->stuck, (static_cast<unsigned long long>(__popc(left)) << range_shift) + total);
      }
      base = __shfl_sync(full, base, 0);
      if (same) {
        child = stuck_child;
        const auto at = static_cast<std::int64_t>(base >> range_shift) + __popc(left & before);
        const unsigned long long offset =
            (base & ((1ULL << range_shift) - 1)) + sum - static_cast<unsigned long long>(count);
        stuck[at] = {static_cast<Id>(all_begin + begin), count, static_cast<Id>(offset),
                     static_cast<std::int32_t>(node), lane};
      }
    }
    // Places that are not in use, too: sketches are copied whole.
    if (lane < node_width) {
      sketch.begin[lane] = part ? all_begin + begin : all_end;
      sketch.child[lane] = part ? child : leaf_child;
    }
    if (lane == 0) {
      sketch.begin[node_width] = all_end;
      sketch.count = parts;
      if (counts->levels < level + 1) atomicMax(&counts->levels, level + 1);
    }
    __syncwarp();  // the codes of this node are read
  }
}

template <class Id>
__global__ void settle_kernel(const Range<Id>* stuck, std::int64_t ranges, const unsigned char* different,
                              Sketch<Id>* nodes, std::int64_t first_node, Range<Id>* refined,
                              Counts* counts) {
  const std::int64_t i = this_thread();
  if (i >= ranges) return;
  Range<Id> range = stuck[i];
  Sketch<Id>& parent = nodes[range.node];
  if (different[i] == 0) {
    parent.child[range.slot] = identical_child;
    return;
  }
  const unsigned long long at =
      atomicAdd(&counts->refined, (1ULL << range_shift) + static_cast<unsigned long long>(range.count));
  const auto number = static_cast<std::int64_t>(at >> range_shift);
  range.offset = static_cast<Id>(at & ((1ULL << range_shift) - 1));
  refined[number] = range;
  parent.child[range.slot] = static_cast<std::int32_t>(first_node + number);
  Sketch<Id>& node = nodes[first_node + number];
  node.begin[0] = range.begin;
  node.begin[1] = range.begin + range.count;
  node.key = range.offset;
  node.parent = range.node;
  node.level_slot =
      (parent.level_slot / node_width + 1) * node_width + static_cast<std::uint32_t>(range.slot);
}

}  // namespace

template <class Id>
void start(std::int64_t rows, Sketch<Id>* nodes, Counts* counts, cudaStream_t stream) {
  start_kernel<<<1, 1, 0, stream>>>(rows, nodes, counts);
  cuda::check_launch("start");
}

template <class Id>
void divide(const std::uint64_t* keys, Sketch<Id>* nodes, Range<Id>* stuck, Counts* counts, int step,
            std::int64_t leaf_size, int device, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(cuda::processors(device)) * cuda::policy_of(device).divide_blocks;
  divide_kernel<<<blocks, divide_threads, 0, stream>>>(keys, nodes, stuck, counts, step,
                                                       static_cast<Id>(leaf_size),
                                                       static_cast<Id>(tuning::filling_leaves * leaf_size));
  cuda::check_launch("divide");
}

template <class Id>
void settle(const Range<Id>* stuck, std::int64_t ranges, const unsigned char* different, Sketch<Id>* nodes,
            std::int64_t first_node, Range<Id>* refined, Counts* counts, cudaStream_t stream) {
  settle_kernel<<<blocks_for(ranges), block_threads, 0, stream>>>(stuck, ranges, different, nodes, first_node,
                                                                  refined, counts);
  cuda::check_launch("settle");
}

#define KITH_FOR_ID(Id)                                                                                     \
  template void start<Id>(std::int64_t, Sketch<Id>*, Counts*, cudaStream_t);                                \
  template void divide<Id>(const std::uint64_t*, Sketch<Id>*, Range<Id>*, Counts*, int, std::int64_t, int,  \
                           cudaStream_t);                                                                   \
  template void settle<Id>(const Range<Id>*, std::int64_t, const unsigned char*, Sketch<Id>*, std::int64_t, \
                           Range<Id>*, Counts*, cudaStream_t);
KITH_FOR_ID(std::uint32_t)
KITH_FOR_ID(std::int64_t)

}  // namespace kith::point_tree::build_steps
