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

namespace kith::cuda {
namespace {

namespace tuning = kith::brute_force::tuning;

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
  const auto add = [](const double(&l)[canonical_lanes]) {
    return __dadd_rn(__dadd_rn(__dadd_rn(l[0], l[4]), __dadd_rn(l[2], l[6])),
                     __dadd_rn(__dadd_rn(l[1], l[5]), __dadd_rn(l[3], l[7])));
  };
  return canonical_finish<metric>(add(sum), metric == Metric::cosine ? add(norm) : 0, query_norm);
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
  unsigned lowest, highest, limit;
  int picked;
};

// An order such that at least `wanted` of the entries are not above it, and not many more.
__device__ unsigned order_of_first(const std::uint64_t* entries, int n, int wanted, Histogram& h) {
  const int tid = static_cast<int>(threadIdx.x);
  if (tid == 0) {
    h.lowest = 0xffffffffU;
    h.highest = 0;
    h.limit = 0xffffffffU;
  }
  h.counts[tid] = 0;
  __syncthreads();
  unsigned low = 0xffffffffU;
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
  const int shift = max(0, 24 - __clz(static_cast<int>(range)));  // 256 bins
  for (int i = tid; i < n; i += threads) {
    if (entries[i] == no_candidate) continue;
    atomicAdd(&h.counts[(static_cast<unsigned>(entries[i] >> 32U) - low) >> shift], 1U);
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
    const auto goal = static_cast<unsigned>(wanted);
    if (before < goal && before + sum >= goal) {
      int bin = tid * (threads / 32);
      while (before + h.counts[bin] < goal) before += h.counts[bin++];
      h.limit = low + (((static_cast<unsigned>(bin) + 1) << shift) - 1);
    }
  }
  __syncthreads();
  return h.limit;
}

template <class T, Metric metric, class R>
__global__ void __launch_bounds__(threads)
    settle_kernel(Batch<R> batch, Subset subset, bool bound_only, bool more, int capacity, int chunk) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto* keys = reinterpret_cast<Key<R>*>(shared);
  auto* entries =
      reinterpret_cast<std::uint64_t*>(shared + static_cast<std::size_t>(capacity) * sizeof(Key<R>));
  auto* picks = reinterpret_cast<std::uint16_t*>(entries + chunk);
  __shared__ Histogram histogram;
  __shared__ int filled;
  __shared__ int last;
  __shared__ unsigned cut;
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
    // The nearest by the filter's estimate give a bound; of the rest, those that it does not rule out.
    unsigned first = 0xffffffffU;
    if (cuts && n > k + k / 4 + groups) {
      first = order_of_first(entries, n, k + k / 8 + groups / 2, histogram);
    }
    for (int part = 0; part < 2; ++part) {
      if (threadIdx.x == 0) histogram.picked = 0;
      __syncthreads();
      for (int i = threadIdx.x; i < n; i += threads) {
        const auto order = static_cast<unsigned>(entries[i] >> 32U);
        const bool take = part == 0 ? order <= first : order > first && order <= cut;
        if (take && entries[i] != no_candidate) {
          picks[atomicAdd(&histogram.picked, 1)] = static_cast<std::uint16_t>(i);
        }
      }
      __syncthreads();
      const int picked = histogram.picked;
      if (part == 1 && more && gridDim.x == 1 && count <= chunk) {
        // The next stage's bound rules most of these out.
        for (int i = threadIdx.x; i < picked; i += threads) {
          batch.candidates.entries[q * room + i] = entries[picks[i]];
        }
        deferred = picked;
        break;
      }
      evaluate<T, metric>(batch, q, entries, picks, picked, list);
      evaluated += static_cast<unsigned long long>(picked);
      if (first == 0xffffffffU) break;
      if (part == 0 && threadIdx.x == 0) {
        const Key<R> worst = keys[k - 1];
        R distance = batch.best[q];
        if (!worst.is_none() && worst.distance() < distance) distance = worst.distance();
        cut = order_cut(make_bound(distance, batch.space, batch.scalars[q], batch.maxima), batch.space,
                        batch.maxima);
      }
      __syncthreads();
    }
    __syncthreads();
  }

  if (threadIdx.x == 0) atomicAdd(batch.counters, evaluated);
  if (gridDim.x > 1) {
    Key<R>* mine_out = batch.partial + (blockIdx.y * static_cast<std::int64_t>(gridDim.x) + blockIdx.x) * k;
    for (int i = threadIdx.x; i < k; i += threads) mine_out[i] = keys[i];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(batch.arrived + q, 1U) == gridDim.x - 1 ? 1 : 0;
    __syncthreads();
    if (last == 0) return;
    __threadfence();
    const Key<R>* all = batch.partial + blockIdx.y * static_cast<std::int64_t>(gridDim.x) * k;
    // Every block's k-th bounds the answer's k-th.
    const int total = static_cast<int>(gridDim.x) * k;
    for (int start = 0; start < total; start += list.free()) {
      const int end = min(total, start + list.free());
      for (int i = start + threadIdx.x; i < end; i += threads) {
        if (i / k == static_cast<int>(blockIdx.x)) continue;  // these are in the list already
        const Key<R> key = load_key<R>(all + i);
        if (key < keys[k - 1]) keys[atomicAdd(&filled, 1)] = key;
      }
      list.merge();
    }
    if (threadIdx.x == 0) batch.arrived[q] = 0;
  }
  for (int i = threadIdx.x; i < k; i += threads) stored[i] = bound_only ? Key<R>::none() : keys[i];
  if (threadIdx.x == 0) {
    tighten(batch, q, keys[k - 1]);
    finish_candidates(batch, q);
    batch.candidates.counts[q] = static_cast<std::uint32_t>(deferred);
  }
}

