// Rung 16: that tree on the GPU, one thread a query.
//
// Idea      A heap has no pointers, so it is copied as it is. Each thread walks for its own query; what the
//           recursion kept on the processor's stack is an array of the thread's own.
// Cost      Build and copy as on the CPU; then each thread the nodes of its query.
// Limit     The build, which takes far longer than the search. Threads of a warp part at the first node
//           where they turn differently, and from then on take turns; their loads meet in no line. Stack and
//           list are in local memory. With 1024 queries there are 32 warps, and one query takes one thread
//           of one of them.
// Source    The reports' GPU tree; Wald, A Stack-Free Traversal Algorithm for Left-Balanced k-d Trees (2022)
//           shows what the heap's layout allows beyond this.
#include "gpu.cuh"
#include "heap_tree.hpp"

namespace kith::ladder {
namespace {

constexpr int threads = 32;
constexpr int deepest = 32;  // levels of a tree of 2^31 points, and one

struct Tree {
  const float* point;
  const int* row;
  const int* axis;
  int dim;
  std::int64_t nodes;
};

// A side not yet visited, and how far its plane is.
struct Far {
  std::int64_t node;
  float to_plane;
};

__global__ void walk(Tree tree, const float* query, std::int64_t queries, int k, Neighbor* nearest) {
  const std::int64_t q = blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x;
  if (q >= queries) return;
  const float* mine = query + q * tree.dim;
  Neighbor list[longest_list];
  for (int rank = 0; rank < k; ++rank) list[rank] = nobody();
  Far stack[deepest];
  int depth = 0;
  std::int64_t node = 0;
  while (true) {
    while (node < tree.nodes) {  // down, on the query's side
      const float* point = tree.point + node * tree.dim;
      insert(list, k, {squared_distance(mine, point, tree.dim), tree.row[node]});
      const int axis = tree.axis[node];
      const float difference = mine[axis] - point[axis];
      const std::int64_t left = 2 * node + 1;
      const std::int64_t right = left + 1;
      const std::int64_t other = difference < 0 ? right : left;
      if (other < tree.nodes) stack[depth++] = {other, difference * difference};
      node = difference < 0 ? left : right;
    }
    // Up to a side that is not farther than the k-th so far: just as far may be a lower index.
    while (depth > 0 && stack[depth - 1].to_plane > list[k - 1].distance) --depth;
    if (depth == 0) break;
    node = stack[--depth].node;
  }
  for (int rank = 0; rank < k; ++rank) nearest[q * k + rank] = list[rank];
}

}  // namespace

Answer kd_tree_gpu(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  cuda::Buffer<float> point;
  cuda::Buffer<int> row;
  cuda::Buffer<int> axis;
  run.build([&] {
    const HeapTree tree = build_heap_tree(problem, run);
    point = gpu.upload(tree.point.data(), tree.nodes() * problem.dim);
    row = gpu.upload(tree.row.data(), tree.nodes());
    axis = gpu.upload(tree.axis.data(), tree.nodes());
    gpu.finish();
  });
  const Tree tree{point.data(), row.data(), axis.data(), static_cast<int>(problem.dim), problem.points};
  const auto query = gpu.upload(problem.query, problem.queries * problem.dim);
  const auto nearest = gpu.room<Neighbor>(problem.queries * problem.k);
  gpu.finish();
  run.search([&] {
    walk<<<blocks_for(problem.queries, threads), threads, 0, gpu.stream()>>>(
        tree, query.data(), problem.queries, static_cast<int>(problem.k), nearest.data());
    cuda::check_launch("walk");
    gpu.finish();
  });
  return put_all(problem, gpu.download(nearest));
}

}  // namespace kith::ladder
