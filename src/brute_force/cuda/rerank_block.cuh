// What a block re-ranks candidates with: its list in shared memory, the nearest by the filter's estimate
// first.
#pragma once

#include "brute_force/cuda/rerank.cuh"
#include "brute_force/cuda/tuning.hpp"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"
#include "cuda/visit_element.cuh"
#include "distance/cuda/canonical.cuh"

namespace kith::brute_force::cuda {
namespace {

using namespace distance::cuda;

// Threads of a block, mostly: rerank.cu has smaller and larger ones.
constexpr int threads = 256;
constexpr int groups = threads / canonical_lanes;

__device__ inline int block_threads() {
  return static_cast<int>(blockDim.x);
}

// What all threads of a block know of its list, in shared memory.
template <class R>
struct ListState {
  int sorted;   // keys of the list
  int filled;   // and with those that were offered
  Key<R> last;  // the k-th, or none
};

// The k best of what came so far in keys[0, k), ascending; what is offered is collected behind them. A list
// that is not full ends with keys that are none.
template <class R>
class BlockList {
 public:
  /// `keys` has room for `capacity` of them, a power of two and more than k; both pointers are to shared
  /// memory.
  __device__ BlockList(Key<R>* keys, ListState<R>* state, int k, int capacity)
      : keys_(keys), state_(state), k_(k), capacity_(capacity) {}

  /// With a list that there is, ascending, or, where `stored` is null, an empty one.
  __device__ void start(const Key<R>* stored) {
    if (threadIdx.x == 0) state_->filled = 0;
    __syncthreads();
    int mine = 0;
    for (int i = threadIdx.x; i < k_; i += block_threads()) {
      keys_[i] = stored == nullptr ? Key<R>::none() : stored[i];
      if (!keys_[i].is_none()) ++mine;
    }
    if (mine > 0) atomicAdd(&state_->filled, mine);
    __syncthreads();
    if (threadIdx.x == 0) know(state_->filled);
    __syncthreads();
  }
  /// By one thread a candidate; there is room for free() of them before the next merge.
  __device__ void offer(const Key<R>& key) {
    if (key < state_->last) keys_[atomicAdd(&state_->filled, 1)] = key;
  }
  /// Puts what was offered into the list.
  __device__ void merge() {
    __syncthreads();
    const int total = state_->filled;
    const bool offered = total > state_->sorted;
    __syncthreads();
    if (!offered) return;
    int padded = 2;
    while (padded < total) padded *= 2;
    for (int i = total + static_cast<int>(threadIdx.x); i < padded; i += block_threads())
      keys_[i] = Key<R>::none();
    sort_block<R>(keys_, padded);
    if (threadIdx.x == 0) know(total < k_ ? total : k_);
    __syncthreads();
  }
  __device__ int free() const { return capacity_ - state_->sorted; }
  __device__ int k() const { return k_; }
  __device__ const Key<R>& operator[](int i) const { return keys_[i]; }
  /// The k-th, or none.
  __device__ const Key<R>& last() const { return state_->last; }

 private:
  __device__ void know(int sorted) {
    state_->sorted = state_->filled = sorted;
    state_->last = keys_[k_ - 1];
  }

