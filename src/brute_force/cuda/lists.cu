// Candidates to answers: exact distances, merging into the k-lists, tighter bounds.
//
// A block owns a query while it merges: nobody else touches its list, counts and bound. Lists up to
// tuning::largest_block_k are merged in shared memory, longer ones by CUB's merge sort.
#include <math_constants.h>

#include <cub/device/device_merge_sort.cuh>

#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/rerank.cuh"
#include "brute_force/cuda/tuning.hpp"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"
#include "cuda/visit_element.cuh"
#include "distance/cuda/canonical.cuh"
#include "select_k/cuda/key.cuh"

namespace kith::brute_force::cuda {
namespace {

using namespace distance::cuda;

static_assert(sizeof(Key<float>) == key_bytes<float> && sizeof(Key<double>) == key_bytes<double>);

unsigned blocks_for(std::int64_t work, int threads) {
  return static_cast<unsigned>((work + threads - 1) / threads);
}

template <class R>
__global__ void start_kernel(Batch<R> batch, const R* best) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < batch.count * batch.k) batch.lists[i] = Key<R>::none();
  if (i >= batch.count) return;
  batch.arrived[i] = 0;
  batch.best[i] = best == nullptr ? static_cast<R>(CUDART_INF) : best[i];
  batch.candidates.counts[i] = 0;
  batch.overflow[i] = 0;
  if (batch.scalars[i].kind != codes::RowKind::regular) {
    batch.bounds[i] = closed_bound(batch.space);
  } else {
    batch.bounds[i] = best == nullptr ? open_bound(batch.space)
                                      : make_bound(best[i], batch.space, batch.scalars[i], batch.maxima);
  }
}

__global__ void fill_kernel(Candidates out, Subset subset, const std::uint32_t* listed, std::int64_t first,
                            double step, std::int64_t count) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= subset.count * count) return;
  const std::int64_t q = query_of(subset, i / count);
  const std::int64_t j = i % count;
  out.entries[q * out.room + j] =
      listed != nullptr
          ? listed[first + j]
          : static_cast<std::uint32_t>(first + static_cast<std::int64_t>(static_cast<double>(j) * step));
  if (j == 0) out.counts[q] = static_cast<std::uint32_t>(count);
}

template <class T, Metric metric, class R>
__global__ void evaluate_kernel(Batch<R> batch, Subset subset) {
  const std::int64_t q = query_of(subset, blockIdx.y);
  const std::int64_t room = batch.candidates.room;
  const std::int64_t kept = batch.candidates.counts[q];
  const std::int64_t count = kept < room ? kept : room;
  const std::uint64_t* rows = batch.candidates.entries + q * room;
  R* out = batch.distances + q * room;
  const double* query = batch.queries + q * batch.padded;
  const double norm = batch.scalars[q].canonical;
  const int groups = static_cast<int>(blockDim.x) / canonical_lanes;
  const std::int64_t step = static_cast<std::int64_t>(groups) * gridDim.x;
  const int group = static_cast<int>(threadIdx.x) / canonical_lanes;
  // The same number of rounds for all threads of a warp: they exchange lanes.
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * groups; base < count; base += step) {
    const std::int64_t c = base + group;
    const bool active = c < count;
    const T* row = static_cast<const T*>(batch.data) +
                   static_cast<std::int64_t>(
                       active && rows[c] != no_candidate ? static_cast<std::uint32_t>(rows[c]) : 0U) *
                       batch.stride;
    const double distance = canonical_pair<T, metric>(row, query, batch.space.dim, norm, active);
    if (active && threadIdx.x % canonical_lanes == 0) out[c] = static_cast<R>(distance);
  }
}

// List and candidates of a query side by side, to be sorted.
template <class R>
__global__ void gather_kernel(Batch<R> batch, Subset subset) {
  const std::int64_t room = batch.candidates.room;
  const std::int64_t length = batch.k + room;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= subset.count * length) return;
  const std::int64_t q = query_of(subset, i / length);
  const std::int64_t j = i % length;
  Key<R> key = Key<R>::none();
  if (j < batch.k) {
    key = batch.lists[q * batch.k + j];
  } else if (j - batch.k < static_cast<std::int64_t>(batch.candidates.counts[q])) {
    const std::int64_t at = q * room + j - batch.k;
    const R distance = batch.distances[at];
    if (!isnan(distance) && !(distance > batch.best[q]) && batch.candidates.entries[at] != no_candidate) {
      key = Key<R>::make(distance, static_cast<std::uint32_t>(batch.candidates.entries[at]));
    }
  }
  batch.scratch[i] = key;
}

