// Nearest neighbours of many queries: a warp takes 32 of them that lie close together, one a lane, and walks
// the tree once for all.
//
// Boxes are compared with the box around the 32 queries and the largest of their 32 limits, a lane a child,
// two nodes at a time. Points of a leaf first meet the same test, a lane a point; those that stay are
// gathered in shared memory until there are 32, which every lane then compares with its query: six float32
// operations a point, the sign of the last shifted into a word. What a lane's word keeps goes to the lane's
// list of candidates, and its sum into a sorted list of k floats in registers, whose last is the lane's
// bound.
//
// Those sums are not canonical distances, but they bound them (docs/exact-contract.md, step 10): at the end
// the few candidates that the last limit keeps are evaluated in float64, and each lane sorts its keys,
// distance above row, in registers.
//
// A lane with more candidates at one distance than there is room for hands its query on.
#include <algorithm>
#include <cfloat>
#include <utility>

#include "cuda/launch.hpp"
#include "point_tree/cuda/search_kernels.hpp"

namespace kith::cuda {
namespace {

constexpr unsigned everyone = 0xffffffffU;
constexpr int warps_a_block = 2;
constexpr int row = 33;  // lanes of one slot, apart by one: reading a lane's slots meets no bank twice

// Points around a group that it takes its first bounds from.
template <int K>
constexpr int seeds = K <= 16 ? 64 : 96;

// A run of queries whose box, widened by their usual step, is larger than so many cubes of it is cut.
constexpr float most_cubes = 300;

// Candidates a lane has room for, and sums that wait to be merged into its list, `merged` at a time.
template <int K>
constexpr int capacity = K <= 8 ? 24 : (K <= 16 ? 32 : (K <= 24 ? 56 : 72));
template <int K>
constexpr int merged = K <= 8 ? 4 : 8;
template <int K>
constexpr int waiting = K <= 8 ? 8 : 16;

// Blocks that a multiprocessor should have registers for.
template <int K>
constexpr int blocks_at_once = K <= 8 ? 14 : (K <= 24 ? 10 : 8);

struct Pending {
  float low;
  std::uint32_t begin, count;
};

// Staged points and waiting sums, and at the end eight keys a lane.
template <int K>
constexpr int passing_bytes = std::max(64 * 16 + waiting<K> * row * 4, 8 * row * 8);

template <int K>
__host__ __device__ constexpr int shared_bytes(int stack) {
  const int bytes = passing_bytes<K> + capacity<K> * row * 4 + stack * static_cast<int>(sizeof(Pending));
  return (bytes + 15) / 16 * 16;
}

struct Box {
  float lower[3], upper[3];
};

template <bool manhattan>
__device__ float add_term(float sum, float d) {
  return manhattan ? __fadd_rn(sum, fabsf(d)) : __fmaf_rn(d, d, sum);
}

// A lower bound of the distance of any two points of two boxes.
template <bool manhattan>
__device__ float apart(const Box& a, const float* lower, const float* upper) {
  float sum = 0;
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    const float out = fmaxf(fmaxf(__fsub_rn(lower[j], a.upper[j]), __fsub_rn(a.lower[j], upper[j])), 0.0f);
    sum = add_term<manhattan>(sum, out);
  }
  return sum;
}

template <bool manhattan>
__device__ float sum_of(const float4& a, const float4& b, float start) {
  const float x = __fsub_rn(a.x, b.x);
  const float y = __fsub_rn(a.y, b.y);
  const float z = __fsub_rn(a.z, b.z);
  return add_term<manhattan>(add_term<manhattan>(add_term<manhattan>(start, x), y), z);
}

template <bool manhattan>
__device__ double term(float a, float b) {
  const double d = __dsub_rn(static_cast<double>(a), static_cast<double>(b));
  return manhattan ? fabs(d) : __dmul_rn(d, d);
}

// distance/cuda/canonical.cuh for at most three dimensions: absent axes add 0.
template <bool manhattan>
__device__ float canonical(const float4& q, const float4& x, bool rooted) {
  const double sum =
      __dadd_rn(__dadd_rn(term<manhattan>(q.x, x.x), term<manhattan>(q.z, x.z)), term<manhattan>(q.y, x.y));
  return __double2float_rn(rooted ? __dsqrt_rn(sum) : sum);
}

__device__ float largest(float value) {  // of values that are not negative
  return __uint_as_float(__reduce_max_sync(everyone, __float_as_uint(value)));
}

__device__ void order(float& a, float& b) {
  const float low = fminf(a, b);
  b = fmaxf(a, b);
  a = low;
}
__device__ void order(unsigned long long& a, unsigned long long& b) {
  const unsigned long long low = b < a ? b : a;
  b = b < a ? a : b;
  a = low;
}

// Registers have no addresses: which two are compared must be known to the compiler, so these networks are
// spelled out by templates, not loops.
template <int stride, bool (*applies)(int), int n, class V, int... x>
__device__ void compare_all(V (&v)[n], std::integer_sequence<int, x...> /*positions*/) {
  const auto one = [&]<int i>() {
    if constexpr (applies(i)) order(v[i], v[i + stride]);
  };
  (one.template operator()<x>(), ...);
}

template <int p, int stride>
__host__ __device__ constexpr bool in_odd_even_merge(int x) {
  return x >= stride % p && (x - stride % p) / stride % 2 == 0 && x / (2 * p) == (x + stride) / (2 * p);
}
template <int stride, int before>
__host__ __device__ constexpr bool in_bitonic_merge(int x) {
  return ((x + before) & stride) == 0;
}

// Sorts: odd-even merge sort (Batcher 1968).
template <int p = 1, int stride = 1, int n, class V>
__device__ void sort_registers(V (&v)[n]) {
  if constexpr (p < n) {
    if constexpr (stride < n) {
      compare_all<stride, in_odd_even_merge<p, stride>>(v, std::make_integer_sequence<int, n - stride>());
    }
    if constexpr (stride > 1) {
      sort_registers<p, stride / 2>(v);
    } else {
      sort_registers<2 * p, 2 * p>(v);
    }
  }
}

// Sorts what first rises and then falls, also if imagined to begin with as many -inf as a power of two lacks.
template <int stride, int n>
__device__ void merge_bitonic(float (&list)[n]) {
  constexpr int whole = n <= 8 ? 8 : (n <= 16 ? 16 : (n <= 32 ? 32 : 64));
  if constexpr (stride > 0) {
    if constexpr (stride < n) {
      compare_all<stride, in_bitonic_merge<stride, whole - n>>(list,
                                                               std::make_integer_sequence<int, n - stride>());
    }
    merge_bitonic<stride / 2>(list);
  }
}

// The n smallest of a sorted list of n and of m sorted values, sorted.
template <int n, int m>
__device__ void merge_registers(float (&list)[n], const float (&values)[m]) {
#pragma unroll
  for (int i = 0; i < m; ++i) list[n - m + i] = fminf(list[n - m + i], values[m - 1 - i]);
  merge_bitonic<32>(list);
}

template <int K, bool manhattan>
class Group {
 public:
  __device__ Group(const GroupSearch& search, unsigned char* memory)
      : s_(search),
        lane_(static_cast<int>(threadIdx.x) % 32),
        staged_(reinterpret_cast<float4*>(memory)),
        sums_(reinterpret_cast<float*>(memory + 64 * 16)),
        kept_(reinterpret_cast<std::uint32_t*>(memory + passing_bytes<K>)),
        stack_(reinterpret_cast<Pending*>(kept_ + capacity<K> * row)) {}

