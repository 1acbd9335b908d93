// Nearest neighbours and radius search, a query a warp: any dimension, any k, float and double, 4- and 8-byte
// rows.
//
// A lane takes a child of a node (two nodes at a time, where two wait) or a point of a leaf (of two,
// likewise): a query's time is that of the steps of its walk, one after the other. A short list lies across
// the lanes, sorted; a long one in memory, where candidates are appended and now and then cut to the k
// smallest. What may be left out is the business of docs/exact-contract.md, step 10.
#include <cfloat>
#include <type_traits>

#include <cuda/atomic>

#include "cuda/launch.hpp"
#include "cuda/visit_element.cuh"
#include "distance/cuda/canonical.cuh"
#include "point_tree/cuda/search_kernels.hpp"

namespace kith::point_tree::cuda {
namespace {

using namespace distance::cuda;

constexpr unsigned everyone = 0xffffffffU;
constexpr int warps_a_block = 4;
constexpr std::int64_t most = INT64_MAX;
constexpr int node_waits = -1;
// Entries up to which a walk takes the nearest first. Above, those that came last.
constexpr int most_unordered = 80;

// Place: of a point or a node. In 4 bytes an entry is read and written at once.
template <class T, class Place>
struct alignas(sizeof(Place) == 4 ? 16 : 8) Waiting {
  T low;
  Place begin;  ///< a leaf's first point, or a node
  Place count;  ///< points; node_waits; -2 - count: all equal
};

template <class T>
__device__ T infinite() {
  return static_cast<T>(INFINITY);
}

// Arithmetic in T that no flag changes.
__device__ float less(float a, float b) {
  return __fsub_rn(a, b);
}
__device__ double less(double a, double b) {
  return __dsub_rn(a, b);
}
__device__ float sum_up(float a, float b) {
  return __fadd_rn(a, b);
}
__device__ double sum_up(double a, double b) {
  return __dadd_rn(a, b);
}
__device__ float square_up(float sum, float d) {
  return __fmaf_rn(d, d, sum);
}
__device__ double square_up(double sum, double d) {
  return __fma_rn(d, d, sum);
}

#include "point_tree/limit.inc"

template <class T>
__device__ bool before(T a, std::int64_t a_row, T b, std::int64_t b_row) {
  return a < b || (a == b && a_row < b_row);
}

// Sorts entries by (distance, row), `lane` of `lanes` threads at work, between whose steps `meet` is called.
// All comparisons point upwards (Batcher's bitonic sort with its first step mirrored), so any count will do:
// what would lie behind the last entry is greater than all.
template <class T, class Meet>
__device__ void sort_entries(T* distances, std::int64_t* rows, std::int64_t count, int lane, int lanes,
                             const Meet& meet) {
  const auto order = [&](std::int64_t low, std::int64_t high) {
    if (high >= count) return;
    const T a = distances[low];
    const T b = distances[high];
    const std::int64_t a_row = rows[low];
    const std::int64_t b_row = rows[high];
    if (!before(b, b_row, a, a_row)) return;
    distances[low] = b;
    distances[high] = a;
    rows[low] = b_row;
    rows[high] = a_row;
  };
  for (std::int64_t size = 2; size / 2 < count; size *= 2) {
    const std::int64_t half = size / 2;
    // Pairs whose lower one is at or behind the count do nothing.
    const std::int64_t pairs = (count + size - 1) / size * half;
    meet();
    for (std::int64_t i = lane; i < pairs; i += lanes) {
      const std::int64_t start = i / half * size;
      order(start + i % half, start + size - 1 - i % half);
    }
    for (std::int64_t stride = half / 2; stride > 0; stride /= 2) {
      meet();
      for (std::int64_t i = lane; i < pairs; i += lanes) {
        const std::int64_t low = i / stride * 2 * stride + i % stride;
        order(low, low + stride);
      }
    }
  }
  meet();
}

// The k smallest, sorted, entry i in lane i.
template <class T>
class LaneList {
 public:
  using Place = std::int64_t;
  __device__ LaneList(const WarpSearch<T>& search, std::int64_t /*warp*/, int lane)
      : k_(static_cast<int>(search.answer.k)), lane_(lane) {}
  __device__ void start(T radius) {
    distance_ = radius;
    row_ = most;
    bound_ = radius;
    worst_ = most;
  }
  __device__ T bound() const { return bound_; }
  /// All lanes together; true if the bound may have changed.
  __device__ bool offer(bool has, T distance, std::int64_t row) {
    bool changed = false;
    unsigned mask = __ballot_sync(everyone, has && before(distance, row, bound_, worst_));
    for (; mask != 0; mask &= mask - 1) {
      const int from = __ffs(static_cast<int>(mask)) - 1;
      const T d = __shfl_sync(everyone, distance, from);
      const std::int64_t r = __shfl_sync(everyone, row, from);
      if (!before(d, r, bound_, worst_)) continue;
      const int place = __popc(__ballot_sync(everyone, before(distance_, row_, d, r)));
      const T d_below = __shfl_up_sync(everyone, distance_, 1);
      const std::int64_t r_below = __shfl_up_sync(everyone, row_, 1);
      if (lane_ > place) {
        distance_ = d_below;
        row_ = r_below;
      } else if (lane_ == place) {
        distance_ = d;
        row_ = r;
      }
      bound_ = __shfl_sync(everyone, distance_, k_ - 1);
      worst_ = __shfl_sync(everyone, row_, k_ - 1);
      changed = true;
    }
    return changed;
  }
  __device__ void finish(const WarpSearch<T>& search, std::int64_t number, std::int64_t answer) {
    if (lane_ < k_) {
      const std::int64_t cell = answer * k_ + lane_;
      search.answer.indices[cell] = row_ == most ? -1 : row_;
      search.answer.distances[cell] = row_ == most ? infinite<T>() : distance_;
    }
    const T last = worst_ == most ? infinite<T>() : bound_;
    if (search.answer.unfilled.count != nullptr && lane_ == 0 && !(last < infinite<T>())) {
      search.answer.unfilled.queries[atomicAdd(search.answer.unfilled.count, 1ULL)] = number;
    }
  }

