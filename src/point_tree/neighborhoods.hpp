// What is computed from one neighbourhood: its plane, and its mean distance. The host and devices compile the
// same operations in the same order, and neither fuses any (-ffp-contract=off, -fmad=false): the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/host_device.hpp"

namespace kith::point_tree {

/// Eigenvector of the smallest eigenvalue of a symmetric matrix, and all eigenvalues ascending, by cyclic
/// Jacobi rotations (Jacobi 1846; Golub and Van Loan, section 8.5). `a` is destroyed. dim is 2 or 3.
template <int dim>
KITH_HOST_DEVICE inline void smallest_eigenvector(double (&a)[dim][dim], double* vector, double* values) {
  double v[dim][dim];
  KITH_UNROLL
  for (int i = 0; i < dim; ++i) {
    KITH_UNROLL
    for (int j = 0; j < dim; ++j) v[i][j] = i == j ? 1 : 0;
  }
  // Quadratic convergence: a handful of sweeps reach the last bit.
  for (int sweep = 0; sweep < 16; ++sweep) {
    double off = 0;
    KITH_UNROLL
    for (int p = 0; p < dim; ++p) {
      KITH_UNROLL
      for (int q = p + 1; q < dim; ++q) off += std::fabs(a[p][q]);
    }
    if (off == 0) break;
    KITH_UNROLL
    for (int p = 0; p < dim; ++p) {
      KITH_UNROLL
      for (int q = p + 1; q < dim; ++q) {
        const double before = a[p][q];
        // Squares of the least would vanish: a power of two changes neither the test nor the angle.
        const double lift = std::fabs(before) < 0x1p-400 ? 0x1p500 : 1.0;
        const double off_diagonal = before * lift;
        const double first = a[p][p] * lift;
        const double second = a[q][q] * lift;
        // So little that a rotation would change nothing, in terms of the lesser of the two eigenvalues, too
        // (Demmel and Veselic 1992).
        if (off_diagonal * off_diagonal <= 0x1p-106 * std::fabs(first * second)) {
          a[p][q] = a[q][p] = 0;
          continue;
        }
        // The smaller angle's tangent.
        const double apart = second - first;
        const double twice = 2 * off_diagonal;
        const double tangent = twice / (std::fabs(apart) + std::sqrt(apart * apart + twice * twice));
        const double t = apart < 0 ? -tangent : tangent;
        const double c = 1 / std::sqrt(t * t + 1);
        const double s = t * c;
        a[p][p] -= t * before;
        a[q][q] += t * before;
        a[p][q] = a[q][p] = 0;
        KITH_UNROLL
        for (int r = 0; r < dim; ++r) {
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
  double least = a[0][0];
  KITH_UNROLL
  for (int i = 0; i < dim; ++i) vector[i] = v[i][0];
  KITH_UNROLL
  for (int i = 0; i < dim; ++i) {
    values[i] = a[i][i];
    if (values[i] < least) {
      least = values[i];
      KITH_UNROLL
      for (int j = 0; j < dim; ++j) vector[j] = v[j][i];
    }
  }
  const auto order = [&](int i, int j) {
    if (!(values[j] < values[i])) return;
    const double larger = values[i];
    values[i] = values[j];
    values[j] = larger;
  };
  order(0, 1);
  if constexpr (dim == 3) {
    order(1, 2);
    order(0, 1);
  }
}

/// The plane (line in 2-D) nearest to some points, least squares. Sums are taken in the order points come in,
/// relative to a point near them, so that large coordinates lose nothing.
template <int dim>
class PlaneFit {
 public:
  template <class T>
  KITH_HOST_DEVICE void add(const T* point, const T* center) {
    double d[dim];
    KITH_UNROLL
    for (int j = 0; j < dim; ++j) d[j] = static_cast<double>(point[j]) - static_cast<double>(center[j]);
    ++count_;
    KITH_UNROLL
    for (int i = 0; i < dim; ++i) {
      sum_[i] += d[i];
      KITH_UNROLL
      for (int j = i; j < dim; ++j) square_[i][j] += d[i] * d[j];
    }
  }

  /// Unit normal and least variance over the sum of all. False where infinities leave no answer.
  KITH_HOST_DEVICE bool solve(double* normal, double& curvature) const {
    double covariance[dim][dim];
    double largest = 0;
    bool finite = true;
    const double share = 1 / static_cast<double>(count_);
    KITH_UNROLL
    for (int i = 0; i < dim; ++i) {
      KITH_UNROLL
      for (int j = i; j < dim; ++j) {
        const double value = square_[i][j] * share - (sum_[i] * share) * (sum_[j] * share);
        finite = finite && std::isfinite(value);
        covariance[i][j] = covariance[j][i] = value;
        if (largest < std::fabs(value)) largest = std::fabs(value);
      }
    }
    if (!finite) return false;
    if (largest > 0) {  // to a scale where squares neither overflow nor vanish
      const int exponent = -std::ilogb(largest);
      const double scale = std::ldexp(1.0, exponent < 1023 ? exponent : 1023);
      KITH_UNROLL
      for (int i = 0; i < dim; ++i) {
        KITH_UNROLL
        for (int j = 0; j < dim; ++j) covariance[i][j] *= scale;
      }
    }
    double values[dim];
    smallest_eigenvector<dim>(covariance, normal, values);
    double all = 0;
    KITH_UNROLL
    for (int i = 0; i < dim; ++i) all += values[i] > 0 ? values[i] : 0.0;
    curvature = all > 0 ? (values[0] > 0 ? values[0] : 0.0) / all : 0;
    return true;
  }

 private:
  std::int64_t count_ = 0;
  double sum_[dim] = {};
  double square_[dim][dim] = {};
};

/// Turns a normal towards a viewpoint; without one, so that its largest component is positive.
template <int dim, class T>
KITH_HOST_DEVICE inline void orient(double* normal, const T* center, const double* viewpoint) {
  double towards = 0;
  if (viewpoint != nullptr) {
    KITH_UNROLL
    for (int j = 0; j < dim; ++j) {
      towards += (viewpoint[j] - static_cast<double>(center[j])) * normal[j];
    }
  } else {
    towards = normal[0];
    KITH_UNROLL
    for (int j = 1; j < dim; ++j) {
      if (std::fabs(towards) < std::fabs(normal[j])) towards = normal[j];
    }
  }
  KITH_UNROLL
  for (int j = 0; j < dim; ++j) normal[j] = (towards < 0 ? -normal[j] : normal[j]) + 0.0;
}

}  // namespace kith::point_tree
