// Re-ranking: candidates are evaluated exactly and merged into the k-lists, in shared memory.
//
// A block takes a query's candidates, sorts them by the filter's own estimate and evaluates the first few;
// with the bound these give, most of the rest are ruled out without a look at their rows. Where queries are
// few, several blocks share one: each keeps the k best of its share, and the last to finish merges them.
#include "brute_force/cuda/rerank_block.cuh"

namespace kith::brute_force::cuda {
namespace {

// Written by another block of the same launch: not through the first-level cache.
template <class R>
__device__ Key<R> load_key(const Key<R>* from) {
  if constexpr (sizeof(Key<R>) == 8) {
    return {__ldcg(&from->word)};
  } else {
    return {__ldcg(&from->word), __ldcg(&from->low)};
  }
}

// Where several blocks share a query: true in the last one to get here, whose list is then that of all.
template <class R>
__device__ bool merge_blocks(const Batch<R>& batch, std::int64_t q, BlockList<R>& list, int* last) {
  if (gridDim.x == 1) return true;
  const int k = list.k;
  Key<R>* all = batch.partial + blockIdx.y * static_cast<std::int64_t>(gridDim.x) * k;
  for (int i = threadIdx.x; i < k; i += threads) all[static_cast<int>(blockIdx.x) * k + i] = list.keys[i];
  __threadfence();  // each thread's keys are seen before the block's arrival is
  __syncthreads();
  if (threadIdx.x == 0) *last = atomicAdd(batch.arrived + q, 1U) == gridDim.x - 1 ? 1 : 0;
  __syncthreads();
  if (*last == 0) return false;
  __threadfence();  // and the others' keys are read after their arrivals
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
    rerank_kernel(Batch<R> batch, Subset subset, int wanted, bool bound_only, bool more, int capacity,
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
  const bool cuts = batch.space.form != codes::Form::none && batch.scalars[q].kind == codes::RowKind::regular;
  const std::int64_t mine = blockIdx.x < count ? (count - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  for (std::int64_t done = 0; done < mine; done += chunk) {
    const int n = static_cast<int>(mine - done < chunk ? mine - done : chunk);
    for (int i = threadIdx.x; i < n; i += threads) {
      entries[i] = batch.candidates.entries[q * room + blockIdx.x + (done + i) * gridDim.x];
    }
    __syncthreads();
    const bool defer = more && gridDim.x == 1 && count <= chunk;
    evaluated += rerank_entries<T, metric>(batch, q, desk, n, wanted, cuts, defer, list, deferred);
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

template <class T, Metric metric, class R>
void launch(const Batch<R>& batch, const Subset& subset, dim3 grid, int wanted, bool bound_only, bool more,
            int capacity, int chunk, int device, cudaStream_t stream) {
  const std::size_t bytes = bytes_for<R>(capacity, chunk);
  allow_shared(rerank_kernel<T, metric, R>, threads, bytes, device);
  rerank_kernel<T, metric, R>
      <<<grid, threads, bytes, stream>>>(batch, subset, wanted, bound_only, more, capacity, chunk);
  check_launch("rerank_candidates");
}

}  // namespace

int rerank_blocks(std::int64_t queries, std::int64_t expected, int device) {
  const int places = processors(device) < most_shared_lists ? processors(device) : most_shared_lists;
  const std::int64_t wanted = places / (queries > 0 ? queries : 1);
  const std::int64_t useful = expected / (2 * groups);
  const std::int64_t blocks = wanted < useful ? wanted : useful;
  return static_cast<int>(blocks < 1 ? 1 : (blocks > 64 ? 64 : blocks));
}

template <class R>
void rerank_candidates(const Batch<R>& batch, const Subset& subset, std::int64_t expected, std::int64_t fresh,
                       bool bound_only, bool more, int device, cudaStream_t stream) {
  if (subset.count <= 0) return;
  int capacity = 512;  // a power of two: lists are sorted with what comes behind them
  while (capacity < 4 * batch.k) capacity *= 2;
  int chunk = 512;
  while (chunk < expected && chunk < most_reranked_at_once) chunk *= 2;
  // Chips with little shared memory take more rounds.
  while (chunk > 512 && bytes_for<R>(capacity, chunk) + 4096 > static_cast<std::size_t>(shared_limit(device)))
    chunk /= 2;
  const dim3 grid(static_cast<unsigned>(rerank_blocks(subset.count, expected, device)),
                  static_cast<unsigned>(subset.count));
  visit_rows(batch, [&]<class T, Metric metric>() {
    launch<T, metric, R>(batch, subset, grid, wanted_of(fresh), bound_only, more, capacity, chunk, device,
                         stream);
  });
}

template void rerank_candidates<float>(const Batch<float>&, const Subset&, std::int64_t, std::int64_t, bool,
                                       bool, int, cudaStream_t);
template void rerank_candidates<double>(const Batch<double>&, const Subset&, std::int64_t, std::int64_t, bool,
                                        bool, int, cudaStream_t);

}  // namespace kith::brute_force::cuda