  // Queries [first, first + count) of the batch, count <= 32.
  __device__ void run(std::int64_t first, int count) {
    const bool self = s_.queries == nullptr;
    const bool real = lane_ < count;
    // Lanes behind the last take the last query, and are not answered.
    const std::int64_t place = first + (real ? lane_ : count - 1);
    first_ = first;
    query_ = self ? s_.tree.points[place] : s_.queries[place];
    own_ = self && !s_.include_self ? static_cast<std::uint32_t>(place) : everyone;
    limit_ = fminf(s_.limit, FLT_MAX);
    // Of the tree's own points a group takes its first bounds from those around it, all lanes together.
    int from = self ? -1 : 0;
#pragma unroll 1
    while (from < count) {
      const bool bounds_only = from < 0;
      const int to = bounds_only ? 0 : compact_part(from, count);
      active_ = bounds_only || (lane_ >= from && lane_ < to);
      most_ = largest(active_ ? limit_ : 0.0f);
      std::int64_t around = -1;
      if (bounds_only) around = first + count / 2;
      if (!self) around = nearest_point();
      walk(around, bounds_only ? 0 : 1);
      from = to;
    }
    finish(real);
  }

 private:
  // Sums of k points, ascending from list_[K - k]; what is below never moves.
  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < K; ++i) list_[i] = i < K - s_.answer.k ? -INFINITY : INFINITY;
  }

  // The end of a run of queries from `from` on that one walk serves well, and their box. A curve through
  // space jumps: queries on both sides of a jump would share a box that spans it and much else. The box must
  // not be large in terms of the usual step, else the run ends at the largest step.
  __device__ int compact_part(int from, int to) {
    while (true) {
      const bool in = lane_ >= from && lane_ < to;
      const float q[3] = {query_.x, query_.y, query_.z};
#pragma unroll
      for (int j = 0; j < 3; ++j) {
        box_.lower[j] = in ? q[j] : INFINITY;
        box_.upper[j] = in ? q[j] : -INFINITY;
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2) {
          box_.lower[j] = fminf(box_.lower[j], __shfl_xor_sync(everyone, box_.lower[j], apart));
          box_.upper[j] = fmaxf(box_.upper[j], __shfl_xor_sync(everyone, box_.upper[j], apart));
        }
      }
      if (to - from == 1) return to;
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
      if (volume <= most_cubes * usual * usual * usual || greatest == 0.0f) return to;
      to = __ffs(static_cast<int>(__ballot_sync(everyone, in && lane_ < to - 1 && step == greatest)));
    }
  }

  // The way down to a leaf near the box: its middle point.
  __device__ std::int64_t nearest_point() const {
    std::uint32_t node = 0;
    while (true) {
      const auto* child = reinterpret_cast<const float4*>(
          s_.tree.nodes + static_cast<std::int64_t>(node) * point_tree::node_width + lane_ % 16);
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

  // What is fetched in one place is used in one place: the machine's cache of instructions is small, and this
  // loop has each part of the work once. First the points around `place`, if that is one: k of them lie
  // within some bound of each query. They are no candidates yet, the walk meets them again. `top` 0: no more
  // than that.
  __device__ void walk(std::int64_t place, int top) {
    clear();
    std::int64_t seed = place - seeds<K> / 2;
    seed = seed > s_.tree.count - seeds<K> ? s_.tree.count - seeds<K> : seed;
    seed = seed < 0 ? 0 : seed;
    std::int64_t seed_end = seed + seeds<K> < s_.tree.count ? seed + seeds<K> : s_.tree.count;
    if (place < 0) seed_end = seed;
    if (lane_ == 0) stack_[0] = {0.0f, 0, node_mark};
    std::uint32_t begin = 0;  // what is left of a leaf
    std::uint32_t left = 0;
    int filled = 0;
    __syncwarp();
    while (true) {
      const bool seeding = seed < seed_end;
      if (seeding) {
        filled = seed_end - seed < 32 ? static_cast<int>(seed_end - seed) : 32;
        if (lane_ < filled) {
          float4 p = s_.tree.points[seed + lane_];
          p.w = __uint_as_float(static_cast<std::uint32_t>(seed + lane_));
          staged_[lane_] = p;
        }
        seed += filled;
        __syncwarp();
      } else {
#pragma unroll 1
        while (filled < 32) {
          if (left == 0) {
            if (top == 0) break;
            const Pending one = stack_[--top];
            if (!(one.low <= most_)) continue;
            if (one.count != node_mark) {
              begin = one.begin;
              left = one.count;
            } else {
              // A second node for the other half of the warp, while the stack is sure to hold both nodes'
              // children.
              bool both = false;
              Pending other{};
              if (top > 0 && top < 40) {
                other = stack_[top - 1];
                both = other.count == node_mark && other.low <= most_;
                top -= both ? 1 : 0;
              }
              __syncwarp();
              visit(one.begin, other.begin, both, top);
              continue;
            }
          }
          float4 p{};
          bool near = false;
          if (lane_ < left) {
            p = s_.tree.points[begin + lane_];
            const float x[3] = {p.x, p.y, p.z};
            near = apart<manhattan>(box_, x, x) <= most_;
          }
          const unsigned mask = __ballot_sync(everyone, near);
          if (near) {
            p.w = __uint_as_float(begin + lane_);
            staged_[filled + __popc(mask & ((1U << lane_) - 1U))] = p;
          }
          filled += __popc(mask);
          begin += 32;
          left = left > 32 ? left - 32 : 0;
          __syncwarp();
        }
      }
      const int n = filled < 32 ? filled : 32;
      const bool last = seeding ? seed == seed_end : n < 32;
      take(n, seeding, last);
      if (seeding) {
        filled = 0;
        if (last) clear();
        continue;
      }
      if (last) return;
      filled -= 32;
      float4 moved{};
      if (lane_ < filled) moved = staged_[32 + lane_];
      __syncwarp();
      if (lane_ < filled) staged_[lane_] = moved;
      __syncwarp();
    }
  }

  __device__ void visit(std::uint32_t one, std::uint32_t other, bool both, int& top) {
    const bool mine = lane_ < 16 || both;
    const std::uint32_t node = lane_ < 16 || !both ? one : other;
    const auto* child = reinterpret_cast<const float4*>(
        s_.tree.nodes + static_cast<std::int64_t>(node) * point_tree::node_width + lane_ % 16);
    const float4 a = child[0];
    const float4 b = child[1];
    const float lower[3] = {a.x, a.y, a.z};
    const float upper[3] = {b.x, b.y, b.z};
    const float low = apart<manhattan>(box_, lower, upper);
    const bool passes = mine && low <= most_;
    const unsigned mask = __ballot_sync(everyone, passes);
    // The nearest comes to lie on top.
    const unsigned least = __reduce_min_sync(everyone, passes ? __float_as_uint(low) : everyone);
    const unsigned nearest = __ballot_sync(everyone, passes && __float_as_uint(low) == least);
    const unsigned first = nearest & (0U - nearest);
    const int below =
        (first >> lane_ & 1U) != 0 ? __popc(mask) - 1 : __popc(mask & ~first & ((1U << lane_) - 1U));
    if (passes) {
      std::uint32_t count = __float_as_uint(b.w);
      if (count != node_mark && (count & identical_mark) != 0) {
        // Rows ascend: one more than k, since one may be the query itself.
        count = min(count & ~identical_mark, static_cast<std::uint32_t>(s_.answer.k) + 1);
      }
      stack_[top + below] = {low, __float_as_uint(a.w), count};
    }
    top += __popc(mask);
    __syncwarp();
  }

  // Bit 31 - i: point i of the staged ones is within the limit. The sum starts at -limit, so that its sign
  // tells.
  __device__ unsigned compare() const {
    const float start = active_ ? -limit_ : 0.0f;
    unsigned mask = 0;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      mask = __funnelshift_l(__float_as_uint(sum_of<manhattan>(staged_[i], query_, start)), mask, 1);
    }
    return mask;
  }

  // Those of n staged points that are within a lane's limit become its candidates; while seeding, their sums
  // only are of interest, and all are taken. With `last` no sum is left waiting.
  __device__ void take(int n, bool seeding, bool last) {
    unsigned mask = 0;
    int done = 0;
    if (!seeding && n > 0) {
      tested_ += n;
      mask = active_ ? compare() & everyone << (32 - n) : 0U;
      candidates_ += __popc(mask);
    }
    while (true) {
      bool more = false;
      if (seeding) {
        const int some = min(n - done, waiting<K>);
#pragma unroll 4
        for (int i = 0; i < some; ++i) {
          const float4 p = staged_[done + i];
          sums_[i * row + lane_] =
              __float_as_uint(p.w) == own_ ? INFINITY : sum_of<manhattan>(p, query_, 0.0f);
        }
        waiting_ = some;
        done += some;
        more = done < n;
      } else {
        const int room = min(waiting<K> - waiting_, capacity<K> - count_);
        const int steps =
            static_cast<int>(__reduce_min_sync(everyone, mask != 0 ? static_cast<unsigned>(room) : 32U));
        float* sum_to = sums_ + waiting_ * row + lane_;
        std::uint32_t* place_to = kept_ + count_ * row + lane_;
        int added = 0;
#pragma unroll 1
        for (int step = 0; step < steps && __any_sync(everyone, mask != 0); ++step) {
          const bool has = mask != 0;
          const int i = __clz(static_cast<int>(mask)) & 31;
          mask &= ~(0x80000000U >> i);
          const float4 p = staged_[i];
          const float sum = sum_of<manhattan>(p, query_, 0.0f);
          if (has && __float_as_uint(p.w) != own_ && sum <= limit_) {
            *sum_to = sum;
            *place_to = __float_as_uint(p.w);
            sum_to += row;
            place_to += row;
            ++added;
          }
        }
        waiting_ += added;
        count_ += added;
        more = __any_sync(everyone, mask != 0);
      }
      __syncwarp();
      const int least = seeding || (last && !more) ? 1 : merged<K>;
#pragma unroll 1
      while (__any_sync(everyone, waiting_ >= least)) merge();
      if (!more) return;
      if (__any_sync(everyone, mask != 0 && count_ == capacity<K>)) {
        make_room();
        if (mask != 0 && count_ == capacity<K>) {
          dead_ = true;
          mask = 0;
          count_ = waiting_ = 0;
          limit_ = 0;
        }
      }
    }
  }

  // Sums that wait into the list, some of each lane.
  __device__ void merge() {
    float some[merged<K>];
#pragma unroll
    for (int j = 0; j < merged<K>; ++j) {
      some[j] = waiting_ > j ? sums_[(waiting_ - 1 - j) * row + lane_] : INFINITY;
    }
    waiting_ = waiting_ > merged<K> ? waiting_ - merged<K> : 0;
    sort_registers(some);
    merge_registers(list_, some);
    if (active_ && !dead_) limit_ = fminf(limit_, __fmaf_rn(list_[K - 1], s_.scale, s_.tiny));
    most_ = largest(active_ ? limit_ : 0.0f);
    __syncwarp();
  }

  // Drops candidates that the limit no longer keeps.
  __device__ void make_room() {
    constexpr int at_once = 4;
    int to = 0;
#pragma unroll 1
    for (int i = 0; i < count_; i += at_once) {
      std::uint32_t place[at_once];
      float4 p[at_once];
#pragma unroll
      for (int j = 0; j < at_once; ++j) {
        if (i + j < count_) {
          place[j] = kept_[(i + j) * row + lane_];
          p[j] = s_.tree.points[place[j]];
        }
      }
#pragma unroll
      for (int j = 0; j < at_once; ++j) {
        if (i + j < count_ && sum_of<manhattan>(p[j], query_, 0.0f) <= limit_) {
          kept_[to++ * row + lane_] = place[j];
        }
      }
    }
    count_ = to;
    __syncwarp();
  }

  __device__ unsigned long long key_of(int i) const {
    if (i >= count_) return none;
    const float4 p = s_.tree.points[kept_[i * row + lane_]];
    const float distance = canonical<manhattan>(query_, p, s_.rooted);
    if (distance > s_.radius) return none;
    return static_cast<unsigned long long>(__float_as_uint(distance)) << 32U | __float_as_uint(p.w);
  }

  __device__ void finish(bool real) {
    make_room();
    if (dead_ && real) {
      s_.unanswered.queries[atomicAdd(s_.unanswered.count, 1ULL)] =
          s_.queries == nullptr ? first_ + lane_ : static_cast<std::int64_t>(__float_as_uint(query_.w));
    }
    // Eight at a time through shared memory, since a loop cannot choose among registers.
    auto* passing = reinterpret_cast<unsigned long long*>(staged_);
    unsigned long long keys[K];
#pragma unroll
    for (int chunk = 0; chunk < K / 8; ++chunk) {
#pragma unroll 1
      for (int j = 0; j < 8; ++j) passing[j * row + lane_] = key_of(chunk * 8 + j);
#pragma unroll
      for (int j = 0; j < 8; ++j) keys[chunk * 8 + j] = passing[j * row + lane_];
    }
    sort_registers(keys);
    // More than K only where some are as far as the k-th, or nearly so.
#pragma unroll 1
    for (int i = K; __any_sync(everyone, i < count_); ++i) {
      unsigned long long key = key_of(i);
#pragma unroll
      for (int j = 0; j < K; ++j) order(keys[j], key);
    }
    write(keys, __ballot_sync(everyone, real && !dead_));
    if (s_.counts != nullptr) {
      const unsigned candidates = __reduce_add_sync(everyone, candidates_);
      if (lane_ == 0) {
        unsigned long long* slot = s_.counts + 2 * (blockIdx.x % count_slots);
        atomicAdd(slot, static_cast<unsigned long long>(tested_) * 32);
        atomicAdd(slot + 1, static_cast<unsigned long long>(candidates));
      }
    }
  }

  // Eight keys of each lane at a time through shared memory, so that a query's cells are written side by
  // side.
  __device__ void write(const unsigned long long (&keys)[K], unsigned answered) {
    auto* passing = reinterpret_cast<unsigned long long*>(staged_);
#pragma unroll
    for (int chunk = 0; chunk < K / 8; ++chunk) {
      if (chunk * 8 >= s_.answer.k) break;
      __syncwarp();
#pragma unroll
      for (int j = 0; j < 8; ++j) passing[j * row + lane_] = keys[chunk * 8 + j];
      __syncwarp();
      const int rank = chunk * 8 + lane_ % 8;
#pragma unroll 1
      for (int q0 = 0; q0 < 32; q0 += 4) {
        const int q = q0 + lane_ / 8;
        const std::int64_t number = __float_as_uint(__shfl_sync(everyone, query_.w, q));
        const unsigned long long key = passing[lane_ % 8 * row + q];
        if ((answered >> q & 1U) == 0 || rank >= s_.answer.k) continue;
        const std::int64_t answer = s_.answer.by_place ? first_ + q - s_.answer.first : number;
        const std::int64_t cell = answer * s_.answer.k + rank;
        s_.answer.indices[cell] = key == none ? -1 : static_cast<std::int64_t>(key & 0xffffffffU);
        s_.answer.distances[cell] =
            key == none ? INFINITY : __uint_as_float(static_cast<unsigned>(key >> 32U));
        if (key == none && rank == s_.answer.k - 1 && s_.answer.unfilled.count != nullptr) {
          s_.answer.unfilled.queries[atomicAdd(s_.answer.unfilled.count, 1ULL)] = number;
        }
      }
    }
  }

  static constexpr unsigned long long none = ~0ULL;
  const GroupSearch& s_;
  const int lane_;
  float4* staged_;
  float* sums_;          // of candidates that are not in the list yet
  std::uint32_t* kept_;  // places of candidates
  Pending* stack_;
  float4 query_;
  std::int64_t first_ = 0;
  std::uint32_t own_;
  Box box_;
  float list_[K];
  float limit_, most_;
  bool active_ = false;  // has a part in this walk
  bool dead_ = false;
  int count_ = 0;    // candidates
  int waiting_ = 0;  // sums
  int tested_ = 0;
  unsigned candidates_ = 0;
};