 private:
  const int k_;
  const int lane_;
  T distance_ = 0;
  std::int64_t row_ = most;
  T bound_ = 0;  // of lane k - 1
  std::int64_t worst_ = most;
};

// The 32 M smallest, sorted, as integers: distance bits above the row. Entry i is register i / 32 of lane i
// % 32.
template <int M>
class PackedList {
  using Key = unsigned long long;

 public:
  using Place = int;  // of a tree that packs
  __device__ PackedList(const WarpSearch<float>& search, std::int64_t /*warp*/, int lane)
      : k_(static_cast<int>(search.answer.k)), lane_(lane) {}
  __device__ void start(float radius) {
    worst_ = pack(radius, no_row);
#pragma unroll
    for (int r = 0; r < M; ++r) keys_[r] = worst_;
  }
  __device__ float bound() const {
    return __uint_as_float(static_cast<unsigned>(worst_ >> 32U));
  }
  /// All lanes together; true if the bound may have changed.
  __device__ bool offer(bool has, float distance, std::int64_t row) {
    Key key = has ? pack(distance, static_cast<std::uint32_t>(row)) : ~Key{0};
    unsigned mask = __ballot_sync(everyone, key < worst_);
    if (mask == 0) return false;
    if (M == 1 && k_ == 1) {
      // The least distance, and of those the least row.
      const bool in = mask >> lane_ & 1U;
      const unsigned least = __reduce_min_sync(everyone, in ? static_cast<unsigned>(key >> 32U) : ~0U);
      const bool best = in && static_cast<unsigned>(key >> 32U) == least;
      const unsigned its = __reduce_min_sync(everyone, best ? static_cast<unsigned>(key) : ~0U);
      keys_[0] = worst_ = static_cast<Key>(least) << 32U | its;
      return true;
    }
    if (__popc(mask) <= 3) {
      for (; mask != 0; mask &= mask - 1)
        insert(__shfl_sync(everyone, key, __ffs(static_cast<int>(mask)) - 1));
    } else {
      merge(key);
    }
#pragma unroll
    for (int r = 0; r < M; ++r) {
      const Key its = __shfl_sync(everyone, keys_[r], (k_ - 1) % 32);
      if (r == (k_ - 1) / 32) worst_ = its;
    }
    return true;
  }
  __device__ void finish(const WarpSearch<float>& search, std::int64_t number, std::int64_t answer) {
#pragma unroll
    for (int r = 0; r < M; ++r) {
      const int rank = r * 32 + lane_;
      if (rank >= k_) continue;
      const bool none = static_cast<std::uint32_t>(keys_[r]) == no_row;
      search.answer.indices[answer * k_ + rank] = none ? -1 : static_cast<std::int64_t>(keys_[r] & no_row);
      search.answer.distances[answer * k_ + rank] =
          none ? INFINITY : __uint_as_float(static_cast<unsigned>(keys_[r] >> 32U));
    }
    const bool filled = static_cast<std::uint32_t>(worst_) != no_row && bound() < INFINITY;
    if (search.answer.unfilled.count != nullptr && lane_ == 0 && !filled) {
      search.answer.unfilled.queries[atomicAdd(search.answer.unfilled.count, 1ULL)] = number;
    }
  }