// Shared memory: the list and what is offered to it; candidates and which of them are picked.
template <class R>
std::size_t bytes_for(int capacity, int chunk) {
  return static_cast<std::size_t>(capacity) * sizeof(Key<R>) +
         static_cast<std::size_t>(chunk) * (sizeof(std::uint64_t) + sizeof(std::uint16_t));
}

template <class T, Metric metric, class R>
void launch(const Batch<R>& batch, const Subset& subset, dim3 grid, bool bound_only, bool more, int capacity,
            int chunk, int device, cudaStream_t stream) {
  const std::size_t bytes = bytes_for<R>(capacity, chunk);
  allow_shared(settle_kernel<T, metric, R>, threads, bytes, device);
  settle_kernel<T, metric, R>
      <<<grid, threads, bytes, stream>>>(batch, subset, bound_only, more, capacity, chunk);
  check_launch("settle_candidates");
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
void settle_candidates(const Batch<R>& batch, const Subset& subset, std::int64_t expected, bool bound_only,
                       bool more, int device, cudaStream_t stream) {
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
  visit_element(batch.space.dtype, [&]<class T>(T /*tag*/) {
    if constexpr ((sizeof(T) == 8) == (sizeof(R) == 8)) {
      const auto with = [&]<Metric metric>() {
        launch<T, metric, R>(batch, subset, grid, bound_only, more, capacity, chunk, device, stream);
      };
      switch (batch.space.metric) {
        case Metric::sqeuclidean: with.template operator()<Metric::sqeuclidean>(); break;
        case Metric::euclidean: with.template operator()<Metric::euclidean>(); break;
        case Metric::inner_product: with.template operator()<Metric::inner_product>(); break;
        case Metric::cosine: with.template operator()<Metric::cosine>(); break;
        case Metric::manhattan: with.template operator()<Metric::manhattan>(); break;
      }
    }
  });
}

template void settle_candidates<float>(const Batch<float>&, const Subset&, std::int64_t, bool, bool, int,
                                       cudaStream_t);
template void settle_candidates<double>(const Batch<double>&, const Subset&, std::int64_t, bool, bool, int,
                                        cudaStream_t);

}  // namespace kith::cuda
