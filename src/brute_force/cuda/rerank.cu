// Re-ranking: candidates are evaluated exactly and merged into the k-lists, in shared memory.
//
// A block takes a query's candidates, sorts them by the filter's own estimate and evaluates the first few;
// with the bound these give, most of the rest are ruled out without a look at their rows. Where queries are
// few, or one keeps far more than the others, several blocks share one: each keeps the k best of its share,
// and the last to finish merges them.
#include <algorithm>

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

// By one block. Which queries keep the most is told to an eighth of a doubling.
constexpr int find_threads = 1024;
constexpr int excess_bins = 256;
__device__ inline int excess_bin(std::uint32_t count, std::uint32_t most) {
  const float times = static_cast<float>(count) / static_cast<float>(most > 0 ? most : 1);
  const int bin = static_cast<int>(__float_as_uint(times) >> 20U) - (0x3f800000 >> 20);
  return bin < 0 ? 0 : (bin < excess_bins ? bin : excess_bins - 1);
}
__global__ void __launch_bounds__(find_threads)
    find_heavy_kernel(const std::uint32_t* counts, std::int64_t queries, std::uint32_t most,
                      std::uint32_t* heavy) {
  __shared__ unsigned bins[excess_bins];
  __shared__ unsigned found;
  __shared__ int lowest;  // bin of which queries are taken as far as there is room; of those above all are
  const int tid = static_cast<int>(threadIdx.x);
  if (tid == 0) {
    found = 0;
    lowest = 0;
  }
  if (tid < excess_bins) bins[tid] = 0;
  if (tid < most_heavy) heavy[tid] = nobody;
  __syncthreads();
  for (std::int64_t q = tid; q < queries; q += find_threads) {
    if (counts[q] > most) atomicAdd(&bins[excess_bin(counts[q], most)], 1U);
  }
  __syncthreads();
  if (tid < 32) {  // eight bins a thread, the highest first
    constexpr int each = excess_bins / 32;
    int bin = excess_bins - 1 - tid * each;
    unsigned sum = 0;
    for (int i = 0; i < each; ++i) sum += bins[bin - i];
    unsigned above = sum;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const unsigned other = __shfl_up_sync(0xffffffffU, above, step);
      if (tid >= step) above += other;
    }
    above -= sum;
    if (above < most_heavy && above + sum >= most_heavy) {
      while (above + bins[bin] < most_heavy) above += bins[bin--];
      lowest = bin;
    }
  }
  __syncthreads();
  for (int part = 0; part < 2; ++part) {
    for (std::int64_t q = tid; q < queries; q += find_threads) {
      if (counts[q] <= most) continue;
      const int bin = excess_bin(counts[q], most);
      if (part == 0 ? bin <= lowest : bin != lowest) continue;
      const unsigned at = atomicAdd(&found, 1U);
      if (at < most_heavy) heavy[at] = static_cast<std::uint32_t>(q);
    }
    __syncthreads();
  }
}

// Where several blocks share a query: true in the last one to get here, whose list is then that of all.
template <class R>
__device__ bool merge_blocks(const Batch<R>& batch, const Share& share, BlockList<R>& list, int* last) {
  if (share.count == 1) return true;
  const int k = list.k();
  Key<R>* all = batch.partial + static_cast<std::int64_t>(share.slot) * share.count * k;
  for (int i = threadIdx.x; i < k; i += block_threads()) all[share.index * k + i] = list[i];
  if (!is_last(batch, share, last)) return false;
  // Every block's k-th bounds the answer's k-th.
  const int total = share.count * k;
  for (int start = 0; start < total;) {
    const int end = min(total, start + list.free());
    for (int i = start + threadIdx.x; i < end; i += block_threads()) {
      // This block's are in the list already.
      if (i / k != share.index) list.offer(load_key<R>(all + i));
    }
    list.merge();
    start = end;
  }
  return true;
}

// Small blocks that share a processor.
constexpr std::size_t small_blocks = 8;

// Threads of a block of which few fit on a processor, since its list is long or it looks at many candidates
// at once. Keys of doubles leave no registers for so many.
template <class R>
constexpr int most_threads = sizeof(R) == 4 ? 2 * threads : threads;
constexpr std::size_t large_blocks = 3;

// Longest queries whose values lie in shared memory: most times beside as many blocks as there are without.
constexpr std::int64_t most_shared_values = 1536;

