// Rung 17: an octree on the CPU.
//
// Idea      Halve a cube of points along all three axes at once, into up to eight cells. A query visits the
//           cells of a node from the nearest to the farthest, and none that is farther than its k-th
//           neighbour so far.
// Cost      Build O(n levels). A query O(log n), where the points fill space evenly.
// Limit     Memory, as with the k-d tree; the depth depends on the data, since cells are halved where space
//           is, not where the points are.
// Source    Meagher (1980); the reports' octree. Theirs took a node's other cells only in part and compared
//           a squared with a linear distance, so that some of its answers were not the nearest; this one
//           visits every cell that can hold one.
#include <array>

#include "cell_tree.hpp"
#include "list_answer.hpp"

namespace kith::ladder {
namespace {

// The points and cells below `cell`, recursively.
void visit(const CellTree& tree, const Cell& cell, const float* query,
           Neighbor* list,  // NOLINT(misc-no-recursion)
           int k) {
  for (int i = cell.first; i < cell.first + cell.points; ++i) {
    insert(list, k,
           {squared_distance(query, tree.point.data() + 3 * static_cast<std::int64_t>(i), 3),
            tree.row[static_cast<std::size_t>(i)]});
  }
  std::array<Neighbor, 8> order;  // the children, nearest first, by insertion
  order.fill(nobody());
  for (int c = 0; c < cell.children; ++c) {
    const int child = cell.first + c;
    insert(order.data(), 8, {box_distance(query, tree.cell[static_cast<std::size_t>(child)]), child});
  }
  for (int c = 0; c < cell.children; ++c) {
    const auto [distance, child] = order[static_cast<std::size_t>(c)];
    if (distance > list[k - 1].distance) break;  // and so are the rest; just as far may be a lower index
    visit(tree, tree.cell[static_cast<std::size_t>(child)], query, list, k);
  }
}

}  // namespace

Answer octree(const Problem& problem, Run& run) {
  CellTree tree;
  run.build([&] { tree = build_cell_tree(problem, run); });
  Answer answer(problem);
  const auto k = static_cast<int>(problem.k);
  std::vector<Neighbor> list(static_cast<std::size_t>(k));
  run.search([&] {
    for (std::int64_t q = 0; q < problem.queries; ++q) {
      run.stop_if_cancelled();
      list.assign(list.size(), nobody());
      visit(tree, tree.cell.front(), problem.query + q * problem.dim, list.data(), k);
      put(answer, q, list.data(), k);
    }
  });
  return answer;
}

}  // namespace kith::ladder
