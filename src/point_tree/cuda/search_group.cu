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
// the few candidates that the last limit keeps are evaluated in float64, and the warp sorts each query's keys
// by (distance, row), a lane a key.
//
// A lane with more candidates at one distance than there is room for hands its query on.
#include <cfloat>

#include "cuda/launch.hpp"
#include "point_tree/cuda/search_kernels.hpp"

namespace kith::cuda {
namespace {

constexpr unsigned everyone = 0xffffffffU;
constexpr int warps_a_block = 2;
constexpr int row = 33;  // lanes of one slot, apart by one: reading a lane's slots meets no bank twice

// Points around its own that a group of the tree's points takes its first bound from.
// Candidates a lane has room for.
template <int K>
constexpr int capacity = K <= 8 ? 16 : (K <= 16 ? 40 : (K <= 32 ? 48 : 96));

template <int K>
constexpr int seeds = (K <= 16 ? 32 : 64);

struct Pending {
  float low;
  std::uint32_t begin, count;
};

struct Kept {
  std::uint32_t place;
  float sum;
};

template <int K>
__host__ __device__ constexpr int shared_bytes(int stack) {
  const int bytes = 64 * 16 + capacity<K> * row * 8 + stack * static_cast<int>(sizeof(Pending));
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

// Sorts a key a lane among `width` neighbouring lanes (Batcher's bitonic sort).
template <int width>
__device__ unsigned long long sort_lanes(unsigned long long key, int lane, bool down = false) {
#pragma unroll
  for (int size = 2; size <= width; size *= 2) {
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2) {
      const unsigned long long other = __shfl_xor_sync(everyone, key, stride);
      const bool up = ((lane & size) == 0 || size == width) != (down && size == width);
      const bool low = (lane & stride) == 0;
      key = ((other < key) == (low == up)) ? other : key;
    }
  }
  return key;
}

template <int K, bool manhattan>
class Group {
 public:
  __device__ Group(const GroupSearch& search, unsigned char* memory)
      : s_(search),
        lane_(static_cast<int>(threadIdx.x) % 32),
        staged_(reinterpret_cast<float4*>(memory)),
        kept_(reinterpret_cast<Kept*>(memory + 64 * 16)),
        stack_(reinterpret_cast<Pending*>(memory + 64 * 16 + capacity<K> * row * 8)) {}

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
    clear();
    if (self) seed(first, count);
    for (int from = 0; from < count;) {
      const int to = compact_part(from, count);
      active_ = lane_ >= from && lane_ < to;
      most_ = largest(active_ ? limit_ : 0.0f);
      walk();
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
  __device__ void insert(float sum) {
#pragma unroll
    for (int i = K - 1; i > 0; --i) list_[i] = fmaxf(list_[i - 1], fminf(list_[i], sum));
    list_[0] = fminf(list_[0], sum);
  }
  __device__ void tighten() {
    if (!dead_) limit_ = fminf(limit_, __fmaf_rn(list_[K - 1], s_.scale, s_.tiny));
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
      if (volume <= 250 * usual * usual * usual || greatest == 0.0f) return to;
      to = __ffs(static_cast<int>(__ballot_sync(everyone, in && lane_ < to - 1 && step == greatest)));
    }
  }

  // k of the points around a group lie within this of each: no candidates yet, the walk meets them again.
  __device__ void seed(std::int64_t first, int count) {
    std::int64_t begin = first + count / 2 - seeds<K> / 2;
    const std::int64_t last = s_.tree.count - seeds<K>;
    begin = begin > last ? last : begin;
    begin = begin < 0 ? 0 : begin;
    const std::int64_t end = begin + seeds<K> < s_.tree.count ? begin + seeds<K> : s_.tree.count;
    for (std::int64_t at = begin; at < end; at += 32) {
      const int n = end - at < 32 ? static_cast<int>(end - at) : 32;
      __syncwarp();
      if (lane_ < n) {
        float4 p = s_.tree.points[at + lane_];
        p.w = __uint_as_float(static_cast<std::uint32_t>(at + lane_));
        staged_[lane_] = p;
      }
      __syncwarp();
      offer_staged(n);
    }
    tighten();
    clear();
  }
  __device__ void offer_staged(int n) {
    for (int i = 0; i < n; ++i) {
      const float4 p = staged_[i];
      const float sum = sum_of<manhattan>(p, query_, 0.0f);
      insert(__float_as_uint(p.w) == own_ ? INFINITY : sum);
    }
  }

