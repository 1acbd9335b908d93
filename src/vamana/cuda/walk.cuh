// A walk through the graph by one warp: the walk of cpu/walk.hpp, with the same outcome.
#pragma once

#include <cstdint>

#include "cuda/launch.hpp"
#include "vamana/cuda/hot_nodes.hpp"
#include "vamana/cuda/list.cuh"

namespace kith::vamana::cuda {
namespace {

/// Bytes that may be needed soon, on their way to the second-level cache.
__device__ inline void prefetch(const void* bytes, std::size_t count) {
  constexpr std::size_t line = 128;
  for (std::size_t at = 0; at < count; at += line) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const char*>(bytes) + at));
  }
}

/// What a warp walks with. Codes: WarpCodes, or one of those of quantized.cuh. List: WarpList or ShortList.
/// prefetches: while neighbours go into the list, codes of those that are likely to be next are on their way;
/// that helps where few walks leave memory idle.
template <class Codes, class List, bool prefetches = false>
class WarpWalk {
 public:
  /// @param memory bytes() in shared memory, aligned to 8
  __device__ WarpWalk(const GraphView& graph, const WalkShape& shape, Codes& codes, unsigned char* memory)
      : graph_(graph),
        shape_(shape),
        codes_(codes),
        visited_(shape, memory + beam_bytes(shape)),
        list_(shape, memory + beam_bytes(shape) + VisitedNodes::bytes(shape)),
        beam_(reinterpret_cast<std::uint32_t*>(memory)) {}

  /// A multiple of 8.
  __host__ __device__ static std::size_t bytes(const WalkShape& shape) {
    return List::bytes(shape) + VisitedNodes::bytes(shape) + beam_bytes(shape);
  }

  /// The list and its marks where they do not fit shared memory.
  __device__ void place_list(Key* list, unsigned char* marks) { list_.place(list, marks); }

  /// From the entries to where every node of the list is expanded, for the query of the codes.
  /// @param nodes for lists of allowed nodes
  /// @param seen takes the keys of expanded nodes, in their order; null: nobody wants them
  /// @param visits a counter a node, of how often walks expand it; null: nobody asks
  __device__ void run(std::uint32_t left_out, const NodeRows& nodes, Seen* seen, unsigned* visits = nullptr) {
    left_out_ = left_out;
    list_.clear(nodes);
    visited_.clear();
    expand(graph_.entries, graph_.entry_count);
    while (const int count = choose(seen)) {
      hops_ += count;
      if (visits != nullptr) {
        for (int i = lane_of_warp(); i < count; i += 32) atomicAdd(visits + beam_[i], 1U);
      }
      const std::uint32_t* likely = nullptr;
      if constexpr (prefetches) {
        int unused = 0;
        const Key next = list_.nearest(0, unused);
        if (next != no_key) likely = graph_.edges + node_of(next) * graph_.stride;
      }
      for (int i = 0; i < count; ++i) {
        expand(edges_of(beam_[i]), graph_.stride, i + 1 == count ? likely : nullptr);
      }
    }
  }

  /// Every node of it expanded; valid until the next run.
  __device__ const List& list() const { return list_; }
  __device__ std::uint32_t hops() const { return hops_; }
  __device__ std::uint32_t distances() const { return distances_; }
  __device__ std::uint32_t hot_hops() const { return hot_hops_; }

 private:
  __host__ __device__ static std::size_t beam_bytes(const WalkShape& shape) {
    return static_cast<std::size_t>(shape.beam_width + 1) / 2 * 8;
  }

  __device__ const std::uint32_t* edges_of(std::uint32_t node) {
    if (graph_.hot != nullptr) {
      const std::int64_t place = hot_place(graph_.hot, node);
      if (place >= 0) {
        ++hot_hops_;
        return graph_.hot_edges + place * graph_.stride;
      }
    }
    return graph_.edges + node * graph_.stride;
  }

  // Two nodes a thread of a list from `from` on. It is read in as few transactions as there can be: in host
  // memory their number counts, not their length.
  __device__ static uint2 read(const std::uint32_t* nodes, std::int64_t from, std::int64_t count) {
    static_assert(most_offered == 64);
    const int lane = lane_of_warp();
    if (from + most_offered <= count && (reinterpret_cast<std::uintptr_t>(nodes + from) & 7U) == 0) {
      return reinterpret_cast<const uint2*>(nodes + from)[lane];
    }
    const std::int64_t i = from + lane;
    return {i < count ? nodes[i] : no_node, i + 32 < count ? nodes[i + 32] : no_node};
  }

  __device__ void prefetch(std::uint32_t node) const {
    if (node == no_node) return;
    cuda::prefetch(graph_.codes + std::int64_t{node} * graph_.code_bytes,
                   static_cast<std::size_t>(graph_.code_bytes));
  }

