// Settling: candidates are evaluated exactly and merged into the k-lists, in shared memory.
//
// A block takes a query's candidates, sorts them by the filter's own estimate and evaluates the first few;
// with the bound these give, most of the rest are ruled out without a look at their rows. Where queries are
// few, several blocks share one: each keeps the k best of its share, and the last to finish merges them.
#include <math_constants.h>

#include "brute_force/cuda/settle.cuh"
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

// Written by another block of the same launch: not through the first-level cache.
template <class R>
__device__ Key<R> load_key(const Key<R>* from) {
  if constexpr (sizeof(Key<R>) == 8) {
    return {__ldcg(&from->word)};
  } else {
    return {__ldcg(&from->word), __ldcg(&from->low)};
  }
}

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

// The first `count` picks, places of entries, into the list.
template <class T, Metric metric, class R>
__device__ void evaluate(const Batch<R>& batch, std::int64_t q, const std::uint64_t* entries,
                         const std::uint16_t* picks, int count, BlockList<R>& list) {
  const double* query = batch.queries + q * batch.padded;
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

// What a block settles with, in shared memory.
struct Desk {
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
  return order_cut(make_bound(distance, batch.space, batch.scalars[q], batch.maxima), batch.space,
                   batch.maxima);
}

// How many of the nearest by the filter's estimate hold the k nearest, mostly.
__host__ __device__ int wanted_of(std::int64_t k) {
  return static_cast<int>(k + k / 8 + groups / 2);
}

// Evaluates n entries into the list: the `wanted` nearest by the filter's estimate give a bound; of the rest,
// those that it does not rule out. With `defer` these are only picked. Returns how many were evaluated, and
// in `picked` how many are picked last.
template <class T, Metric metric, class R>
__device__ unsigned long long settle_entries(const Batch<R>& batch, std::int64_t q, const Desk& desk, int n,
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
    evaluate<T, metric>(batch, q, desk.entries, desk.picks, picked, list);
    evaluated += static_cast<unsigned long long>(picked);
    picked = 0;
    if (first == 0xffffffffU) break;
    if (part == 0 && threadIdx.x == 0) *desk.cut = cut_of(batch, q, list.keys[k - 1]);
    __syncthreads();
  }
  __syncthreads();
  return evaluated;
}

// Where several blocks share a query: true in the last one to get here, whose list is then that of all.
template <class R>
__device__ bool merge_blocks(const Batch<R>& batch, std::int64_t q, BlockList<R>& list, int* last) {
  if (gridDim.x == 1) return true;
  const int k = list.k;
  Key<R>* all = batch.partial + blockIdx.y * static_cast<std::int64_t>(gridDim.x) * k;
  for (int i = threadIdx.x; i < k; i += threads) all[static_cast<int>(blockIdx.x) * k + i] = list.keys[i];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) *last = atomicAdd(batch.arrived + q, 1U) == gridDim.x - 1 ? 1 : 0;
  __syncthreads();
  if (*last == 0) return false;
  __threadfence();
  // Every block's k-th bounds the answer's k-th.
  const int total = static_cast<int>(gridDim.x) * k;
  for (int start = 0; start < total; start += list.free()) {
    const int end = min(total, start + list.free());
    for (int i = start + threadIdx.x; i < end; i += threads) {
      if (i / k == static_cast<int>(blockIdx.x)) continue;  // these are in the list already
      const Key<R> key = load_key<R>(all + i);
      if (key < list.keys[k - 1]) list.keys[atomicAdd(list.filled, 1)] = key;
    }
    list.merge();
  }
  if (threadIdx.x == 0) batch.arrived[q] = 0;
  return true;
}

