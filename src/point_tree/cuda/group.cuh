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
#pragma once

#include <cfloat>
#include <cstdint>

#include "point_tree/cuda/group_shape.cuh"

namespace kith::point_tree::cuda {
namespace {

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
        rerank(has && !todo);
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

  // group_walk.cuh
  __device__ int compact_part(int from, int to, bool todo);
  __device__ std::int64_t nearest_point() const;
  __device__ void aim();
  __device__ void frame();
  __device__ void start_walk();
  __device__ bool fill();
  __device__ void visit(int& top, int& queued);
  __device__ void stage(const float4& p, std::uint32_t begin, std::uint32_t n);

  // group_candidates.cuh
  __device__ void clear(bool mine);
  __device__ void absorb(std::uint32_t (&some)[8]);
  __device__ void take_seeds(std::int64_t place);
  __device__ std::uint32_t own_tag(std::int64_t begin) const;
  __device__ void compare();
  __device__ std::uint32_t next_of(unsigned& mask, const float4*& from);
  __device__ void extract();
  __device__ unsigned long long evaluate(const float4& p, std::uint32_t key) const;
  __device__ bool before(unsigned long long a, unsigned long long b) const;
  __device__ void insert(unsigned long long one, int count);
  __device__ void rerank(bool mine);
  __device__ void guess_from(bool has, float sum, bool once);
  __device__ void write(unsigned answered);

  __device__ int room() const {
    return most_words<K> - (exact_ ? slot_words<K> : 0);
  }

  __device__ std::int64_t place_of(std::uint32_t key) const {
    return static_cast<std::int64_t>(chunks_[(key & place_mask) / 32]) + (key & 31U);
  }

  __device__ float4 candidate(std::uint32_t key) const {
    return key == no_key ? float4{} : s_.tree.points[place_of(key)];
  }

  __device__ std::uint32_t* column() const {
    return s_.cells + (first_ + lane_ - s_.answer.first);
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

}  // namespace
}  // namespace kith::point_tree::cuda
