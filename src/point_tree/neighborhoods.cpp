// Eigenvectors of the small covariance matrices of neighbourhoods.
#include "point_tree/neighborhoods.hpp"

#include <algorithm>
#include <cmath>

namespace kith::point_tree {

void smallest_eigenvector(const double* matrix, std::int64_t dim, double* vector, double* values) {
  double a[3][3] = {};
  double v[3][3] = {};
  for (std::int64_t i = 0; i < dim; ++i) {
    for (std::int64_t j = 0; j < dim; ++j) a[i][j] = matrix[i * dim + j];
    v[i][i] = 1;
  }
  // Quadratic convergence: a handful of sweeps reach the last bit.
  for (int sweep = 0; sweep < 16; ++sweep) {
    double off = 0;
    for (std::int64_t p = 0; p < dim; ++p) {
      for (std::int64_t q = p + 1; q < dim; ++q) off += std::fabs(a[p][q]);
    }
    if (off == 0) break;
    for (std::int64_t p = 0; p < dim; ++p) {
      for (std::int64_t q = p + 1; q < dim; ++q) {
        if (a[p][q] == 0) continue;
        const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
        const double t = (theta >= 0 ? 1.0 : -1.0) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1);
        const double s = t * c;
        const double before = a[p][q];
        a[p][p] -= t * before;
        a[q][q] += t * before;
        a[p][q] = a[q][p] = 0;
        for (std::int64_t r = 0; r < dim; ++r) {
          if (r != p && r != q) {
            const double rp = a[r][p];
            const double rq = a[r][q];
            a[r][p] = a[p][r] = c * rp - s * rq;
            a[r][q] = a[q][r] = s * rp + c * rq;
          }
          const double vp = v[r][p];
          const double vq = v[r][q];
          v[r][p] = c * vp - s * vq;
          v[r][q] = s * vp + c * vq;
        }
      }
    }
  }
  std::int64_t least = 0;
  for (std::int64_t i = 0; i < dim; ++i) {
    values[i] = a[i][i];
    if (a[i][i] < a[least][least]) least = i;
  }
  for (std::int64_t i = 0; i < dim; ++i) vector[i] = v[i][least];
  std::sort(values, values + dim);
}

bool PlaneFit::solve(double* normal, double& curvature) const {
  double covariance[9] = {};
  double largest = 0;
  const auto n = static_cast<double>(count_);
  for (std::int64_t i = 0; i < dim_; ++i) {
    for (std::int64_t j = i; j < dim_; ++j) {
      const double value = square_[i][j] / n - (sum_[i] / n) * (sum_[j] / n);
      if (!std::isfinite(value)) return false;
      covariance[i * dim_ + j] = covariance[j * dim_ + i] = value;
      largest = std::max(largest, std::fabs(value));
    }
  }
  if (largest > 0) {  // to a scale where squares neither overflow nor vanish
    const double scale = std::ldexp(1.0, -std::ilogb(largest));
    for (std::int64_t i = 0; i < dim_ * dim_; ++i) covariance[i] *= scale;
  }
  double values[3] = {};
  smallest_eigenvector(covariance, dim_, normal, values);
  double all = 0;
  for (std::int64_t i = 0; i < dim_; ++i) all += std::max(0.0, values[i]);
  curvature = all > 0 ? std::max(0.0, values[0]) / all : 0;
  return true;
}

}  // namespace kith::point_tree