template <class T, Metric metric, class R>
__global__ void __launch_bounds__(threads)
    settle_kernel(Batch<R> batch, Subset subset, int wanted, bool bound_only, bool more, int capacity,
                  int chunk) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ Histogram histogram;
  __shared__ int filled;
  __shared__ int last;
  __shared__ unsigned cut;
  auto* keys = reinterpret_cast<Key<R>*>(shared);
  auto* entries =
      reinterpret_cast<std::uint64_t*>(shared + static_cast<std::size_t>(capacity) * sizeof(Key<R>));
  const Desk desk{entries, reinterpret_cast<std::uint16_t*>(entries + chunk), &histogram, &cut};
  const std::int64_t q = query_of(subset, blockIdx.y);
  const int k = static_cast<int>(batch.k);
  const std::int64_t room = batch.candidates.room;
  const std::int64_t kept = batch.candidates.counts[q];
  const std::int64_t count = kept < room ? kept : room;
  Key<R>* stored = batch.lists + q * k;
  // The list so far belongs to one block; the others start from nothing.
  for (int i = threadIdx.x; i < k; i += threads) keys[i] = blockIdx.x == 0 ? stored[i] : Key<R>::none();
  if (threadIdx.x == 0) filled = k;
  BlockList<R> list{keys, &filled, k, capacity};
  __syncthreads();

  unsigned long long evaluated = 0;
  int deferred = 0;
  const bool cuts = batch.space.form != Form::none && batch.scalars[q].kind == QueryKind::regular;
  const std::int64_t mine = blockIdx.x < count ? (count - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  for (std::int64_t done = 0; done < mine; done += chunk) {
    const int n = static_cast<int>(mine - done < chunk ? mine - done : chunk);
    for (int i = threadIdx.x; i < n; i += threads) {
      entries[i] = batch.candidates.entries[q * room + blockIdx.x + (done + i) * gridDim.x];
    }
    __syncthreads();
    const bool defer = more && gridDim.x == 1 && count <= chunk;
    evaluated += settle_entries<T, metric>(batch, q, desk, n, wanted, cuts, defer, list, deferred);
    // The next stage's bound rules most of these out.
    for (int i = threadIdx.x; i < deferred; i += threads) {
      batch.candidates.entries[q * room + i] = entries[desk.picks[i]];
    }
  }

  if (threadIdx.x == 0) atomicAdd(batch.counters, evaluated);
  if (!merge_blocks(batch, q, list, &last)) return;
  for (int i = threadIdx.x; i < k; i += threads) stored[i] = bound_only ? Key<R>::none() : keys[i];
  if (threadIdx.x == 0) {
    tighten(batch, q, keys[k - 1]);
    finish_candidates(batch, q);
    batch.candidates.counts[q] = static_cast<std::uint32_t>(deferred);
  }
}

// Lists that may be looked through again for a query.
constexpr int most_reopened = 64;

// The last block of all says what happened, and leaves the counters as it found them. By one thread a block,
// when all of its threads have written their answers.
template <class R>
__device__ void count_in(const Answer<R>& answer, unsigned long long evaluated,
                         unsigned long long unanswered) {
  if (evaluated > 0) atomicAdd(answer.totals, evaluated);
  if (unanswered > 0) atomicAdd(answer.totals + 1, unanswered);
  __threadfence();
  if (atomicAdd(answer.totals + 3, 1ULL) != gridDim.x - 1ULL) return;
  volatile unsigned long long* seen = answer.seen;
  for (int i = 0; i < 3; ++i) seen[i] = atomicExch(answer.totals + i, 0ULL);
  answer.totals[3] = 0;
  __threadfence_system();
  seen[3] = answer.ticket;
}

template <class R>
__device__ void write_answer(const Answer<R>& answer, std::int64_t at, const Key<R>& key) {
  answer.indices[at] = key.is_none() ? -1 : answer.base + key.row();
  answer.distances[at] = key.is_none() ? static_cast<R>(CUDART_INF) : key.distance();
}

