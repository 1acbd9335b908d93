// The walk of one query by a warp: any dimension, float and double, 4- and 8-byte rows, whatever the list.
//
// A lane takes a child of a node (two nodes at a time, where two wait) or a point of a leaf (of two,
// likewise): a query's time is that of the steps of its walk, one after the other. What may be left out is
// the business of docs/exact-contract.md, step 10.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/visit_element.cuh"
#include "distance/cuda/canonical.cuh"
#include "point_tree/cuda/search_kernels.hpp"
#include "point_tree/cuda/warp_lists.cuh"
#include "point_tree/cuda/warp_numbers.cuh"

namespace kith::point_tree::cuda {
namespace {

using namespace distance::cuda;

constexpr int node_waits = -1;
constexpr int most_unordered = constants.most_unordered;

// Place: of a point or a node. In 4 bytes an entry is read and written at once.
template <class T, class Place>
struct alignas(sizeof(Place) == 4 ? 16 : 8) Waiting {
  T low;
  Place begin;  ///< a leaf's first point, or a node
  Place count;  ///< points; node_waits; -2 - count: all equal
};

#include "point_tree/limit.inc"

// D: the dimension, where the compiler knows it, else 0.
template <class T, int D, class List>
class Walk {
 public:
  static constexpr bool collects = std::is_same_v<List, Collector<T>>;
  using Place = typename List::Place;
  using Entry = Waiting<T, Place>;

  __device__ Walk(const WarpSearch<T>& search, unsigned char* scratch, std::int64_t warp)
      : s_(search),
        lane_(static_cast<int>(threadIdx.x) % 32),
        list_(search, warp, lane_),
        stack_(reinterpret_cast<Entry*>(scratch)),
        query_(reinterpret_cast<T*>(scratch + search.stack_bytes)) {}

  __device__ void run(std::int64_t index) {
    number_ = index;
    if (s_.numbers != nullptr) {
      const std::int64_t at = index * s_.number_stride;
      number_ = s_.tree.wide_rows ? static_cast<const std::int64_t*>(s_.numbers)[at]
                                  : static_cast<const std::uint32_t*>(s_.numbers)[at];
    }
    answer_ = s_.answer.by_place ? index - s_.answer.first : number_;
    own_ = s_.exclude ? number_ : -1;
    const Sort sort = read_query(index);
    list_.start(s_.radius);
    if constexpr (collects) list_.start_writing(number_);
    if (sort == Sort::finite) {
      limit_ = Limit<T>(s_.rooted, dim()).of(list_.bound());
      if (s_.tree.nodes > 0) walk();
      list_.finish(s_, number_, answer_);
    } else if (lane_ == 0) {
      if (sort == Sort::nan && s_.nan_queries != nullptr) atomicAdd(s_.nan_queries, 1ULL);
      if (sort == Sort::endless && s_.endless.count != nullptr) {
        s_.endless.queries[atomicAdd(s_.endless.count, 1ULL)] = number_;
      }
    }
    if (sort != Sort::finite) leave_empty();
    if (s_.counts != nullptr) {
      candidates_ = __reduce_add_sync(everyone, candidates_);
      if (lane_ == 0) {
        unsigned long long* slot = s_.counts + 2 * (blockIdx.x % count_slots);
        atomicAdd(slot, tested_);
        atomicAdd(slot + 1, static_cast<unsigned long long>(candidates_));
      }
    }
    tested_ = 0;
    candidates_ = 0;
  }

 private:
  enum class Sort { finite, endless, nan };

  // A constant where there is one, so that loops over it unroll.
  __device__ std::int64_t dim() const {
    if constexpr (D > 0) return D;
    return s_.tree.dim;
  }

  __device__ T coordinate(std::int64_t j) const {
    if constexpr (D > 0) return kept_[j];
    return query_[j];
  }

  __device__ T value(std::int64_t at) const {
    const void* data = s_.queries.data;
    switch (s_.queries.dtype) {
      case Dtype::f32: return static_cast<T>(static_cast<const float*>(data)[at]);
      case Dtype::f16: return static_cast<T>(widen(static_cast<const __half*>(data)[at]));
      case Dtype::bf16: return static_cast<T>(widen(static_cast<const __nv_bfloat16*>(data)[at]));
      case Dtype::i8: return static_cast<T>(static_cast<const std::int8_t*>(data)[at]);
      case Dtype::u8: return static_cast<T>(static_cast<const std::uint8_t*>(data)[at]);
      case Dtype::f64: return static_cast<T>(static_cast<const double*>(data)[at]);
    }
    return 0;
  }

