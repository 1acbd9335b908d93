// What a group of queries keeps of the points that its walk brings: comparisons in half precision, lists of
// integers in registers, and at the end canonical distances.
#pragma once

#include "point_tree/cuda/group.cuh"
#include "select_k/cuda/networks.cuh"

namespace kith::point_tree::cuda {
namespace {

using select_k::cuda::merge_bitonic;
using select_k::cuda::sort_registers;

// The k smallest come to lie at the end of the list; what is before never moves.
template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::clear(bool mine) {
  const unsigned fits = everyone << (K - static_cast<int>(s_.answer.k));  // entry i: 0 or no_key
#pragma unroll
  for (int i = 0; i < K; ++i) {
    const auto empty = static_cast<std::uint32_t>(static_cast<int>(fits << (31 - i)) >> 31);
    list_[i] = mine ? empty : list_[i];
  }
  dropped_[0] = mine ? no_key : dropped_[0];
  dropped_[1] = mine ? no_key : dropped_[1];
}

// Eight candidates into the list; the two least that do not stay are remembered.
template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::absorb(std::uint32_t (&some)[8]) {
  sort_registers(some);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    std::uint32_t& last = list_[K - 8 + j];
    const std::uint32_t out = max(last, some[7 - j]);
    last = min(last, some[7 - j]);
    dropped_[1] = min(dropped_[1], max(dropped_[0], out));
    dropped_[0] = min(dropped_[0], out);
  }
  merge_bitonic<32>(list_);
}

// Words of all points around `place`: k of them lie within some limit of each active lane. They are no
// candidates yet, the walk meets them again.
template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::take_seeds(std::int64_t place) {
  std::int64_t seed = place - seeds<K> / 2;
  seed = seed > s_.tree.count - seeds<K> ? s_.tree.count - seeds<K> : seed;
  seed = seed < 0 ? 0 : seed;
#pragma unroll 1
  for (; words_ < seeds<K> / 32; ++words_) {
    const std::int64_t n = s_.tree.count - seed;
    if (n <= 0) break;
    if (lane_ < n) {
      float4 p = s_.tree.points[seed + lane_];
      p.w = __uint_as_float(own_tag(seed));
      staged_[words_ * 32 + lane_] = p;
    }
    masks_[words_ * 32 + lane_] = n < 32 ? (1U << n) - 1U : everyone;
    if (active_) nonempty_ |= 1U << words_;
    seed += 32;
  }
  __syncwarp();
}

// Whose query the point is that lies `lane` places behind `begin`, above 16 zeros.
template <int K, bool manhattan, Output output>
__device__ inline std::uint32_t Group<K, manhattan, output>::own_tag(std::int64_t begin) const {
  if (own_ == everyone) return 0;
  const std::int64_t own = begin + lane_ - first_;
  return own >= 0 && own < 32 ? static_cast<std::uint32_t>(own) << 16U : 0xfffe0000U;
}

// A word for the next 32 staged points: bit i says that point i may be within the limit.
template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::compare() {
  unsigned mask = 0;
  if (coarse_) {
    const uint4* points = coarse_points_ + (words_ & 1) * 16;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const uint4 p = points[i];
      const __half2 sum = __hfma2(half2_of(p.x), half2_of(minus_twice_[0]),
                                  __hfma2(half2_of(p.y), half2_of(minus_twice_[1]),
                                          __hfma2(half2_of(p.z), half2_of(minus_twice_[2]), half2_of(p.w))));
      mask |= __hle2_mask(sum, half2_of(threshold_)) & (0x00010001U << i);
    }
  } else {
    const float4* points = staged_ + words_ * 32;
#pragma unroll 8
    for (int i = 0; i < 32; ++i) {
      if (sum_of<manhattan>(points[i], query_, 0.0f) <= limit_) mask |= 1U << i;
    }
  }
  const int n = filled_ - words_ * 32;
  tested_ += n < 32 ? n : 32;
  if (n < 32) mask &= (1U << n) - 1U;
  if (!active_ || dead_) mask = 0;
  masks_[words_ * 32 + lane_] = mask;
  kept_ += static_cast<unsigned>(__popc(mask));
  if (mask != 0) nonempty_ |= 1U << words_;
  ++words_;
  __syncwarp();
}