template <class R>
__global__ void scatter_kernel(Batch<R> batch, Subset subset, bool bound_only) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= subset.count * batch.k) return;
  const std::int64_t q = query_of(subset, i / batch.k);
  const std::int64_t j = i % batch.k;
  const Key<R> key = batch.scratch[i / batch.k * (batch.k + batch.candidates.room) + j];
  batch.lists[q * batch.k + j] = bound_only ? Key<R>::none() : key;
  if (j != batch.k - 1) return;
  const std::uint32_t kept = batch.candidates.counts[q];
  atomicAdd(batch.counters, static_cast<unsigned long long>(min(kept, batch.candidates.room)));
  tighten(batch, q, key);
  finish_candidates(batch, q);
}

template <class R>
void evaluate_candidates(const Batch<R>& batch, const Subset& subset, std::int64_t expected, int device,
                         cudaStream_t stream) {
  if (subset.count <= 0) return;
  constexpr int threads = 128;
  const std::int64_t wanted = (std::int64_t{processors(device)} * 16 + subset.count - 1) / subset.count;
  const std::int64_t useful = (expected + threads / canonical_lanes - 1) / (threads / canonical_lanes);
  const auto splits =
      static_cast<unsigned>(wanted < 1 ? 1 : (wanted > useful ? (useful < 1 ? 1 : useful) : wanted));
  const dim3 grid(splits, static_cast<unsigned>(subset.count));  // batches are far below 65,535 queries
  visit_element(batch.space.dtype, [&]<class T>(T /*tag*/) {
    if constexpr ((sizeof(T) == 8) == (sizeof(R) == 8)) {
      switch (batch.space.metric) {
        case Metric::sqeuclidean:
          evaluate_kernel<T, Metric::sqeuclidean, R><<<grid, threads, 0, stream>>>(batch, subset);
          break;
        case Metric::euclidean:
          evaluate_kernel<T, Metric::euclidean, R><<<grid, threads, 0, stream>>>(batch, subset);
          break;
        case Metric::inner_product:
          evaluate_kernel<T, Metric::inner_product, R><<<grid, threads, 0, stream>>>(batch, subset);
          break;
        case Metric::cosine:
          evaluate_kernel<T, Metric::cosine, R><<<grid, threads, 0, stream>>>(batch, subset);
          break;
        case Metric::manhattan:
          evaluate_kernel<T, Metric::manhattan, R><<<grid, threads, 0, stream>>>(batch, subset);
          break;
      }
    }
  });
  check_launch("evaluate_candidates");
}

struct Less {
  template <class K>
  __device__ bool operator()(const K& a, const K& b) const {
    return a < b;
  }
};

// CUB's merge sort launches each kernel so that it may begin before the one ahead of it has ended
// (programmatic dependent launch), and lets it wait inside. In CUB 2.8 to 3.0.1, that of CUDA 13.0, the
// merging kernel reads its partitions before it waits (NVIDIA/cccl issue 5297): where several streams keep
// the device busy it finds those of the sort before, and reads and writes wherever they point. Code for
// compute capability 8.0 has no such wait at all, on newer devices either (issue 9134). So here kernels begin
// when the one before has ended.
struct InOrder : cub::detail::TripleChevronFactory {
  __host__ auto operator()(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                           bool /*dependent*/ = false) const {
    return cub::detail::TripleChevronFactory::operator()(grid, block, shared_bytes, stream, false);
  }
};

template <class K>
cudaError_t sort_keys(void* work, std::size_t& bytes, K* keys, std::int64_t count, cudaStream_t stream) {
  using None = cub::NullType;
  using Offset = cub::detail::choose_offset_t<std::int64_t>;
  using Policies = cub::detail::merge_sort::policy_hub<K*>;
  using Kernels = cub::detail::merge_sort::DeviceMergeSortKernelSource<typename Policies::MaxPolicy, K*,
                                                                       None*, K*, None*, Offset, Less>;
  using Sort = cub::DispatchMergeSort<K*, None*, K*, None*, Offset, Less, Policies, Kernels, InOrder>;
  None* const none = nullptr;
  return Sort::Dispatch(work, bytes, keys, none, keys, none, static_cast<Offset>(count), Less{}, stream);
}

