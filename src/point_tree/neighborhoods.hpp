// What is computed from neighbourhoods: normals, outliers, density.
#pragma once

#include <cstdint>

namespace kith::point_tree {

/// Eigenvector of the smallest eigenvalue of a symmetric matrix [dim, dim], and all eigenvalues ascending, by
/// cyclic Jacobi rotations (Jacobi 1846; Golub and Van Loan, section 8.5). dim is 2 or 3.
void smallest_eigenvector(const double* matrix, std::int64_t dim, double* vector, double* values);

/// The plane (line in 2-D) nearest to some points, least squares. Sums are taken in the order points come in,
/// relative to a point near them, so that large coordinates lose nothing.
class PlaneFit {
 public:
  explicit PlaneFit(std::int64_t dim) : dim_(dim) {}

  template <class T>
  void add(const T* point, const T* center) {
    double d[3] = {};
    for (std::int64_t j = 0; j < dim_; ++j)
      d[j] = static_cast<double>(point[j]) - static_cast<double>(center[j]);
    ++count_;
    for (std::int64_t i = 0; i < dim_; ++i) {
      sum_[i] += d[i];
      for (std::int64_t j = i; j < dim_; ++j) square_[i][j] += d[i] * d[j];
    }
  }

  /// Unit normal and least variance over the sum of all. False where infinities leave no answer.
  bool solve(double* normal, double& curvature) const;

 private:
  std::int64_t dim_;
  std::int64_t count_ = 0;
  double sum_[3] = {};
  double square_[3][3] = {};
};

}  // namespace kith::point_tree