 private:
  static constexpr std::uint32_t no_row = 0xffffffffU;
  __device__ static Key pack(float distance, std::uint32_t row) {
    return static_cast<Key>(__float_as_uint(distance)) << 32U | row;
  }
  __device__ static Key ordered(Key a, Key b, bool low) {
    return (a < b) == low ? a : b;
  }

  __device__ void insert(Key key) {
#pragma unroll
    for (int r = M - 1; r >= 0; --r) {
      Key below = __shfl_up_sync(everyone, keys_[r], 1);
      const Key before = r > 0 ? __shfl_sync(everyone, keys_[r > 0 ? r - 1 : 0], 31) : 0;
      if (lane_ == 0) below = before;
      keys_[r] = keys_[r] < key ? keys_[r] : (below < key ? key : below);
    }
  }

  template <int stride>
  __device__ void order_registers() {
#pragma unroll
    for (int i = 0; i < M / 2; ++i) {
      const int r = i / stride * 2 * stride + i % stride;
      const Key a = keys_[r];
      const Key b = keys_[r + stride];
      keys_[r] = a < b ? a : b;
      keys_[r + stride] = a < b ? b : a;
    }
  }

  // Of 32 keys, one a lane: sorted among themselves, then merged (Batcher's bitonic networks).
  __device__ void merge(Key key) {
#pragma unroll
    for (int size = 2; size <= 32; size *= 2) {
#pragma unroll
      for (int stride = size / 2; stride > 0; stride /= 2) {
        const Key other = __shfl_xor_sync(everyone, key, stride);
        key = ordered(key, other, ((lane_ & stride) == 0) == ((lane_ & size) == 0 || size == 32));
      }
    }
    const Key reversed = __shfl_sync(everyone, key, 31 - lane_);
    keys_[M - 1] = reversed < keys_[M - 1] ? reversed : keys_[M - 1];
    if constexpr (M >= 8) order_registers<4>();
    if constexpr (M >= 4) order_registers<2>();
    if constexpr (M >= 2) order_registers<1>();
#pragma unroll
    for (int stride = 16; stride > 0; stride /= 2) {
#pragma unroll
      for (int r = 0; r < M; ++r) {
        const Key other = __shfl_xor_sync(everyone, keys_[r], stride);
        keys_[r] = ordered(keys_[r], other, (lane_ & stride) == 0);
      }
    }
  }