// A block a query, since several would each evaluate as much. Of every list the first entry is known, and the
// order of the second: with the bound that the first ones give, the few lists whose second may be within it
// are looked through row by row.
template <class T, Metric metric, class R>
__global__ void __launch_bounds__(threads)
    settle_lists_kernel(Batch<R> batch, Lists lists, Answer<R> answer, int capacity, int chunk) {
  wait_for_previous();
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ Histogram histogram;
  __shared__ int filled;
  __shared__ unsigned cut;
  __shared__ int reopened;
  __shared__ std::int64_t reopen[most_reopened];
  auto* keys = reinterpret_cast<Key<R>*>(shared);
  auto* entries =
      reinterpret_cast<std::uint64_t*>(shared + static_cast<std::size_t>(capacity) * sizeof(Key<R>));
  const Desk desk{entries, reinterpret_cast<std::uint16_t*>(entries + chunk), &histogram, &cut};
  const std::int64_t q = blockIdx.x;
  const int k = static_cast<int>(batch.k);
  const std::int64_t count = lists.shape.lists;
  for (int i = threadIdx.x; i < k; i += threads) keys[i] = Key<R>::none();
  if (threadIdx.x == 0) {
    filled = k;
    reopened = 0;
  }
  BlockList<R> list{keys, &filled, k, capacity};
  __syncthreads();

  unsigned long long evaluated = 0;
  const QueryKind kind = batch.scalars[q].kind;
  if (kind == QueryKind::regular) {
    for (std::int64_t done = 0; done < count; done += chunk) {
      const int n = static_cast<int>(count - done < chunk ? count - done : chunk);
      for (int i = threadIdx.x; i < n; i += threads) entries[i] = lists.first[q * count + done + i];
      __syncthreads();
      int picked = 0;
      evaluated += settle_entries<T, metric>(batch, q, desk, n, wanted_of(k), true, false, list, picked);
    }
    if (threadIdx.x == 0) cut = cut_of(batch, q, keys[k - 1]);
    __syncthreads();
    for (std::int64_t l = threadIdx.x; l < count; l += threads) {
      if (lists.second[q * count + l] > cut) continue;
      const int at = atomicAdd(&reopened, 1);
      if (at < most_reopened) reopen[at] = l;
    }
    __syncthreads();
    for (int r = 0; r < min(reopened, most_reopened); ++r) {
      const std::int64_t l = reopen[r];
      const std::uint64_t known = lists.first[q * count + l];
      for (std::int64_t from = 0; from < lists.shape.length; from += chunk) {
        const int n = static_cast<int>(lists.shape.length - from < chunk ? lists.shape.length - from : chunk);
        if (threadIdx.x == 0) histogram.picked = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += threads) {
          const std::int64_t row = lists.shape.row(l, from + i);
          if (row < 0 || (known != no_candidate && static_cast<std::uint32_t>(known) == row)) continue;
          const int at = atomicAdd(&histogram.picked, 1);
          entries[at] = static_cast<std::uint64_t>(row);
          desk.picks[at] = static_cast<std::uint16_t>(at);
        }
        __syncthreads();
        const int picked = histogram.picked;
        evaluate<T, metric>(batch, q, entries, desk.picks, picked, list);
        evaluated += static_cast<unsigned long long>(picked);
        __syncthreads();
      }
    }
  }
  for (int i = threadIdx.x; i < k; i += threads) write_answer(answer, q * k + i, keys[i]);
  __syncthreads();
  // What this way of searching cannot answer.
  if (threadIdx.x == 0)
    count_in(answer, evaluated, kind == QueryKind::special || reopened > most_reopened ? 1 : 0);
}

// Keys of a warp, one a thread.
__device__ Key<float> shuffle(const Key<float>& key, int from) {
  return {__shfl_sync(0xffffffffU, key.word, from)};
}
__device__ Key<double> shuffle(const Key<double>& key, int from) {
  return {__shfl_sync(0xffffffffU, key.word, from), __shfl_sync(0xffffffffU, key.low, from)};
}
template <class R>
__device__ Key<R> exchange(const Key<R>& key, int apart, bool smaller) {
  const Key<R> other = shuffle(key, static_cast<int>(threadIdx.x % 32) ^ apart);
  return (other < key) == smaller ? other : key;
}
// Bitonic (Batcher 1968): ascending by lane.
template <class R>
__device__ Key<R> sort_warp(Key<R> key) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int size = 2; size <= 32; size *= 2) {
#pragma unroll
    for (int apart = size / 2; apart > 0; apart /= 2)
      key = exchange(key, apart, ((lane & apart) == 0) == ((lane & size) == 0));
  }
  return key;
}
// The 32 smallest of an ascending list and of as many more.
template <class R>
__device__ Key<R> merge_warp(const Key<R>& list, const Key<R>& more) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const Key<R> falling = shuffle(sort_warp(more), 31 - lane);
  Key<R> key = falling < list ? falling : list;
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) key = exchange(key, apart, (lane & apart) == 0);
  return key;
}

