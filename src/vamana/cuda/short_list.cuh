// The list of a walk in registers, for lists of a few dozen nodes: as list.cuh has it, with the same outcome.
//
// A thread holds every 32nd key. What comes in is put into its place one after the other: a comparison by all
// threads says where, and what lies behind moves one thread up. For the handful of neighbours that are near
// enough once a walk is on its way, that is a fraction of sorting and merging them.
#pragma once

#include "vamana/cuda/list.cuh"

namespace kith::vamana::cuda {
namespace {

/// R: keys a thread.
template <int R>
class ShortList {
 public:
  __device__ ShortList(const WalkShape& shape, unsigned char* /*memory*/) : capacity_(shape.capacity) {}
  __host__ __device__ static std::size_t bytes(const WalkShape& /*shape*/) { return 0; }

  __device__ void place(Key* /*list*/, unsigned char* /*marks*/) {}
  __device__ void clear(const NodeRows& /*nodes*/) {
    size_ = 0;
#pragma unroll
    for (Key& key : held_) key = no_key;
  }

  __device__ Key key(int base) const {
    Key key = held_[0];
#pragma unroll
    for (int r = 1; r < R; ++r) key = base == 32 * r ? held_[r] : key;
    return key;
  }
  __device__ int size() const {
    return size_;
  }

  __device__ void offer(const Key* keys, int count) {
#pragma unroll
    for (int part = 0; part < most_offered / 32; ++part) {
      const int i = 32 * part + lane_of_warp();
      const Key key = i < count ? keys[i] : no_key;
      for (unsigned left = __ballot_sync(whole_warp, key < last()); left != 0; left &= left - 1) {
        insert(__shfl_sync(whole_warp, key, __ffs(static_cast<int>(left)) - 1));
      }
    }
    __syncwarp();  // the keys were read
  }

  __device__ Key nearest(int from, int& after) const {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const bool waits = 32 * r + lane_of_warp() >= from && (held_[r] & expanded) == 0;
      const unsigned mask = __ballot_sync(whole_warp, waits);
      if (mask == 0) continue;
      const int lane = __ffs(static_cast<int>(mask)) - 1;
      after = 32 * r + lane + 1;
      return __shfl_sync(whole_warp, held_[r], lane);
    }
    return no_key;
  }
  __device__ void expand_before(int after) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      if (32 * r + lane_of_warp() == after - 1) held_[r] |= expanded;
    }
  }

  // What walks among allowed nodes ask.
  __device__ static bool marked(int /*i*/) {
    return true;
  }
  __device__ static int allowed() {
    return 0;
  }

 private:
  // The key that a nearer one would push off; no_key while there is room.
  __device__ Key last() const {
    const int at = capacity_ - 1;
    Key key = __shfl_sync(whole_warp, held_[0], at % 32);
#pragma unroll
    for (int r = 1; r < R; ++r) {
      const Key other = __shfl_sync(whole_warp, held_[r], at % 32);
      key = at / 32 == r ? other : key;
    }
    return key;
  }

  __device__ void insert(Key key) {
    const int lane = lane_of_warp();
    int place = 0;
    bool known = false;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      place += __popc(__ballot_sync(whole_warp, held_[r] < key));
      known = known || (held_[r] | expanded) == (key | expanded);
    }
    if (__any_sync(whole_warp, known) || place >= capacity_) return;
    Key before = no_key;  // the last of the threads' keys before these
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const Key up = __shfl_up_sync(whole_warp, held_[r], 1);
      const Key end = __shfl_sync(whole_warp, held_[r], 31);
      const int at = 32 * r + lane;
      const Key moved = lane == 0 ? before : up;
      held_[r] = at < place ? held_[r] : at == place ? key : at < capacity_ ? moved : no_key;
      before = end;
    }
    size_ = min(capacity_, size_ + 1);
  }

  int capacity_;
  int size_ = 0;
  Key held_[R];
};

}  // namespace
}  // namespace kith::vamana::cuda
