// Walks over RaBitQ and PQ codes, and what RaBitQ's bound says of the nodes that they found: a warp a query.
// Compiled without fused operations, as the host's workers are.
#include "vamana/cuda/quantized.cuh"

#include "vamana/cuda/quantized_walk.hpp"
#include "vamana/cuda/walk.cuh"

namespace kith::vamana::cuda {
namespace {

template <bool rabitq, bool among_allowed>
__global__ void __launch_bounds__(32, 32) quantized_kernel(const __grid_constant__ WalkJob job) {
  extern __shared__ __align__(16) unsigned char memory[];
  const std::int64_t q = blockIdx.x;
  if (job.usable[q] == 0) {
    if (lane_of_warp() == 0) job.found[q] = 0;
    return;
  }
  unsigned char* room = memory;
  const unsigned char* query = job.codes + q * job.code_stride;
  if constexpr (rabitq) {
    WarpRabitq codes(job.graph.codes, job.graph.code_bytes, job.rabitq, query, job.rabitq_queries[q],
                     job.shape.query_bytes, room);
    walk_for<among_allowed>(q, job, codes, room);
  } else {
    WarpPq codes(job.graph.codes, job.graph.code_bytes, query, job.shape.query_bytes, room);
    walk_for<among_allowed>(q, job, codes, room);
  }
}

__global__ void __launch_bounds__(32, 32) bound_kernel(const __grid_constant__ BoundJob job) {
  __shared__ __align__(16) unsigned char memory[Offers::bytes];
  const std::int64_t q = blockIdx.x;
  const std::int32_t count = job.found[q];
  if (count <= 0) return;
  unsigned char* room = memory;
  WarpRabitq codes(job.node_codes, job.code_bytes, job.rabitq, job.codes + q * job.code_stride,
                   job.rabitq_queries[q], 0, room);
  const Key* list = job.lists + q * job.list_stride;
  double* nearest = job.nearest + q * job.list_stride;
  for (int base = 0; base < count; base += most_offered) {
    const int some = min(most_offered, count - base);
    for (int i = lane_of_warp(); i < some; i += 32) codes.found[i] = node_of(list[base + i]);
    __syncwarp();
    codes.bound(some, nearest + base);
  }
}

}  // namespace

void walk_quantized(const WalkJob& job, Walked walked, int device, cudaStream_t stream) {
  const auto launch = [&]<bool rabitq>() {
    job.nodes.allowed != nullptr ? launch_walk<true>(quantized_kernel<rabitq, true>, job, device, stream)
                                 : launch_walk<false>(quantized_kernel<rabitq, false>, job, device, stream);
  };
  walked == Walked::rabitq ? launch.operator()<true>() : launch.operator()<false>();
}

void bound(const BoundJob& job, cudaStream_t stream) {
  if (job.count == 0) return;
  bound_kernel<<<static_cast<unsigned>(job.count), 32, 0, stream>>>(job);
  check_launch("bound_kernel");
}

}  // namespace kith::vamana::cuda
