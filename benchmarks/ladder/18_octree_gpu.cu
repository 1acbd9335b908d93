// Rung 18: that octree on the GPU, one thread a query.
//
// Idea      As rung 16: the arrays are copied, each thread walks for its own query with a stack of its own.
//           A node's children are put on the stack with the nearest on top.
// Cost      Build and copy as on the CPU; then each thread the cells of its query. The stack has room for
//           seven siblings a level.
// Limit     As rung 16: the build, and the threads of a warp, which part ways. Sorting eight children is
//           work that the CPU's branch predictor hides and a warp does not.
// Source    The reports' GPU octree, made exact: see rung 17.
#include "cell_tree.hpp"
#include "gpu.cuh"

namespace kith::ladder {
namespace {

constexpr int threads = 32;
constexpr int stack_size = 7 * cell_levels + 8;

struct Tree {
  const Cell* cell;
  const float* point;
  const int* row;
};

struct Waiting {
  float distance;
  int cell;
};

// Puts a cell's children on the stack, the nearest last: by insertion among these up to eight.
__device__ int push_children(const Tree& tree, const Cell& cell, const float* query, float farthest,
                             Waiting* stack, int depth) {
  const int bottom = depth;
  for (int c = 0; c < cell.children; ++c) {
    const Waiting child{box_distance(query, tree.cell[cell.first + c]), cell.first + c};
    if (child.distance > farthest) continue;
    int at = depth++;
    for (; at > bottom && stack[at - 1].distance < child.distance; --at) stack[at] = stack[at - 1];
    stack[at] = child;
  }
  return depth;
}

__global__ void walk(Tree tree, const float* query, std::int64_t queries, int k, Neighbor* nearest) {
  const std::int64_t q = blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x;
  if (q >= queries) return;
  const float mine[3] = {query[3 * q], query[3 * q + 1], query[3 * q + 2]};
  Neighbor list[longest_list];
  for (int rank = 0; rank < k; ++rank) list[rank] = nobody();
  Waiting stack[stack_size];
  int depth = 1;
  stack[0] = {0, 0};
  while (depth > 0) {
    const Waiting next = stack[--depth];
    if (next.distance > list[k - 1].distance) continue;  // just as far may be a lower index
    const Cell cell = tree.cell[next.cell];
    for (int i = cell.first; i < cell.first + cell.points; ++i) {
      insert(list, k,
             {squared_distance(mine, tree.point + 3 * static_cast<std::int64_t>(i), 3), tree.row[i]});
    }
    depth = push_children(tree, cell, mine, list[k - 1].distance, stack, depth);
  }
  for (int rank = 0; rank < k; ++rank) nearest[q * k + rank] = list[rank];
}

}  // namespace

Answer octree_gpu(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  cuda::Buffer<Cell> cell;
  cuda::Buffer<float> point;
  cuda::Buffer<int> row;
  run.build([&] {
    const CellTree tree = build_cell_tree(problem, run);
    cell = gpu.upload(tree.cell.data(), static_cast<std::int64_t>(tree.cell.size()));
    point = gpu.upload(tree.point.data(), 3 * problem.points);
    row = gpu.upload(tree.row.data(), problem.points);
    gpu.finish();
  });
  const Tree tree{cell.data(), point.data(), row.data()};
  const auto query = gpu.upload(problem.query, 3 * problem.queries);
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