template <int K, bool manhattan>
__global__ void __launch_bounds__(warps_a_block * 32, blocks_at_once<K>)
    group_kernel(const __grid_constant__ GroupSearch search) {
  extern __shared__ __align__(16) unsigned char memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * warps_a_block + warp) * 32;
  std::int64_t last = search.count;
  if (search.usable != nullptr) {
    const std::int64_t usable = static_cast<std::int64_t>(*search.usable) - search.first;
    last = usable < last ? usable : last;
  }
  if (first >= last) return;
  Group<K, manhattan> group(search, memory + warp * shared_bytes<K>(search.stack));
  group.run(search.first + first, last - first < 32 ? static_cast<int>(last - first) : 32);
}

template <int K, bool manhattan>
void launch(const GroupSearch& search, int device, cudaStream_t stream) {
  const std::size_t bytes = static_cast<std::size_t>(warps_a_block) * shared_bytes<K>(search.stack);
  allow_shared(group_kernel<K, manhattan>, warps_a_block * 32, bytes, device);
  const std::int64_t queries = 32 * warps_a_block;
  group_kernel<K, manhattan>
      <<<static_cast<unsigned>((search.count + queries - 1) / queries), warps_a_block * 32, bytes, stream>>>(
          search);
  check_launch("group_kernel");
}

