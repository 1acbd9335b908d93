// Nearest neighbours of many queries: a warp takes 32 of them that lie close together, one a lane, and walks
// the tree once for all.
//
// The walk is a search within a radius that is guessed from the group before: everything within it is kept,
// and if that is k points or more, the k nearest are among them. Where the guess was too small, a lane goes
// again; where it was too large, points are looked at that would not have been.
//
// Boxes are compared with the box around the 32 queries and the largest of their 32 limits, a lane a child,
// two nodes at a time. Points of leaves meet the same test, a lane a point; those that stay are gathered in
// shared memory, and for each 32 of them a lane gets a word that says which may be within its limit: three
// half-precision instructions for two points, and two more.
//
// Words are read when the walk is over, or when there is no more room: lanes differ in what they keep of 32
// points, less so in what they keep of all. A candidate is one integer then: the upper 20 bits of its
// float32 sum, and which point it is. Eight at a time are sorted and merged into the lane's list of k in
// registers by networks of comparisons, the same for all lanes. Those sums are not canonical distances, but
// they bound them (docs/exact-contract.md, step 10): at the end the k and what is nearly as small are
// evaluated in float64 and sorted by (distance, row).
//
// Where more are as small as that than the one that is remembered, as in lattices, their lanes walk once more
// and evaluate all that comes.
//
// A walk that meets more leaves than there are numbers for hands its queries on.
#include <algorithm>
#include <cfloat>
#include <cstring>

#include <cuda_fp16.h>

#include "cuda/launch.hpp"
#include "distance/cuda/canonical.cuh"
#include "point_tree/cuda/search_kernels.hpp"
#include "select_k/cuda/networks.cuh"

namespace kith::point_tree::cuda {
namespace {

using namespace distance::cuda;
using select_k::cuda::merge_bitonic;
using select_k::cuda::sort_registers;

constexpr unsigned everyone = 0xffffffffU;

// Words of 32 points that a walk has room for.
template <int K>
constexpr int most_words = K <= 8 ? 14 : (K <= 16 ? 16 : (K <= 24 ? 18 : 20));

// A candidate's integer: 20 bits of its sum (all but the sign and the 11 last), 7 of the chunk of at most 32
// points that it came with, 5 of its place there.
constexpr int place_bits = 12;
constexpr int cut_bits = 11;
constexpr std::uint32_t place_mask = (1U << place_bits) - 1;
constexpr int most_chunks = 1 << (place_bits - 5);
constexpr std::uint32_t no_key = 0xffffffffU;

// Points around a group that it takes bounds from where it cannot guess.
template <int K>
constexpr int seeds = K <= 16 ? 64 : 96;

// A run of queries whose box, widened by their usual step, is larger than so many cubes of it is cut.
constexpr float most_cubes = 300;

// The guess: so many times the mean k-th sum of the group before. It adapts: a group that went again widens
// it, one that did not narrows it.
__device__ float first_spread(int k) {
  return k >= 32 ? 1.6f
                 : (k >= 20 ? 1.7f
                            : (k >= 8 ? 2.1f - 0.03f * static_cast<float>(k - 8)
                                      : (k >= 4 ? 2.6f : (k >= 2 ? 3.5f : 5.0f))));
}
constexpr float widened = 1.15F;
constexpr float narrowed = 0.99F;
constexpr float least_spread = 1.2F;
constexpr float most_spread = 6.0F;
constexpr float second_guess = 2.5F;

// Of which the sorted answers of all lanes take some, at the end.
template <int K>
constexpr int slot_words = (K * 33 * 8 + 511) / 512;

static_assert(most_words<8> - slot_words<8> >= 2 && most_words<16> - slot_words<16> >= 2 &&
              most_words<24> - slot_words<24> >= 2 && most_words<32> - slot_words<32> >= 2);

// Blocks that a multiprocessor should have registers for.
template <int K>
constexpr int warps_a_block = K <= 8 ? 4 : 2;
template <int K>
constexpr int blocks_at_once = K <= 8 ? 5 : (K <= 16 ? 9 : 7);

constexpr int queued_room = 64;

template <int K>
__host__ __device__ constexpr int shared_bytes(int stack) {
  const int bytes =
      most_words<K> * (32 * 16 + 32 * 4) + 64 * 8 + most_chunks * 4 + queued_room * 8 + stack * 4;
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
  return canonical_first<manhattan>(sub(static_cast<double>(a), static_cast<double>(b)));
}

__device__ float largest(float value) {  // of values that are not negative
  return __uint_as_float(__reduce_max_sync(everyone, __float_as_uint(value)));
}

__device__ __half2 half2_of(unsigned bits) {
  __half2 both;
  memcpy(&both, &bits, sizeof both);
  return both;
}

// What is left of a search: indices and distances, or columns (GroupSearch::cells).
enum class Output { answer, places, distances };

template <int K, bool manhattan, Output output>
class Group {
 public:
  __device__ Group(const GroupSearch& search, unsigned char* memory)
      : s_(search),
        lane_(static_cast<int>(threadIdx.x) % 32),
        staged_(reinterpret_cast<float4*>(memory)),
        slots_(reinterpret_cast<unsigned long long*>(staged_ + (most_words<K> - slot_words<K>)*32)),
        coarse_points_(reinterpret_cast<uint4*>(staged_ + most_words<K> * 32)),
        masks_(reinterpret_cast<std::uint32_t*>(coarse_points_ + 32)),
        chunks_(masks_ + most_words<K> * 32),
        queue_(reinterpret_cast<uint2*>(chunks_ + most_chunks)),
        stack_(reinterpret_cast<std::uint32_t*>(queue_ + queued_room)),
        spread_(first_spread(static_cast<int>(search.answer.k))) {}

