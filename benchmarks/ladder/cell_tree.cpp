// Building the octree of rungs 17 and 18.
#include "cell_tree.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace kith::ladder {
namespace {

struct Cube {
  std::array<float, 3> low;
  float side;
};

class Builder {
 public:
  Builder(const Problem& problem, const Run& run) : problem_(problem), run_(run) {
    const auto points = static_cast<std::size_t>(problem.points);
    tree_.row.resize(points);
    std::iota(tree_.row.begin(), tree_.row.end(), 0);
    moved_.resize(points);
  }

  CellTree build() {
    tree_.cell.resize(1);
    divide(0, 0, problem_.points, cube_of_all(), 0);
    tree_.point.resize(tree_.row.size() * 3);
    for (std::size_t i = 0; i < tree_.row.size(); ++i) {
      std::copy_n(at(tree_.row[i]), 3, tree_.point.begin() + static_cast<std::int64_t>(3 * i));
    }
    return std::move(tree_);
  }

 private:
  const float* at(int row) const { return problem_.point + 3 * static_cast<std::int64_t>(row); }

  Cube cube_of_all() const {
    Cube cube{{at(0)[0], at(0)[1], at(0)[2]}, 0};
    for (int c = 0; c < 3; ++c) {
      float high = cube.low[static_cast<std::size_t>(c)];
      for (std::int64_t i = 0; i < problem_.points; ++i) {
        const float value = problem_.point[3 * i + c];
        cube.low[static_cast<std::size_t>(c)] = std::min(cube.low[static_cast<std::size_t>(c)], value);
        high = std::max(high, value);
      }
      cube.side = std::max(cube.side, high - cube.low[static_cast<std::size_t>(c)]);
    }
    return cube;
  }

  void fit_box(Cell& cell, std::int64_t begin, std::int64_t end) const {
    for (int c = 0; c < 3; ++c)
      cell.low[c] = cell.high[c] = at(tree_.row[static_cast<std::size_t>(begin)])[c];
    for (std::int64_t i = begin + 1; i < end; ++i) {
      const float* point = at(tree_.row[static_cast<std::size_t>(i)]);
      for (int c = 0; c < 3; ++c) {
        cell.low[c] = std::min(cell.low[c], point[c]);
        cell.high[c] = std::max(cell.high[c], point[c]);
      }
    }
  }

  // Points row[begin, end) lie in `cube` and become cell `number`; as deep as cell_levels.
  void divide(std::size_t number, std::int64_t begin, std::int64_t end,
              const Cube& cube,  // NOLINT(misc-no-recursion)
              int level) {
    run_.stop_if_cancelled();
    Cell cell{};
    fit_box(cell, begin, end);
    if (end - begin <= leaf_points || level == cell_levels) {
      cell.first = static_cast<int>(begin);
      cell.points = static_cast<int>(end - begin);
      tree_.cell[number] = cell;
      return;
    }
    // Counting sort into the eight octants.
    const float half = cube.side / 2;
    const auto octant = [&](int row) {
      int o = 0;
      for (unsigned c = 0; c < 3; ++c) o |= (at(row)[c] >= cube.low[c] + half ? 1 : 0) << c;
      return static_cast<std::size_t>(o);
    };
    std::array<std::int64_t, 9> start{};
    for (std::int64_t i = begin; i < end; ++i) ++start[octant(tree_.row[static_cast<std::size_t>(i)]) + 1];
    start[0] = begin;
    for (std::size_t o = 0; o < 8; ++o) start[o + 1] += start[o];
    std::array<std::int64_t, 9> next = start;
    for (std::int64_t i = begin; i < end; ++i) {
      const int row = tree_.row[static_cast<std::size_t>(i)];
      moved_[static_cast<std::size_t>(next[octant(row)]++)] = row;
    }
    std::copy(moved_.begin() + begin, moved_.begin() + end, tree_.row.begin() + begin);

    cell.first = static_cast<int>(tree_.cell.size());
    for (std::size_t o = 0; o < 8; ++o) cell.children += start[o] < start[o + 1] ? 1 : 0;
    tree_.cell[number] = cell;
    tree_.cell.resize(tree_.cell.size() + static_cast<std::size_t>(cell.children));
    auto child = static_cast<std::size_t>(cell.first);
    for (std::size_t o = 0; o < 8; ++o) {
      if (start[o] == start[o + 1]) continue;
      Cube part{cube.low, half};
      for (unsigned c = 0; c < 3; ++c) part.low[c] += (o >> c & 1U) != 0 ? half : 0;
      divide(child++, start[o], start[o + 1], part, level + 1);
    }
  }

  const Problem& problem_;
  const Run& run_;
  CellTree tree_;
  std::vector<int> moved_;
};

}  // namespace

CellTree build_cell_tree(const Problem& problem, const Run& run) {
  return Builder(problem, run).build();
}

}  // namespace kith::ladder
