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
#include "core/parallel.hpp"
#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "point_tree/tree.hpp"
#include "point_tree/tuning.hpp"

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

/// Grows a tree below a root: `divide(range, together)` cuts a range of points into 1 to 16 parts, with all
/// threads where `together`; `write(branch, child, range)` makes one a leaf. A Range has begin, count and
/// identical. Large nodes are divided one after the other by all threads, what is below them by one thread
/// each.
template <class T, class Range, class Divide, class Write>
class Growth {
 public:
  /// `progress` counts points that have found their leaf.
  Growth(std::int64_t dim, std::int64_t leaf_size, int threads, ProgressCounter& progress,
         const Divide& divide, const Write& write)
      : dim_(dim), leaf_(leaf_size), threads_(threads), progress_(progress), divide_(divide), write_(write) {}

  std::unique_ptr<Branch<T>> grow(const Range& all) {
    auto root = std::make_unique<Branch<T>>(dim_);
    struct Job {
      Branch<T>* parent;
      std::int64_t child;
      Range range;
    };
    struct Middle {
      Branch<T>* parent;
      std::int64_t child;
      std::unique_ptr<Branch<T>> node;
    };
    std::vector<Job> jobs;
    std::vector<Middle> middle;
    std::vector<std::pair<Branch<T>*, Range>> large = {{root.get(), all}};
    const std::int64_t shared = std::max(tuning::smallest_shared_node, all.count / (4 * threads_));
    while (!large.empty()) {
      auto [branch, range] = large.back();
      large.pop_back();
      const std::vector<Range> ranges = divide_into(*branch, range, true);
      for (std::size_t c = 0; c < ranges.size(); ++c) {
        const auto child = static_cast<std::int64_t>(c);
        if (!ranges[c].identical && ranges[c].count > shared && threads_ > 1) {
          middle.push_back({branch, child, std::make_unique<Branch<T>>(dim_)});
          large.emplace_back(middle.back().node.get(), ranges[c]);
        } else {
          jobs.push_back({branch, child, ranges[c]});
        }
      }
    }
    std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
      return a.range.count != b.range.count ? a.range.count > b.range.count : a.range.begin < b.range.begin;
    });
    parallel_for(threads_, static_cast<std::int64_t>(jobs.size()), [&](std::int64_t i) {
      const Job& job = jobs[static_cast<std::size_t>(i)];
      grow_below(*job.parent, job.child, job.range);
    });
    // Children before their parents: a box needs those below it.
    for (auto at = middle.rbegin(); at != middle.rend(); ++at) {
      at->parent->adopt(at->child, std::move(at->node), dim_);
    }
    return root;
  }

 private:
  std::vector<Range> divide_into(Branch<T>& branch, const Range& range, bool together) {
    std::vector<Range> ranges = divide_(range, together);
    branch.links.count = static_cast<std::int64_t>(ranges.size());
    for (std::size_t c = 0; c < ranges.size(); ++c) branch.links.begin[c] = ranges[c].begin;
    branch.links.begin[ranges.size()] = ranges.back().begin + ranges.back().count;
    std::int64_t done = 0;
    for (const Range& part : ranges) done += part.identical || part.count <= leaf_ ? part.count : 0;
    if (done > 0) progress_.advance(done);
    return ranges;
  }

  void grow_below(Branch<T>& parent, std::int64_t child, const Range& range) {
    if (range.identical || range.count <= leaf_) {
      write_(parent, child, range);
      return;
    }
    auto branch = std::make_unique<Branch<T>>(dim_);
    const std::vector<Range> ranges = divide_into(*branch, range, false);
    for (std::size_t c = 0; c < ranges.size(); ++c) {
      grow_below(*branch, static_cast<std::int64_t>(c), ranges[c]);
    }
    parent.adopt(child, std::move(branch), dim_);
  }

  std::int64_t dim_;
  std::int64_t leaf_;
  int threads_;
  ProgressCounter& progress_;
  const Divide& divide_;
  const Write& write_;
};

/// Calls use(i, j) for every finite row i, the j-th of them, by blocks in parallel. @throws Cancelled
template <class T, class Use>
void for_each_point(const Points<T>& points, std::int64_t rows, int threads, StopRequest& stop,
                    const Use& use) {
  constexpr std::int64_t block = 1 << 16;
  parallel_for(threads, (rows + block - 1) / block, [&](std::int64_t b) {
    stop.check();
    const std::int64_t first = b * block;
    auto out = std::lower_bound(points.left_out.begin(), points.left_out.end(), first);
    std::int64_t to = first - (out - points.left_out.begin());
    for (std::int64_t i = first; i < std::min(rows, first + block); ++i) {
      if (out != points.left_out.end() && *out == i) {
        ++out;
      } else {
        use(i, to++);
      }
    }
  });
}

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
    close_leaf(branch, c, begin, count, identical);
  }

  /// Where a leaf's points and box have been written.
  void close_leaf(Branch<T>& branch, std::int64_t c, std::int64_t begin, std::int64_t count, bool identical) {
    if (identical) std::sort(row_numbers() + begin, row_numbers() + begin + count);
    branch.links.child[c] = identical ? identical_child : leaf_child;
  }

  /// Until their leaf is written, a range's places in both arrays are the builder's to use.
  T* coordinates() { return coordinates_.data(); }
  Id* row_numbers() { return rows_.data(); }

  /// Numbers the nodes in depth-first order and fills a Tree. `root` null: no points; what is below it is
  /// freed.
  Tree finish(Branch<T>* root, const Points<T>& points, const DatasetView& rows, int threads);

 private:
  std::int64_t dim_;
  AlignedBuffer<T> coordinates_;
  AlignedBuffer<Id> rows_;
};

}  // namespace kith::point_tree
