// Re-ranking what walks found: a block a query evaluates rows by the canonical distance and keeps the k
// nearest.
#include <math_constants.h>

#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"
#include "cuda/visit_element.cuh"
#include "distance/cuda/canonical.cuh"
#include "select_k/cuda/key.cuh"
#include "vamana/cuda/kernels.hpp"
#include "vamana/cuda/tuning.hpp"

namespace kith::vamana::cuda {
namespace {

using namespace distance::cuda;
template <class R>
using Pair = select_k::cuda::Key<R>;

constexpr int threads = constants.rerank_threads;
constexpr int groups = threads / canonical_lanes;

// The k nearest so far in pairs[0, k), ascending; what is offered is collected behind them.
template <class R>
class Nearest {
 public:
  /// @param offered counts offers; null: nobody asks
  __device__ Nearest(Pair<R>* pairs, int* filled, int* offered, std::int64_t k, std::int64_t capacity)
      : pairs_(pairs),
        filled_(filled),
        offered_(offered),
        k_(static_cast<int>(k)),
        capacity_(static_cast<int>(capacity)) {
    for (int i = static_cast<int>(threadIdx.x); i < k_; i += threads) pairs_[i] = Pair<R>::none();
    if (threadIdx.x == 0) {
      *filled_ = k_;
      if (offered_ != nullptr) *offered_ = 0;
    }
    __syncthreads();
  }

  /// By one thread each, at most as many as room_for() was called for by all.
  __device__ void offer(double distance, std::uint32_t row) {
    const auto rounded = static_cast<R>(distance);
    if (isnan(rounded)) return;
    if (offered_ != nullptr) atomicAdd(offered_, 1);
    const Pair<R> pair = Pair<R>::make(rounded, row);
    if (pair < pairs_[k_ - 1]) pairs_[atomicAdd(filled_, 1)] = pair;
  }
  /// Makes place for `count` offers. All threads.
  __device__ void room_for(int count) {
    if (most_ + count > capacity_) {
      __syncthreads();
      sort();
    }
    most_ += count;
  }
  /// All threads.
  __device__ void finish() {
    __syncthreads();
    sort();
  }
  /// Whether there are k of them. All threads, after a barrier.
  __device__ bool full() const { return *offered_ >= k_; }
  /// The k-th, after finish().
  __device__ double kth() const { return pairs_[k_ - 1].distance(); }

 private:
  __device__ void sort() {
    const int total = *filled_;
    int padded = 2;
    while (padded < total) padded *= 2;
    for (int i = total + static_cast<int>(threadIdx.x); i < padded; i += threads) pairs_[i] = Pair<R>::none();
    select_k::cuda::sort_block<R>(pairs_, padded);
    if (threadIdx.x == 0) *filled_ = k_;
    most_ = k_;
    __syncthreads();
  }

  Pair<R>* pairs_;
  int* filled_;
  int* offered_;
  int k_;
  int capacity_;
  int most_ = k_;  // that `filled_` may be
};

__device__ std::int64_t to_evaluate(const RerankJob& job, const Key* list, std::int64_t size) {
  const Depth& depth = job.depth;
  if (depth.rerank > 0) return min(size, depth.rerank);
  if (size <= job.k) return size;
  if (!depth.raw_integers) return depth.factor_depth == 0 ? size : min(size, depth.factor_depth);
  // Estimates are the distances: after the k-th only what rounding may tie with it.
  const std::int64_t last = estimate_of(list[job.k - 1]);
  std::int64_t count = job.k;
  while (count < size && estimate_of(list[count]) <= last + (last >> 20U)) ++count;
  return count;
}

// Calls evaluate(row, there) for each row of the nodes of a list, all groups of threads together, as many
// times in each.
template <class Evaluate>
__device__ std::int64_t visit_rows(const RerankJob& job, const Key* list, std::int64_t count,
                                   const Evaluate& evaluate) {
  const int tid = static_cast<int>(threadIdx.x);
  const int group = tid / canonical_lanes;
  if (job.nodes.first == nullptr) {
    for (std::int64_t base = 0; base < count; base += groups) {
      const bool there = base + group < count;
      evaluate(there ? node_of(list[base + group]) : 0, there);
    }
    return count;
  }
  // So many nodes at a time: where each one's rows begin in the sequence of all.
  __shared__ unsigned long long begins[threads + 1];
  const NodeRows& nodes = job.nodes;
  std::int64_t visited = 0;
  for (std::int64_t base = 0; base < count; base += threads) {
    const std::int64_t some = min(count - base, static_cast<std::int64_t>(threads));
    __syncthreads();
    if (tid == 0) begins[0] = 0;
    unsigned long long rows = 0;
    if (tid < some) {
      const std::uint32_t node = node_of(list[base + tid]);
      const std::int64_t all = nodes.first[node + 1] - nodes.first[node];
      rows = static_cast<unsigned long long>(nodes.allowed == nullptr ? min(all, job.rows_of_a_node) : all);
    }
    begins[tid + 1] = rows;
    for (int apart = 1; apart < threads; apart *= 2) {
      __syncthreads();
      const unsigned long long before = tid >= apart ? begins[tid + 1 - apart] : 0;
      __syncthreads();
      begins[tid + 1] += before;
    }
    __syncthreads();
    const auto total = static_cast<std::int64_t>(begins[some]);
    for (std::int64_t from = 0; from < total; from += groups) {
      const std::int64_t place = from + group;
      bool there = place < total;
      std::uint32_t row = 0;
      if (there) {
        int low = 0;  // the last node that begins at `place` or before
        for (int high = static_cast<int>(some); high - low > 1;) {
          const int middle = (low + high) / 2;
          (static_cast<std::int64_t>(begins[middle]) <= place ? low : high) = middle;
        }
        const std::uint32_t node = node_of(list[base + low]);
        row = nodes.rows[nodes.first[node] + (place - static_cast<std::int64_t>(begins[low]))];
        if (nodes.allowed != nullptr) there = (nodes.allowed[row / 64] >> (row % 64) & 1U) != 0;
      }
      evaluate(row, there);
      visited += there && tid % canonical_lanes == 0 ? 1 : 0;
    }
  }
  return visited;
}

/// Rows that are evaluated together, and those after which a bound is asked again: as cpu/search.cpp has
/// them.
constexpr int rows_at_once = 64;
constexpr int rows_a_bound = 16;

// Which rows of a list are evaluated, where what is far by its bound is left out: one thread goes through the
// nodes in order, and what it has gathered is evaluated by all.
struct Gather {
  const RerankJob& job;
  const Key* list;
  const double* nearest;
  std::int64_t size;