  __device__ Sort read_query(std::int64_t index) {
    __syncwarp();
    bool nan = false;
    bool endless = false;
    for (std::int64_t j = lane_; j < dim(); j += 32) {
      const T x = value(index * s_.queries.stride + j);
      nan |= x != x;
      endless |= x == infinite<T>() || x == -infinite<T>();
      query_[j] = x;
    }
    __syncwarp();
    if constexpr (D > 0) {
#pragma unroll
      for (int j = 0; j < D; ++j) kept_[j] = query_[j];
    }
    if (__any_sync(everyone, nan)) return Sort::nan;
    return __any_sync(everyone, endless) ? Sort::endless : Sort::finite;
  }

  __device__ void leave_empty() {
    if constexpr (collects) {
      if (s_.found != nullptr && lane_ == 0) s_.found[number_] = 0;
    } else {
      for (std::int64_t i = lane_; i < s_.answer.k; i += 32) {
        s_.answer.indices[answer_ * s_.answer.k + i] = -1;
        s_.answer.distances[answer_ * s_.answer.k + i] = infinite<T>();
      }
    }
  }

  // The lane of the least rank among `lanes`, of which there is one at least; it leaves them.
  __device__ int take_least(unsigned& lanes, unsigned rank) const {
    const unsigned mine = lanes >> lane_ & 1U ? rank : ~0U;
    const unsigned least = __reduce_min_sync(everyone, mine);
    const int at = __ffs(static_cast<int>(lanes & __ballot_sync(everyone, mine == least))) - 1;
    lanes &= ~(1U << at);
    return at;
  }

  // The nearest of what waits, and the next if it is of the same kind: two nodes, half the lanes each, or two
  // leaves.
  __device__ void walk() {
    int top = 0;
    Place begin = 0;
    Place count = node_waits;
    Place other_begin = 0;
    Place other_count = 0;
    bool both = false;
    const unsigned below = (1U << lane_) - 1U;
#pragma unroll 1
    while (true) {
      if (count == node_waits) {
        visit(begin, other_begin, both, top);
      } else if (count < 0) {
        take_identical(begin, -2 - static_cast<std::int64_t>(count));
      } else if (D > 0 && count <= 32) {
        scan_two(begin, count, other_begin, other_count);
      } else {
        // The lanes that the first leaves over take the second.
        const bool second = both && lane_ >= count;
#pragma unroll 1
        for (std::int64_t done = 0; done < count; done += 32) {
          scan(second ? other_begin : begin, second ? other_count : count,
               done + lane_ - (second ? count : 0));
        }
      }
      // Most of what waits is left out in the end: 32 entries are looked at together.
      int base = 0;
      Entry mine;
      unsigned rest = 0;
      do {
        if (top == 0) return;
        base = top > 32 ? top - 32 : 0;
        mine = stack_[base + lane_ < top ? base + lane_ : base];
        rest = __ballot_sync(everyone, base + lane_ < top && mine.low <= limit_);
        if (rest == 0) top = base;
      } while (rest == 0);
      // If much waits, the last one, so that it will not be much more.
      const bool best_first = top <= most_unordered;
      const unsigned rank = best_first ? rank_of(mine.low) : static_cast<unsigned>(31 - lane_);
      unsigned others = rest;
      const int first = take_least(others, rank);
      begin = __shfl_sync(everyone, mine.begin, first);
      count = __shfl_sync(everyone, mine.count, first);
      rest &= ~(1U << first);
      const bool nodes = count == node_waits;
      const Place most_beside = D > 0 ? 32 : 32 - count;
      others &= __ballot_sync(
          everyone, nodes ? mine.count == node_waits : mine.count >= 0 && mine.count <= most_beside);
      both = others != 0 && (nodes ? best_first : count >= 0 && count <= 32);
      other_count = 0;
      if (both) {
        const int second = take_least(others, rank);
        other_begin = __shfl_sync(everyone, mine.begin, second);
        other_count = __shfl_sync(everyone, mine.count, second);
        rest &= ~(1U << second);
      }
      // What stays moves together; all have read.
      __syncwarp();
      if (rest >> lane_ & 1U) stack_[base + __popc(rest & below)] = {mine.low, mine.begin, mine.count};
      top = base + __popc(rest);
      __syncwarp();
    }
  }

