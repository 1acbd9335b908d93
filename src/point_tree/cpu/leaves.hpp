// Reading a tree: the boxes and links of its nodes, and its leaves in order.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "point_tree/layout.hpp"

namespace kith::point_tree {

/// A leaf's place in the order of points.
struct Leaf {
  std::int64_t begin;
  std::int64_t count;
};

/// T lower[dim][16], then T upper[dim][16].
template <class T, class Id>
const T* boxes_of(const TreeView<T, Id>& tree, std::int64_t node) {
  return reinterpret_cast<const T*>(tree.node_data + node * tree.node_stride);
}

template <class T, class Id>
const NodeLinks& links_of(const TreeView<T, Id>& tree, std::int64_t node) {
  return *reinterpret_cast<const NodeLinks*>(boxes_of(tree, node) + 2 * tree.dim * node_width);
}

/// Those below a node that hold points of [first, last), in the order of their points.
template <class T, class Id>
void add_leaves(const TreeView<T, Id>& tree, std::int64_t node, std::int64_t first, std::int64_t last,
                std::vector<Leaf>& leaves) {
  const NodeLinks& links = links_of(tree, node);
  for (std::int64_t c = 0; c < links.count; ++c) {
    if (links.begin[c + 1] <= first || links.begin[c] >= last) continue;
    if (links.child[c] < 0) {
      leaves.push_back({links.begin[c], links.begin[c + 1] - links.begin[c]});
    } else {
      add_leaves(tree, links.child[c], first, last, leaves);
    }
  }
}

/// In the order of their points.
template <class T, class Id>
std::vector<Leaf> leaves_of(const TreeView<T, Id>& tree) {
  std::vector<Leaf> leaves;
  if (tree.nodes > 0) add_leaves(tree, 0, 0, std::numeric_limits<std::int64_t>::max(), leaves);
  return leaves;
}

}  // namespace kith::point_tree