  enum class Why { rows, bound, end };

  // Rows up to where they are to be evaluated.
  __device__ Why next(bool full, double limit, std::uint32_t* ids, int& waiting) {
    waiting = 0;
    for (; node_at < size; ++node_at, row_at = taken = 0) {
      if (row_at == 0) {
        if (waiting >= (full ? std::int64_t{rows_a_bound} : job.k)) return Why::bound;
        if (limit < CUDART_INF && nearest[node_at] > limit) continue;
      }
      const std::uint32_t node = node_of(list[node_at]);
      const NodeRows& nodes = job.nodes;
      const std::uint32_t begin = nodes.first == nullptr ? 0 : nodes.first[node];
      const std::int64_t rows = nodes.first == nullptr ? 1 : nodes.first[node + 1] - begin;
      for (; row_at < rows && taken < job.rows_of_a_node; ++row_at) {
        const std::uint32_t row = nodes.first == nullptr ? node : nodes.rows[begin + row_at];
        if (nodes.allowed != nullptr && (nodes.allowed[row / 64] >> (row % 64) & 1U) == 0) continue;
        ++taken;
        ids[waiting++] = row;
        if (waiting == rows_at_once) {
          ++row_at;
          return Why::rows;
        }
      }
    }
    return Why::end;
  }