  const int k_;
  const int lane_;
  Key keys_[M];
  Key worst_ = 0;  // the k-th
};

// Any k: entries are appended, and cut to the k smallest when there are enough of them.
template <class T>
class LongList {
 public:
  using Place = std::int64_t;
  __device__ LongList(const WarpSearch<T>& search, std::int64_t warp, int lane)
      : k_(search.answer.k), longest_(search.longest), lane_(lane) {
    unsigned char* memory = search.lists + warp * search.list_room * static_cast<std::int64_t>(8 + sizeof(T));
    rows_ = reinterpret_cast<std::int64_t*>(memory);
    distances_ = reinterpret_cast<T*>(rows_ + search.list_room);
  }
  __device__ void start(T radius) {
    bound_ = radius;
    worst_ = most;
    count_ = 0;
    full_ = false;
  }
  __device__ T bound() const { return bound_; }
  __device__ bool offer(bool has, T distance, std::int64_t row) {
    const bool keep = has && before(distance, row, bound_, worst_);
    const unsigned mask = __ballot_sync(everyone, keep);
    if (mask == 0) return false;
    if (keep) {
      const std::int64_t to = count_ + __popc(mask & ((1U << lane_) - 1U));
      distances_[to] = distance;
      rows_[to] = row;
    }
    count_ += __popc(mask);
    if (count_ < (full_ ? longest_ : k_)) return false;
    cut();
    return true;
  }
  __device__ void finish(const WarpSearch<T>& search, std::int64_t number, std::int64_t answer) {
    sort_entries(distances_, rows_, count_, lane_, 32, [] { __syncwarp(); });
    for (std::int64_t i = lane_; i < k_; i += 32) {
      search.answer.indices[answer * k_ + i] = i < count_ ? rows_[i] : -1;
      search.answer.distances[answer * k_ + i] = i < count_ ? distances_[i] : infinite<T>();
    }
    if (search.answer.unfilled.count != nullptr && lane_ == 0 &&
        !(count_ >= k_ && distances_[k_ - 1] < infinite<T>())) {
      search.answer.unfilled.queries[atomicAdd(search.answer.unfilled.count, 1ULL)] = number;
    }
    __syncwarp();
  }

 private:
  __device__ void cut() {
    sort_entries(distances_, rows_, count_, lane_, 32, [] { __syncwarp(); });
    count_ = k_;
    full_ = true;
    bound_ = distances_[k_ - 1];
    worst_ = rows_[k_ - 1];
    __syncwarp();
  }
  const std::int64_t k_, longest_;
  const int lane_;
  T* distances_;
  std::int64_t* rows_;
  std::int64_t count_ = 0;
  T bound_ = 0;
  std::int64_t worst_ = most;
  bool full_ = false;
};

// All within the radius: counted, or written where earlier counting says.
template <class T>
class Collector {
 public:
  using Place = std::int64_t;
  __device__ Collector(const WarpSearch<T>& search, std::int64_t /*warp*/, int lane)
      : s_(search), lane_(lane) {}
  __device__ void start(T radius) {
    radius_ = radius;
    count_ = 0;
  }
  __device__ void start_writing(std::int64_t number) { to_ = s_.offsets != nullptr ? s_.offsets[number] : 0; }
  __device__ T bound() const { return radius_; }
  __device__ bool offer(bool has, T distance, std::int64_t row) {
    const bool keep = has && distance <= radius_;
    const unsigned mask = __ballot_sync(everyone, keep);
    if (keep && s_.offsets != nullptr) {
      const std::int64_t to = to_ + count_ + __popc(mask & ((1U << lane_) - 1U));
      s_.rows[to] = row;
      s_.distances[to] = distance;
    }
    count_ += __popc(mask);
    return false;
  }
  __device__ void finish(const WarpSearch<T>& search, std::int64_t number, std::int64_t /*answer*/) {
    if (search.found != nullptr && lane_ == 0) search.found[number] = count_;
  }

