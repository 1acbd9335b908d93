// Building the k-d tree of rungs 15 and 16.
#include "heap_tree.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace kith::ladder {
namespace {

// Nodes of the left subtree of a left-balanced tree of `nodes`.
std::int64_t left_size(std::int64_t nodes) {
  if (nodes == 1) return 0;
  // The last level, which may be partly full, begins after the largest power of two less one.
  const auto last = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(nodes)));
  const std::int64_t above = last - 1;  // nodes of the full levels
  const std::int64_t half_of_last = last / 2;
  return (above - 1) / 2 + std::min(nodes - above, half_of_last);
}

class Builder {
 public:
  Builder(const Problem& problem, const Run& run) : problem_(problem), run_(run) {
    tree_.dim = static_cast<int>(problem.dim);
    tree_.point.resize(static_cast<std::size_t>(problem.points * problem.dim));
    tree_.row.resize(static_cast<std::size_t>(problem.points));
    tree_.axis.resize(static_cast<std::size_t>(problem.points));
    order_.resize(static_cast<std::size_t>(problem.points));
    std::iota(order_.begin(), order_.end(), 0);
  }

  HeapTree build() {
    divide(0, 0, problem_.points);
    return std::move(tree_);
  }

 private:
  float value(int row, int axis) const { return problem_.point[row * problem_.dim + axis]; }

  int widest_axis(std::int64_t begin, std::int64_t end) const {
    int widest = 0;
    double most = -1;
    const auto count = static_cast<double>(end - begin);
    for (int axis = 0; axis < tree_.dim; ++axis) {
      double sum = 0;
      double squares = 0;
      const double shift = value(order_[static_cast<std::size_t>(begin)], axis);  // keeps the sums small
      for (std::int64_t i = begin; i < end; ++i) {
        const double v = value(order_[static_cast<std::size_t>(i)], axis) - shift;
        sum += v;
        squares += v * v;
      }
      const double variance = squares - sum * sum / count;
      if (variance > most) {
        most = variance;
        widest = axis;
      }
    }
    return widest;
  }

  // The points order_[begin, end) become the subtree of `node`; as deep as the tree, 31 levels at most.
  void divide(std::int64_t node, std::int64_t begin, std::int64_t end) {  // NOLINT(misc-no-recursion)
    if (begin == end) return;
    if (end - begin > 4096) run_.stop_if_cancelled();
    const int axis = widest_axis(begin, end);
    const std::int64_t middle = begin + left_size(end - begin);
    std::nth_element(order_.begin() + begin, order_.begin() + middle, order_.begin() + end,
                     [&](int a, int b) { return value(a, axis) < value(b, axis); });
    const int row = order_[static_cast<std::size_t>(middle)];
    tree_.row[static_cast<std::size_t>(node)] = row;
    tree_.axis[static_cast<std::size_t>(node)] = axis;
    std::copy_n(problem_.point + row * problem_.dim, tree_.dim,
                tree_.point.begin() + node * static_cast<std::int64_t>(tree_.dim));
    divide(2 * node + 1, begin, middle);
    divide(2 * node + 2, middle + 1, end);
  }

  const Problem& problem_;
  const Run& run_;
  HeapTree tree_;
  std::vector<int> order_;
};

}  // namespace

HeapTree build_heap_tree(const Problem& problem, const Run& run) {
  return Builder(problem, run).build();
}

}  // namespace kith::ladder