  std::int64_t node_at = 0, row_at = 0, taken = 0;
};

// Evaluates rows of a list but those of nodes that are ruled out; how many, in each thread.
template <class R, class Evaluate>
__device__ std::int64_t visit_near(const RerankJob& job, std::int64_t q, const Key* list, std::int64_t size,
                                   Nearest<R>& nearest, const Evaluate& evaluate) {
  __shared__ std::uint32_t ids[rows_at_once];
  __shared__ int waiting;
  __shared__ Gather::Why why;
  Gather gather{job, list, job.nearest + q * job.list_stride, size};
  const double norm = job.metric == Metric::inner_product ? job.norms[q] : 0;
  const int group = static_cast<int>(threadIdx.x) / canonical_lanes;
  double limit = CUDART_INF;
  std::int64_t visited = 0;
  for (;;) {
    const bool full = nearest.full();
    if (threadIdx.x == 0) why = gather.next(full, limit, ids, waiting);
    __syncthreads();
    const int count = waiting;
    const Gather::Why its = why;
    for (int base = 0; base < count; base += groups) {
      const bool there = base + group < count;
      evaluate(there ? ids[base + group] : 0, there);
    }
    visited += count;
    __syncthreads();
    if (its == Gather::Why::end) return visited;
    if (its == Gather::Why::bound && nearest.full()) {
      nearest.finish();
      limit = job.limit.of(nearest.kth(), norm);
    }
  }
}

// By all threads of each block, at its end.
__device__ void report_end(const Report& report) {
  __shared__ bool last;
  const int tid = static_cast<int>(threadIdx.x);
  __threadfence();  // answers and counts of this thread are there
  __syncthreads();
  if (tid == 0) last = atomicAdd(report.counters + report.size, 1ULL) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence_system();
  for (int i = tid; i <= report.size; i += threads) {
    const unsigned long long count = atomicExch(report.counters + i, 0ULL);
    if (i < report.size) report.to[i] = count;
  }
  __threadfence_system();
  __syncthreads();
  if (tid == 0) *static_cast<volatile unsigned long long*>(report.to + report.size) = 1;
}

template <class T, Metric metric, class R>
__global__ void __launch_bounds__(threads)
    rerank_kernel(const __grid_constant__ RerankJob job, int capacity, bool in_shared) {
  wait_for_previous();
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int filled, offered;
  const std::int64_t q = blockIdx.x;
  auto* pairs = in_shared ? reinterpret_cast<Pair<R>*>(shared)
                          : static_cast<Pair<R>*>(job.room) + q * static_cast<std::int64_t>(capacity);
  const bool bounded = job.nearest != nullptr;
  Nearest<R> nearest(pairs, &filled, bounded ? &offered : nullptr, job.k, capacity);
  const std::int64_t size = job.found[q];
  if (size > 0) {
    const Key* list = job.lists + q * job.list_stride;
    const double* query = job.queries + q * job.padded;
    const double norm = metric == Metric::cosine ? job.norms[q] : 0;
    const T* data = static_cast<const T*>(job.data);
    const bool first = threadIdx.x % canonical_lanes == 0;
    const auto evaluate = [&](std::uint32_t row, bool there) {
      nearest.room_for(groups);
      const double distance = canonical_pair<T, metric>(data + static_cast<std::int64_t>(row) * job.stride,
                                                        query, job.dim, norm, there);
      if (there && first) nearest.offer(distance, row);
    };
    std::int64_t visited = 0;
    if (bounded) {
      visited = visit_near<R>(job, q, list, size, nearest, evaluate);
    } else {
      visited = visit_rows(job, list, to_evaluate(job, list, size), evaluate);
    }
    if (job.nodes.first != nullptr && !bounded) {
      if (visited > 0) atomicAdd(job.evaluated, static_cast<unsigned long long>(visited));
    } else if (threadIdx.x == 0) {
      atomicAdd(job.evaluated, static_cast<unsigned long long>(visited));
    }
  }
  nearest.finish();
  R* distances = static_cast<R*>(job.distances);
  for (std::int64_t i = threadIdx.x; i < job.out_k; i += threads) {
    const Pair<R> pair = i < job.k ? pairs[i] : Pair<R>::none();
    job.indices[q * job.out_k + i] = pair.is_none() ? -1 : static_cast<std::int64_t>(pair.row());
    distances[q * job.out_k + i] = pair.is_none() ? static_cast<R>(CUDART_INF) : pair.distance();
  }
  if (job.report.to != nullptr) report_end(job.report);
}

// Keys that a block has place for, a power of two: the k nearest, and as many offers at least.
std::int64_t capacity_for(std::int64_t k) {
  std::int64_t capacity = 8 * groups;
  while (capacity < 2 * k) capacity *= 2;
  return capacity;
}
std::int64_t pair_bytes(Dtype dtype) {
  return dtype == Dtype::f64 ? sizeof(Pair<double>) : sizeof(Pair<float>);
}

template <class T, Metric metric>
void launch(const RerankJob& job, std::int64_t capacity, int device, cudaStream_t stream) {
  using R = std::conditional_t<sizeof(T) == 8, double, float>;
  const bool in_shared = job.room == nullptr;
  const std::size_t bytes = in_shared ? static_cast<std::size_t>(capacity) * sizeof(Pair<R>) : 0;
  const dim3 grid(static_cast<unsigned>(job.count));
  if (job.count <= constants.team_walks) {
    launch_early(rerank_kernel<T, metric, R>, grid, threads, bytes, device, stream, job,
                 static_cast<int>(capacity), in_shared);
  } else {
    rerank_kernel<T, metric, R><<<grid, threads, bytes, stream>>>(job, static_cast<int>(capacity), in_shared);
  }
  check_launch("rerank_kernel");
}

}  // namespace

std::int64_t room_bytes(Dtype dtype, std::int64_t k) {
  const std::int64_t bytes = capacity_for(k) * pair_bytes(dtype);
  return bytes <= constants.shared_room_bytes ? 0 : bytes;
}

void rerank(const RerankJob& job, int device, cudaStream_t stream) {
  if (job.count == 0) return;
  const std::int64_t capacity = capacity_for(job.k);
  visit_element(job.dtype, [&]<class T>(T /*tag*/) {
    switch (job.metric) {
      case Metric::sqeuclidean: launch<T, Metric::sqeuclidean>(job, capacity, device, stream); break;
      case Metric::euclidean: launch<T, Metric::euclidean>(job, capacity, device, stream); break;
      case Metric::inner_product: launch<T, Metric::inner_product>(job, capacity, device, stream); break;
      case Metric::cosine: launch<T, Metric::cosine>(job, capacity, device, stream); break;
      case Metric::manhattan: break;  // refused when the index was built
    }
  });
}

}  // namespace kith::vamana::cuda
