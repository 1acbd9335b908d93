// What the builders of trees share: rows in, nodes and arrays out. How points are divided among children is
// the business of src/kd_tree and src/octree.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "point_tree/tree.hpp"

namespace kith::point_tree {

/// The rows of a dataset as T, sorted into points and those that are none.
template <class T>
struct Points {
  const T* data = nullptr;
  std::int64_t stride = 0;  ///< in elements
  std::int64_t dim = 0;
  std::vector<T> converted;            ///< where `data` points, unless it is the caller's array
  std::int64_t count = 0;              ///< finite rows
  std::vector<std::int64_t> left_out;  ///< rows with a NaN or an infinity, ascending
  std::vector<double> lower, upper;    ///< box of the finite rows

  const T* row(std::int64_t i) const { return data + i * stride; }
};

/// @throws Cancelled, OutOfMemory
template <class T>
Points<T> read_points(const DatasetView& rows, const Execution& execution);

/// A node while the tree grows.
template <class T>
struct Branch {
  std::vector<T> boxes;  ///< lower[dim][16], upper[dim][16]
  NodeLinks links{};
  std::array<std::unique_ptr<Branch>, node_width> below;

  explicit Branch(std::int64_t dim) : boxes(static_cast<std::size_t>(2 * dim * node_width)) {}

  T& lower(std::int64_t axis, std::int64_t child) {
    return boxes[static_cast<std::size_t>(axis * node_width + child)];
  }
  T& upper(std::int64_t axis, std::int64_t child, std::int64_t dim) {
    return boxes[static_cast<std::size_t>((dim + axis) * node_width + child)];
  }

  /// Child `c` is a node: its box is what its children's boxes span.
  void adopt(std::int64_t c, std::unique_ptr<Branch> node, std::int64_t dim) {
    for (std::int64_t j = 0; j < dim; ++j) {
      const auto first = static_cast<std::size_t>(j * node_width);
      const auto* lo = node->boxes.data() + first;
      const auto* hi = lo + dim * node_width;
      lower(j, c) = *std::min_element(lo, lo + node->links.count);
      upper(j, c, dim) = *std::max_element(hi, hi + node->links.count);
    }
    links.child[c] = 0;
    below[static_cast<std::size_t>(c)] = std::move(node);
  }
};

/// The arrays a tree ends as, and the code that fills them.
template <class T, class Id>
class Arrays {
 public:
  Arrays(std::int64_t points, std::int64_t dim)
      : dim_(dim),
        coordinates_(points * dim + static_cast<std::int64_t>(read_past / sizeof(T))),
        rows_(points + static_cast<std::int64_t>(read_past / sizeof(Id))) {
    std::memset(coordinates_.data() + points * dim, 0, read_past);
    std::memset(rows_.data() + points, 0, read_past);
  }

  /// Writes points [begin, begin + count) as one leaf and its box into child `c` of `branch`. point(i) gives
  /// (pointer to the coordinates, row).
  template <class Point>
  void write_leaf(Branch<T>& branch, std::int64_t c, std::int64_t begin, std::int64_t count, bool identical,
                  Point&& point) {
    T* x = coordinates_.data() + begin * dim_;
    Id* rows = rows_.data() + begin;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto [values, row] = point(i);
      for (std::int64_t j = 0; j < dim_; ++j) x[j * count + i] = values[j];
      rows[i] = static_cast<Id>(row);
    }
    for (std::int64_t j = 0; j < dim_; ++j) {
      T lo = x[j * count];
      T hi = lo;
      for (std::int64_t i = 1; i < count; ++i) {
        lo = std::min(lo, x[j * count + i]);
        hi = std::max(hi, x[j * count + i]);
      }
      branch.lower(j, c) = lo;
      branch.upper(j, c, dim_) = hi;
    }
    if (identical) std::sort(rows, rows + count);
    branch.links.child[c] = identical ? identical_child : leaf_child;
  }

  /// Numbers the nodes in depth-first order and fills a Tree. `root` null: no points.
  Tree finish(const Branch<T>* root, const Points<T>& points, const DatasetView& rows);

 private:
  std::int64_t dim_;
  AlignedBuffer<T> coordinates_;
  AlignedBuffer<Id> rows_;
};

}  // namespace kith::point_tree
