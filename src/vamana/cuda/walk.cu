// Walks of a batch: a warp a query. Queries differ in how far they walk, and blocks of one warp let the
// device put the next query in the place of one that has ended.

#include "cuda/launch.hpp"
#include "vamana/cuda/tuning.hpp"
#include "vamana/cuda/walk.cuh"

namespace kith::vamana::cuda {
namespace {

template <int T, int P, bool halves, bool among_allowed>
std::size_t walk_bytes(const WalkShape& shape, int code_bytes) {
  return WarpCodes<T, P, halves>::bytes(code_bytes) + WarpWalk<T, P, halves, among_allowed>::bytes(shape);
}
// The most it is.
std::size_t walk_bytes(const WalkShape& shape, int code_bytes) {
  return walk_bytes<2, 0, false, true>(shape, code_bytes);
}

template <int T, int P, bool halves, bool among_allowed>
__global__ void __launch_bounds__(32, 32) walk_kernel(const __grid_constant__ WalkJob job) {
  extern __shared__ __align__(16) unsigned char memory[];
  const std::int64_t q = blockIdx.x;
  const int lane = lane_of_warp();
  Key* const list = job.lists + q * job.shape.capacity;
  if (job.usable[q] == 0) {
    if (lane == 0) job.found[q] = 0;
    return;
  }
  unsigned char* room = memory;
  WarpCodes<T, P, halves> codes(job.graph.codes, job.graph.code_bytes, room);
  WarpWalk<T, P, halves, among_allowed> walk(job.graph, job.shape, codes, room);
  if (!job.shape.list_in_shared) {
    walk.place_list(list, among_allowed ? job.marks + q * job.shape.capacity : nullptr);
  }
  codes.set_query(job.codes + q * job.code_stride);
  walk.run(job.left_out == nullptr ? no_node : job.left_out[q], job.nodes, nullptr, job.visits);
  const WarpList<among_allowed>& found_list = walk.list();
  int found = 0;
  for (int base = 0; base < found_list.size(); base += 32) {
    const int at = base + lane;
    const Key key = at < found_list.size() ? found_list.keys()[at] : no_key;
    const bool takes = at < found_list.size() && (!among_allowed || found_list.marked(at));
    const unsigned mask = __ballot_sync(whole_warp, takes);
    if (takes) list[found + __popc(mask & lanes_below())] = key;
    found += __popc(mask);
    __syncwarp();
  }
  if (lane != 0) return;
  // A list with room to spare holds everything there is to reach.
  const bool too_short =
      among_allowed && found_list.allowed() < job.shape.list_size && found_list.size() == job.shape.capacity;
  job.found[q] = too_short ? -1 : found;
  atomicAdd(job.counters, static_cast<unsigned long long>(walk.hops()));
  atomicAdd(job.counters + 1, static_cast<unsigned long long>(walk.distances()));
  if (job.graph.hot != nullptr) {
    atomicAdd(job.counters + 2, static_cast<unsigned long long>(walk.hot_hops()));
  }
}

template <int T, int P, bool halves, bool among_allowed>
void launch(const WalkJob& job, int device, cudaStream_t stream) {
  const std::size_t bytes = walk_bytes<T, P, halves, among_allowed>(job.shape, job.graph.code_bytes);
  const auto kernel = walk_kernel<T, P, halves, among_allowed>;
  allow_shared(kernel, 32, bytes, device);
  kernel<<<static_cast<unsigned>(job.count), 32, bytes, stream>>>(job);
  check_launch("walk_kernel");
}

}  // namespace

void choose_memory(WalkShape& shape, int code_bytes, int device) {
  const auto limit = static_cast<std::size_t>(shared_limit(device));
  shape.table = constants.table;
  shape.list_in_shared = shape.capacity <= constants.longest_shared_list;
  if (walk_bytes(shape, code_bytes) > limit) shape.list_in_shared = false;
  while (walk_bytes(shape, code_bytes) > limit && shape.table > 64) shape.table /= 2;
}

void walk(const WalkJob& job, bool four_bits, int device, cudaStream_t stream) {
  if (job.count == 0) return;
  visit_codes(job.graph.code_bytes, four_bits, [&]<int T, int P, bool halves>() {
    job.nodes.allowed != nullptr ? launch<T, P, halves, true>(job, device, stream)
                                 : launch<T, P, halves, false>(job, device, stream);
  });
}

}  // namespace kith::vamana::cuda
