#include "codes/leading.hpp"

#include <algorithm>
#include <cmath>

#include "codes/cpu/row_kernels.hpp"
#include "codes/rotation.hpp"
#include "core/parallel.hpp"

namespace kith::codes {
namespace {

// Each multiplies a direction's error by the ratio of the first eigenvalue left out to its own.
constexpr int iterations = 6;
constexpr std::int64_t rows_a_task = 16;
constexpr std::uint64_t first_seed = 1;
constexpr std::uint64_t last_seed = 2;

class Finder {
 public:
  Finder(std::span<const double> rows, std::int64_t dim, const Execution& execution)
      : rows_(rows),
        dim_(dim),
        size_(static_cast<std::size_t>(dim)),
        execution_(execution),
        stop_(execution) {
    covariance_.resize(size_ * size_);
  }

  // Divided by the sum of all variances, so that no square of its values vanishes. False where there are
  // none.
  bool make_covariance() {
    const auto count = static_cast<std::int64_t>(rows_.size()) / dim_;
    std::vector<const double*> finite;
    for (std::int64_t i = 0; i < count; ++i) {
      const double* row = rows_.data() + i * dim_;
      if (kernels_.finite(row, dim_)) finite.push_back(row);
    }
    // Row i of it, from the diagonal on; the other half is the same.
    each_row(dim_, [&](std::int64_t i) {
      for (const double* row : finite) {
        kernels_.add_scaled(covariance_.data() + i * dim_ + i, row[i], row + i, dim_ - i);
      }
    });
    double variance = 0;
    for (std::size_t i = 0; i < size_; ++i) variance += covariance_[i * size_ + i];
    if (!(variance > 0 && std::isfinite(variance))) return false;
    each_row(dim_, [&](std::int64_t i) {
      double* row = covariance_.data() + i * dim_;
      for (std::int64_t j = i; j < dim_; ++j) row[j] /= variance;
    });
    each_row(dim_, [&](std::int64_t i) {
      double* row = covariance_.data() + i * dim_;
      for (std::int64_t j = 0; j < i; ++j) row[j] = covariance_[static_cast<std::size_t>(j * dim_ + i)];
    });
    return true;
  }

  void iterate(std::int64_t count) {
    directions_.assign(static_cast<std::size_t>(count), std::vector<double>(size_, 0.0));
    const Rotation rotation(dim_, first_seed);
    std::vector<double> scratch(size_);
    for (std::size_t j = 0; j < directions_.size(); ++j) {
      directions_[j][j] = 1;
      rotation.apply(directions_[j].data(), scratch.data());
    }
    for (int i = 0; i < iterations; ++i) {
      each_row(count, [&](std::int64_t j) { multiply(directions_[static_cast<std::size_t>(j)]); });
      orthonormalize();
    }
  }

  // What each direction holds of the variance, the largest first.
  std::vector<double> shares() {
    std::vector<double> shares(directions_.size());
    each_row(static_cast<std::int64_t>(shares.size()), [&](std::int64_t j) {
      const std::vector<double>& direction = directions_[static_cast<std::size_t>(j)];
      std::vector<double> image = direction;
      multiply(image);
      shares[static_cast<std::size_t>(j)] = kernels_.dot(direction.data(), image.data(), dim_);
    });
    return shares;
  }

  std::vector<float> map(std::int64_t count) const {
    const auto width = static_cast<std::size_t>(count);
    std::vector<float> out(size_ * width);
    const Rotation rotation(count, last_seed);
    std::vector<double> row(width), scratch(width);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < width; ++j) row[j] = directions_[j][i];
      rotation.apply(row.data(), scratch.data());
      for (std::size_t j = 0; j < width; ++j) out[i * width + j] = static_cast<float>(row[j]);
    }
    return out;
  }

 private:
  template <class Body>
  void each_row(std::int64_t count, const Body& body) {
    parallel_for(execution_, (count + rows_a_task - 1) / rows_a_task, [&](std::int64_t task) {
      const std::int64_t end = std::min(count, (task + 1) * rows_a_task);
      for (std::int64_t i = task * rows_a_task; i < end; ++i) {
        stop_.check();
        body(i);
      }
    });
  }

  void multiply(std::vector<double>& direction) const {
    std::vector<double> image(size_);
    for (std::int64_t i = 0; i < dim_; ++i) {
      image[static_cast<std::size_t>(i)] =
          kernels_.dot(covariance_.data() + i * dim_, direction.data(), dim_);
    }
    direction.swap(image);
  }

  // Gram and Schmidt, twice over: once is not enough where directions were nearly the same. One that nothing
  // is left of is zero.
  void orthonormalize() {
    for (std::size_t j = 0; j < directions_.size(); ++j) {
      stop_.check();
      double* its = directions_[j].data();
      const double before = std::sqrt(kernels_.sum_of_squares(its, dim_));
      for (int pass = 0; pass < 2; ++pass) {
        for (std::size_t i = 0; i < j; ++i) {
          const double* other = directions_[i].data();
          kernels_.add_scaled(its, -kernels_.dot(other, its, dim_), other, dim_);
        }
      }
      const double norm = std::sqrt(kernels_.sum_of_squares(its, dim_));
      constexpr double nothing = 1e-12;
      kernels_.scale(its, norm > nothing * before ? 1 / norm : 0.0, dim_);
    }
  }

  std::span<const double> rows_;
  std::int64_t dim_;
  std::size_t size_;
  const Execution& execution_;
  StopRequest stop_;
  const RowKernels& kernels_ = row_kernels();
  std::vector<double> covariance_;
  std::vector<std::vector<double>> directions_;
};

}  // namespace

LeadingDirections leading_directions(std::span<const double> rows, std::int64_t dim, const LeadingPlan& plan,
                                     const Execution& execution) {
  LeadingDirections found;
  const std::int64_t most = (plan.count > 0 ? plan.count : plan.most) / leading_step * leading_step;
  if (most == 0 || most > dim) return found;
  Finder finder(rows, dim, execution);
  if (!finder.make_covariance()) return found;
  finder.iterate(most);
  const std::vector<double> shares = finder.shares();
  double share = 0;
  for (std::int64_t j = 0; j < most; ++j) {
    share += shares[static_cast<std::size_t>(j)];
    if ((j + 1) % leading_step != 0) continue;
    if (plan.count == 0 ? share >= plan.share : j + 1 == most) {
      found.count = j + 1;
      found.share = share;
      found.map = finder.map(found.count);
      return found;
    }
  }
  return found;
}

std::uint64_t leading_bytes(std::int64_t dim, std::int64_t most) {
  return static_cast<std::uint64_t>(dim) *
         (static_cast<std::uint64_t>(dim) + 2 * static_cast<std::uint64_t>(most)) * sizeof(double);
}

}  // namespace kith::codes
