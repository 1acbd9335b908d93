// Rung 15: a k-d tree on the CPU.
//
// Idea      Halve the points at the median of the coordinate that varies most, and again each half. A query
//           descends to its own side first; the other side is visited only if the dividing plane is not
//           farther than the k-th neighbour so far.
// Cost      Build O(n log n dim). A query O(log n) in few dimensions.
// Limit     Dimensions: in 16 of them the plane is nearly always near enough, and a query visits most of the
//           points, in an order that no cache likes. Memory: each visited node is a line or more from
//           anywhere in the heap.
// Source    Bentley (1975), Friedman, Bentley, Finkel (1977): variance and the bound; the reports' recursive
//           CPU tree.
#include "heap_tree.hpp"
#include "list_answer.hpp"

namespace kith::ladder {

// Recursively; as deep as the tree.
void visit(const HeapTree& tree, std::int64_t node, const float* query,
           Neighbor* list,  // NOLINT(misc-no-recursion)
           int k) {
  if (node >= tree.nodes()) return;
  const float* point = tree.point.data() + node * tree.dim;
  insert(list, k, {squared_distance(query, point, tree.dim), tree.row[static_cast<std::size_t>(node)]});
  const int axis = tree.axis[static_cast<std::size_t>(node)];
  const float to_plane = query[axis] - point[axis];
  const std::int64_t left = 2 * node + 1;
  const std::int64_t right = left + 1;
  visit(tree, to_plane < 0 ? left : right, query, list, k);
  // Not farther, rather than nearer: a point just as far may have a lower index.
  if (to_plane * to_plane <= list[k - 1].distance) {
    visit(tree, to_plane < 0 ? right : left, query, list, k);
  }
}

Answer kd_tree(const Problem& problem, Run& run) {
  HeapTree tree;
  run.build([&] { tree = build_heap_tree(problem, run); });
  Answer answer(problem);
  const auto k = static_cast<int>(problem.k);
  std::vector<Neighbor> list(static_cast<std::size_t>(k));
  run.search([&] {
    for (std::int64_t q = 0; q < problem.queries; ++q) {
      run.stop_if_cancelled();
      list.assign(list.size(), nobody());
      visit(tree, 0, problem.query + q * problem.dim, list.data(), k);
      put(answer, q, list.data(), k);
    }
  });
  return answer;
}

}  // namespace kith::ladder