  __device__ void visit(Place one, Place other, bool both, int& top) {
    const int c = lane_ % static_cast<int>(node_width);
    const Place node = lane_ < node_width || !both ? one : other;
    const auto* lower = reinterpret_cast<const T*>(s_.tree.node_data + node * s_.tree.node_stride);
    const T* upper = lower + dim() * node_width;
    const auto* links = reinterpret_cast<const NodeLinks*>(lower + 2 * dim() * node_width);
    const auto child = static_cast<Place>(links->child[c]);
    const auto begin = static_cast<Place>(links->begin[c]);
    const auto end = static_cast<Place>(links->begin[c + 1]);
    const auto children = static_cast<int>(links->count);
    T low = 0;
#pragma unroll
    for (std::int64_t j = 0; j < dim(); ++j) {
      const T q = coordinate(j);
      const T under = less(lower[j * node_width + c], q);
      const T over = less(q, upper[j * node_width + c]);
      T out = under > over ? under : over;
      out = out > 0 ? out : 0;
      low = s_.manhattan ? sum_up(low, out) : square_up(low, out);
    }
    const bool passes = (lane_ < node_width || both) && c < children && low <= limit_;
    const unsigned mask = __ballot_sync(everyone, passes);
    int place = __popc(mask & ((1U << lane_) - 1U));
    if (top + __popc(mask) > most_unordered) {
      // The nearest comes to lie on top, each node's children among themselves: how many are farther, of 16
      // that are looked at side by side, those left out being the farthest.
      const Order<T> key = passes ? order_of(low) : static_cast<Order<T>>(-1);
      const int half = lane_ & 16;
      int farther = 0;
#pragma unroll
      for (int i = 0; i < static_cast<int>(node_width); ++i) {
        const Order<T> its = __shfl_sync(everyone, key, half + i);
        farther += its > key || (its == key && i > c);
      }
      const int others = __popc(mask >> 16U);  // of the second node, which lie below
      const int here = half != 0 ? others : __popc(mask & 0xffffU);
      place = farther - (static_cast<int>(node_width) - here) + (half != 0 ? 0 : others);
    }
    if (passes) {
      const Place count = end - begin;
      stack_[top + place] = {
          low, child >= 0 ? child : begin,
          child >= 0 ? static_cast<Place>(node_waits) : (child == identical_child ? -2 - count : count)};
    }
    top += __popc(mask);
    __syncwarp();
  }

  __device__ std::int64_t row_at(std::int64_t place) const {
    return s_.tree.wide_rows ? static_cast<const std::int64_t*>(s_.tree.rows)[place]
                             : static_cast<const std::uint32_t*>(s_.tree.rows)[place];
  }

  __device__ double difference(const T* x, std::int64_t count, T q, std::int64_t j) const {
    return sub(static_cast<double>(x[j * count]), static_cast<double>(q));
  }
  __device__ double first(const T* x, std::int64_t count, std::int64_t j) const {
    const double d = difference(x, count, coordinate(j), j);
    return s_.manhattan ? canonical_first<true>(d) : canonical_first<false>(d);
  }

  // All eight lanes of the canonical distance in one thread; x[j * count] are the coordinates.
  __device__ T canonical(const T* x, std::int64_t count) const {
    double sum;
    if constexpr (D == 3) {
      const double x0 = first(x, count, 0);
      const double x2 = first(x, count, 2);
      sum = canonical_sum(x0, first(x, count, 1), x2);
    } else {
      double lane[canonical_lanes];
#pragma unroll
      for (int l = 0; l < canonical_lanes; ++l) lane[l] = l < dim() ? first(x, count, l) : 0.0;
      for (std::int64_t j = canonical_lanes; j < dim(); j += canonical_lanes) {
#pragma unroll
        for (int l = 0; l < canonical_lanes; ++l) {
          if (j + l >= dim()) break;
          const double d = difference(x, count, query_[j + l], j + l);
          lane[l] = s_.manhattan ? canonical_add<true>(lane[l], d) : canonical_add<false>(lane[l], d);
        }
      }
      sum = canonical_sum(lane);
    }
    if (s_.rooted) sum = root(sum);
    if constexpr (sizeof(T) == 4) return __double2float_rn(sum);
    return sum;
  }