  // Queries [first, first + count) of the batch, count <= 32. What is fetched in one place is used in one
  // place: the machine's cache of instructions is small, and this loop has each part of the work once.
  __device__ void run(std::int64_t first, int count) {
    const bool self = s_.queries == nullptr;
    const bool real = lane_ < count;
    // Lanes behind the last take the last query, and are not answered.
    const std::int64_t place = first + (real ? lane_ : count - 1);
    first_ = first;
    query_ = self ? s_.tree.points[place] : s_.queries[place];
    own_ = self && !s_.include_self ? static_cast<std::uint32_t>(lane_) << 16U : everyone;
    dead_ = false;
    exact_ = false;
    used_chunks_ = 0;
    tested_ = 0;
    kept_ = 0;
    limit_ = 0;
    bool todo = real;
    int tries = 0;
    int from = 0;
    int to = 0;
    bool seeding = false;
    bool starts = true;  // a try, else a part or what comes after an extraction
    bool walking = false;
    bool sure = false;
    while (true) {
      if (starts) {
        starts = false;
        from = to = 0;
        filled_ = words_ = 0;
        nonempty_ = 0;
        if (!exact_) {
          // From the group before, somewhat more, and then what surely suffices. The nearest of the tree's
          // own points is at no distance.
          const float guess = tries == 0 ? guess_ : guess_ * second_guess;
          const bool known = self && s_.include_self && s_.answer.k == 1;
          sure = !known && (guess == 0 || tries > (guess > FLT_MIN ? 1 : 0));
          const float bound = known ? sum_above(0) : (sure ? FLT_MAX : guess);
          if (todo) {
            limit_ = fminf(fminf(s_.limit, FLT_MAX), bound);
            certain_ = known || sure || s_.limit <= bound;
          }
          clear(todo);
        }
      }
      if (!walking) {
        if (!seeding) {
          from = to;
          to = compact_part(from, count, todo);
          active_ = todo && lane_ >= from && lane_ < to;
          seeding = sure && __any_sync(everyone, active_);
          if (seeding) take_seeds(self ? first + (from + to) / 2 : nearest_point());
        } else {
          seeding = false;
          clear(active_);
        }
        if (!seeding) start_walk();
      }
      if (!seeding) {
        aim();
        walking = !fill();
        // Another walk may begin with a word of its own, if there is room for some.
        if (!walking && to < count && !sure && words_ < room() / 2) continue;
      }
      extract();
      filled_ = words_ = 0;
      if (walking || seeding || to < count) continue;
      unsigned answered = 0;
      if (exact_) {
        answered = __ballot_sync(everyone, todo && !dead_);
        todo = false;
      } else {
        todo = todo && !dead_ && !certain_ && !(sum_above(list_[K - 1]) <= limit_);
        if (__any_sync(everyone, todo)) {
          ++tries;
          starts = true;
          continue;
        }
        const std::uint32_t last = list_[K - 1];
        const bool has = real && !dead_;
        guess_from(has && last != no_key, __uint_as_float(last >> place_bits << cut_bits), tries == 0);
        todo = has && dropped_[1] < above(last);
        settle(has && !todo);
        answered = __ballot_sync(everyone, has && !todo);
      }
      write(answered);
      if (!__any_sync(everyone, todo)) break;
      exact_ = true;
      starts = true;
      sure = false;
      used_chunks_ = 0;
      if (todo) limit_ = fminf(limit_, sum_above(list_[K - 1]));
#pragma unroll 1
      for (int i = 0; i < static_cast<int>(s_.answer.k); ++i) slots_[i * 33 + lane_] = none;
    }
    if (dead_ && real) {
      if constexpr (output != Output::answer) {
        for (std::int64_t rank = 0; rank < s_.answer.k; ++rank) column()[rank * s_.column] = everyone;
      }
      s_.unanswered.queries[atomicAdd(s_.unanswered.count, 1ULL)] =
          self ? first_ + lane_ : static_cast<std::int64_t>(__float_as_uint(query_.w));
    }
    if (s_.counts != nullptr) {
      const unsigned candidates = __reduce_add_sync(everyone, kept_);
      if (lane_ == 0) {
        unsigned long long* slot = s_.counts + 2 * (blockIdx.x % count_slots);
        atomicAdd(slot, static_cast<unsigned long long>(tested_) * 32);
        atomicAdd(slot + 1, static_cast<unsigned long long>(candidates));
      }
    }
    __syncwarp();
  }

