#include "point_tiles/reduction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/parallel.hpp"
#include "core/visit_dtype.hpp"
#include "point_tree/backend.hpp"

namespace kith::point_tiles {
namespace {

constexpr std::int64_t part = 1 << 12;

// What stands behind a tree's interface, which has no k-th distances.
struct Inside : PointTree {
  static const point_tree::Tree& of(const PointTree& tree) { return *(tree.*(&Inside::tree_)); }
};

// use(row, whether all of its values are finite)
template <class Use>
void visit_finite(const DatasetView& rows, const Use& use) {
  visit_dtype(rows.dtype, [&]<class Value>(Value) {
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      const auto* values = static_cast<const Value*>(rows.row(i));
      use(i, std::all_of(values, values + rows.dim, [](Value v) { return std::isfinite(to_double(v)); }));
    }
  });
}

}  // namespace

template <class T>
void Reduced<T>::reserve(std::int64_t rows, std::int64_t values) {
  if (kth_.size() >= rows) return;
  values_ = AlignedBuffer<double>(rows * values);
  parts_ = AlignedBuffer<double>(rows * values);
  kth_ = AlignedBuffer<T>(rows);
  counts_ = AlignedBuffer<std::int64_t>(rows);
}

template <class T>
void Reduced<T>::find(const Resident& where, const Question& question, const Execution& execution) {
  reserve(where.index.rows(), question.reduced_values(where.index.dim()));
  question.reduction == Reduction::planes ? planes(where, question, execution)
                                          : mean(where, question, execution);
}

// Of lists of k that were found, whose last distances are in parts_.
template <class T>
void Reduced<T>::set_kth(std::int64_t rows, std::int64_t k, const Execution& execution) {
  parallel_for(execution, (rows + part - 1) / part, [&](std::int64_t p) {
    for (std::int64_t i = p * part; i < std::min(rows, (p + 1) * part); ++i) {
      kth_[i] = counts_[i] == k ? static_cast<T>(parts_[i]) : std::numeric_limits<T>::infinity();
    }
  });
}

// Of each row's others: how many there are, into counts_, the farthest, into parts_, and their mean.
template <class T>
void Reduced<T>::distances(const PointTree& tree, const Neighborhood& others, const char* stage, double* mean,
                           const Execution& execution) {
  if (const point_tree::DeviceBackend* device = point_tree::backend_of(execution)) {
    device->distances(Inside::of(tree), others, stage,
                      {.mean = mean, .farthest = parts_.data(), .counts = counts_.data()}, execution);
    return;
  }
  const Neighbors found = tree.all_knn(others.k, false, execution, others.radius);
  for (std::int64_t row = 0; row < found.queries; ++row) {
    const auto list = found.indices_of(row);
    const auto count = std::find(list.begin(), list.end(), -1) - list.begin();
    double sum = 0;
    for (std::int64_t j = 0; j < count; ++j) sum += found.distance(row, j);
    counts_[row] = count;
    parts_[row] = count > 0 ? found.distance(row, count - 1) : 0;
    if (mean == nullptr) continue;
    mean[row] = count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
  }
}

template <class T>
void Reduced<T>::planes(const Resident& where, const Question& question, const Execution& execution) {
  const PointTree& tree = *where.index.point_tree();
  const std::int64_t rows = tree.rows();
  const std::int64_t dim = tree.dim();
  const NormalsView out{parts_.data(), parts_.data() + rows * dim, rows, dim};
  tree.normals_into(out, {question.k, question.radius}, question.viewpoint, execution);
  parallel_for(execution, (rows + part - 1) / part, [&](std::int64_t p) {
    for (std::int64_t i = p * part; i < std::min(rows, (p + 1) * part); ++i) {
      double* to = values_.data() + i * (dim + 1);
      std::copy_n(out.normals + i * dim, dim, to);
      to[dim] = out.curvature[i];
    }
  });
  // A row is the nearest of its own, at no distance, so of k with it the last is the last of k - 1 others.
  if (question.k > 1) {
    distances(tree, {question.k - 1, question.radius}, "normals", nullptr, execution);
    return set_kth(rows, question.k - 1, execution);
  }
  const DatasetView view = where.coordinates.view();
  // From an infinity all is equally far, itself included.
  visit_finite(view, [&](std::int64_t i, bool finite) {
    kth_[i] = finite ? T{0} : std::numeric_limits<T>::infinity();
  });
}

template <class T>
void Reduced<T>::mean(const Resident& where, const Question& question, const Execution& execution) {
  const PointTree& tree = *where.index.point_tree();
  distances(tree, {question.k, question.radius}, "outliers", values_.data(), execution);
  set_kth(tree.rows(), question.k, execution);
}

template class Reduced<float>;
template class Reduced<double>;

}  // namespace kith::point_tiles