 private:
  const WarpSearch<T>& s_;
  const int lane_;
  T radius_ = 0;
  std::int64_t count_ = 0;
  std::int64_t to_ = 0;
};

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

  // A number that is not negative as an integer in the same order.
  using Order = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
  __device__ static Order order_of(float value) { return __float_as_uint(value); }
  __device__ static Order order_of(double value) {
    return static_cast<unsigned long long>(__double_as_longlong(value));
  }

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

  // A lower bound as an integer in the same order, if not as fine.
  __device__ static unsigned rank_of(float low) {
    return __float_as_uint(low);
  }
  __device__ static unsigned rank_of(double low) {
    return static_cast<unsigned>(__double_as_longlong(low) >> 32);
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
      const Order key = passes ? order_of(low) : static_cast<Order>(-1);
      const int half = lane_ & 16;
      int farther = 0;
#pragma unroll
      for (int i = 0; i < static_cast<int>(node_width); ++i) {
        const Order its = __shfl_sync(everyone, key, half + i);
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

// With D the scratch lies in shared memory, and the compiler may know.
template <class T, int D, class List>
__global__ void __launch_bounds__(warps_a_block * 32) warp_kernel(const __grid_constant__ WarpSearch<T> s) {
  extern __shared__ __align__(16) unsigned char memory[];
  const int in_block = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * warps_a_block + in_block;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * warps_a_block;
  unsigned char* scratch = memory + in_block * s.scratch_bytes;
  if constexpr (D == 0) {
    if (s.scratch != nullptr) scratch = s.scratch + warp * s.scratch_bytes;
  }
  Walk<T, D, List> walk(s, scratch, warp);
  const std::int64_t count = s.device_count == nullptr ? s.count : static_cast<std::int64_t>(*s.device_count);
  for (std::int64_t i = warp; i < count; i += warps) {
    walk.run(s.order != nullptr ? s.order[i] : (s.short_order != nullptr ? s.short_order[i] : i));
  }
  if (s.report == nullptr) return;
  // What the block has written is there before it arrives; the last to arrive sees all of it.
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    const ::cuda::atomic_ref<unsigned, ::cuda::thread_scope_device> arrived(*s.arrived);
    last = arrived.fetch_add(1, ::cuda::memory_order_acq_rel) == gridDim.x - 1;
    if (last) arrived.store(0, ::cuda::memory_order_relaxed);
  }
  __syncthreads();
  if (!last || threadIdx.x >= 32) return;
  // All is read before anything is written: one way to memory.
  const int lane = static_cast<int>(threadIdx.x);
  const bool counts = lane >= 2 && lane < 2 + s.others;
  unsigned long long sums[2] = {0, 0};
  unsigned long long mine = counts ? __ldcg(s.counts + 2 * count_slots + lane - 2) : 0;
#pragma unroll
  for (int at = lane; at < count_slots; at += 32) {
    const ulonglong2 both = __ldcg(reinterpret_cast<const ulonglong2*>(s.counts) + at);
    sums[0] += both.x;
    sums[1] += both.y;
  }
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    sums[0] += __shfl_xor_sync(everyone, sums[0], apart);
    sums[1] += __shfl_xor_sync(everyone, sums[1], apart);
  }
  if (lane < 2) mine = sums[lane];
  if (lane < 2 + s.others) *static_cast<volatile unsigned long long*>(s.report + lane) = mine;
  __syncwarp();  // all of them are read
  for (int at = lane; at < 2 * count_slots + s.others; at += 32) s.counts[at] = 0;
}

constexpr std::int64_t most_shared_scratch = 12 << 10;  // bytes a warp

template <class T>
void lay_out(WarpSearch<T>& search, std::int64_t levels) {
  // A node's children at most above most_unordered; from there on one node at a time, the last, leaves at
  // most 15 entries a level.
  search.stack_bytes =
      (most_unordered + 32 + 15 * (levels + 1)) * static_cast<std::int64_t>(sizeof(Waiting<T, std::int64_t>));
  search.scratch_bytes =
      (search.stack_bytes + search.tree.dim * static_cast<std::int64_t>(sizeof(T)) + 15) / 16 * 16;
  const std::int64_t k = search.answer.k;
  search.longest = k + (k / 2 > 64 ? k / 2 : 64);
  search.list_room = (search.longest + 32 + 1) / 2 * 2;
}

template <class T, class List, bool special_3d = false>
void launch(WarpSearch<T> search, std::int64_t levels, const WarpMemory& memory, unsigned char* scratch,
            int device, cudaStream_t stream) {
  if (search.count == 0) return;
  lay_out(search, levels);
  const std::size_t shared =
      memory.scratch > 0 ? 0 : static_cast<std::size_t>(warps_a_block * search.scratch_bytes);
  search.scratch = memory.scratch > 0 ? scratch : nullptr;
  search.lists = scratch + memory.warps * memory.scratch;
  const std::int64_t blocks =
      std::min((search.count + warps_a_block - 1) / warps_a_block, memory.warps / warps_a_block);
  const auto go = [&](auto kernel) {
    allow_shared(kernel, warps_a_block * 32, shared, device);
    kernel<<<static_cast<unsigned>(blocks), warps_a_block * 32, shared, stream>>>(search);
    check_launch("warp_kernel");
  };
  if constexpr (special_3d) {
    if (search.tree.dim == 3 && memory.scratch == 0) {
      go(warp_kernel<T, 3, List>);
      return;
    }
  }
  go(warp_kernel<T, 0, List>);
}

// A warp a node: its leaves' points, coordinate by coordinate, to places point by point.
template <class T>
__global__ void __launch_bounds__(128)
    unpack_kernel(const AnyTree<T> tree, std::int64_t first, std::int64_t last, T* values) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t node = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (node >= tree.nodes) return;
  const auto* boxes = reinterpret_cast<const T*>(tree.node_data + node * tree.node_stride);
  const auto* links = reinterpret_cast<const NodeLinks*>(boxes + 2 * tree.dim * node_width);
  for (int c = 0; c < links->count; ++c) {
    if (links->child[c] >= 0) continue;
    const std::int64_t begin = links->begin[c];
    const std::int64_t count = links->begin[c + 1] - begin;
    const T* x = tree.coordinates + begin * tree.dim;
    if (begin + count <= first || begin >= last) continue;
    for (std::int64_t i = lane; i < count * tree.dim; i += 32) {
      const std::int64_t place = begin + i / tree.dim;
      if (place < first || place >= last) continue;
      values[(place - first) * tree.dim + i % tree.dim] = x[i % tree.dim * count + i / tree.dim];
    }
  }
}

template <class T>
__global__ void __launch_bounds__(256)
    sort_kernel(const std::int64_t* offsets, std::int64_t count, std::int64_t* rows, T* distances) {
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const std::int64_t from = offsets[i];
    sort_entries(distances + from, rows + from, offsets[i + 1] - from, static_cast<int>(threadIdx.x),
                 static_cast<int>(blockDim.x), [] { __syncthreads(); });
  }
}

