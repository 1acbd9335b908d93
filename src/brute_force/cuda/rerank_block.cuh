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

constexpr int threads = 256;
constexpr int groups = threads / canonical_lanes;

// Sorts the first `total` keys of a buffer that has room for the next power of two; the rest become none.
template <class R>
__device__ void sort_padded(Key<R>* keys, int total) {
  int padded = 2;
  while (padded < total) padded *= 2;
  for (int i = total + threadIdx.x; i < padded; i += threads) keys[i] = Key<R>::none();
  sort_block<R>(keys, padded);
}

// The k best of what came so far in keys[0, k), ascending; what is offered is collected behind them.
template <class R>
struct BlockList {
  Key<R>* keys;
  int* filled;  // shared
  int k;
  int capacity;

  __device__ void merge() {
    __syncthreads();
    const int total = *filled;
    __syncthreads();
    if (total > k) {
      sort_padded<R>(keys, total);
      if (threadIdx.x == 0) *filled = k;
      __syncthreads();
    }
  }
  // By one thread a candidate; the caller makes room first.
  __device__ void offer(R distance, std::uint32_t row, R best) {
    if (isnan(distance) || distance > best) return;
    const Key<R> key = Key<R>::make(distance, row);
    if (key < keys[k - 1]) keys[atomicAdd(filled, 1)] = key;
  }
  __device__ int free() const { return capacity - k; }
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
  for (int start = 0; start < count;) {
    const int end = min(count, start + list.free());
    if (batch.space.dim <= short_row) {
      for (int c = start + static_cast<int>(threadIdx.x); c < end; c += threads) {
        const auto row = static_cast<std::uint32_t>(entries[picks[c]]);
        const double distance =
            canonical_short<T, metric>(data + static_cast<std::int64_t>(row) * batch.stride, query,
                                       static_cast<int>(batch.space.dim), norm);
        list.offer(static_cast<R>(distance), row, best);
      }
    } else {
      const int group = static_cast<int>(threadIdx.x) / canonical_lanes;
      // The same number of rounds for all threads of a warp: they exchange lanes.
      for (int base = start; base < end; base += groups) {
        const int c = base + group;
        const bool active = c < end;
        const auto row = static_cast<std::uint32_t>(active ? entries[picks[c]] : 0);
        const double distance = canonical_pair<T, metric>(
            data + static_cast<std::int64_t>(row) * batch.stride, query, batch.space.dim, norm, active);
        if (active && threadIdx.x % canonical_lanes == 0) list.offer(static_cast<R>(distance), row, best);
      }
    }
    list.merge();
    start = end;
  }
}

// Shared by the threads of a block while they look for the nearest entries.
struct Histogram {
  unsigned counts[threads];
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
  for (int i = tid; i < n; i += threads) {
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
    h.counts[tid] = 0;
    if (tid == 0) h.inside = 0;
    __syncthreads();
    for (int i = tid; i < n; i += threads) {
      if (entries[i] == no_candidate) continue;
      const auto order = static_cast<unsigned>(entries[i] >> 32U);
      const unsigned bin = (order - low) >> shift;
      if (order >= low && bin < threads) atomicAdd(&h.counts[bin], 1U);
    }
    __syncthreads();
    if (tid < 32) {  // eight bins a thread of the first warp
      unsigned sum = 0;
#pragma unroll
      for (int i = 0; i < threads / 32; ++i) sum += h.counts[tid * (threads / 32) + i];
      unsigned before = sum;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const unsigned other = __shfl_up_sync(0xffffffffU, before, step);
        if (tid >= step) before += other;
      }
      before -= sum;
      if (before < goal && before + sum >= goal) {
        int bin = tid * (threads / 32);
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

// How many of the nearest by the filter's estimate hold the k nearest, mostly.
__host__ __device__ int wanted_of(std::int64_t k) {
  return static_cast<int>(k + k / 8 + groups / 2);
}

// Evaluates n entries into the list: the `wanted` nearest by the filter's estimate give a bound; of the rest,
// those that it does not rule out. With `defer` these are only picked. Returns how many were evaluated, and
// in `picked` how many are picked last.
template <class T, Metric metric, class R>
__device__ unsigned long long rerank_entries(const Batch<R>& batch, std::int64_t q, const Desk& desk, int n,
                                             int wanted, bool cuts, bool defer, BlockList<R>& list,
                                             int& picked) {
  unsigned long long evaluated = 0;
  unsigned first = 0xffffffffU;
  const int k = list.k;
  if (cuts && n > wanted + wanted / 4 + groups / 2) {
    first = order_of_first(desk.entries, n, wanted, *desk.histogram);
  }
  for (int part = 0; part < 2; ++part) {
    if (threadIdx.x == 0) desk.histogram->picked = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += threads) {
      const auto order = static_cast<unsigned>(desk.entries[i] >> 32U);
      const bool take = part == 0 ? order <= first : order > first && order <= *desk.cut;
      if (take && desk.entries[i] != no_candidate) {
        desk.picks[atomicAdd(&desk.histogram->picked, 1)] = static_cast<std::uint16_t>(i);
      }
    }
    __syncthreads();
    picked = desk.histogram->picked;
    if (part == 1 && defer) return evaluated;
    evaluate<T, metric>(batch, q, desk.query, desk.entries, desk.picks, picked, list);
    evaluated += static_cast<unsigned long long>(picked);
    picked = 0;
    if (first == 0xffffffffU) break;
    if (part == 0 && threadIdx.x == 0) *desk.cut = cut_of(batch, q, list.keys[k - 1]);
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
