// Building an octree: Morton codes, a radix sort, and cells cut where the sorted codes first differ.
//
// A cell is a range of sorted codes that share their upper bits; one more bit cuts it in half along one axis,
// three (two in a quadtree) make the eight (four) octants. A node of the tree takes the cell with the most
// points and cuts it, until it has 16 children or all are small: the same cells as one octree level and a
// third, but nodes that are full. Boxes are those of the points, not of the cells.
//
// Points that share a whole code (63 bits in 3-D) but are not equal are cut by count, so that a flood of
// duplicates ends as leaves of equal points.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "core/radix_sort.hpp"
#include "octree/cpu/build.hpp"
#include "point_tree/builder.hpp"
#include "point_tree/morton.hpp"
#include "point_tree/tuning.hpp"

namespace kith::octree {

// Each file that includes this has types of its own: what nobody else calls is inlined freely.
namespace {

using point_tree::Arrays;
using point_tree::Branch;
using point_tree::for_each_point;
using point_tree::Growth;
using point_tree::node_width;
using point_tree::Points;
using point_tree::spread_bits;
namespace tuning = point_tree::tuning;

template <class T, class Id>
class Builder {
  using Item = Keyed<std::uint64_t, Id>;
  struct Range {
    std::int64_t begin;
    std::int64_t count;
    bool identical = false;
  };
  using Ranges = std::vector<Range>;

 public:
  Builder(const Points<T>& points, std::int64_t leaf_size, const Execution& execution)
      : points_(points),
        dim_(points.dim),
        leaf_(leaf_size),
        execution_(execution),
        threads_(points.count < tuning::parallel_build ? 1 : resolve_threads(execution)),
        arrays_(points.count, points.dim),
        items_(points.count) {}

  point_tree::Tree run(const DatasetView& rows) {
    if (points_.count == 0) return arrays_.finish(nullptr, points_, rows, 1);
    ProgressCounter progress(execution_, "build", 2 * points_.count);
    code(rows.rows);
    progress.advance(points_.count / 2);
    sort_from_top(items_, threads_, execution_);
    progress.advance(points_.count / 2);

    const auto cut = [&](const Range& range, bool /*together*/) { return divide(range); };
    const auto write = [&](Branch<T>& branch, std::int64_t child, const Range& range) {
      // The rows of the next leaf are on their way while this one is written.
      const std::int64_t end = range.begin + range.count;
      for (std::int64_t i = end; i < std::min(points_.count, end + leaf_); ++i) __builtin_prefetch(row(i));
      arrays_.write_leaf(branch, child, range.begin, range.count, range.identical, [&](std::int64_t i) {
        return std::pair<const T*, Id>(row(range.begin + i), items_[range.begin + i].value);
      });
    };
    const auto root =
        Growth<T, Range, decltype(cut), decltype(write)>(dim_, leaf_, threads_, progress, cut, write)
            .grow({0, points_.count});
    progress.finish();
    items_ = {};  // not held beside the nodes
    return arrays_.finish(root.get(), points_, rows, threads_);
  }

 private:
  const T* row(std::int64_t i) const { return points_.row(static_cast<std::int64_t>(items_[i].value)); }

  // Cells are cubes: one scale for all axes.
  void code(std::int64_t rows) {
    const int bits = dim_ == 3 ? 21 : 31;
    double extent = 0;
    for (std::size_t j = 0; j < points_.lower.size(); ++j) {
      extent = std::max(extent, points_.upper[j] / 2 - points_.lower[j] / 2);
    }
    const double cells = std::ldexp(1.0, bits);
    const double scale = extent > 0 && std::isfinite(cells / extent) ? cells / extent / 2 : 0;
    StopRequest stop(execution_);
    for_each_point(points_, rows, threads_, stop, [&](std::int64_t i, std::int64_t to) {
      const T* x = points_.row(i);
      std::uint64_t key = 0;
      for (std::int64_t j = 0; j < dim_; ++j) {
        // Scaled apart, lest the difference overflow.
        const double at =
            static_cast<double>(x[j]) * scale - points_.lower[static_cast<std::size_t>(j)] * scale;
        const auto cell = static_cast<std::uint64_t>(std::clamp(at, 0.0, cells - 1));
        key |= spread_bits(cell, dim_) << static_cast<unsigned>(dim_ - 1 - j);
      }
      items_[to] = {key, static_cast<Id>(i)};
    });
  }

  // Cuts the largest part in half, in place, until there are 16 or all are leaves.
  Ranges divide(const Range& range) {
    Ranges ranges = {range};
    while (static_cast<std::int64_t>(ranges.size()) < node_width) {
      auto largest = ranges.end();
      for (auto at = ranges.begin(); at != ranges.end(); ++at) {
        if (at->count > leaf_ && !at->identical && (largest == ranges.end() || at->count > largest->count))
          largest = at;
      }
      if (largest == ranges.end()) break;
      const std::int64_t left = cut(*largest);
      if (largest->identical) continue;
      const Range right{largest->begin + left, largest->count - left};
      largest->count = left;
      ranges.insert(largest + 1, right);
    }
    return ranges;
  }

  // Points of the lower half of the smallest cell around a range.
  std::int64_t cut(Range& range) {
    const std::uint64_t first = items_[range.begin].key;
    const std::uint64_t last = items_[range.begin + range.count - 1].key;
    if (first == last) return cut_by_count(range);
    const int below = static_cast<int>(std::bit_width(first ^ last)) - 1;
    const std::uint64_t middle = (last >> below) << below;
    const Item* items = items_.data() + range.begin;
    return std::lower_bound(items, items + range.count, middle,
                            [](const Item& item, std::uint64_t key) { return item.key < key; }) -
           items;
  }

  // One code, not one point: the median of the widest axis.
  std::int64_t cut_by_count(Range& range) {
    std::int64_t widest = -1;
    T most = 0;
    for (std::int64_t j = 0; j < dim_; ++j) {
      T lower = row(range.begin)[j];
      T upper = lower;
      for (std::int64_t i = 1; i < range.count; ++i) {
        lower = std::min(lower, row(range.begin + i)[j]);
        upper = std::max(upper, row(range.begin + i)[j]);
      }
      if (lower < upper && (widest < 0 || upper - lower > most)) {
        widest = j;
        most = upper - lower;
      }
    }
    if (widest < 0) {
      range.identical = true;
      return 0;
    }
    Item* items = items_.data() + range.begin;
    const std::int64_t middle = range.count / 2;
    std::nth_element(items, items + middle, items + range.count, [&](const Item& a, const Item& b) {
      return points_.row(static_cast<std::int64_t>(a.value))[widest] <
             points_.row(static_cast<std::int64_t>(b.value))[widest];
    });
    return middle;
  }

  const Points<T>& points_;
  std::int64_t dim_;
  std::int64_t leaf_;
  const Execution& execution_;
  int threads_;
  Arrays<T, Id> arrays_;
  AlignedBuffer<Item> items_;
};

}  // namespace

template <class T, class Id>
point_tree::Tree build_as(const DatasetView& rows, std::int64_t leaf_size, const Execution& execution) {
  const Points<T> points = point_tree::read_points<T>(rows, execution);
  return Builder<T, Id>(points, leaf_size, execution).run(rows);
}

}  // namespace kith::octree