 private:
  // The k smallest come to lie at the end of the list; what is before never moves.
  __device__ void clear(bool mine) {
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
  __device__ void absorb(std::uint32_t (&some)[8]) {
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

  // The first integer of a sum that is surely above that of `key`, in terms of step 10: two units of the
  // last of 20 bits are more than a part in 8192.
  __device__ static std::uint32_t above(std::uint32_t key) {
    return key >= 0xfefff000U ? no_key : ((key >> place_bits) + 2) << place_bits;
  }
  __device__ static float sum_above(std::uint32_t key) {
    return key >= 0xfefff000U ? FLT_MAX : __uint_as_float(above(key) >> place_bits << cut_bits);
  }
  __device__ static std::uint32_t key_of(float sum, std::uint32_t place) {
    return (__float_as_uint(sum) << 1U & ~place_mask) | (place & place_mask);
  }

  // The end of a run of queries from `from` on that one walk serves well, and their box. A curve through
  // space jumps: queries on both sides of a jump would share a box that spans it and much else. The box must
  // not be large in terms of the usual step, else the run ends at the largest step.
  __device__ int compact_part(int from, int to, bool todo) {
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
  __device__ std::int64_t nearest_point() const {
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

  // Words of all points around `place`: k of them lie within some limit of each active lane. They are no
  // candidates yet, the walk meets them again.
  __device__ void take_seeds(std::int64_t place) {
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
  __device__ std::uint32_t own_tag(std::int64_t begin) const {
    if (own_ == everyone) return 0;
    const std::int64_t own = begin + lane_ - first_;
    return own >= 0 && own < 32 ? static_cast<std::uint32_t>(own) << 16U : 0xfffe0000U;
  }

  // What the walk compares with, whenever limits have changed.
  __device__ void aim() {
    most_ = largest(active_ && !dead_ ? limit_ : 0.0f);
    near_ = most_ * (1 + 0x1p-20F) + 0x1p-126F;
    const float threshold = fminf(limit_, most_) * scale_ * scale_ * (1 + 0x1p-20F) - square_ + error_;
    const auto bits = static_cast<unsigned>(__half_as_ushort(__float2half_ru(threshold)));
    threshold_ = bits | bits << 16U;
  }

  // Where the walk's box lies, and the queries in half precision, relative to it (step 10).
  __device__ void frame() {
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

  __device__ void start_walk() {
    frame();
    if (lane_ == 0) stack_[0] = 0;
    top_ = __any_sync(everyone, active_) ? 1 : 0;
    run_ = make_uint2(0, 0);
    __syncwarp();
  }

  __device__ int room() const {
    return most_words<K> - (exact_ ? slot_words<K> : 0);
  }

  // Goes on with the walk until it is over, or the words are full: then false.
  __device__ bool fill() {
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
  __device__ void visit(int& top, int& queued) {
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
  __device__ void stage(const float4& p, std::uint32_t begin, std::uint32_t n) {
    const float u[3] = {p.x - center_[0], p.y - center_[1], p.z - center_[2]};
    float away = 0;
#pragma unroll
    for (int j = 0; j < 3; ++j)
      away = add_term<manhattan>(away, fmaxf(__fsub_rn(fabsf(u[j]), half_[j]), 0.0f));
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

  // A word for the next 32 staged points: bit i says that point i may be within the limit.
  __device__ void compare() {
    unsigned mask = 0;
    if (coarse_) {
      const uint4* points = coarse_points_ + (words_ & 1) * 16;
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const uint4 p = points[i];
        const __half2 sum =
            __hfma2(half2_of(p.x), half2_of(minus_twice_[0]),
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
  __device__ std::uint32_t next_of(unsigned& mask, const float4*& from) {
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
  __device__ void extract() {
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

  __device__ std::int64_t place_of(std::uint32_t key) const {
    return static_cast<std::int64_t>(chunks_[(key & place_mask) / 32]) + (key & 31U);
  }

  // The canonical distance above the row, or above the place where places are asked for.
  __device__ unsigned long long evaluate(const float4& p, std::uint32_t key) const {
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
  __device__ bool before(unsigned long long a, unsigned long long b) const {
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
  __device__ void insert(unsigned long long one, int count) {
    unsigned long long* slot = slots_ + (count - 1) * 33 + lane_;
    if (!before(one, *slot)) return;
    for (; slot >= slots_ + 33 && before(one, slot[-33]); slot -= 33) *slot = slot[-33];
    *slot = one;
  }

  // The list, and the one candidate that is nearly as small as its last, if there is one, evaluated and
  // sorted into the slots. Nearly all are in order.
  __device__ void settle(bool mine) {
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

  __device__ float4 candidate(std::uint32_t key) const {
    return key == no_key ? float4{} : s_.tree.points[place_of(key)];
  }

  // For the next group, from the k-th sums of this one.
  __device__ void guess_from(bool has, float sum, bool once) {
    spread_ = once ? fmaxf(spread_ * narrowed, least_spread) : fminf(spread_ * widened, most_spread);
    float all = has ? sum : 0.0f;
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) all += __shfl_xor_sync(everyone, all, apart);
    const int lanes = __popc(__ballot_sync(everyone, has));
    // Queries that are rows may have all their neighbours at no distance.
    guess_ = lanes == 0 ? 0.0f : fmaxf(spread_ * all / static_cast<float>(lanes), sum_above(0));
  }

  __device__ std::uint32_t* column() const {
    return s_.cells + (first_ + lane_ - s_.answer.first);
  }

  // A query's cells side by side, eight lanes a query; of columns those of one rank.
  __device__ void write(unsigned answered) {
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
        s_.answer.distances[cell] =
            key == none ? INFINITY : __uint_as_float(static_cast<unsigned>(key >> 32U));
      }
    }
    if (s_.answer.unfilled.count != nullptr && (answered >> lane_ & 1U) != 0 &&
        slots_[(k - 1) * 33 + lane_] == none) {
      s_.answer.unfilled.queries[atomicAdd(s_.answer.unfilled.count, 1ULL)] = __float_as_uint(query_.w);
    }
    __syncwarp();
  }

  static constexpr unsigned long long none = ~0ULL;
  const GroupSearch& s_;
  const int lane_;
  float4* staged_;             // (x, y, z, number)
  unsigned long long* slots_;  // [k][33]: answers, distance above row, or place where places are asked for
  uint4* coarse_points_;       // two points each: halves (x, x, y, y, z, z, square, square)
  std::uint32_t* masks_;       // a word of each lane for 32 staged points
  std::uint32_t* chunks_;      // places of the first points
  uint2* queue_;               // runs of leaves: first point, points
  std::uint32_t* stack_;       // nodes
  float4 query_;
  std::int64_t first_ = 0;
  std::uint32_t own_;
  Box box_;
  float center_[3], half_[3];
  float scale_ = 0, square_ = 0, error_ = 0;
  unsigned minus_twice_[3], threshold_ = 0;
  std::uint32_t list_[K], dropped_[2];
  float limit_ = 0, most_ = 0, near_ = 0;
  float guess_ = 0;  // 0: none
  float spread_ = 0;
  bool coarse_ = false;
  bool active_ = false;   // has a part in this walk
  bool certain_ = false;  // the limit is one of k points, or of the radius
  bool dead_ = false;
  bool exact_ = false;          // candidates are evaluated as they come
  int top_ = 0, next_run_ = 0;  // of the walk: nodes, and the next run of leaves
  uint2 run_{};                 // being looked at: first point, points
  float4 next_{};               // its first points
  int filled_ = 0;              // points staged
  int words_ = 0;               // of them, compared
  unsigned nonempty_ = 0;       // words with candidates that are not in the list yet
  int used_chunks_ = 0;
  int tested_ = 0;
  unsigned kept_ = 0;
};

template <int K, bool manhattan, Output output>
__global__ void __launch_bounds__(warps_a_block<K> * 32, blocks_at_once<K>)
    group_kernel(const __grid_constant__ GroupSearch search) {
  extern __shared__ __align__(16) unsigned char memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  std::int64_t last = search.count;
  if (search.usable != nullptr) {
    const std::int64_t usable = static_cast<std::int64_t>(*search.usable) - search.first;
    last = usable < last ? usable : last;
  }
  // The warps of a block take turns, so that they find each other's nodes and points in cache.
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * warps_a_block<K> * search.groups_a_warp;
  const std::int64_t end = 32 * (block + warps_a_block<K> * search.groups_a_warp);
  last = end < last ? end : last;
  Group<K, manhattan, output> group(search, memory + warp * shared_bytes<K>(search.stack));
#pragma unroll 1
  for (std::int64_t first = 32 * (block + warp); first < last; first += 32 * warps_a_block<K>) {
    group.run(search.first + first, last - first < 32 ? static_cast<int>(last - first) : 32);
  }
}

template <int K, bool manhattan, Output output>
void launch(const GroupSearch& search, int device, cudaStream_t stream) {
  const std::size_t bytes = static_cast<std::size_t>(warps_a_block<K>) * shared_bytes<K>(search.stack);
  allow_shared(group_kernel<K, manhattan, output>, warps_a_block<K> * 32, bytes, device);
  const std::int64_t queries = 32 * warps_a_block<K> * search.groups_a_warp;
  group_kernel<K, manhattan, output><<<static_cast<unsigned>((search.count + queries - 1) / queries),
                                       warps_a_block<K> * 32, bytes, stream>>>(search);
  check_launch("group_kernel");
}

}  // namespace

int group_stack(std::int64_t levels) {
  // One node at a time leaves at most 15 entries a level; two at a time are taken below 40 entries only.
  constexpr int most = 512;
  const std::int64_t entries = 72 + 15 * (levels + 1);
  return entries > most ? 0 : static_cast<int>(entries);
}

void search_groups(GroupSearch search, int device, cudaStream_t stream) {
  if (search.count == 0) return;
  // A warp guesses from one group to the next: runs of them, but enough to fill the device a few times.
  const std::int64_t groups = (search.count + 31) / 32;
  const std::int64_t at_once = static_cast<std::int64_t>(processors(device)) * 24;
  const std::int64_t longest = search.queries == nullptr ? 8 : 16;  // the first guess costs others more
  search.groups_a_warp = std::clamp<std::int64_t>(groups / (at_once * 2), 1, longest);
  const auto go = [&]<int K>() {
    if (search.cells == nullptr) {
      search.manhattan ? launch<K, true, Output::answer>(search, device, stream)
                       : launch<K, false, Output::answer>(search, device, stream);
    } else if (!search.places) {
      search.manhattan ? launch<K, true, Output::distances>(search, device, stream)
                       : launch<K, false, Output::distances>(search, device, stream);
    } else {  // of which planes are made, in euclidean space
      launch<K, false, Output::places>(search, device, stream);
    }
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

}  // namespace kith::point_tree::cuda