template <class R>
void merge_long(const Batch<R>& batch, const Subset& subset, bool bound_only, cudaStream_t stream) {
  constexpr int threads = 256;
  const std::int64_t length = batch.k + batch.candidates.room;
  gather_kernel<R><<<blocks_for(subset.count * length, threads), threads, 0, stream>>>(batch, subset);
  check_launch("gather");
  std::size_t bytes = 0;
  KITH_CUDA(sort_keys(nullptr, bytes, batch.scratch, length, stream));
  const Buffer<unsigned char> work(static_cast<std::int64_t>(bytes), stream);
  for (std::int64_t i = 0; i < subset.count; ++i) {
    KITH_CUDA(sort_keys(work.data(), bytes, batch.scratch + i * length, length, stream));
  }
  scatter_kernel<R>
      <<<blocks_for(subset.count * batch.k, threads), threads, 0, stream>>>(batch, subset, bound_only);
  check_launch("scatter");
}

// Row i of `to` is row ids[i] of `from`, or the other way round.
template <bool gather>
__global__ void move_rows_kernel(const unsigned char* from, std::int64_t stride, std::int64_t row_bytes,
                                 const std::uint32_t* ids, std::int64_t count, unsigned char* to) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count * row_bytes) return;
  const std::int64_t row = i / row_bytes;
  const std::int64_t at = i % row_bytes;
  if constexpr (gather) {
    to[i] = from[ids[row] * stride + at];
  } else {
    to[ids[row] * row_bytes + at] = from[i];
  }
}

template <class R>
__global__ void clear_kernel(Batch<R> batch, Subset subset) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= subset.count * batch.k) return;
  batch.lists[query_of(subset, i / batch.k) * batch.k + i % batch.k] = Key<R>::none();
}

template <class R>
__global__ void write_kernel(Batch<R> batch, std::int64_t k, std::int64_t base, std::int64_t* indices,
                             R* distances, bool filtered, std::uint32_t* exact_ids, std::uint32_t* exact) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= batch.count * k) return;
  const std::int64_t q = i / k;
  const std::int64_t j = i % k;
  const Key<R> key = j < batch.k ? batch.lists[q * batch.k + j] : Key<R>::none();
  indices[i] = key.is_none() ? -1 : base + key.row();
  distances[i] = key.is_none() ? static_cast<R>(CUDART_INF) : key.distance();
  if (j != 0 || exact == nullptr) return;
  const codes::RowKind kind = batch.scalars[q].kind;
  if (kind == codes::RowKind::nan || (filtered && kind == codes::RowKind::regular && batch.overflow[q] == 0))
    return;
  exact_ids[atomicAdd(exact, 1U)] = static_cast<std::uint32_t>(q);
}

constexpr int most_shards = 64;
template <class R>
struct Answers {
  const std::int64_t* indices[most_shards];
  const R* distances[most_shards];
  int shards;
};

// Every entry finds its own rank: its place in its shard, and how many entries of the others come before it.
template <class R>
__global__ void merge_answers_kernel(Answers<R> in, std::int64_t queries, std::int64_t k,
                                     std::int64_t* indices, R* distances) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= queries * k) return;
  const std::int64_t q = i / k;
  const std::int64_t j = i % k;
  std::int64_t found = 0;  // answers of all shards together
  for (int p = 0; p < in.shards; ++p) {
    const std::int64_t* rows = in.indices[p] + q * k;
    std::int64_t low = 0;
    for (std::int64_t high = k; low < high;) {
      const std::int64_t middle = (low + high) / 2;
      if (rows[middle] >= 0)
        low = middle + 1;
      else
        high = middle;
    }
    found += low;
  }
  if (j >= found) {  // ranks nobody takes
    indices[i] = -1;
    distances[i] = static_cast<R>(CUDART_INF);
  }
  for (int p = 0; p < in.shards; ++p) {
    const std::int64_t row = in.indices[p][i];
    if (row < 0) continue;
    const R distance = in.distances[p][i];
    std::int64_t rank = j;
    for (int o = 0; o < in.shards && rank < k; ++o) {
      if (o == p) continue;
      const std::int64_t* rows = in.indices[o] + q * k;
      const R* list = in.distances[o] + q * k;
      std::int64_t low = 0;
      for (std::int64_t high = k; low < high;) {
        const std::int64_t middle = (low + high) / 2;
        const bool before = rows[middle] >= 0 &&
                            (list[middle] < distance || (list[middle] == distance && rows[middle] < row));
        if (before)
          low = middle + 1;
        else
          high = middle;
      }
      rank += low;
    }
    if (rank < k) {
      indices[q * k + rank] = row;
      distances[q * k + rank] = distance;
    }
  }
}

}  // namespace