// A warp a node: its children's boxes side by side, its leaves' points as (x, y, z, row).
__global__ void __launch_bounds__(128)
    pack_kernel(const point_tree::TreeView<float, std::uint32_t> tree, float4* points, PackedChild* nodes) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t node = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (node >= tree.nodes) return;
  constexpr int width = static_cast<int>(point_tree::node_width);
  const int dim = static_cast<int>(tree.dim);
  const auto* boxes = reinterpret_cast<const float*>(tree.node_data + node * tree.node_stride);
  const auto* links = reinterpret_cast<const point_tree::NodeLinks*>(boxes + 2 * dim * width);
  const int count = static_cast<int>(links->count);
  std::int64_t child = 0;
  std::int64_t begin = 0;
  std::int64_t size = 0;
  if (lane < width) {
    PackedChild out{{INFINITY, INFINITY, INFINITY}, 0, {-INFINITY, -INFINITY, -INFINITY}, 0};
    if (lane < count) {
      for (int j = 0; j < 3; ++j) {
        out.lower[j] = j < dim ? boxes[j * width + lane] : 0.0f;
        out.upper[j] = j < dim ? boxes[(dim + j) * width + lane] : 0.0f;
      }
      child = links->child[lane];
      begin = links->begin[lane];
      size = links->begin[lane + 1] - begin;
      out.begin = static_cast<std::uint32_t>(child >= 0 ? child : begin);
      out.count = child >= 0 ? node_mark
                             : static_cast<std::uint32_t>(size) |
                                   (child == point_tree::identical_child ? identical_mark : 0U);
      if (child >= 0) size = 0;
    }
    nodes[node * width + lane] = out;
  }
  for (int c = 0; c < count; ++c) {
    const std::int64_t from = __shfl_sync(everyone, begin, c);
    const std::int64_t n = __shfl_sync(everyone, size, c);
    const float* x = tree.coordinates + from * dim;
    for (std::int64_t i = lane; i < n; i += 32) {
      points[from + i] = make_float4(x[i], dim > 1 ? x[n + i] : 0.0f, dim > 2 ? x[2 * n + i] : 0.0f,
                                     __uint_as_float(tree.rows[from + i]));
    }
  }
}

}  // namespace

int group_stack(std::int64_t levels) {
  // One node at a time leaves at most 15 entries a level; two at a time are taken below 40 entries only.
  constexpr int most = 512;
  const std::int64_t entries = 72 + 15 * (levels + 1);
  return entries > most ? 0 : static_cast<int>(entries);
}

void search_groups(const GroupSearch& search, int device, cudaStream_t stream) {
  if (search.count == 0) return;
  const auto go = [&]<int K>() {
    if (search.manhattan)
      launch<K, true>(search, device, stream);
    else
      launch<K, false>(search, device, stream);
  };
  if (search.answer.k <= 8)
    go.template operator()<8>();
  else if (search.answer.k <= 16)
    go.template operator()<16>();
  else if (search.answer.k <= 24)
    go.template operator()<24>();
  else
    go.template operator()<32>();
}

void pack_tree(const point_tree::TreeView<float, std::uint32_t>& tree, float4* points, PackedChild* nodes,
               cudaStream_t stream) {
  if (tree.nodes == 0) return;
  pack_kernel<<<static_cast<unsigned>((tree.nodes + 3) / 4), 128, 0, stream>>>(tree, points, nodes);
  check_launch("pack_kernel");
}

}  // namespace kith::cuda
