#include "codes/leading.hpp"

#include <algorithm>
#include <cmath>

#include "codes/cpu/row_kernels.hpp"
#include "codes/rotation.hpp"
#include "core/parallel.hpp"

namespace kith::codes {
namespace {

constexpr std::int64_t rows_a_task = 16;
constexpr std::size_t cached_values = 1 << 15;
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
    // Row i of it, from the diagonal on; the other half is the same, and what stands there for now does not
    // matter. Some rows of the sample stay in the
    // cache while a task's rows of the covariance take them up; each entry is summed in the order of the
    // sample.
    const std::size_t block = std::max<std::size_t>(1, cached_values / size_);
    each_group(dim_, [&](std::int64_t begin, std::int64_t end) {
      for (std::size_t first = 0; first < finite.size(); first += block) {
        const std::size_t last = std::min(finite.size(), first + block);
        add_products({finite.data() + first, last - first}, begin, end);
        stop_.check();
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

  void iterate(std::int64_t count, int iterations) {
    directions_.assign(static_cast<std::size_t>(count), std::vector<double>(size_, 0.0));
    const Rotation rotation(dim_, first_seed);
    std::vector<double> scratch(size_);
    for (std::size_t j = 0; j < directions_.size(); ++j) {
      directions_[j][j] = 1;
      rotation.apply(directions_[j].data(), scratch.data());
    }
    for (int i = 0; i < iterations; ++i) {
      each_group(count, [&](std::int64_t begin, std::int64_t end) { multiply(begin, end); });
      orthonormalize();
    }
  }

  PrincipalDirections take() {
    PrincipalDirections found{.dim = dim_, .directions = directions_, .shares = {}};
    found.shares.resize(directions_.size());
    const auto count = static_cast<std::int64_t>(directions_.size());
    each_group(count, [&](std::int64_t begin, std::int64_t end) { multiply(begin, end); });
    each_row(count, [&](std::int64_t j) {
      const auto at = static_cast<std::size_t>(j);
      found.shares[at] = kernels_.dot(found.directions[at].data(), directions_[at].data(), dim_);
    });
    return found;
  }

 private:
  template <class Body>
  void each_group(std::int64_t count, const Body& body) {
    parallel_for(execution_, (count + rows_a_task - 1) / rows_a_task, [&](std::int64_t task) {
      body(task * rows_a_task, std::min(count, (task + 1) * rows_a_task));
    });
  }

  template <class Body>
  void each_row(std::int64_t count, const Body& body) {
    each_group(count, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        stop_.check();
        body(i);
      }
    });
  }

  // Adds what some rows of the sample give to rows [begin, end) of the covariance, each from its diagonal on.
  void add_products(std::span<const double* const> rows, std::int64_t begin, std::int64_t end) {
    std::int64_t i = begin;
    for (; i + outer_rows <= end; i += outer_rows) {
      std::int64_t j = i;
      for (; j + outer_columns <= dim_; j += outer_columns) {
        kernels_.add_outer(covariance_.data() + i * dim_ + j, dim_, rows.data(), rows.size(), i, j);
      }
      for (std::int64_t a = i; a < i + outer_rows; ++a) add_row(rows, a, std::max(a, j));
    }
    for (; i < end; ++i) add_row(rows, i, i);
  }

  // Row i of the covariance from column j on.
  void add_row(std::span<const double* const> rows, std::int64_t i, std::int64_t j) {
    for (const double* row : rows) {
      kernels_.add_scaled(covariance_.data() + i * dim_ + j, row[i], row + j, dim_ - j);
    }
  }

  // Directions [begin, end) become the covariance's images of them: four at a time, which stay in the cache
  // while its rows pass.
  void multiply(std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t together = 4;
    std::vector<std::vector<double>> images(static_cast<std::size_t>(end - begin),
                                            std::vector<double>(size_));
    for (std::int64_t first = begin; first < end; first += together) {
      const double* group[together];
      for (std::int64_t j = 0; j < together; ++j) {
        group[j] = directions_[static_cast<std::size_t>(std::min(first + j, end - 1))].data();
      }
      stop_.check();
      for (std::int64_t i = 0; i < dim_; ++i) {
        double products[together];
        kernels_.dot_four(covariance_.data() + i * dim_, group, dim_, products);
        for (std::int64_t j = 0; j < std::min(together, end - first); ++j) {
          images[static_cast<std::size_t>(first - begin + j)][static_cast<std::size_t>(i)] = products[j];
        }
      }
    }
    for (std::int64_t j = begin; j < end; ++j) {
      directions_[static_cast<std::size_t>(j)].swap(images[static_cast<std::size_t>(j - begin)]);
    }
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

PrincipalDirections principal_directions(std::span<const double> rows, std::int64_t dim, std::int64_t most,
                                         const Execution& execution, int iterations) {
  Finder finder(rows, dim, execution);
  if (most == 0 || !finder.make_covariance()) return {.dim = dim, .directions = {}, .shares = {}};
  finder.iterate(most, iterations);
  return finder.take();
}

std::vector<double> rotated_map(const PrincipalDirections& found, std::int64_t count) {
  std::vector<double> map(static_cast<std::size_t>(found.dim * count));
  const Rotation rotation(count, last_seed);
  std::vector<double> scratch(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < found.dim; ++i) {
    double* row = map.data() + i * count;
    for (std::int64_t j = 0; j < count; ++j) {
      row[j] = found.directions[static_cast<std::size_t>(j)][static_cast<std::size_t>(i)];
    }
    rotation.apply(row, scratch.data());
  }
  return map;
}

LeadingDirections leading_directions(std::span<const double> rows, std::int64_t dim, const LeadingPlan& plan,
                                     const Execution& execution) {
  LeadingDirections found;
  const std::int64_t most = (plan.count > 0 ? plan.count : plan.most) / leading_step * leading_step;
  if (most == 0 || most > dim) return found;
  const PrincipalDirections all = principal_directions(rows, dim, most, execution);
  double share = 0;
  for (std::int64_t j = 0; j < all.count(); ++j) {
    share += all.shares[static_cast<std::size_t>(j)];
    if ((j + 1) % leading_step != 0) continue;
    if (plan.count == 0 ? share >= plan.share : j + 1 == most) {
      found.count = j + 1;
      found.share = share;
      const std::vector<double> map = rotated_map(all, found.count);
      found.map.resize(map.size());
      std::transform(map.begin(), map.end(), found.map.begin(),
                     [](double x) { return static_cast<float>(x); });
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
