// The walk of a group of queries: which of them one walk serves, nodes and leaves near them, and their points
// into shared memory.
#pragma once

#include "point_tree/cuda/group.cuh"

namespace kith::point_tree::cuda {
namespace {

// The end of a run of queries from `from` on that one walk serves well, and their box. A curve through
// space jumps: queries on both sides of a jump would share a box that spans it and much else. The box must
// not be large in terms of the usual step, else the run ends at the largest step.
template <int K, bool manhattan, Output output>
__device__ inline int Group<K, manhattan, output>::compact_part(int from, int to, bool todo) {
  // The run depends on all its queries, the box at last on those of `todo` only.
  bool whole = true;
#pragma unroll 1
  while (true) {
    const bool in = lane_ >= from && lane_ < to;
    const bool boxed = in && (whole || todo);
    const float q[3] = {query_.x, query_.y, query_.z};
#pragma unroll
    for (int j = 0; j < 3; ++j) {
      box_.lower[j] = boxed ? q[j] : INFINITY;
      box_.upper[j] = boxed ? q[j] : -INFINITY;
#pragma unroll
      for (int apart = 16; apart > 0; apart /= 2) {
        box_.lower[j] = fminf(box_.lower[j], __shfl_xor_sync(everyone, box_.lower[j], apart));
        box_.upper[j] = fmaxf(box_.upper[j], __shfl_xor_sync(everyone, box_.upper[j], apart));
      }
    }
    if (!whole || to - from == 1) return to;
    const float dx = query_.x - __shfl_down_sync(everyone, query_.x, 1);
    const float dy = query_.y - __shfl_down_sync(everyone, query_.y, 1);
    const float dz = query_.z - __shfl_down_sync(everyone, query_.z, 1);
    const float step = in && lane_ < to - 1 ? sqrtf(dx * dx + dy * dy + dz * dz) : 0.0f;
    const float greatest = largest(step);
    float sum = step;
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(everyone, sum, apart);
    const float usual = (sum - greatest) / static_cast<float>(to - from > 2 ? to - from - 2 : 1);
    float volume = 1;
#pragma unroll
    for (int j = 0; j < 3; ++j) volume *= box_.upper[j] - box_.lower[j] + 2 * usual;
    if (volume <= most_cubes * usual * usual * usual || greatest == 0.0f) {
      if (!__any_sync(everyone, in && !todo)) return to;
      whole = false;
      continue;
    }
    to = __ffs(static_cast<int>(__ballot_sync(everyone, in && lane_ < to - 1 && step == greatest)));
  }
}

// The way down to a leaf near the box: its middle point.
template <int K, bool manhattan, Output output>
__device__ inline std::int64_t Group<K, manhattan, output>::nearest_point() const {
  std::uint32_t node = 0;
#pragma unroll 1
  while (true) {
    const auto* child = reinterpret_cast<const float4*>(
        s_.tree.nodes + static_cast<std::int64_t>(node) * node_width + lane_ % 16);
    const float4 a = child[0];
    const float4 b = child[1];
    const float lower[3] = {a.x, a.y, a.z};
    const float upper[3] = {b.x, b.y, b.z};
    float away = apart<manhattan>(box_, lower, upper);
    float centers = 0;
#pragma unroll
    for (int j = 0; j < 3; ++j) {
      const float d = (lower[j] + upper[j]) - (box_.lower[j] + box_.upper[j]);
      centers += manhattan ? fabsf(d) : d * d;
    }
    // Of the boxes that meet the queries', the one whose centre is the nearest. Unused children have none.
    away = centers < INFINITY ? away + 0.01f * centers : INFINITY;
    const unsigned least = __reduce_min_sync(everyone, __float_as_uint(away));
    const int c = __ffs(static_cast<int>(__ballot_sync(everyone, __float_as_uint(away) == least))) - 1;
    const std::uint32_t begin = __float_as_uint(__shfl_sync(everyone, a.w, c));
    const std::uint32_t count = __float_as_uint(__shfl_sync(everyone, b.w, c));
    if (count != node_mark) {
      return static_cast<std::int64_t>(begin) + (count & ~identical_mark) / 2;
    }
    node = begin;
  }
}

// What the walk compares with, whenever limits have changed.
template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::aim() {
  most_ = largest(active_ && !dead_ ? limit_ : 0.0f);
  near_ = most_ * (1 + 0x1p-20F) + 0x1p-126F;
  const float threshold = fminf(limit_, most_) * scale_ * scale_ * (1 + 0x1p-20F) - square_ + error_;
  const auto bits = static_cast<unsigned>(__half_as_ushort(__float2half_ru(threshold)));
  threshold_ = bits | bits << 16U;
}

// Where the walk's box lies, and the queries in half precision, relative to it (step 10).
template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::frame() {
  const float q[3] = {query_.x, query_.y, query_.z};
  float diagonal = 0;
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    center_[j] = 0.5f * box_.lower[j] + 0.5f * box_.upper[j];
    half_[j] = fmaxf(box_.upper[j] - center_[j], center_[j] - box_.lower[j]) * (1 + 0x1p-20F);
    diagonal += half_[j] * half_[j];
  }
  diagonal = sqrtf(diagonal);
  const float most = largest(active_ ? limit_ : 0.0f);
  const float reach = (diagonal + sqrtf(most)) * 1.001f;
  // Coordinates up to 8, squares up to 64.
  scale_ = 8 / reach;
  error_ = 0x1p-11F * 1.06f * (256 + 80 * diagonal * scale_);
  coarse_ = !manhattan && reach > 1e-15f && reach < 1e15f && error_ <= 0.25f * most * scale_ * scale_;
  if (!coarse_) scale_ = 0;
  square_ = 0;
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    const float v = (q[j] - center_[j]) * scale_;
    square_ += v * v;
    const auto bits = static_cast<unsigned>(__half_as_ushort(__float2half_rn(-2 * v)));
    minus_twice_[j] = bits | bits << 16U;
  }
}