  // Two leaves of at most 32 points, each lane one of each, all of which are on their way together.
  __device__ void scan_two(Place begin, Place count, Place other_begin, Place other_count) {
    const Place begins[2] = {begin, other_begin};
    const Place counts[2] = {count, other_count};
    T x[2][D > 0 ? D : 1];
    std::int64_t rows[2] = {most, most};
    tested_ += static_cast<unsigned long long>(count + other_count);
#pragma unroll
    for (int leaf = 0; leaf < 2; ++leaf) {
      if (lane_ >= counts[leaf]) continue;
      rows[leaf] = row_at(static_cast<std::int64_t>(begins[leaf]) + lane_);
      const T* at = s_.tree.coordinates + static_cast<std::int64_t>(begins[leaf]) * D + lane_;
#pragma unroll
      for (int j = 0; j < D; ++j) x[leaf][j] = at[j * counts[leaf]];
    }
    bool has[2] = {};
    T distance[2] = {};
#pragma unroll
    for (int leaf = 0; leaf < 2; ++leaf) {
      has[leaf] = lane_ < counts[leaf] && is_candidate(x[leaf], 1, rows[leaf], distance[leaf]);
    }
    __syncwarp();
    bool changed = list_.offer(has[0], distance[0], rows[0]);
    if (other_count > 0) changed |= list_.offer(has[1], distance[1], rows[1]);
    if (changed) limit_ = Limit<T>(s_.rooted, dim()).of(list_.bound());
  }

  // Whether a point may be in the list, and then its distance; x[j * count] are its coordinates. A sum in
  // float tells well enough which are farther than the bound.
  __device__ bool is_candidate(const T* x, std::int64_t count, std::int64_t row, T& distance) {
    if constexpr (sizeof(T) == 4) {
      T sum = 0;
#pragma unroll
      for (std::int64_t j = 0; j < dim(); ++j) {
        const T d = less(x[j * count], coordinate(j));
        sum = s_.manhattan ? sum_up(sum, fabsf(d)) : square_up(sum, d);
      }
      if (!(sum <= limit_)) return false;
    }
    distance = canonical(x, count);
    const bool candidate = distance <= list_.bound() && row != own_;
    candidates_ += candidate;
    return candidate;
  }

  // Each lane its point of a leaf, if that has so many.
  __device__ void scan(std::int64_t begin, std::int64_t count, std::int64_t i) {
    const T* leaf = s_.tree.coordinates + begin * dim();
    tested_ += static_cast<unsigned long long>(__popc(__ballot_sync(everyone, i < count)));
    bool has = false;
    T distance = 0;
    std::int64_t row = most;
    if (i < count) {
      row = row_at(begin + i);  // on its way with the coordinates
      has = is_candidate(leaf + i, count, row, distance);
    }
    __syncwarp();
    if (list_.offer(has, distance, row)) limit_ = Limit<T>(s_.rooted, dim()).of(list_.bound());
  }

  // One distance for all; rows ascend, so of a list's k none lies behind the first k and the query itself.
  __device__ void take_identical(std::int64_t begin, std::int64_t count) {
    const T distance = canonical(s_.tree.coordinates + begin * dim(), count);
    tested_ += 1;
    if (!(distance <= list_.bound())) return;
    std::int64_t last = count;
    if constexpr (!collects) last = count < s_.answer.k + 1 ? count : s_.answer.k + 1;
    for (std::int64_t at = 0; at < last; at += 32) {
      const std::int64_t row = at + lane_ < last ? row_at(begin + at + lane_) : most;
      const bool has = row != most && row != own_;
      candidates_ += has;
      list_.offer(has, distance, row);
    }
    limit_ = Limit<T>(s_.rooted, dim()).of(list_.bound());
  }

  const WarpSearch<T>& s_;
  const int lane_;
  List list_;
  Entry* stack_;
  T* query_;
  T kept_[D > 0 ? D : 1];    // the query, where there are registers for it
  std::int64_t number_ = 0;  // the caller's
  std::int64_t answer_ = 0;  // where it goes
  std::int64_t own_ = -1;
  T limit_ = 0;
  unsigned long long tested_ = 0;
  unsigned candidates_ = 0;
};

}  // namespace
}  // namespace kith::point_tree::cuda
