// Building the coarse layer of rungs 27 to 39.
#include "coarse.hpp"

#include <algorithm>
#include <numeric>

namespace kith::ladder {
namespace {

class Builder {
 public:
  Builder(const Problem& problem, std::int64_t most, const Run& run)
      : problem_(problem), most_(most), run_(run) {
    coarse_.dim = static_cast<int>(problem.dim);
    coarse_.row.resize(static_cast<std::size_t>(problem.points));
    std::iota(coarse_.row.begin(), coarse_.row.end(), 0);
  }

  Coarse build() {
    if (problem_.points > 0) divide(0, problem_.points);
    coarse_.point.reserve(static_cast<std::size_t>(problem_.points * problem_.dim));
    for (const int row : coarse_.row) {
      const float* point = problem_.point + row * problem_.dim;
      coarse_.point.insert(coarse_.point.end(), point, point + problem_.dim);
    }
    return std::move(coarse_);
  }

 private:
  float value(int row, int axis) const { return problem_.point[row * problem_.dim + axis]; }

  // The box of rows [begin, end) becomes that of a new node. @return its widest side
  int add_box(std::int64_t begin, std::int64_t end) {
    int widest = 0;
    float most = -1;
    for (int axis = 0; axis < coarse_.dim; ++axis) {
      float low = value(coarse_.row[static_cast<std::size_t>(begin)], axis);
      float high = low;
      for (std::int64_t i = begin; i < end; ++i) {
        const float v = value(coarse_.row[static_cast<std::size_t>(i)], axis);
        low = std::min(low, v);
        high = std::max(high, v);
      }
      coarse_.lower.push_back(low);
      coarse_.upper.push_back(high);
      if (high - low > most) {
        most = high - low;
        widest = axis;
      }
    }
    return widest;
  }

  // Halves: 31 levels at most, whatever the points.
  int divide(std::int64_t begin, std::int64_t end) {  // NOLINT(misc-no-recursion)
    run_.stop_if_cancelled();
    const auto number = static_cast<int>(coarse_.nodes.size());
    coarse_.nodes.push_back({begin, end});
    const int axis = add_box(begin, end);
    const auto rows = coarse_.row.begin();
    if (end - begin <= most_) {
      std::sort(rows + begin, rows + end);
      return number;
    }
    const std::int64_t middle = begin + (end - begin) / 2;
    std::nth_element(rows + begin, rows + middle, rows + end,
                     [&](int a, int b) { return value(a, axis) < value(b, axis); });
    const int left = divide(begin, middle);
    const int right = divide(middle, end);
    coarse_.nodes[static_cast<std::size_t>(number)].left = left;
    coarse_.nodes[static_cast<std::size_t>(number)].right = right;
    return number;
  }

  const Problem& problem_;
  std::int64_t most_;
  const Run& run_;
  Coarse coarse_;
};

}  // namespace

Coarse build_coarse(const Problem& problem, std::int64_t most, const Run& run) {
  return Builder(problem, most, run).build();
}

float Coarse::distance_to(int node, const float* query) const {
  const float* low = lower.data() + static_cast<std::int64_t>(node) * dim;
  const float* high = upper.data() + static_cast<std::int64_t>(node) * dim;
  float sum = 0;
  for (int axis = 0; axis < dim; ++axis) {
    const float outside = std::max({low[axis] - query[axis], query[axis] - high[axis], 0.0F});
    sum += outside * outside;
  }
  return sum;
}

}  // namespace kith::ladder