// A candidate of the words, if the lane has another: its integer, or no_key where it is too far.
template <int K, bool manhattan, Output output>
__device__ inline std::uint32_t Group<K, manhattan, output>::next_of(unsigned& mask, const float4*& from) {
  if (mask == 0 && nonempty_ != 0) {
    const int w = 31 - __clz(static_cast<int>(nonempty_));
    nonempty_ ^= 1U << w;
    mask = masks_[w * 32 + lane_];
    from = staged_ + w * 32;
  }
  const int i = (31 - __clz(static_cast<int>(mask))) & 31;
  const bool has = mask != 0;
  mask &= ~(1U << i);
  const float4 p = from[i];
  const float sum = sum_of<manhattan>(p, query_, 0.0f);
  const std::uint32_t number = __float_as_uint(p.w);
  const bool keeps = has && sum <= limit_ && (number & 0xffff0000U) != own_;
  return keeps ? key_of(sum, number) : no_key;
}

// The words' candidates into the list, and a better limit from it; or evaluated, into the slots.
template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::extract() {
  unsigned mask = 0;
  const float4* from = staged_;
  if (exact_) {
#pragma unroll 1
    while (__any_sync(everyone, (mask | nonempty_) != 0)) {
      const std::uint32_t key = next_of(mask, from);
      if (key != no_key) insert(evaluate(candidate(key), key), static_cast<int>(s_.answer.k));
    }
    __syncwarp();
    return;
  }
#pragma unroll 1
  while (__any_sync(everyone, (mask | nonempty_) != 0)) {
    std::uint32_t some[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) some[j] = next_of(mask, from);
    absorb(some);
  }
  const float better = sum_above(list_[K - 1]);
  if (!dead_ && list_[K - 1] != no_key && better <= limit_) {
    limit_ = better;
    certain_ = true;
  }
  __syncwarp();
}

// The canonical distance above the row, or above the place where places are asked for.
template <int K, bool manhattan, Output output>
__device__ inline unsigned long long Group<K, manhattan, output>::evaluate(const float4& p,
                                                                           std::uint32_t key) const {
  const double x = term<manhattan>(query_.x, p.x);
  const double z = term<manhattan>(query_.z, p.z);
  const double sum = canonical_sum(x, term<manhattan>(query_.y, p.y), z);
  const float distance = __double2float_rn(s_.rooted ? root(sum) : sum);
  if (distance > s_.radius) return none;
  const std::uint32_t low =
      output == Output::places ? static_cast<std::uint32_t>(place_of(key)) : __float_as_uint(p.w);
  return static_cast<unsigned long long>(__float_as_uint(distance)) << 32U | low;
}

// Of two places at one distance the row decides.
template <int K, bool manhattan, Output output>
__device__ inline bool Group<K, manhattan, output>::before(unsigned long long a, unsigned long long b) const {
  if (output != Output::places || b == none ||
      static_cast<unsigned>(a >> 32U) != static_cast<unsigned>(b >> 32U)) {
    return a < b;
  }
  const auto row = [&](unsigned long long key) {
    return __float_as_uint(s_.tree.points[key & 0xffffffffU].w);
  };
  return row(a) < row(b);
}

// Into `count` sorted slots, the last of which is dropped.
template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::insert(unsigned long long one, int count) {
  unsigned long long* slot = slots_ + (count - 1) * 33 + lane_;
  if (!before(one, *slot)) return;
  for (; slot >= slots_ + 33 && before(one, slot[-33]); slot -= 33) *slot = slot[-33];
  *slot = one;
}