template <class T, Metric metric, class R>
__global__ void __launch_bounds__(most_threads<R>, sizeof(R) == 4 ? 2 : 3)
    rerank_kernel(Batch<R> batch, Subset subset, int wanted, bool bound_only, bool more, int capacity,
                  int chunk) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ Histogram histogram;
  __shared__ ListState<R> state;
  __shared__ int last;
  __shared__ unsigned cut;
  auto* keys = reinterpret_cast<Key<R>*>(shared);
  auto* entries =
      reinterpret_cast<std::uint64_t*>(shared + static_cast<std::size_t>(capacity) * sizeof(Key<R>));
  auto* picks = reinterpret_cast<std::uint16_t*>(entries + chunk);
  Share share{query_of(subset, blockIdx.y), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x),
              static_cast<int>(gridDim.x)};
  if (batch.heavy != nullptr && !find_share(batch.heavy, blockIdx.y, share)) return;
  const std::int64_t q = share.q;
  const double* query = batch.queries + q * batch.padded;
  if (batch.space.dim <= most_shared_values) {
    auto* values = reinterpret_cast<double*>(picks + chunk);
    for (int i = threadIdx.x; i < static_cast<int>(batch.space.dim); i += block_threads())
      values[i] = query[i];
    query = values;
  }
  const Desk desk{query, entries, picks, &histogram, &cut};
  const int k = static_cast<int>(batch.k);
  const std::int64_t room = batch.candidates.room;
  const std::int64_t kept = batch.candidates.counts[q];
  const std::int64_t count = kept < room ? kept : room;
  Key<R>* stored = batch.lists + q * k;
  // The list so far belongs to one block; the others start from nothing.
  BlockList<R> list(keys, &state, k, capacity);
  list.start(share.index == 0 ? stored : nullptr);

  unsigned long long evaluated = 0;
  int deferred = 0;
  const bool cuts = batch.space.form != codes::Form::none && batch.scalars[q].kind == codes::RowKind::regular;
  const std::int64_t mine = share.index < count ? (count - share.index + share.count - 1) / share.count : 0;
  for (std::int64_t done = 0; done < mine; done += chunk) {
    const int n = static_cast<int>(mine - done < chunk ? mine - done : chunk);
    for (int i = threadIdx.x; i < n; i += block_threads()) {
      entries[i] = batch.candidates.entries[q * room + share.index + (done + i) * share.count];
    }
    __syncthreads();
    // Any k bound the answer's k-th. The next stage's bound rules out most of what is picked.
    const Rest rest = bound_only                                   ? Rest::leave
                      : more && share.count == 1 && count <= chunk ? Rest::pick
                                                                   : Rest::evaluate;
    evaluated += rerank_entries<T, metric>(batch, q, desk, n, wanted, cuts, rest, list, deferred);
    for (int i = threadIdx.x; i < deferred; i += block_threads()) {
      batch.candidates.entries[q * room + i] = entries[desk.picks[i]];
    }
  }

  if (threadIdx.x == 0) atomicAdd(batch.counters, evaluated);
  if (!merge_blocks(batch, share, list, &last)) return;
  for (int i = threadIdx.x; i < k; i += block_threads()) stored[i] = bound_only ? Key<R>::none() : list[i];
  if (threadIdx.x == 0) {
    tighten(batch, q, list.last());
    finish_candidates(batch, q);
    batch.candidates.counts[q] = static_cast<std::uint32_t>(deferred);
  }
}

template <class R>
std::size_t shared_bytes(const Batch<R>& batch, int capacity, int chunk) {
  const std::int64_t values = batch.space.dim <= most_shared_values ? batch.space.dim : 0;
  return bytes_for<R>(capacity, chunk) + static_cast<std::size_t>(values) * sizeof(double);
}

template <class T, Metric metric, class R>
void launch(const Batch<R>& batch, const Subset& subset, dim3 grid, int block, int wanted, bool bound_only,
            bool more, int capacity, int chunk, int device, cudaStream_t stream) {
  const std::size_t bytes = shared_bytes(batch, capacity, chunk);
  allow_shared(rerank_kernel<T, metric, R>, block, bytes, device);
  rerank_kernel<T, metric, R>
      <<<grid, block, bytes, stream>>>(batch, subset, wanted, bound_only, more, capacity, chunk);
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

void find_heavy(const Candidates& candidates, std::int64_t queries, std::int64_t most, std::uint32_t* heavy,
                cudaStream_t stream) {
  find_heavy_kernel<<<1, find_threads, 0, stream>>>(candidates.counts, queries,
                                                    static_cast<std::uint32_t>(most), heavy);
  check_launch("find_heavy");
}

template <class R>
void rerank_candidates(const Batch<R>& batch, const Subset& subset, std::int64_t expected, std::int64_t fresh,
                       bool bound_only, bool more, int device, cudaStream_t stream) {
  if (subset.count <= 0) return;
  const bool heavy = batch.heavy != nullptr;
  const dim3 grid(static_cast<unsigned>(heavy ? 1 : rerank_blocks(subset.count, expected, device)),
                  static_cast<unsigned>(subset.count + (heavy ? most_heavy * heavy_shares : 0)));
  const bool many = grid.x == 1 && batch.k <= tuning::longest_short_list &&
                    subset.count >= std::int64_t{4} * processors(device);
  const int wanted = wanted_of(fresh, many);
  // A list, empty before all its keys are fresh, and what is offered to it first: a power of two, since they
  // are sorted together. Without a filter all rows are offered, and to sort seldom is best.
  const std::int64_t keys = batch.space.form == codes::Form::none
                                ? 4 * batch.k
                                : std::max(wanted + (fresh < batch.k ? batch.k : 0), batch.k + 1);
  int capacity = 512;
  while (capacity < keys) capacity *= 2;
  int chunk = 512;
  while (chunk < expected && chunk < most_reranked_at_once) chunk *= 2;
  // Chips with little shared memory take more rounds.
  while (chunk > 512 &&
         shared_bytes(batch, capacity, chunk) + 4096 > static_cast<std::size_t>(shared_limit(device)))
    chunk /= 2;
  // What a block does by one warp, or waits for, others use: many small ones, where a processor's shared
  // memory has room for as many as its registers have.
  const std::size_t each = shared_bytes(batch, capacity, chunk) + sizeof(Histogram) + 1024;
  const auto all =
      static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  int block = threads;
  if (many && each * small_blocks <= all) block = threads / 2;
  if (grid.x == 1 && each * large_blocks > all) block = most_threads<R>;
  visit_rows(batch, [&]<class T, Metric metric>() {
    launch<T, metric, R>(batch, subset, grid, block, wanted, bound_only, more, capacity, chunk, device,
                         stream);
  });
}

template void rerank_candidates<float>(const Batch<float>&, const Subset&, std::int64_t, std::int64_t, bool,
                                       bool, int, cudaStream_t);
template void rerank_candidates<double>(const Batch<double>&, const Subset&, std::int64_t, std::int64_t, bool,
                                        bool, int, cudaStream_t);

}  // namespace kith::brute_force::cuda