template <class T>
__global__ void clear_kernel(std::int64_t* indices, T* distances, std::int64_t cells) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < cells;
       i += step) {
    indices[i] = -1;
    distances[i] = infinite<T>();
  }
}

}  // namespace

template <class T>
WarpMemory warp_memory(const WarpSearch<T>& search, std::int64_t levels, int device) {
  WarpSearch<T> plan = search;
  lay_out(plan, levels);
  WarpMemory memory;
  const bool is_long = !is_short(search.tree, search.answer.k);
  if (plan.scratch_bytes > most_shared_scratch) memory.scratch = plan.scratch_bytes;
  if (is_long) memory.list = plan.list_room * static_cast<std::int64_t>(8 + sizeof(T));
  // Without memory of their own, as many warps as there are queries; else what the device runs at once.
  memory.warps = (search.count + warps_a_block - 1) / warps_a_block * warps_a_block;
  const bool takes = memory.scratch + memory.list > 0;
  const std::int64_t at_once = static_cast<std::int64_t>(processors(device)) * (takes ? 32 : 256);
  memory.warps = std::min(memory.warps, at_once);
  return memory;
}

template <class T>
void search_warps(WarpSearch<T> search, std::int64_t levels, const WarpMemory& memory, unsigned char* scratch,
                  int device, cudaStream_t stream) {
  if constexpr (sizeof(T) == 4) {
    if (search.tree.packs && search.answer.k <= 32) {
      return launch<T, PackedList<1>, true>(search, levels, memory, scratch, device, stream);
    }
    if (search.tree.packs && search.answer.k <= 64) {
      return launch<T, PackedList<2>, true>(search, levels, memory, scratch, device, stream);
    }
    if (search.tree.packs && search.answer.k <= 128) {
      return launch<T, PackedList<4>, true>(search, levels, memory, scratch, device, stream);
    }
    if (search.tree.packs && search.answer.k <= largest_packed_k) {
      return launch<T, PackedList<8>, true>(search, levels, memory, scratch, device, stream);
    }
  }
  if (is_short(search.tree, search.answer.k)) {
    launch<T, LaneList<T>>(search, levels, memory, scratch, device, stream);
  } else {
    launch<T, LongList<T>>(search, levels, memory, scratch, device, stream);
  }
}