// The smallest, in all threads.
template <class R>
__device__ Key<R> least_of_warp(Key<R> key) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    const Key<R> other = shuffle(key, static_cast<int>(threadIdx.x % 32) ^ apart);
    if (other < key) key = other;
  }
  return key;
}

// What follows stands once in the code of a kernel that is over before the instructions of two have come.
template <class T, Metric metric, class R>
__device__ __noinline__ Key<R> evaluate_short(const Batch<R>& batch, std::int64_t q, bool active,
                                              std::uint32_t row) {
  if (!active) return Key<R>::none();
  const auto distance = static_cast<R>(canonical_short<T, metric>(
      static_cast<const T*>(batch.data) + static_cast<std::int64_t>(row) * batch.stride,
      batch.queries + q * batch.padded, static_cast<int>(batch.space.dim), batch.scalars[q].canonical));
  return isnan(distance) ? Key<R>::none() : Key<R>::make(distance, row);
}
template <class R>
__device__ __noinline__ unsigned cut_short(const Batch<R>& batch, std::int64_t q, const Key<R>& worst) {
  return cut_of(batch, q, worst);
}
// A list and one more key a thread: the smallest in all threads, or the 32 smallest ascending.
template <class R>
__device__ __noinline__ Key<R> merge_keys(const Key<R>& list, const Key<R>& more, int k) {
  return k == 1 ? least_of_warp(more < list ? more : list) : merge_warp(list, more);
}

// Lists whose entries a thread of settle_short_lists_kernel reads at once.
constexpr int lists_at_once = 8;

