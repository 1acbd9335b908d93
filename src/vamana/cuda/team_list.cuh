// The list of a walk in the hands of some warps of a block: as list.cuh has it, with the same outcome, in a
// quarter of the time. It ascends in shared memory, twice: what comes in is merged from one copy into the
// other.
#pragma once

#include "vamana/cuda/list.cuh"

namespace kith::vamana::cuda {
namespace {

/// Its methods are for the first threads() threads of the block, all together.
class TeamList {
 public:
  static constexpr int most = 128;  ///< keys
  static constexpr int offering = most_offered / 32;
  static constexpr int no_slot = -1;

  /// In shared memory.
  struct Memory {
    Key keys[2][most];
    int slots[2][most];  ///< where the keys of a node's neighbours are; no_slot: nowhere
    Key fresh[offering][32];
    int counts[offering];
    int twins;
  };

  struct Next {
    Key key;  ///< no_key: there is none
    int at;
    int slot;
  };

  __device__ TeamList(Memory& memory, int capacity) : m_(memory), capacity_(capacity) {
    if (threadIdx.x == 0) m_.twins = 0;
  }

  /// A thread for each key that is offered, and for each of the list: whole warps.
  __device__ int threads() const { return 32 * (offering + (capacity_ + 31) / 32); }
  /// Barrier of these threads.
  __device__ void meet() const { asm volatile("bar.sync 1, %0;" ::"r"(threads()) : "memory"); }

  /// Of an empty list: keys that ascend and stand once each. To be followed by a barrier.
  __device__ void fill(const Key* keys, int count) {
    size_ = min(count, capacity_);
    const int i = static_cast<int>(threadIdx.x);
    if (i < size_) {
      m_.keys[now_][i] = keys[i];
      m_.slots[now_][i] = no_slot;
    }
  }

  __device__ int size() const { return size_; }
  /// This thread's key of those from a multiple of 32 on; `base` + its number below size().
  __device__ Key key(int base) const { return m_.keys[now_][base + lane_of_warp()]; }
  __device__ int& slot(int i) { return m_.slots[now_][i]; }
  /// The key that a nearer one would push off; no_key while there is room.
  __device__ Key last() const { return size_ == capacity_ ? m_.keys[now_][capacity_ - 1] : no_key; }

  /// The nearest that is not expanded.
  __device__ Next next() const {
    for (int base = 0; base < size_; base += 32) {
      const int i = base + lane_of_warp();
      const bool waits = i < size_ && (m_.keys[now_][i] & expanded) == 0;
      const unsigned mask = __ballot_sync(whole_warp, waits);
      if (mask == 0) continue;
      const int at = base + __ffs(static_cast<int>(mask)) - 1;
      return {m_.keys[now_][at], at, m_.slots[now_][at]};
    }
    return {no_key, 0, no_slot};
  }

  /// Marks the key at a place as expanded (-1: none), and takes up to most_offered keys, those that are near
  /// enough.
  __device__ void take(int at, const Key* keys, int count) {
    const int lane = lane_of_warp();
    const int tid = static_cast<int>(threadIdx.x);
    const int warp = tid / 32;
    const bool offers = warp < offering;
    const Key* const list = m_.keys[now_];
    const int i = offers ? tid : tid - 32 * offering;  // of a key that is offered, or of the list
    Key key = no_key;
    int below = i;
    bool fresh = false;
    if (offers) {
      if (i < count) key = keys[i];
      if (key < last()) {
        below = keys_below(list, size_, key);
        fresh = below == size_ || (list[below] | expanded) != (key | expanded);
      }
    } else if (i < size_) {
      key = list[i];
    }
    // Once, but where a key is offered twice.
    int more = 0;
    do {
      ++takes_;
      const unsigned mask = __ballot_sync(whole_warp, fresh);
      const int rank = __popc(mask & lanes_below());
      if (fresh) m_.fresh[warp][rank] = key;
      if (offers && lane == 0) m_.counts[warp] = __popc(mask);
      meet();
      more = 0;
      int place = below;
      int equal = 0;
#pragma unroll
      for (int part = 0; part < offering; ++part) {
        const int its = m_.counts[part];
        more += its;
#pragma unroll 4
        for (int j = 0; j < its; ++j) {
          const Key other = m_.fresh[part][j];
          place += other < key ? 1 : 0;
          equal += other == key ? 1 : 0;
        }
      }
      if (more == 0) break;
      if (fresh && equal > 1) {
        for (int part = 0; part <= warp; ++part) {
          const int before = part < warp ? m_.counts[part] : rank;
          for (int j = 0; j < before; ++j) fresh = fresh && m_.fresh[part][j] != key;
        }
        m_.twins = takes_;
      }
      if (fresh || (!offers && i < size_)) {
        if (place < capacity_) {
          m_.keys[now_ ^ 1][place] = i == at && !offers ? key | expanded : key;
          m_.slots[now_ ^ 1][place] = offers ? no_slot : m_.slots[now_][i];
        }
      }
      meet();
    } while (m_.twins == takes_);
    if (more == 0) {
      if (tid == 0 && at >= 0) m_.keys[now_][at] |= expanded;
      meet();
      return;
    }
    size_ = min(capacity_, size_ + more);
    now_ ^= 1;
  }

  // What walks among allowed nodes ask.
  __device__ static bool marked(int /*i*/) {
    return true;
  }
  __device__ static int allowed() {
    return 0;
  }

 private:
  Memory& m_;
  int capacity_;
  int size_ = 0;
  int now_ = 0;  // the copy that counts
  int takes_ = 0;
};

}  // namespace
}  // namespace kith::vamana::cuda
