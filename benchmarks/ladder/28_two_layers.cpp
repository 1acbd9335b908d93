// Rungs 28 to 39: two layers, coarse leaves of 4k to 4M points and a search inside each.
//
// Idea      Few large boxes, each a unit of work that can lie on a disk or go to a GPU: the tiles of clouds
//           that are larger than memory. A query opens the leaf it falls into and then the nearest others,
//           best first; inside, every point is compared (28 to 33) or a k-d tree of the leaf's own walked
//           (34 to 39). The table of rungs has the sizes.
// Cost      A query reads one leaf, and a few where it is close to a side: n / leaf boxes, then O(leaf) or
//           O(log leaf).
// Limit     Brute force in the leaf costs what the leaf has: every step up is four times the work. On a GPU,
//           where the reports compared them, it pays for thousands of queries a leaf. A tree in the leaf
//           hardly feels its size, and what remains is the choice of a tile that is read quickly.
// Source    The reports' two-layer search: n_max = 65,536, k = 20, and their sweep of the leaf's size.
#include "coarse.hpp"
#include "heap_tree.hpp"
#include "list_answer.hpp"

namespace kith::ladder {
namespace {

// The leaf's own tree, its rows those of the problem.
HeapTree tree_in(const Coarse& coarse, const Coarse::Node& leaf, const Run& run) {
  Problem inside;
  inside.dim = coarse.dim;
  inside.points = leaf.end - leaf.begin;
  inside.point = coarse.point.data() + leaf.begin * coarse.dim;
  HeapTree tree = build_heap_tree(inside, run);
  for (int& row : tree.row) row = coarse.row[static_cast<std::size_t>(leaf.begin + row)];
  return tree;
}

}  // namespace

Answer two_layers(const Problem& problem, Run& run, std::int64_t leaf, Inside inside) {
  Coarse coarse;
  std::vector<HeapTree> trees;  // of leaves, at their number among all nodes
  run.build([&] {
    coarse = build_coarse(problem, leaf, run);
    if (inside == Inside::brute_force) return;
    trees.resize(coarse.nodes.size());
    for (std::size_t i = 0; i < trees.size(); ++i) {
      if (coarse.nodes[i].leaf()) trees[i] = tree_in(coarse, coarse.nodes[i], run);
    }
  });
  Answer answer(problem);
  const auto k = static_cast<int>(problem.k);
  std::vector<Neighbor> list(static_cast<std::size_t>(k));
  run.search([&] {
    for (std::int64_t q = 0; q < problem.queries; ++q) {
      run.stop_if_cancelled();
      const float* query = problem.query + q * problem.dim;
      list.assign(list.size(), nobody());
      best_first(coarse, query, list.data(), k, [&](int number) {
        if (inside == Inside::tree) {
          return visit(trees[static_cast<std::size_t>(number)], 0, query, list.data(), k);
        }
        const Coarse::Node& node = coarse.nodes[static_cast<std::size_t>(number)];
        for (std::int64_t i = node.begin; i < node.end; ++i) {
          const float* point = coarse.point.data() + i * coarse.dim;
          insert(list.data(), k,
                 {squared_distance(query, point, coarse.dim), coarse.row[static_cast<std::size_t>(i)]});
        }
      });
      put(answer, q, list.data(), k);
    }
  });
  return answer;
}

}  // namespace kith::ladder