  __device__ void walk() {
    int top = 1;
    if (lane_ == 0) stack_[0] = {0.0f, 0, node_mark};
    __syncwarp();
    while (top > 0) {
      const Pending one = stack_[--top];
      if (!(one.low <= most_)) continue;
      if (one.count != node_mark) {
        take_leaf(one);
        continue;
      }
      // A second node for the other half of the warp, while the stack is sure to hold both nodes' children.
      bool both = false;
      Pending other{};
      if (top > 0 && top < 40) {
        other = stack_[top - 1];
        both = other.count == node_mark && other.low <= most_;
        top -= both ? 1 : 0;
      }
      __syncwarp();
      visit(one.begin, other.begin, both, top);
    }
    if (filled_ > 0) test(filled_);
    filled_ = 0;
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
    int below = 0;
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      const int from = __ffs(static_cast<int>(rest)) - 1;
      const float its = __shfl_sync(everyone, low, from);
      below += its > low || (its == low && from > lane_);
    }
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

  __device__ void take_leaf(const Pending& leaf) {
    for (std::uint32_t at = 0; at < leaf.count; at += 32) {
      const std::uint32_t place = leaf.begin + at + lane_;
      float4 p{};
      bool near = false;
      if (at + lane_ < leaf.count) {
        p = s_.tree.points[place];
        const float x[3] = {p.x, p.y, p.z};
        near = apart<manhattan>(box_, x, x) <= most_;
      }
      const unsigned mask = __ballot_sync(everyone, near);
      if (near) {
        p.w = __uint_as_float(place);
        staged_[filled_ + __popc(mask & ((1U << lane_) - 1U))] = p;
      }
      filled_ += __popc(mask);
      __syncwarp();
      if (filled_ >= 32) {
        test(32);
        filled_ -= 32;
        float4 moved{};
        if (lane_ < filled_) moved = staged_[32 + lane_];
        __syncwarp();
        if (lane_ < filled_) staged_[lane_] = moved;
        __syncwarp();
      }
    }
  }

  // Bit 31 - i: point i of the staged ones is within the limit. The sum starts at -limit, so that its sign
  // tells.
  __device__ unsigned compare(int n) const {
    const float start = active_ ? -limit_ : 0.0f;
    unsigned mask = 0;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      mask = __funnelshift_l(__float_as_uint(sum_of<manhattan>(staged_[i], query_, start)), mask, 1);
    }
    return n == 32 ? mask : mask & ~(everyone >> n);
  }

  __device__ void test(int n) {
    tested_ += n;
    unsigned mask = compare(n);
    bool crowded = false;
    while (__any_sync(everyone, mask != 0)) {
      if (mask != 0) {
        const int i = __clz(static_cast<int>(mask));
        const float4 p = staged_[i];
        const std::uint32_t place = __float_as_uint(p.w);
        const float sum = sum_of<manhattan>(p, query_, 0.0f);
        crowded = count_ == capacity<K>;
        if (!crowded) {
          mask &= ~(0x80000000U >> i);
          if (place != own_ && sum <= limit_) {
            kept_[count_ * row + lane_] = {place, sum};
            ++count_;
            ++candidates_;
          }
        }
      }
      if (__any_sync(everyone, crowded)) {
        make_room();
        if (crowded && count_ == capacity<K>) {
          dead_ = true;
          mask = 0;
          count_ = merged_ = 0;
          limit_ = 0;
        }
        crowded = false;
      }
    }
    __syncwarp();
    if (__any_sync(everyone, count_ - merged_ >= 1)) merge();
  }

  __device__ void merge() {
    while (__any_sync(everyone, merged_ < count_)) {
      float sum = INFINITY;
      if (merged_ < count_) sum = kept_[merged_++ * row + lane_].sum;
      insert(sum);
    }
    tighten();
    most_ = largest(active_ ? limit_ : 0.0f);
  }

  // Drops candidates that the limit no longer keeps.
  __device__ void make_room() {
    merge();
    int to = 0;
    for (int i = 0; i < count_; ++i) {
      const Kept one = kept_[i * row + lane_];
      if (one.sum <= limit_) kept_[to++ * row + lane_] = one;
    }
    count_ = merged_ = to;
    __syncwarp();
  }