  // Offers the nodes of a list that were not visited yet. @param likely where the next list is likely to be,
  // as long as this one; null: no prefetch
  __device__ void expand(const std::uint32_t* nodes, std::int64_t count,
                         const std::uint32_t* likely = nullptr) {
    bool ended = false;
    for (std::int64_t from = 0; from < count && !ended; from += most_offered) {
      const uint2 pair = read(nodes, from, count);
      uint2 next = {no_node, no_node};
      if constexpr (prefetches) {
        if (likely != nullptr) next = read(likely, from, count);
      }
      const auto is_fresh = [&](std::uint32_t node) {
        return node != no_node && node != left_out_ && !visited_.visit(node);
      };
      const bool fresh[2] = {is_fresh(pair.x), is_fresh(pair.y)};
      const unsigned masks[2] = {__ballot_sync(whole_warp, fresh[0]), __ballot_sync(whole_warp, fresh[1])};
      ended = __any_sync(whole_warp, pair.x == no_node || pair.y == no_node);
      const int first = __popc(masks[0]);
      const int found = first + __popc(masks[1]);
      if (fresh[0]) codes_.found[__popc(masks[0] & lanes_below())] = pair.x;
      if (fresh[1]) codes_.found[first + __popc(masks[1] & lanes_below())] = pair.y;
      __syncwarp();
      if (found > 0) {
        distances_ += static_cast<std::uint32_t>(found);
        codes_.estimate(found);
      }
      if constexpr (prefetches) {  // what was asked for before those codes is here
        prefetch(next.x);
        prefetch(next.y);
      }
      if (found > 0) list_.offer(codes_.offered, found);
    }
  }

  // Marks the nearest nodes that are not expanded as such and writes them to beam_; how many.
  __device__ int choose(Seen* seen) {
    int count = 0;
    int after = 0;
    while (count < shape_.beam_width) {
      const Key chosen = list_.nearest(after, after);
      if (chosen == no_key) break;
      list_.expand_before(after);
      if (lane_of_warp() == 0) beam_[count] = node_of(chosen);
      if (seen != nullptr) seen->take(chosen);
      ++count;
      __syncwarp();
    }
    return count;
  }

  const GraphView& graph_;
  const WalkShape& shape_;
  Codes& codes_;
  VisitedNodes visited_;
  List list_;
  std::uint32_t* beam_;
  std::uint32_t left_out_ = no_node;
  std::uint32_t hops_ = 0;
  std::uint32_t distances_ = 0;
  std::uint32_t hot_hops_ = 0;
};

/// What is left of a walk for the host and for whoever re-ranks: its list, and what it counted.
template <bool among_allowed, class List>
__device__ void hand_over(std::int64_t q, const WalkJob& job, const List& found_list, std::uint32_t hops,
                          std::uint32_t distances) {
  const int lane = lane_of_warp();
  Key* const list = job.lists + q * job.shape.capacity;
  int found = 0;
  for (int base = 0; base < found_list.size(); base += 32) {
    const int at = base + lane;
    const Key key = at < found_list.size() ? found_list.key(base) : no_key;
    const bool takes = at < found_list.size() && (!among_allowed || found_list.marked(at));
    const unsigned mask = __ballot_sync(whole_warp, takes);
    if (takes) list[found + __popc(mask & lanes_below())] = key;
    found += __popc(mask);
    __syncwarp();
  }
  if (lane != 0) return;
  // A list with room to spare holds everything there is to reach.
  const bool too_short =
      among_allowed && found_list.allowed() < job.shape.list_size && found_list.size() == job.shape.capacity;
  job.found[q] = too_short ? -1 : found;
  atomicAdd(job.counters, static_cast<unsigned long long>(hops));
  atomicAdd(job.counters + 1, static_cast<unsigned long long>(distances));
}

/// The walk for query q of a job, whose `codes` have the query.
/// @param memory as WarpWalk takes it
template <bool among_allowed, class List = WarpList<among_allowed>, bool prefetches = false, class Codes>
__device__ void walk_for(std::int64_t q, const WalkJob& job, Codes& codes, unsigned char* memory) {
  WarpWalk<Codes, List, prefetches> walk(job.graph, job.shape, codes, memory);
  if (!job.shape.list_in_shared) {
    walk.place_list(job.lists + q * job.shape.capacity,
                    among_allowed ? job.marks + q * job.shape.capacity : nullptr);
  }
  walk.run(job.left_out == nullptr ? no_node : job.left_out[q], job.nodes, nullptr, job.visits);
  hand_over<among_allowed>(q, job, walk.list(), walk.hops(), walk.distances());
  if (job.graph.hot != nullptr && lane_of_warp() == 0) {
    atomicAdd(job.counters + 2, static_cast<unsigned long long>(walk.hot_hops()));
  }
}

/// Of shared memory, whatever the codes.
inline std::size_t walk_bytes(const WalkShape& shape, bool among_allowed) {
  using Any = WarpCodes<8, 0, false>;
  return static_cast<std::size_t>(shape.query_bytes) + Offers::bytes +
         (among_allowed ? WarpWalk<Any, WarpList<true>>::bytes(shape)
                        : WarpWalk<Any, WarpList<false>>::bytes(shape));
}

/// Launches one of the kernels of walks, a warp a query.
template <bool among_allowed>
void launch_walk(void (*kernel)(WalkJob), const WalkJob& job, int device, cudaStream_t stream) {
  const std::size_t bytes = walk_bytes(job.shape, among_allowed);
  allow_shared(kernel, 32, bytes, device);
  kernel<<<static_cast<unsigned>(job.count), 32, bytes, stream>>>(job);
  check_launch("walk_kernel");
}

}  // namespace
}  // namespace kith::vamana::cuda