  Key<R>* keys_;
  ListState<R>* state_;
  int k_;
  int capacity_;
};

constexpr int short_row = 16;

// The same as canonical_pair by one thread, for rows of up to 16 values.
template <class T, Metric metric>
__device__ double canonical_short(const T* row, const double* query, int dim, double query_norm) {
  double sum[canonical_lanes] = {};
  double norm[canonical_lanes] = {};
#pragma unroll
  for (int i = 0; i < short_row; ++i) {
    if (i < dim)
      canonical_step<metric>(sum[i % canonical_lanes], norm[i % canonical_lanes], query[i], widen(row[i]));
  }
  return canonical_finish<metric>(canonical_sum(sum), metric == Metric::cosine ? canonical_sum(norm) : 0,
                                  query_norm);
}

// The first `count` picks, places of entries, into the list. `query`: its values, wherever they are.
template <class T, Metric metric, class R>
__device__ void evaluate(const Batch<R>& batch, std::int64_t q, const double* query,
                         const std::uint64_t* entries, const std::uint16_t* picks, int count,
                         BlockList<R>& list) {
  const double norm = batch.scalars[q].canonical;
  const R best = batch.best[q];
  const T* data = static_cast<const T*>(batch.data);
  const auto offer = [&](bool there, double exact, std::uint32_t row) {
    const auto distance = static_cast<R>(exact);
    if (there && !isnan(distance) && distance <= best) list.offer(Key<R>::make(distance, row));
  };
  for (int start = 0; start < count;) {
    const int end = min(count, start + list.free());
    if (batch.space.dim <= short_row) {
      for (int c = start + static_cast<int>(threadIdx.x); c < end; c += block_threads()) {
        const auto row = static_cast<std::uint32_t>(entries[picks[c]]);
        const double distance =
            canonical_short<T, metric>(data + static_cast<std::int64_t>(row) * batch.stride, query,
                                       static_cast<int>(batch.space.dim), norm);
        offer(true, distance, row);
      }
    } else {
      const int group = static_cast<int>(threadIdx.x) / canonical_lanes;
      // The same number of rounds for all threads of a warp: they exchange lanes.
      for (int base = start; base < end; base += block_threads() / canonical_lanes) {
        const int c = base + group;
        const bool active = c < end;
        const auto row = static_cast<std::uint32_t>(active ? entries[picks[c]] : 0);
        const double distance = canonical_pair<T, metric>(
            data + static_cast<std::int64_t>(row) * batch.stride, query, batch.space.dim, norm, active);
        if (threadIdx.x % canonical_lanes == 0) offer(active, distance, row);
      }
    }
    list.merge();
    start = end;
  }
}

// Shared by the threads of a block while they look for the nearest entries.
constexpr int bins = 256;
struct Histogram {
  unsigned counts[bins];
  unsigned lowest, highest;
  unsigned first, before, inside;  // of the bin that the last of the wanted entries is in
  int picked;
};

// An order such that at least `wanted` of the entries are not above it, and not many more: of 256 bins the
// one that the last of them is in is divided again, until it holds few. (In clusters one bin may hold a whole
// cluster.)
__device__ unsigned order_of_first(const std::uint64_t* entries, int n, int wanted, Histogram& h) {
  const int tid = static_cast<int>(threadIdx.x);
  constexpr unsigned none = 0xffffffffU;
  if (tid == 0) {
    h.lowest = none;
    h.highest = 0;
  }
  __syncthreads();
  unsigned low = none;
  unsigned high = 0;
  for (int i = tid; i < n; i += block_threads()) {
    if (entries[i] == no_candidate) continue;
    const auto order = static_cast<unsigned>(entries[i] >> 32U);
    low = min(low, order);
    high = max(high, order);
  }
  low = __reduce_min_sync(0xffffffffU, low);
  high = __reduce_max_sync(0xffffffffU, high);
  if (tid % 32 == 0) {
    atomicMin(&h.lowest, low);
    atomicMax(&h.highest, high);
  }
  __syncthreads();
  low = h.lowest;
  const unsigned range = h.highest > low ? h.highest - low : 0;
  auto goal = static_cast<unsigned>(wanted);
  for (int shift = max(0, 24 - __clz(static_cast<int>(range)));; shift = max(0, shift - 8)) {
    for (int i = tid; i < bins; i += block_threads()) h.counts[i] = 0;
    if (tid == 0) h.inside = 0;
    __syncthreads();
    for (int i = tid; i < n; i += block_threads()) {
      if (entries[i] == no_candidate) continue;
      const auto order = static_cast<unsigned>(entries[i] >> 32U);
      const unsigned bin = (order - low) >> shift;
      if (order >= low && bin < bins) atomicAdd(&h.counts[bin], 1U);
    }
    __syncthreads();
    if (tid < 32) {  // eight bins a thread of the first warp
      unsigned sum = 0;
#pragma unroll
      for (int i = 0; i < bins / 32; ++i) sum += h.counts[tid * (bins / 32) + i];
      unsigned before = sum;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const unsigned other = __shfl_up_sync(0xffffffffU, before, step);
        if (tid >= step) before += other;
      }
      before -= sum;
      if (before < goal && before + sum >= goal) {
        int bin = tid * (bins / 32);
        while (before + h.counts[bin] < goal) before += h.counts[bin++];
        h.first = low + (static_cast<unsigned>(bin) << shift);
        h.before = before;
        h.inside = h.counts[bin];
      }
    }
    __syncthreads();
    if (h.inside == 0) return none;  // there are not so many
    const bool few = h.before + h.inside <= goal + static_cast<unsigned>(wanted / 2 + groups);
    if (shift == 0 || few) return h.first + ((1U << shift) - 1);
    low = h.first;
    goal -= h.before;
    __syncthreads();  // all have read it
  }
}

// What a block re-ranks with, in shared memory.
struct Desk {
  const double* query;  // or in memory, where it is long
  std::uint64_t* entries;
  std::uint16_t* picks;
  Histogram* histogram;
  unsigned* cut;
};

// The order above which no entry can be in the list any more.
template <class R>
__device__ unsigned cut_of(const Batch<R>& batch, std::int64_t q, const Key<R>& worst) {
  R distance = batch.best[q];
  if (!worst.is_none() && worst.distance() < distance) distance = worst.distance();
  CodeSpace space = batch.space;
  QueryScalars scalars = batch.scalars[q];
  if (batch.fine != nullptr) make_fine(space, scalars);
  const QueryBound bound = make_bound(distance, space, scalars, batch.maxima);
  return batch.fine == nullptr ? order_cut(bound, batch.space, batch.maxima)
                               : fine_order(fine_limit(bound, space.form, batch.maxima));
}

// How many of the nearest by the filter's estimate hold the k nearest, mostly. A block that is alone on its
// processor has as many groups of threads, which would be idle; of many, each row takes its time.
__host__ __device__ int wanted_of(std::int64_t k, bool many = false) {
  return static_cast<int>(k + k / 8 + (many ? 4 : groups / 2));
}

/// What becomes of the entries that the bound of the nearest does not rule out.
enum class Rest : std::uint8_t { evaluate, pick, leave };

// Evaluates n entries into the list: the `wanted` nearest by the filter's estimate give a bound; of the rest,
// those that it does not rule out, unless they are only picked, or left. Returns how many were evaluated, and
// in `picked` how many are picked last.
template <class T, Metric metric, class R>
__device__ unsigned long long rerank_entries(const Batch<R>& batch, std::int64_t q, const Desk& desk, int n,
                                             int wanted, bool cuts, Rest rest, BlockList<R>& list,
                                             int& picked) {
  unsigned long long evaluated = 0;
  unsigned first = 0xffffffffU;
  if (cuts && n > wanted + wanted / 4 + groups / 2) {
    first = order_of_first(desk.entries, n, wanted, *desk.histogram);
  }
  for (int part = 0; part < 2; ++part) {
    if (threadIdx.x == 0) desk.histogram->picked = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += block_threads()) {
      const auto order = static_cast<unsigned>(desk.entries[i] >> 32U);
      const bool take = part == 0 ? order <= first : order > first && order <= *desk.cut;
      if (take && desk.entries[i] != no_candidate) {
        desk.picks[atomicAdd(&desk.histogram->picked, 1)] = static_cast<std::uint16_t>(i);
      }
    }
    __syncthreads();
    picked = desk.histogram->picked;
    if (part == 1 && rest == Rest::pick) return evaluated;
    evaluate<T, metric>(batch, q, desk.query, desk.entries, desk.picks, picked, list);
    evaluated += static_cast<unsigned long long>(picked);
    picked = 0;
    if (first == 0xffffffffU || rest == Rest::leave) break;
    if (part == 0 && threadIdx.x == 0) *desk.cut = cut_of(batch, q, list.last());
    __syncthreads();
  }
  __syncthreads();
  return evaluated;
}

// Shared memory: the list and what is offered to it; candidates and which of them are picked.
template <class R>
std::size_t bytes_for(int capacity, int chunk) {
  return static_cast<std::size_t>(capacity) * sizeof(Key<R>) +
         static_cast<std::size_t>(chunk) * (sizeof(std::uint64_t) + sizeof(std::uint16_t));
}

// Calls f.operator()<T, metric>() with the types of a batch's rows and metric.
template <class R, class F>
void visit_rows(const Batch<R>& batch, F&& f) {
  visit_element(batch.space.dtype, [&]<class T>(T /*tag*/) {
    if constexpr ((sizeof(T) == 8) == (sizeof(R) == 8)) {
      switch (batch.space.metric) {
        case Metric::sqeuclidean: f.template operator()<T, Metric::sqeuclidean>(); break;
        case Metric::euclidean: f.template operator()<T, Metric::euclidean>(); break;
        case Metric::inner_product: f.template operator()<T, Metric::inner_product>(); break;
        case Metric::cosine: f.template operator()<T, Metric::cosine>(); break;
        case Metric::manhattan: f.template operator()<T, Metric::manhattan>(); break;
      }
    }
  });
}

}  // namespace
}  // namespace kith::brute_force::cuda