template <class R>
void start_lists(const Batch<R>& batch, const R* best, cudaStream_t stream) {
  start_kernel<R><<<blocks_for(batch.count * batch.k, 256), 256, 0, stream>>>(batch, best);
  check_launch("start_lists");
}

void fill_candidates(const Candidates& candidates, const Subset& subset, const std::uint32_t* listed,
                     std::int64_t first, double step, std::int64_t count, cudaStream_t stream) {
  if (count <= 0 || subset.count <= 0) return;
  fill_kernel<<<blocks_for(subset.count * count, 256), 256, 0, stream>>>(candidates, subset, listed, first,
                                                                         step, count);
  check_launch("fill_candidates");
}

template <class R>
void rerank_long(const Batch<R>& batch, const Subset& subset, std::int64_t expected, bool bound_only,
                 int device, cudaStream_t stream) {
  if (subset.count <= 0) return;
  evaluate_candidates(batch, subset, expected, device, stream);
  merge_long(batch, subset, bound_only, stream);
}

void gather_rows(const void* from, std::int64_t stride, std::int64_t row_bytes, const std::uint32_t* ids,
                 std::int64_t count, void* to, cudaStream_t stream) {
  if (count <= 0 || row_bytes <= 0) return;
  move_rows_kernel<true><<<blocks_for(count * row_bytes, 256), 256, 0, stream>>>(
      static_cast<const unsigned char*>(from), stride, row_bytes, ids, count,
      static_cast<unsigned char*>(to));
  check_launch("gather_rows");
}

void scatter_rows(const void* from, std::int64_t row_bytes, const std::uint32_t* ids, std::int64_t count,
                  void* to, cudaStream_t stream) {
  if (count <= 0 || row_bytes <= 0) return;
  move_rows_kernel<false><<<blocks_for(count * row_bytes, 256), 256, 0, stream>>>(
      static_cast<const unsigned char*>(from), row_bytes, row_bytes, ids, count,
      static_cast<unsigned char*>(to));
  check_launch("scatter_rows");
}

template <class R>
void clear_lists(const Batch<R>& batch, const Subset& subset, cudaStream_t stream) {
  if (subset.count <= 0) return;
  clear_kernel<R><<<blocks_for(subset.count * batch.k, 256), 256, 0, stream>>>(batch, subset);
  check_launch("clear_lists");
}

template <class R>
void write_lists(const Batch<R>& batch, std::int64_t k, std::int64_t base, std::int64_t* indices,
                 R* distances, bool filtered, std::uint32_t* exact_ids, std::uint32_t* exact,
                 cudaStream_t stream) {
  if (batch.count <= 0) return;
  write_kernel<R><<<blocks_for(batch.count * k, 256), 256, 0, stream>>>(batch, k, base, indices, distances,
                                                                        filtered, exact_ids, exact);
  check_launch("write_lists");
}

template <class R>
void merge_answers(const std::int64_t* const* indices, const R* const* distances, int shards,
                   std::int64_t queries, std::int64_t k, std::int64_t* out_indices, R* out_distances,
                   cudaStream_t stream) {
  if (queries <= 0) return;
  if (shards > most_shards)
    throw InvalidArgument("more than 64 shards of a dataset on GPUs; use fewer devices");
  Answers<R> in{};
  in.shards = shards;
  for (int p = 0; p < shards; ++p) {
    in.indices[p] = indices[p];
    in.distances[p] = distances[p];
  }
  merge_answers_kernel<R>
      <<<blocks_for(queries * k, 256), 256, 0, stream>>>(in, queries, k, out_indices, out_distances);
  check_launch("merge_answers");
}

#define KITH_INSTANTIATE(R)                                                                            \
  template void start_lists<R>(const Batch<R>&, const R*, cudaStream_t);                               \
  template void rerank_long<R>(const Batch<R>&, const Subset&, std::int64_t, bool, int, cudaStream_t); \
  template void clear_lists<R>(const Batch<R>&, const Subset&, cudaStream_t);                          \
  template void write_lists<R>(const Batch<R>&, std::int64_t, std::int64_t, std::int64_t*, R*, bool,   \
                               std::uint32_t*, std::uint32_t*, cudaStream_t);                          \
  template void merge_answers<R>(const std::int64_t* const*, const R* const*, int, std::int64_t,       \
                                 std::int64_t, std::int64_t*, R*, cudaStream_t);
KITH_INSTANTIATE(float)
KITH_INSTANTIATE(double)
#undef KITH_INSTANTIATE

}  // namespace kith::brute_force::cuda