// The same as settle_lists_kernel by a warp a query, for short rows and k up to 32, the list one key a
// thread. With `bound_only` lists are not looked through again and there is no answer: the k-th distance
// bounds it.
template <class T, Metric metric, class R>
__global__ void __launch_bounds__(threads)
    settle_short_lists_kernel(const __grid_constant__ Batch<R> batch, Lists lists, Answer<R> answer,
                              bool bound_only) {
  wait_for_previous();
  __shared__ unsigned evaluated;
  __shared__ unsigned unanswered;
  if (threadIdx.x == 0) evaluated = unanswered = 0;
  __syncthreads();
  const std::int64_t q = static_cast<std::int64_t>(blockIdx.x) * (threads / 32) + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int k = static_cast<int>(batch.k);
  const QueryKind kind = q < batch.count ? batch.scalars[q].kind : QueryKind::nan;
  Key<R> list = Key<R>::none();
  unsigned count = 0;
  int reopened = 0;
  if (kind == QueryKind::regular) {
    const auto all = static_cast<int>(lists.shape.lists);
    const std::uint64_t* first = lists.first + q * all;
    const std::uint32_t* second = lists.second + q * all;
    unsigned cut = 0;
    const auto evaluate = [&](bool active, std::uint32_t row) {
      if (active) ++count;
      return evaluate_short<T, metric>(batch, q, active, row);
    };
    const auto offer = [&](const Key<R>& key) {
      if (!__any_sync(0xffffffffU, key < shuffle(list, k - 1))) return;
      list = merge_keys(list, key, k);
      cut = cut_short(batch, q, shuffle(list, k - 1));
    };

    // The nearest of each thread's share give a bound.
    std::uint64_t entries[lists_at_once];
    std::uint64_t nearest = no_candidate;
    for (int from = lane; from < all; from += 32 * lists_at_once) {
#pragma unroll
      for (int i = 0; i < lists_at_once; ++i)
        entries[i] = from + 32 * i < all ? first[from + 32 * i] : no_candidate;
#pragma unroll
      for (int i = 0; i < lists_at_once; ++i) nearest = entries[i] < nearest ? entries[i] : nearest;
    }
    offer(evaluate(nearest != no_candidate, static_cast<std::uint32_t>(nearest)));
    if (shuffle(list, k - 1).is_none()) cut = cut_short(batch, q, Key<R>::none());
    std::uint32_t orders[lists_at_once];
    for (int base = 0; base < all; base += 32 * lists_at_once) {
      const int from = base + lane;
#pragma unroll
      for (int i = 0; i < lists_at_once; ++i) {
        entries[i] = from + 32 * i < all ? first[from + 32 * i] : no_candidate;
        if (entries[i] == nearest) entries[i] = no_candidate;
      }
      // In each round every thread brings one that may be in the answer.
      unsigned near = 0;
#pragma unroll
      for (int i = 0; i < lists_at_once; ++i) {
        const bool within = entries[i] != no_candidate && static_cast<unsigned>(entries[i] >> 32U) <= cut;
        near |= (within ? 1U : 0U) << i;
      }
      while (__any_sync(0xffffffffU, near != 0)) {
        std::uint64_t entry = no_candidate;
#pragma unroll
        for (int i = 0; i < lists_at_once; ++i)
          entry = __ffs(static_cast<int>(near)) == i + 1 ? entries[i] : entry;
        near &= near - 1;
        offer(evaluate(entry != no_candidate && static_cast<unsigned>(entry >> 32U) <= cut,
                       static_cast<std::uint32_t>(entry)));
      }
    }
    for (int base = 0; base < all && !bound_only; base += 32 * lists_at_once) {
      const int from = base + lane;
#pragma unroll
      for (int i = 0; i < lists_at_once; ++i)
        orders[i] = from + 32 * i < all ? second[from + 32 * i] : 0xffffffffU;
#pragma unroll 1
      for (int i = 0; i < lists_at_once; ++i) {
        bool open = false;
#pragma unroll
        for (int j = 0; j < lists_at_once; ++j) open = open || (i == j && orders[j] <= cut);
        for (unsigned left = __ballot_sync(0xffffffffU, open); left != 0; left &= left - 1) {
          if (++reopened > most_reopened) break;
          const int l = base + 32 * i + __ffs(static_cast<int>(left)) - 1;
          const std::uint64_t known = first[l];
          for (std::int64_t j = 0; j < lists.shape.length; j += 32) {
            const std::int64_t row = j + lane < lists.shape.length ? lists.shape.row(l, j + lane) : -1;
            const bool there =
                row >= 0 && !(known != no_candidate && static_cast<std::uint32_t>(known) == row);
            offer(evaluate(there, static_cast<std::uint32_t>(row)));
          }
        }
      }
    }
  }
  const Key<R> worst = shuffle(list, k - 1);
  count = __reduce_add_sync(0xffffffffU, count);
  if (lane == 0) {
    atomicAdd(&evaluated, count);
    if ((q < batch.count && kind == QueryKind::special) || reopened > most_reopened)
      atomicAdd(&unanswered, 1U);
    if (bound_only && q < batch.count) tighten(batch, q, worst);
  }
  if (!bound_only && q < batch.count && lane < k) write_answer(answer, q * k + lane, list);
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (bound_only) {
    atomicAdd(batch.counters, static_cast<unsigned long long>(evaluated));
  } else {
    count_in(answer, evaluated, unanswered);
  }
}

// Shared memory: the list and what is offered to it; candidates and which of them are picked.
template <class R>
std::size_t bytes_for(int capacity, int chunk) {
  return static_cast<std::size_t>(capacity) * sizeof(Key<R>) +
         static_cast<std::size_t>(chunk) * (sizeof(std::uint64_t) + sizeof(std::uint16_t));
}

template <class T, Metric metric, class R>
void launch(const Batch<R>& batch, const Subset& subset, dim3 grid, int wanted, bool bound_only, bool more,
            int capacity, int chunk, int device, cudaStream_t stream) {
  const std::size_t bytes = bytes_for<R>(capacity, chunk);
  allow_shared(settle_kernel<T, metric, R>, threads, bytes, device);
  settle_kernel<T, metric, R>
      <<<grid, threads, bytes, stream>>>(batch, subset, wanted, bound_only, more, capacity, chunk);
  check_launch("settle_candidates");
}

