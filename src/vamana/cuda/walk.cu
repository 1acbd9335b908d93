// Walks of a batch: a warp a query. Queries differ in how far they walk, and blocks of one warp let the
// device put the next query in the place of one that has ended.
#include "vamana/cuda/quantized_walk.hpp"
#include "vamana/cuda/short_list.cuh"
#include "vamana/cuda/team_walk.hpp"
#include "vamana/cuda/tuning.hpp"
#include "vamana/cuda/walk.cuh"

namespace kith::vamana::cuda {
namespace {

template <bool among_allowed, class List, bool prefetches, int T, int B, bool halves>
__device__ void walk_of_block(const WalkJob& job) {
  extern __shared__ __align__(16) unsigned char memory[];
  const std::int64_t q = blockIdx.x;
  if (job.usable[q] == 0) {
    if (lane_of_warp() == 0) job.found[q] = 0;
    return;
  }
  unsigned char* room = memory;
  WarpCodes<T, B, halves> codes(job.graph.codes, job.graph.code_bytes, room);
  codes.set_query(job.codes + q * job.code_stride);
  walk_for<among_allowed, List, prefetches>(q, job, codes, room);
}

template <int T, int B, bool halves, bool among_allowed>
__global__ void __launch_bounds__(32, 32) walk_kernel(const __grid_constant__ WalkJob job) {
  walk_of_block<among_allowed, WarpList<among_allowed>, false, T, B, halves>(job);
}

// For few walks: lists of any length, and of at most 32 * R nodes.
template <int T, int B, bool halves>
__global__ void __launch_bounds__(32, 16) few_walk_kernel(const __grid_constant__ WalkJob job) {
  walk_of_block<false, WarpList<false>, true, T, B, halves>(job);
}
template <int T, int B, bool halves, int R>
__global__ void __launch_bounds__(32, 16) short_walk_kernel(const __grid_constant__ WalkJob job) {
  walk_of_block<false, ShortList<R>, true, T, B, halves>(job);
}

}  // namespace

void choose_memory(WalkShape& shape, Walked walked, std::int64_t query_bytes, int device) {
  const auto limit = static_cast<std::size_t>(shared_limit(device));
  const auto fits = [&] { return walk_bytes(shape, true) <= limit; };
  shape.query_bytes = static_cast<int>(query_bytes);
  shape.table = constants.table;
  shape.list_in_shared = shape.capacity <= constants.longest_shared_list;
  const bool scalar = walked == Walked::int8 || walked == Walked::int4;
  if (!scalar && query_bytes > constants.largest_shared_query) shape.query_bytes = 0;
  if (!fits()) shape.list_in_shared = false;
  if (!fits() && !scalar) shape.query_bytes = 0;
  while (!fits() && shape.table > 64) shape.table /= 2;
}

void walk(const WalkJob& job, Walked walked, int device, cudaStream_t stream) {
  if (job.count == 0) return;
  if (walked == Walked::rabitq || walked == Walked::pq) {
    walk_quantized(job, walked, device, stream);
    return;
  }
  if (walk_by_teams(job, walked, device, stream)) return;
  visit_codes(job.graph.code_bytes, walked == Walked::int4, [&]<int T, int B, bool halves>() {
    if (job.nodes.allowed != nullptr) {
      launch_walk<true>(walk_kernel<T, B, halves, true>, job, device, stream);
    } else if (!job.shape.few) {
      launch_walk<false>(walk_kernel<T, B, halves, false>, job, device, stream);
    } else if (job.shape.capacity > 64) {
      launch_walk<false>(few_walk_kernel<T, B, halves>, job, device, stream);
    } else {
      launch_walk<false>(
          job.shape.capacity > 32 ? short_walk_kernel<T, B, halves, 2> : short_walk_kernel<T, B, halves, 1>,
          job, device, stream);
    }
  });
}

}  // namespace kith::vamana::cuda
