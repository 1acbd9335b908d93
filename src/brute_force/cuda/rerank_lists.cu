// Re-ranking lists, what one look at every pair leaves (one_pass.cu): their first entries are evaluated, and
// those lists are looked through again whose second entry may be in the answer.
#include <math_constants.h>

#include "brute_force/cuda/one_pass.cuh"
#include "select_k/cuda/warp.cuh"

namespace kith::brute_force::cuda {
namespace {

using select_k::cuda::least_of_warp;
using select_k::cuda::merge_warp;
using select_k::cuda::shuffle;

// Lists that may be looked through again for a query.
constexpr int most_reopened = 64;

// A block a query, since several would each evaluate as much. Of every list the first entry is known, and the
// order of the second: with the bound that the first ones give, the few lists whose second may be within it
// are looked through row by row, rows by their scores where there are codes.
template <class T, Metric metric, class R>
__global__ void __launch_bounds__(threads)
    rerank_lists_kernel(Batch<R> batch, Lists lists, Answer<R> answer, int capacity, int chunk) {
  wait_for_previous();
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ Histogram histogram;
  __shared__ ListState<R> state;
  __shared__ unsigned cut;
  __shared__ int reopened;
  __shared__ std::int64_t reopen[most_reopened];
  const std::int64_t q = blockIdx.x;
  auto* keys = reinterpret_cast<Key<R>*>(shared);
  auto* entries =
      reinterpret_cast<std::uint64_t*>(shared + static_cast<std::size_t>(capacity) * sizeof(Key<R>));
  const Desk desk{batch.queries + q * batch.padded, entries,
                  reinterpret_cast<std::uint16_t*>(entries + chunk), &histogram, &cut};
  const int k = static_cast<int>(batch.k);
  const std::int64_t count = lists.shape.lists;
  if (threadIdx.x == 0) reopened = 0;
  BlockList<R> list(keys, &state, k, capacity);
  list.start(nullptr);

  unsigned long long evaluated = 0;
  const codes::RowKind kind = batch.scalars[q].kind;
  if (kind == codes::RowKind::regular) {
    for (std::int64_t done = 0; done < count; done += chunk) {
      const int n = static_cast<int>(count - done < chunk ? count - done : chunk);
      for (int i = threadIdx.x; i < n; i += threads) entries[i] = lists.first[q * count + done + i];
      __syncthreads();
      int picked = 0;
      evaluated +=
          rerank_entries<T, metric>(batch, q, desk, n, wanted_of(k), true, Rest::evaluate, list, picked);
    }
    if (threadIdx.x == 0) cut = cut_of(batch, q, list.last());
    __syncthreads();
    for (std::int64_t l = threadIdx.x; l < count; l += threads) {
      if (lists.second[q * count + l] > cut) continue;
      const int at = atomicAdd(&reopened, 1);
      if (at < most_reopened) reopen[at] = l;
    }
    __syncthreads();
    // The rows of all these lists, one after the other.
    const std::int64_t rows = min(reopened, most_reopened) * lists.shape.length;
    for (std::int64_t from = 0; from < rows; from += chunk) {
      const int n = static_cast<int>(rows - from < chunk ? rows - from : chunk);
      if (threadIdx.x == 0) histogram.picked = 0;
      __syncthreads();
      for (int i = threadIdx.x; i < n; i += threads) {
        const std::int64_t l = reopen[(from + i) / lists.shape.length];
        const std::int64_t row = lists.shape.row(l, (from + i) % lists.shape.length);
        const std::uint64_t known = lists.first[q * count + l];
        if (row < 0 || (known != no_candidate && static_cast<std::uint32_t>(known) == row)) continue;
        if (lists.codes != nullptr && order_of(score_of(lists, batch.space.shape, q, row)) > cut) continue;
        const int at = atomicAdd(&histogram.picked, 1);
        entries[at] = static_cast<std::uint64_t>(row);
        desk.picks[at] = static_cast<std::uint16_t>(at);
      }
      __syncthreads();
      const int picked = histogram.picked;
      evaluate<T, metric>(batch, q, desk.query, entries, desk.picks, picked, list);
      evaluated += static_cast<unsigned long long>(picked);
      __syncthreads();
    }
  }
  for (int i = threadIdx.x; i < k; i += threads) write_answer(answer, q * k + i, list[i]);
  __syncthreads();
  // What this way of searching cannot answer.
  if (threadIdx.x == 0)
    count_in(answer, evaluated, kind == codes::RowKind::special || reopened > most_reopened ? 1 : 0);
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

// Lists whose entries a thread of rerank_short_lists_kernel reads at once.
constexpr int lists_at_once = 8;

// The same as rerank_lists_kernel by a warp a query, for short rows and k up to 32, the list one key a
// thread. With `bound_only` lists are not looked through again and there is no answer: the k-th distance
// bounds it.
template <class T, Metric metric, class R>
__global__ void __launch_bounds__(threads)
    rerank_short_lists_kernel(const __grid_constant__ Batch<R> batch, Lists lists, Answer<R> answer,
                              bool bound_only) {
  wait_for_previous();
  __shared__ unsigned evaluated;
  __shared__ unsigned unanswered;
  if (threadIdx.x == 0) evaluated = unanswered = 0;
  __syncthreads();
  const std::int64_t q = static_cast<std::int64_t>(blockIdx.x) * (threads / 32) + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int k = static_cast<int>(batch.k);
  const codes::RowKind kind = q < batch.count ? batch.scalars[q].kind : codes::RowKind::nan;
  Key<R> list = Key<R>::none();
  unsigned count = 0;
  int reopened = 0;
  if (kind == codes::RowKind::regular) {
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
    if ((q < batch.count && kind == codes::RowKind::special) || reopened > most_reopened)
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

template <class T, Metric metric, class R>
void launch_lists(const Batch<R>& batch, const Lists& lists, const Answer<R>& answer, int capacity, int chunk,
                  int device, cudaStream_t stream) {
  const std::size_t bytes = bytes_for<R>(capacity, chunk);
  const dim3 grid(static_cast<unsigned>(batch.count));
  allow_shared(rerank_lists_kernel<T, metric, R>, threads, bytes, device);
  launch_early(rerank_lists_kernel<T, metric, R>, grid, threads, bytes, device, stream, batch, lists, answer,
               capacity, chunk);
}

template <class R>
void launch_short_lists(const Batch<R>& batch, const Lists& lists, const Answer<R>& answer, bool bound_only,
                        int device, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((batch.count + threads / 32 - 1) / (threads / 32)));
  visit_rows(batch, [&]<class T, Metric metric>() {
    launch_early(rerank_short_lists_kernel<T, metric, R>, grid, threads, 0, device, stream, batch, lists,
                 answer, bound_only);
  });
}

}  // namespace

template <class R>
void rerank_lists(const Batch<R>& batch, const Lists& lists, const Answer<R>& answer, int device,
                  cudaStream_t stream) {
  if (batch.count <= 0) return;
  // A list that is opened again keeps one warp busy: where lists are long, that must be seldom.
  const bool seldom = batch.count > few_queries || batch.k <= 4;
  if (batch.space.dim <= short_row && lists.shape.lists <= 1024 && seldom) {
    launch_short_lists(batch, lists, answer, false, device, stream);
    return;
  }
  int chunk = 512;
  while (chunk < lists.shape.lists && chunk < most_reranked_at_once) chunk *= 2;
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

template void bound_by_lists<float>(const Batch<float>&, const Lists&, int, cudaStream_t);
template void bound_by_lists<double>(const Batch<double>&, const Lists&, int, cudaStream_t);
template void rerank_lists<float>(const Batch<float>&, const Lists&, const Answer<float>&, int, cudaStream_t);
template void rerank_lists<double>(const Batch<double>&, const Lists&, const Answer<double>&, int,
                                   cudaStream_t);

}  // namespace kith::brute_force::cuda