template <class T, Metric metric, class R>
void launch_lists(const Batch<R>& batch, const Lists& lists, const Answer<R>& answer, int capacity, int chunk,
                  int device, cudaStream_t stream) {
  const std::size_t bytes = bytes_for<R>(capacity, chunk);
  const dim3 grid(static_cast<unsigned>(batch.count));
  allow_shared(settle_lists_kernel<T, metric, R>, threads, bytes, device);
  launch_early(settle_lists_kernel<T, metric, R>, grid, threads, bytes, device, stream, batch, lists, answer,
               capacity, chunk);
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

template <class R>
void launch_short_lists(const Batch<R>& batch, const Lists& lists, const Answer<R>& answer, bool bound_only,
                        int device, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((batch.count + threads / 32 - 1) / (threads / 32)));
  visit_rows(batch, [&]<class T, Metric metric>() {
    launch_early(settle_short_lists_kernel<T, metric, R>, grid, threads, 0, device, stream, batch, lists,
                 answer, bound_only);
  });
}

}  // namespace

int settle_blocks(std::int64_t queries, std::int64_t expected, int device) {
  const int places = processors(device) < most_shared_lists ? processors(device) : most_shared_lists;
  const std::int64_t wanted = places / (queries > 0 ? queries : 1);
  const std::int64_t useful = expected / (2 * groups);
  const std::int64_t blocks = wanted < useful ? wanted : useful;
  return static_cast<int>(blocks < 1 ? 1 : (blocks > 64 ? 64 : blocks));
}

template <class R>
void settle_candidates(const Batch<R>& batch, const Subset& subset, std::int64_t expected, std::int64_t fresh,
                       bool bound_only, bool more, int device, cudaStream_t stream) {
  if (subset.count <= 0) return;
  int capacity = 512;  // a power of two: lists are sorted with what comes behind them
  while (capacity < 4 * batch.k) capacity *= 2;
  int chunk = 512;
  while (chunk < expected && chunk < most_settled_at_once) chunk *= 2;
  // Chips with little shared memory take more rounds.
  while (chunk > 512 && bytes_for<R>(capacity, chunk) + 4096 > static_cast<std::size_t>(shared_limit(device)))
    chunk /= 2;
  const dim3 grid(static_cast<unsigned>(settle_blocks(subset.count, expected, device)),
                  static_cast<unsigned>(subset.count));
  visit_rows(batch, [&]<class T, Metric metric>() {
    launch<T, metric, R>(batch, subset, grid, wanted_of(fresh), bound_only, more, capacity, chunk, device,
                         stream);
  });
}

template <class R>
void settle_lists(const Batch<R>& batch, const Lists& lists, const Answer<R>& answer, int device,
                  cudaStream_t stream) {
  if (batch.count <= 0) return;
  // A list that is opened again keeps one warp busy: where lists are long, that must be seldom.
  const bool seldom = batch.count > few_queries || batch.k <= 4;
  if (batch.space.dim <= short_row && lists.shape.lists <= 1024 && seldom) {
    launch_short_lists(batch, lists, answer, false, device, stream);
    return;
  }
  int chunk = 512;
  while (chunk < lists.shape.lists && chunk < most_settled_at_once) chunk *= 2;
  int capacity = 256;
  while (capacity < 4 * batch.k) capacity *= 2;
  while (chunk > 512 && bytes_for<R>(capacity, chunk) + 4096 > static_cast<std::size_t>(shared_limit(device)))
    chunk /= 2;
  visit_rows(batch, [&]<class T, Metric metric>() {
    launch_lists<T, metric, R>(batch, lists, answer, capacity, chunk, device, stream);
  });
}

template <class R>
void bound_by_lists(const Batch<R>& batch, const Lists& lists, int device, cudaStream_t stream) {
  if (batch.count > 0) launch_short_lists(batch, lists, Answer<R>{}, true, device, stream);
}

template void settle_candidates<float>(const Batch<float>&, const Subset&, std::int64_t, std::int64_t, bool,
                                       bool, int, cudaStream_t);
template void settle_candidates<double>(const Batch<double>&, const Subset&, std::int64_t, std::int64_t, bool,
                                        bool, int, cudaStream_t);

template void bound_by_lists<float>(const Batch<float>&, const Lists&, int, cudaStream_t);
template void bound_by_lists<double>(const Batch<double>&, const Lists&, int, cudaStream_t);
template void settle_lists<float>(const Batch<float>&, const Lists&, const Answer<float>&, int, cudaStream_t);
template void settle_lists<double>(const Batch<double>&, const Lists&, const Answer<double>&, int,
                                   cudaStream_t);

}  // namespace kith::brute_force::cuda