template <class T>
void search_radius(WarpSearch<T> search, std::int64_t levels, const WarpMemory& memory,
                   unsigned char* scratch, int device, cudaStream_t stream) {
  launch<T, Collector<T>, sizeof(T) == 4>(search, levels, memory, scratch, device, stream);
}

template <class T>
void sort_segments(const std::int64_t* offsets, std::int64_t count, std::int64_t* rows, T* distances,
                   cudaStream_t stream) {
  if (count == 0) return;
  sort_kernel<T><<<static_cast<unsigned>(std::min<std::int64_t>(count, 1 << 20)), 256, 0, stream>>>(
      offsets, count, rows, distances);
  check_launch("sort_kernel");
}

template <class T>
void unpack_points(const AnyTree<T>& tree, std::int64_t first, std::int64_t last, T* values,
                   cudaStream_t stream) {
  if (tree.nodes == 0) return;
  unpack_kernel<T>
      <<<static_cast<unsigned>((tree.nodes + 3) / 4), 128, 0, stream>>>(tree, first, last, values);
  check_launch("unpack_kernel");
}

template <class T>
void clear_answer(std::int64_t* indices, T* distances, std::int64_t cells, cudaStream_t stream) {
  if (cells == 0) return;
  clear_kernel<T>
      <<<static_cast<unsigned>(std::min<std::int64_t>((cells + 255) / 256, 1 << 16)), 256, 0, stream>>>(
          indices, distances, cells);
  check_launch("clear_kernel");
}

#define KITH_INSTANTIATE(T)                                                                           \
  template WarpMemory warp_memory<T>(const WarpSearch<T>&, std::int64_t, int);                        \
  template void search_warps<T>(WarpSearch<T>, std::int64_t, const WarpMemory&, unsigned char*, int,  \
                                cudaStream_t);                                                        \
  template void search_radius<T>(WarpSearch<T>, std::int64_t, const WarpMemory&, unsigned char*, int, \
                                 cudaStream_t);                                                       \
  template void sort_segments<T>(const std::int64_t*, std::int64_t, std::int64_t*, T*, cudaStream_t); \
  template void unpack_points<T>(const AnyTree<T>&, std::int64_t, std::int64_t, T*, cudaStream_t);    \
  template void clear_answer<T>(std::int64_t*, T*, std::int64_t, cudaStream_t);
KITH_INSTANTIATE(float)
KITH_INSTANTIATE(double)

}  // namespace kith::point_tree::cuda
