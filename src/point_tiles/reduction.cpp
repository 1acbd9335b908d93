#include "point_tiles/reduction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/parallel.hpp"
#include "core/visit_dtype.hpp"
#include "point_tiles/lists.hpp"
#include "point_tiles/planes.hpp"
#include "point_tree/backend.hpp"
#include "point_tree/cpu/search.hpp"

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
void Reduced<T>::find(const Resident& where, const Question& question, const Execution& execution) {
  const std::int64_t rows = where.index.rows();
  const std::int64_t values = question.reduced_values(where.index.dim());
  const bool on_device = point_tree::backend_of(execution) != nullptr;
  if (kth_.size() < rows) {
    values_ = AlignedBuffer<double>(rows * values);
    kth_ = AlignedBuffer<T>(rows);
    if (on_device) {
      parts_ = AlignedBuffer<double>(rows * values);
      counts_ = AlignedBuffer<std::int64_t>(rows);
    } else {
      kth_rows_ = AlignedBuffer<std::int64_t>(rows);
    }
  }
  if (!on_device) return on_cpu(where, question, execution);
  question.reduction == Reduction::planes ? planes(where, question, execution)
                                          : mean(where, question, execution);
}

// Rows with a NaN are asked for nothing, and have nothing.
template <class T>
void Reduced<T>::on_cpu(const Resident& where, const Question& question, const Execution& execution) {
  const point_tree::Tree& tree = Inside::of(*where.index.point_tree());
  const bool planes = question.reduction == Reduction::planes;
  const std::int64_t values = question.reduced_values(tree.dim);
  parallel_for(execution, (tree.rows + part - 1) / part, [&](std::int64_t p) {
    const std::int64_t first = p * part, count = std::min(part, tree.rows - first);
    std::fill_n(values_.data() + first * values, count * values, std::numeric_limits<double>::quiet_NaN());
    std::fill_n(kth_.data() + first, count, std::numeric_limits<T>::infinity());
    std::fill_n(kth_rows_.data() + first, count, std::numeric_limits<std::int64_t>::max());
  });
  const auto take = [&](const point_tree::Part<T>& found) {
    if (planes) {
      const DatasetView points = where.coordinates.view();
      const auto* coordinates = static_cast<const std::byte*>(points.data);
      fit_planes<T>({points.dtype, points.dim, coordinates, coordinates, found.queries, found.count,
                     found.rows, found.k, nullptr, false,
                     question.viewpoint ? question.viewpoint->data() : nullptr, values_.data()});
    }
    for (std::int64_t i = 0; i < found.count; ++i) {
      const std::int64_t row = found.queries[i];
      const std::int64_t* rows = found.rows + i * found.k;
      const T* distances = found.distances + i * found.k;
      if (!planes) values_[row] = mean_of(distances, std::find(rows, rows + found.k, -1) - rows);
      if (found.k < question.k || rows[found.k - 1] < 0) continue;
      kth_[row] = distances[found.k - 1];
      kth_rows_[row] = rows[found.k - 1];
    }
  };
  (void)point_tree::run<T>(tree, {nullptr, question.include_self}, point_tree::Kind::nearest, question.k,
                           question.radius, execution, planes ? "normals" : "outliers", take);
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
  point_tree::backend_of(execution)->distances(
      Inside::of(tree), others, stage, {.mean = mean, .farthest = parts_.data(), .counts = counts_.data()},
      execution);
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