// The list, and the one candidate that is nearly as small as its last, if there is one, evaluated and
// sorted into the slots. Nearly all are in order.
template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::rerank(bool mine) {
  const int k = static_cast<int>(s_.answer.k);
#pragma unroll
  for (int i = 0; i < K; ++i) {
    if (i >= K - k) slots_[(i - (K - k)) * 33 + lane_] = mine ? list_[i] : no_key;
  }
  const bool extra = mine && dropped_[0] < above(list_[K - 1]);
  float4 next = candidate(static_cast<std::uint32_t>(slots_[lane_]));
#pragma unroll 1
  for (int i = 0; i < k || __any_sync(everyone, extra && i == k); ++i) {
    const auto key =
        i < k ? static_cast<std::uint32_t>(slots_[i * 33 + lane_]) : (extra ? dropped_[0] : no_key);
    const float4 p = next;
    next = candidate(i + 1 < k ? static_cast<std::uint32_t>(slots_[(i + 1) * 33 + lane_])
                               : (extra ? dropped_[0] : no_key));
    if (i < k) slots_[i * 33 + lane_] = none;
    if (key != no_key) insert(evaluate(p, key), i < k ? i + 1 : k);
  }
  __syncwarp();
}

// For the next group, from the k-th sums of this one.
template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::guess_from(bool has, float sum, bool once) {
  spread_ = once ? fmaxf(spread_ * narrowed, least_spread) : fminf(spread_ * widened, most_spread);
  float all = has ? sum : 0.0f;
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) all += __shfl_xor_sync(everyone, all, apart);
  const int lanes = __popc(__ballot_sync(everyone, has));
  // Queries that are rows may have all their neighbours at no distance.
  guess_ = lanes == 0 ? 0.0f : fmaxf(spread_ * all / static_cast<float>(lanes), sum_above(0));
}

// A query's cells side by side, eight lanes a query; of columns those of one rank.
template <int K, bool manhattan, Output output>
__device__ inline void Group<K, manhattan, output>::write(unsigned answered) {
  const int k = static_cast<int>(s_.answer.k);
  if constexpr (output != Output::answer) {
    std::uint32_t* cell = column();
#pragma unroll 1
    for (int rank = 0; rank < k && (answered >> lane_ & 1U) != 0; ++rank, cell += s_.column) {
      const unsigned long long key = slots_[rank * 33 + lane_];
      *cell = static_cast<std::uint32_t>(output == Output::places ? key : key >> 32U);
    }
    __syncwarp();
    return;
  }
  const std::int64_t answer =
      s_.answer.by_place ? first_ + lane_ - s_.answer.first : std::int64_t{__float_as_uint(query_.w)};
#pragma unroll 1
  for (int q0 = 0; q0 < 32; q0 += 4) {
    const int q = q0 + lane_ / 8;
    const std::int64_t its = __shfl_sync(everyone, answer, q);
    if ((answered >> q & 1U) == 0) continue;
#pragma unroll 1
    for (int rank = lane_ % 8; rank < k; rank += 8) {
      const unsigned long long key = slots_[rank * 33 + q];
      const std::int64_t cell = its * k + rank;
      s_.answer.indices[cell] = key == none ? -1 : static_cast<std::int64_t>(key & 0xffffffffU);
      s_.answer.distances[cell] = key == none ? INFINITY : __uint_as_float(static_cast<unsigned>(key >> 32U));
    }
  }
  if (s_.answer.unfilled.count != nullptr && (answered >> lane_ & 1U) != 0 &&
      slots_[(k - 1) * 33 + lane_] == none) {
    s_.answer.unfilled.queries[atomicAdd(s_.answer.unfilled.count, 1ULL)] = __float_as_uint(query_.w);
  }
  __syncwarp();
}

}  // namespace
}  // namespace kith::point_tree::cuda
