// The list of a walk and the nodes it has visited, in the hands of one warp: as cpu/walk.hpp has them, with
// the same outcome.
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

/// The nodes that a walk was at last, in shared memory.
class VisitedNodes {
 public:
  /// @param memory bytes() of it
  __device__ VisitedNodes(const WalkShape& shape, unsigned char* memory)
      : table_(reinterpret_cast<std::uint32_t*>(memory)), size_(shape.table) {
    shift_ = __clz(shape.table) + 1;
  }
  __host__ __device__ static std::size_t bytes(const WalkShape& shape) {
    return static_cast<std::size_t>(shape.table) * sizeof(std::uint32_t);
  }
  __device__ void clear() {
    for (int i = lane_of_warp(); i < size_; i += 32) table_[i] = no_node;
    __syncwarp();
  }
  /// Whether a node was visited, as far as is remembered; from now on it was. It decides no outcome: what is
  /// forgotten is evaluated again.
  __device__ bool visit(std::uint32_t node) {
    return atomicExch(&table_[(node * 0x9E3779B1U) >> shift_], node) == node;
  }

 private:
  std::uint32_t* table_;
  int size_;
  int shift_;
};

template <bool among_allowed>
class WarpList {
 public:
  /// @param memory bytes() in shared memory, aligned to 8
  __device__ WarpList(const WalkShape& shape, unsigned char* memory)
      : shape_(shape), list_(reinterpret_cast<Key*>(memory)) {
    if (shape.list_in_shared) memory += sizeof(Key) * static_cast<std::size_t>(shape.capacity);
    marks_ = memory;
  }

  /// A multiple of 8.
  __host__ __device__ static std::size_t bytes(const WalkShape& shape) {
    const auto list = static_cast<std::size_t>(shape.list_in_shared ? shape.capacity : 0);
    return (list * (sizeof(Key) + (among_allowed ? 1 : 0)) + 7) / 8 * 8;
  }

  /// The list and its marks where they do not fit shared memory.
  __device__ void place(Key* list, unsigned char* marks) {
    list_ = list;
    marks_ = marks;
  }

  /// Empty.
  __device__ void clear(const NodeRows& nodes) {
    nodes_ = &nodes;
    size_ = next_ = allowed_ = 0;
  }

  /// This thread's key of those from a multiple of 32 on, which ascend; `base` + its number below size().
  __device__ Key key(int base) const { return list_[base + lane_of_warp()]; }
  __device__ int size() const { return size_; }
  __device__ bool marked(int i) const { return marks_[i] != 0; }
  /// among_allowed: nodes of the list that are.
  __device__ int allowed() const { return allowed_; }

  /// Takes the first `count` keys, at most most_offered, those that are near enough; changes them.
  __device__ void offer(Key* keys, int count) {
    const int lane = lane_of_warp();
    const Key worst = full() ? list_[size_ - 1] : no_key;
    int near = 0;
#pragma unroll
    for (int part = 0; part < most_offered / 32; ++part) {
      const int i = 32 * part + lane;
      const Key key = i < count ? keys[i] : no_key;
      const bool takes = key < worst;
      const unsigned mask = __ballot_sync(whole_warp, takes);
      __syncwarp();
      if (takes) keys[near + __popc(mask & lanes_below())] = key;
      near += __popc(mask);
      __syncwarp();
    }
    for (int from = 0; from < near; from += 32) merge(min(32, near - from), keys + from);
  }

  /// The nearest key that is not expanded, no earlier than `from` places, and the place after it; no_key
  /// where there is none.
  __device__ Key nearest(int from, int& after) {
    const int lane = lane_of_warp();
    for (int base = max(from, next_); base < size_; base += 32) {
      const int at = base + lane;
      const unsigned mask = __ballot_sync(whole_warp, at < size_ && (list_[at] & expanded) == 0);
      if (mask == 0) {
        if (base == next_) next_ = min(base + 32, size_);
        continue;
      }
      const int place = base + __ffs(static_cast<int>(mask)) - 1;
      if (base == next_) next_ = place;
      after = place + 1;
      return list_[place];
    }
    return no_key;
  }
  /// Marks the key before place `after` as expanded.
  __device__ void expand_before(int after) {
    __syncwarp();
    if (lane_of_warp() == 0) list_[after - 1] |= expanded;
    __syncwarp();
  }

 private:
  __device__ bool full() const {
    return size_ == shape_.capacity || (among_allowed && allowed_ == shape_.list_size);
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

  const WalkShape& shape_;
  const NodeRows* nodes_ = nullptr;
  Key* list_;
  unsigned char* marks_;
  int size_ = 0;  // entries of list_ in use
  int next_ = 0;  // no entry before it is unexpanded
  int allowed_ = 0;
};

}  // namespace
}  // namespace kith::vamana::cuda