  __device__ void finish(bool real) {
    merge();
    auto* keys = reinterpret_cast<unsigned long long*>(kept_);
    // The same slots: a key comes to lie where a candidate was that has been read.
    int found = 0;
    for (int i = 0; i < count_; ++i) {
      const Kept one = kept_[i * row + lane_];
      if (!(one.sum <= limit_)) continue;
      const float4 p = s_.tree.points[one.place];
      const float distance = canonical<manhattan>(query_, p, s_.rooted);
      if (distance > s_.radius) continue;
      keys[found++ * row + lane_] =
          static_cast<unsigned long long>(__float_as_uint(distance)) << 32U | __float_as_uint(p.w);
    }
    if (found > 64) dead_ = true;
    if (dead_) found = 0;
    if (!real) found = 0;
    if (dead_ && real) {
      s_.unanswered.queries[atomicAdd(s_.unanswered.count, 1ULL)] =
          s_.queries == nullptr ? first_ + lane_ : static_cast<std::int64_t>(__float_as_uint(query_.w));
    }
    __syncwarp();
    const int most = __reduce_max_sync(everyone, found);
    const unsigned answered = __ballot_sync(everyone, real && !dead_);
    if (K <= 8 && most <= 8) {
      write<8>(keys, found, answered);
    } else if (K <= 16 && most <= 16) {
      write<16>(keys, found, answered);
    } else if (most <= 32) {
      write<32>(keys, found, answered);
    } else {
      write<64>(keys, found, answered);
    }
    if (s_.counts != nullptr) {
      const unsigned candidates = __reduce_add_sync(everyone, candidates_);
      if (lane_ == 0) {
        unsigned long long* slot = s_.counts + 2 * (blockIdx.x % count_slots);
        atomicAdd(slot, static_cast<unsigned long long>(tested_) * 32);
        atomicAdd(slot + 1, static_cast<unsigned long long>(candidates));
      }
    }
  }

  // Sorts the keys of 32 queries, `width` lanes each (64: two keys a lane), and writes them side by side.
  template <int width>
  __device__ void write(const unsigned long long* keys, int found, unsigned answered) {
    constexpr int lanes = width < 32 ? width : 32;
    constexpr unsigned long long none = ~0ULL;
    const int rank = lane_ % lanes;
    for (int q0 = 0; q0 < 32; q0 += 32 / lanes) {
      const int q = q0 + lane_ / lanes;
      const int its = __shfl_sync(everyone, found, q);
      const std::int64_t number = __float_as_uint(__shfl_sync(everyone, query_.w, q));
      const std::int64_t answer = s_.answer.by_place ? first_ + q - s_.answer.first : number;
      unsigned long long key = rank < its ? keys[rank * row + q] : none;
      key = sort_lanes<lanes>(key, lane_);
      unsigned long long high = none;
      if constexpr (width == 64) {
        high = rank + 32 < its ? keys[(rank + 32) * row + q] : none;
        high = sort_lanes<32>(high, lane_, true);
        const unsigned long long low = high < key ? high : key;
        high = high < key ? key : high;
        key = low;
#pragma unroll
        for (int stride = 16; stride > 0; stride /= 2) {
          const bool lower = (lane_ & stride) == 0;
          const unsigned long long a = __shfl_xor_sync(everyone, key, stride);
          const unsigned long long b = __shfl_xor_sync(everyone, high, stride);
          key = ((a < key) == lower) ? a : key;
          high = ((b < high) == lower) ? b : high;
        }
      }
      if ((answered >> q & 1U) == 0) continue;
      put(number, answer, rank, key);
      if constexpr (width == 64) put(number, answer, rank + 32, high);
      // Fewer lanes than k: the rest is empty.
      for (int more = rank + width; more < s_.answer.k; more += lanes) put(number, answer, more, none);
    }
  }
  __device__ void put(std::int64_t number, std::int64_t answer, int rank, unsigned long long key) {
    if (rank >= s_.answer.k) return;
    const bool none = key == ~0ULL;
    const std::int64_t cell = answer * s_.answer.k + rank;
    s_.answer.indices[cell] = none ? -1 : static_cast<std::int64_t>(key & 0xffffffffU);
    s_.answer.distances[cell] = none ? INFINITY : __uint_as_float(static_cast<unsigned>(key >> 32U));
    if (none && rank == s_.answer.k - 1 && s_.answer.unfilled.count != nullptr) {
      s_.answer.unfilled.queries[atomicAdd(s_.answer.unfilled.count, 1ULL)] = number;
    }
  }

  const GroupSearch& s_;
  const int lane_;
  float4* staged_;
  Kept* kept_;
  Pending* stack_;
  float4 query_;
  std::int64_t first_ = 0;
  std::uint32_t own_;
  Box box_;
  float list_[K];
  float limit_, most_;
  bool active_ = false;  // has a part in this walk
  bool dead_ = false;
  int filled_ = 0;  // staged points
  int count_ = 0;   // candidates
  int merged_ = 0;  // of them in the list
  int tested_ = 0;
  unsigned candidates_ = 0;
};

template <int K, bool manhattan>
__global__ void __launch_bounds__(warps_a_block * 32)
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
  else if (search.answer.k <= 32)
    go.template operator()<32>();
  else
    go.template operator()<64>();
}

void pack_tree(const point_tree::TreeView<float, std::uint32_t>& tree, float4* points, PackedChild* nodes,
               cudaStream_t stream) {
  if (tree.nodes == 0) return;
  pack_kernel<<<static_cast<unsigned>((tree.nodes + 3) / 4), 128, 0, stream>>>(tree, points, nodes);
  check_launch("pack_kernel");
}

}  // namespace kith::cuda