template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::start_walk() {
  frame();
  if (lane_ == 0) stack_[0] = 0;
  top_ = __any_sync(everyone, active_) ? 1 : 0;
  run_ = make_uint2(0, 0);
  __syncwarp();
}

// Goes on with the walk until it is over, or the words are full: then false.
template <int K, bool manhattan, Output output>
__device__ inline bool Group<K, manhattan, output>::fill() {
#pragma unroll 1
  while (true) {
    // The points of a run come while those before them are looked at. Behind the last run is an empty one.
    const int enough = words_ * 32 + 32;
#pragma unroll 1
    while (run_.y != 0 && filled_ < enough) {
      const float4 p = next_;
      const std::uint32_t begin = run_.x;
      const std::uint32_t n = run_.y;
      run_.x += 32;
      run_.y -= 32;
      if (n <= 32) run_ = queue_[next_run_++];
      if (lane_ < run_.y) next_ = s_.tree.points[run_.x + lane_];
      stage(p, begin, n);
    }
    if (filled_ < enough && top_ > 0) {
      int queued = 0;
      __syncwarp();
#pragma unroll 1
      while (top_ > 0 && queued < queued_room - 33) visit(top_, queued);
      if (lane_ == 0) queue_[queued] = make_uint2(0, 0);
      __syncwarp();
      run_ = queue_[0];
      next_run_ = 1;
      if (lane_ < run_.y) next_ = s_.tree.points[run_.x + lane_];
      continue;
    }
    // Here 32 points wait, or the walk is over.
    const bool over = run_.y == 0 && top_ == 0;
#pragma unroll 1
    while (filled_ > words_ * 32) {
      compare();
      // Room is for 32 points more than what is not compared yet.
      if (!over && words_ < room() - 1) break;
    }
    if (over) {
      filled_ = words_ * 32;
      return true;
    }
    if (words_ >= room() - 1) return false;
  }
}

