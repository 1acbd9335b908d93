// A walk through the graph by one warp: the walk of cpu/walk.hpp, with the same outcome.
//
// The list holds the smallest keys met so far, whatever the order in which they are offered, so neighbours
// come into it 32 at a time: sorted, each given its place by binary search, and what lies behind moved up.
// Where the list is cut, in a walk among allowed nodes, depends on the keys alone, too.
#pragma once

#include <cstdint>

#include "vamana/cuda/codes.cuh"
#include "vamana/cuda/kernels.hpp"
#include "vamana/key.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana::cuda {
namespace {

/// How many of `count` ascending keys are smaller.
__device__ inline int keys_below(const Key* keys, int count, Key key) {
  int low = 0;
  while (count > 0) {
    const int half = count / 2;
    if (keys[low + half] < key) {
      low += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return low;
}

/// So few keys are put in order by counting: sorting takes as long for one as for 32.
constexpr int few_keys = 16;

/// Whether any row of a node is allowed.
__device__ inline bool allows(const NodeRows& nodes, std::uint32_t node) {
  const auto contains = [&](std::uint32_t row) { return (nodes.allowed[row / 64] >> (row % 64) & 1U) != 0; };
  if (nodes.first == nullptr) return contains(node);
  const std::uint32_t end = nodes.first[node + 1];
  for (std::uint32_t i = nodes.first[node]; i < end; ++i) {
    if (contains(nodes.rows[i])) return true;
  }
  return false;
}

/// Takes the nodes that a walk expands: all of them, or the nearest where there are more than it has room
/// for.
struct Seen {
  Key* keys;  ///< room for `room` of them, a power of two from 64 on
  int room;
  int kept;  ///< of those there are when the room is full
  int count = 0;

  /// All threads of the warp, the same key.
  __device__ void take(Key key) {
    if (count == room) {
      sort();
      count = kept;
    }
    if (lane_of_warp() == 0) keys[count] = key;
    ++count;
    __syncwarp();
  }
  /// Ascending; to be called at the end.
  __device__ void sort() { sort_in_memory(keys, count); }
};

/// What a warp walks with. T, P, halves: see WarpCodes.
template <int T, int P, bool halves, bool among_allowed>
class WarpWalk {
 public:
  using Codes = WarpCodes<T, P, halves>;

  /// @param memory bytes() in shared memory, aligned to 8
  __device__ WarpWalk(const GraphView& graph, const WalkShape& shape, Codes& codes, unsigned char* memory)
      : graph_(graph), shape_(shape), codes_(codes) {
    list_ = reinterpret_cast<Key*>(memory);
    if (shape.list_in_shared) memory += sizeof(Key) * static_cast<std::size_t>(shape.capacity);
    table_ = reinterpret_cast<std::uint32_t*>(memory);
    memory += sizeof(std::uint32_t) * static_cast<std::size_t>(shape.table);
    beam_ = reinterpret_cast<std::uint32_t*>(memory);
    memory += sizeof(std::uint32_t) * static_cast<std::size_t>(shape.beam_width);
    marks_ = memory;
    shift_ = __clz(shape.table) + 1;
  }

  /// A multiple of 8.
  __host__ __device__ static std::size_t bytes(const WalkShape& shape) {
    const auto list = static_cast<std::size_t>(shape.list_in_shared ? shape.capacity : 0);
    const std::size_t sum = list * (sizeof(Key) + (among_allowed ? 1 : 0)) +
                            static_cast<std::size_t>(shape.table + shape.beam_width) * sizeof(std::uint32_t);
    return (sum + 7) / 8 * 8;
  }

  /// The list and its marks where they do not fit shared memory.
  __device__ void place_list(Key* list, unsigned char* marks) {
    list_ = list;
    marks_ = marks;
  }

  /// From the entries to where every node of the list is expanded, for the query of the codes.
  /// @param nodes for among_allowed
  /// @param seen takes the keys of expanded nodes, in their order; null: nobody wants them
  __device__ void run(std::uint32_t left_out, const NodeRows& nodes, Seen* seen) {
    const int lane = lane_of_warp();
    left_out_ = left_out;
    nodes_ = &nodes;
    size_ = next_ = allowed_ = 0;
    for (int i = lane; i < shape_.table; i += 32) table_[i] = no_node;
    __syncwarp();
    expand(graph_.entries, graph_.entry_count);
    while (const int count = choose(seen)) {
      hops_ += count;
      for (int i = 0; i < count; ++i) expand(graph_.edges + beam_[i] * graph_.stride, graph_.stride);
    }
  }

  /// Ascending, every one expanded; valid until the next run.
  __device__ const Key* list() const { return list_; }
  __device__ int size() const { return size_; }
  __device__ bool marked(int i) const { return marks_[i] != 0; }
  /// among_allowed: nodes of the list that are.
  __device__ int allowed() const { return allowed_; }
  __device__ std::uint32_t hops() const { return hops_; }
  __device__ std::uint32_t distances() const { return distances_; }

 private:
  // Offers the nodes of a list that were not visited yet.
  __device__ void expand(const std::uint32_t* nodes, std::int64_t count) {
    const int lane = lane_of_warp();
    bool ended = false;
    for (std::int64_t from = 0; from < count && !ended; from += most_offered) {
      int found = 0;
      std::uint32_t some[most_offered / 32];
#pragma unroll
      for (int part = 0; part < most_offered / 32; ++part) {
        const std::int64_t i = from + 32 * part + lane;
        some[part] = i < count ? nodes[i] : no_node;
      }
#pragma unroll
      for (int part = 0; part < most_offered / 32; ++part) {
        const std::uint32_t node = some[part];
        bool fresh = node != no_node && node != left_out_;
        // Visited or not decides no outcome: what the table forgets is evaluated again.
        if (fresh) fresh = atomicExch(&table_[(node * 0x9E3779B1U) >> shift_], node) != node;
        const unsigned mask = __ballot_sync(whole_warp, fresh);
        if (fresh) codes_.found[found + __popc(mask & lanes_below())] = node;
        found += __popc(mask);
        ended = ended || __any_sync(whole_warp, node == no_node);
      }
      __syncwarp();
      if (found == 0) continue;
      distances_ += static_cast<std::uint32_t>(found);
      codes_.estimate(found);
      offer(found);
    }
  }

  __device__ bool full() const {
    return size_ == shape_.capacity || (among_allowed && allowed_ == shape_.list_size);
  }

  // Takes the first `count` offered into the list, those that are near enough.
  __device__ void offer(int count) {
    const int lane = lane_of_warp();
    const Key worst = full() ? list_[size_ - 1] : no_key;
    int near = 0;
#pragma unroll
    for (int part = 0; part < most_offered / 32; ++part) {
      const int i = 32 * part + lane;
      const Key key = i < count ? codes_.offered[i] : no_key;
      const bool takes = key < worst;
      const unsigned mask = __ballot_sync(whole_warp, takes);
      __syncwarp();
      if (takes) codes_.offered[near + __popc(mask & lanes_below())] = key;
      near += __popc(mask);
      __syncwarp();
    }
    for (int from = 0; from < near; from += 32) {
      merge(min(32, near - from), codes_.offered + from);
    }
  }

  // Takes `near` keys, one a thread and in `keys`, where there is place for them, into the list.
  __device__ void merge(int near, Key* keys) {
    const int lane = lane_of_warp();
    Key key = lane < near ? keys[lane] : no_key;
    // Their order: few are counted, many are sorted.
    int below = 0;
    bool repeated = false;
    if (near <= few_keys) {
      for (int i = 0; i < near; ++i) {
        const Key other = keys[i];
        below += other < key ? 1 : 0;
        repeated = repeated || (other == key && i < lane);
      }
    } else {
      key = sort_keys(key);
      const Key before = __shfl_up_sync(whole_warp, key, 1);
      repeated = lane > 0 && before == key;
    }
    const int place = keys_below(list_, size_, key);
    const bool known = place < size_ && (list_[place] | expanded) == (key | expanded);
    const bool fresh = key != no_key && !known && !repeated;
    const unsigned mask = __ballot_sync(whole_warp, fresh);
    __syncwarp();
    if (mask == 0) return;
    const int count = __popc(mask);
    int rank = __popc(mask & lanes_below());
    if (near <= few_keys) {  // of those that are fresh
      rank = below;
      for (unsigned left = ~mask & ((1U << near) - 1); left != 0; left &= left - 1) {
        if (keys[__ffs(static_cast<int>(left)) - 1] < key) --rank;
      }
    }
    __syncwarp();
    const int first = __reduce_min_sync(whole_warp, fresh ? place : size_);
    if (fresh) keys[rank] = key;
    __syncwarp();
    // From the end on, so that nothing is written over before it was read.
    for (int base = size_ > 0 ? (size_ - 1) / 32 * 32 : -1; base >= first / 32 * 32; base -= 32) {
      const int at = base + lane;
      const bool moves = at >= first && at < size_;
      const Key held = moves ? list_[at] : 0;
      unsigned char mark = 0;
      if (among_allowed && moves) mark = marks_[at];
      const int to = at + (moves ? keys_below(keys, count, held) : 0);
      __syncwarp();
      if (moves && to < shape_.capacity) {
        list_[to] = held;
        if constexpr (among_allowed) marks_[to] = mark;
      }
      __syncwarp();
    }
    if (fresh && place + rank < shape_.capacity) {
      list_[place + rank] = key;
      if constexpr (among_allowed) marks_[place + rank] = allows(*nodes_, node_of(key)) ? 1 : 0;
    }
    size_ = min(shape_.capacity, size_ + count);
    next_ = min(next_, first);
    __syncwarp();
    if constexpr (among_allowed) cut();
  }

  // Ends the list at the last allowed node that it is to have.
  __device__ void cut() {
    allowed_ = 0;
    for (int base = 0; base < size_; base += 32) {
      const int at = base + lane_of_warp();
      unsigned mask = __ballot_sync(whole_warp, at < size_ && marks_[at] != 0);
      const int more = __popc(mask);
      if (allowed_ + more < shape_.list_size) {
        allowed_ += more;
        continue;
      }
      for (; allowed_ + 1 < shape_.list_size; ++allowed_) mask &= mask - 1;
      allowed_ = shape_.list_size;
      size_ = base + __ffs(static_cast<int>(mask));
    }
  }

  // Marks the nearest nodes that are not expanded as such and writes them to beam_; how many.
  __device__ int choose(Seen* seen) {
    const int lane = lane_of_warp();
    int count = 0;
    for (int base = next_; base < size_ && count < shape_.beam_width;) {
      const int at = base + lane;
      const Key key = at < size_ ? list_[at] : expanded;
      const unsigned mask = __ballot_sync(whole_warp, (key & expanded) == 0);
      if (mask == 0) {
        base += 32;
        next_ = min(base, size_);
        continue;
      }
      const int from = __ffs(static_cast<int>(mask)) - 1;
      const Key chosen = __shfl_sync(whole_warp, key, from);
      __syncwarp();
      if (lane == 0) {
        list_[base + from] = chosen | expanded;
        beam_[count] = node_of(chosen);
      }
      if (seen != nullptr) seen->take(chosen);
      ++count;
      base += from + 1;
      next_ = base;
      __syncwarp();
    }
    return count;
  }

  const GraphView& graph_;
  const WalkShape& shape_;
  Codes& codes_;
  const NodeRows* nodes_ = nullptr;
  Key* list_;
  std::uint32_t* table_;
  std::uint32_t* beam_;
  unsigned char* marks_;
  int shift_;
  std::uint32_t left_out_ = no_node;
  int size_ = 0;  // entries of list_ in use
  int next_ = 0;  // no entry before it is unexpanded
  int allowed_ = 0;
  std::uint32_t hops_ = 0;
  std::uint32_t distances_ = 0;
};

}  // namespace
}  // namespace kith::vamana::cuda
