// The coarse layer: a k-d tree that stops at leaves of so many points, each with the box around them; and the
// search from box to box that rungs 27 to 39 share.
#pragma once

#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "ladder.hpp"
#include "neighbor.hpp"

namespace kith::ladder {

struct Coarse {
  /// Its points are [begin, end) of `row` and `point`; an inner node's are those of its children.
  struct Node {
    std::int64_t begin = 0, end = 0;
    int left = -1, right = -1;  ///< -1: a leaf
    bool leaf() const { return left < 0; }
  };
  int dim = 0;
  std::vector<Node> nodes;   ///< the root first; none where there are no points
  std::vector<float> lower;  ///< [nodes, dim]: the box of a node's points
  std::vector<float> upper;
  std::vector<int> row;      ///< [points]: which point of the problem it is; a leaf's ascend
  std::vector<float> point;  ///< [points, dim]: leaf after leaf

  /// Squared distance of a query to the box of a node: no point in it is nearer.
  float distance_to(int node, const float* query) const;
};

/// Halves at the median of the widest side until no leaf has more than `most` points. O(n log n dim).
Coarse build_coarse(const Problem& problem, std::int64_t most, const Run& run);

/// Best-first search (Hjaltason, Samet 1999): a queue of boxes, the nearest first, and one of the k nearest
/// points so far. It ends when the nearest box is farther than the k-th point; one just as far may hold a
/// lower index. Calls search(leaf) for each leaf that it comes to, which inserts what it finds into `list`.
template <class Search>
void best_first(const Coarse& coarse, const float* query, const Neighbor* list, int k, const Search& search) {
  using Box = std::pair<float, int>;
  std::priority_queue<Box, std::vector<Box>, std::greater<>> boxes;
  if (!coarse.nodes.empty()) boxes.emplace(coarse.distance_to(0, query), 0);
  while (!boxes.empty() && boxes.top().first <= list[k - 1].distance) {
    const int number = boxes.top().second;
    boxes.pop();
    const Coarse::Node& node = coarse.nodes[static_cast<std::size_t>(number)];
    if (node.leaf()) {
      search(number);
      continue;
    }
    for (const int child : {node.left, node.right}) boxes.emplace(coarse.distance_to(child, query), child);
  }
}

/// What is done inside a leaf.
enum class Inside : std::uint8_t { brute_force, tree };
/// Rungs 28 to 39, with leaves of any size.
Answer two_layers(const Problem& problem, Run& run, std::int64_t leaf, Inside inside);

}  // namespace kith::ladder