// One node or two: children that are nodes onto the stack, runs of leaves that follow each other into the
// queue.
template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::visit(int& top, int& queued) {
  const std::uint32_t one = stack_[--top];
  // A second node for the other half of the warp, while the stack is sure to hold both nodes' children.
  const bool both = top > 0 && top < 40;
  if (both) --top;
  const std::uint32_t node = lane_ < 16 || !both ? one : stack_[top];
  const auto* child = reinterpret_cast<const float4*>(
      s_.tree.nodes + static_cast<std::int64_t>(node) * node_width + lane_ % 16);
  const float4 a = child[0];
  const float4 b = child[1];
  const float lower[3] = {a.x, a.y, a.z};
  const float upper[3] = {b.x, b.y, b.z};
  const bool passes = (lane_ < 16 || both) && apart<manhattan>(box_, lower, upper) <= most_;
  const std::uint32_t begin = __float_as_uint(a.w);
  std::uint32_t count = __float_as_uint(b.w);
  const bool is_node = count == node_mark;
  const bool identical = !is_node && (count & identical_mark) != 0;
  // Rows of equal points ascend: one more than k, since one may be the query itself.
  if (identical) count = min(count & ~identical_mark, static_cast<std::uint32_t>(s_.answer.k) + 1);
  const unsigned before = (1U << lane_) - 1U;
  const unsigned nodes = __ballot_sync(everyone, passes && is_node);
  const unsigned leaves = __ballot_sync(everyone, passes && !is_node && !identical);
  const unsigned alone = __ballot_sync(everyone, passes && identical);
  // A run starts where no leaf of the same node precedes, and ends before the first that is not there.
  const unsigned starts = (leaves & ~(leaves << 1U & ~0x10000U)) | alone;
  const unsigned here = (lane_ < 16 ? leaves & 0xffffU : leaves >> 16U) >> (lane_ & 15);
  const int length = __ffs(static_cast<int>(~here)) - 1;
  const std::uint32_t end = __shfl_sync(everyone, begin + count, lane_ + (length > 0 ? length - 1 : 0));
  __syncwarp();
  if (nodes >> lane_ & 1U) stack_[top + __popc(nodes & before)] = begin;
  if (starts >> lane_ & 1U) queue_[queued + __popc(starts & before)] = make_uint2(begin, end - begin);
  top += __popc(nodes);
  queued += __popc(starts);
  __syncwarp();
}

// Up to 32 points, those near the box, to the others.
template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::stage(const float4& p, std::uint32_t begin,
                                                          std::uint32_t n) {
  const float u[3] = {p.x - center_[0], p.y - center_[1], p.z - center_[2]};
  float away = 0;
#pragma unroll
  for (int j = 0; j < 3; ++j) away = add_term<manhattan>(away, fmaxf(__fsub_rn(fabsf(u[j]), half_[j]), 0.0f));
  const bool near = lane_ < n && away <= near_;
  const unsigned mask = __ballot_sync(everyone, near);
  if (mask == 0) return;
  if (used_chunks_ == most_chunks) {  // no more numbers
    dead_ = dead_ || active_;
    top_ = 0;
    run_.y = 0;
    return;
  }
  if (lane_ == 0) chunks_[used_chunks_] = begin;
  if (near) {
    const int to = filled_ + __popc(mask & ((1U << lane_) - 1U));
    // Which candidate it is, and whose query.
    const std::uint32_t number = static_cast<std::uint32_t>(used_chunks_ * 32 + lane_) | own_tag(begin);
    staged_[to] = make_float4(p.x, p.y, p.z, __uint_as_float(number));
    // Two points side by side, 16 apart: bit i of a word of the comparison is then point i.
    if (coarse_) {
      auto* half = reinterpret_cast<__half*>(coarse_points_ + (to / 32 & 1) * 16 + to % 16) + (to / 16 & 1);
      const float x = u[0] * scale_;
      const float y = u[1] * scale_;
      const float z = u[2] * scale_;
      half[0] = __float2half_rn(x);
      half[2] = __float2half_rn(y);
      half[4] = __float2half_rn(z);
      half[6] = __float2half_rn(x * x + y * y + z * z);
    }
  }
  filled_ += __popc(mask);
  ++used_chunks_;
  __syncwarp();
}

}  // namespace
}  // namespace kith::point_tree::cuda
