#include "k_means/k_means.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "core/instruction_set.hpp"
#include "core/parallel.hpp"
#include "generate/random.hpp"
#include "k_means/cpu/kernels.hpp"

namespace kith {

const KMeansKernels& k_means_kernels() {
  switch (active_instruction_set()) {
#if defined(__x86_64__)
    case InstructionSet::avx512_vnni: return k_means_kernels_avx512;
    case InstructionSet::avx_vnni:
    case InstructionSet::avx2: return k_means_kernels_avx2;
#endif
    default: return k_means_kernels_portable;
  }
}

SideBySide::SideBySide(const float* centroids, std::int64_t count_, std::int64_t dim_)
    : dim(dim_), count(count_), padded_count((count_ + 31) / 32 * 32) {
  constexpr float far = 1e30F;  // its square is infinite
  values.assign(static_cast<std::size_t>(dim * padded_count), far);
  for (std::int64_t c = 0; c < count; ++c) {
    for (std::int64_t d = 0; d < dim; ++d) {
      values[static_cast<std::size_t>(d * padded_count + c)] = centroids[c * dim + d];
    }
  }
}

std::int64_t SideBySide::nearest(const float* row, float* distance) const {
  return k_means_kernels().nearest(row, dim, values.data(), padded_count, distance);
}

void SideBySide::distances(const float* row, float* out) const {
  k_means_kernels().distances(row, dim, values.data(), padded_count, out);
}

namespace {

constexpr std::uint32_t stream = 0x6B6D656E;  // "kmen"
constexpr std::int64_t rows_a_part = 1024;
constexpr std::int64_t most_parts = 64;
constexpr std::int64_t most_sums = 1 << 22;  // of all parts

class Clustering {
 public:
  Clustering(const float* rows, std::int64_t n, std::int64_t dim, std::int64_t stride,
             const KMeansParameters& parameters, int threads, const std::function<void()>& check)
      : rows_(rows),
        n_(n),
        dim_(dim),
        stride_(stride),
        count_(parameters.count),
        threads_(threads),
        check_(check),
        parts_(k_means_sums(n, count_, dim)),
        centroids_(static_cast<std::size_t>(count_ * dim)),
        distance_(static_cast<std::size_t>(n)),
        nearest_(static_cast<std::size_t>(n), -1),
        part_error_(static_cast<std::size_t>(parts_)) {
    choose_first(parameters.seed);
  }

  KMeans run(std::int64_t iterations) {
    KMeans result;
    sums_.resize(static_cast<std::size_t>(parts_ * count_ * dim_));
    members_.resize(static_cast<std::size_t>(parts_ * count_));
    while (result.iterations < iterations) {
      const bool changed = assign();
      result.error = std::accumulate(part_error_.begin(), part_error_.end(), 0.0) / static_cast<double>(n_);
      if (!changed) break;
      update();
      ++result.iterations;
    }
    result.centroids = std::move(centroids_);
    return result;
  }

 private:
  const float* row(std::int64_t i) const { return rows_ + i * stride_; }
  std::int64_t first_of(std::int64_t part) const { return n_ / parts_ * part + std::min(part, n_ % parts_); }

  template <class Body>
  void each_part(const Body& body) {
    parallel_for(threads_, parts_, [&](std::int64_t part) {
      check_();
      body(part, first_of(part), first_of(part + 1));
    });
  }

  void take_row(std::int64_t centroid, std::int64_t i) {
    std::copy_n(row(i), dim_, centroids_.begin() + static_cast<std::ptrdiff_t>(centroid * dim_));
  }

  // k-means++: each next centroid is a row, by chance in proportion to its squared distance to the nearest
  // one so far.
  void choose_first(std::uint64_t seed) {
    const std::vector<double> uniforms = k_means_uniforms(seed, count_);
    const auto any = [&](double uniform) {
      return std::min(n_ - 1, static_cast<std::int64_t>(uniform * static_cast<double>(n_)));
    };
    take_row(0, any(uniforms.front()));
    std::fill(distance_.begin(), distance_.end(), std::numeric_limits<float>::infinity());
    for (std::int64_t c = 1; c < count_; ++c) {
      const float* last = centroids_.data() + (c - 1) * dim_;
      each_part([&](std::int64_t part, std::int64_t from, std::int64_t to) {
        double sum = 0;
        for (std::int64_t i = from; i < to; ++i) {
          float square = 0;
          for (std::int64_t d = 0; d < dim_; ++d) {
            const float difference = row(i)[d] - last[d];
            square += difference * difference;
          }
          float& least = distance_[static_cast<std::size_t>(i)];
          least = std::min(least, square);
          sum += least;
        }
        part_error_[static_cast<std::size_t>(part)] = sum;
      });
      const double total = std::accumulate(part_error_.begin(), part_error_.end(), 0.0);
      const double uniform = uniforms[static_cast<std::size_t>(c)];
      take_row(c, total > 0 ? row_at(uniform * total) : any(uniform));
    }
  }

  // The row at which the running sum of squared distances passes `target`.
  std::int64_t row_at(double target) const {
    std::int64_t part = 0;
    while (part + 1 < parts_ && target >= part_error_[static_cast<std::size_t>(part)]) {
      target -= part_error_[static_cast<std::size_t>(part++)];
    }
    std::int64_t last = first_of(part);
    for (std::int64_t i = last; i < first_of(part + 1); ++i) {
      const double square = distance_[static_cast<std::size_t>(i)];
      if (square == 0) continue;
      last = i;
      target -= square;
      if (target < 0) break;
    }
    return last;
  }

  // Rows to their nearest centroids, and what each part adds to them. True where a row changed.
  bool assign() {
    const SideBySide centroids(centroids_.data(), count_, dim_);
    std::vector<char> changed(static_cast<std::size_t>(parts_), 0);
    each_part([&](std::int64_t part, std::int64_t from, std::int64_t to) {
      double* sums = sums_.data() + part * count_ * dim_;
      std::int64_t* members = members_.data() + part * count_;
      std::fill_n(sums, count_ * dim_, 0.0);
      std::fill_n(members, count_, std::int64_t{0});
      double error = 0;
      for (std::int64_t i = from; i < to; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const std::int64_t nearest = centroids.nearest(row(i), &distance_[at]);
        if (nearest != nearest_[at]) changed[static_cast<std::size_t>(part)] = 1;
        nearest_[at] = nearest;
        error += distance_[at];
        ++members[nearest];
        for (std::int64_t d = 0; d < dim_; ++d) sums[nearest * dim_ + d] += row(i)[d];
      }
      part_error_[static_cast<std::size_t>(part)] = error;
    });
    return std::find(changed.begin(), changed.end(), 1) != changed.end();
  }

  void update() {
    std::vector<std::int64_t> members(static_cast<std::size_t>(count_), 0);
    for (std::int64_t c = 0; c < count_; ++c) {
      std::int64_t& its = members[static_cast<std::size_t>(c)];
      for (std::int64_t part = 0; part < parts_; ++part) {
        its += members_[static_cast<std::size_t>(part * count_ + c)];
      }
      if (its == 0) continue;
      for (std::int64_t d = 0; d < dim_; ++d) {
        double sum = 0;
        for (std::int64_t part = 0; part < parts_; ++part) {
          sum += sums_[static_cast<std::size_t>((part * count_ + c) * dim_ + d)];
        }
        centroids_[static_cast<std::size_t>(c * dim_ + d)] =
            static_cast<float>(sum / static_cast<double>(its));
      }
    }
    // A centroid without rows takes the row that is farthest from its own, the lowest of those equally far.
    for (std::int64_t c = 0; c < count_; ++c) {
      if (members[static_cast<std::size_t>(c)] > 0) continue;
      const auto farthest = std::max_element(distance_.begin(), distance_.end());
      if (!(*farthest > 0)) break;  // every row is a centroid already
      take_row(c, farthest - distance_.begin());
      *farthest = 0;
    }
  }

  const float* rows_;
  std::int64_t n_;
  std::int64_t dim_;
  std::int64_t stride_;
  std::int64_t count_;
  int threads_;
  const std::function<void()>& check_;
  std::int64_t parts_;
  std::vector<float> centroids_;
  std::vector<float> distance_;
  std::vector<std::int64_t> nearest_;
  std::vector<double> part_error_;
  std::vector<double> sums_;           // [parts, count, dim]
  std::vector<std::int64_t> members_;  // [parts, count]
};

}  // namespace

std::int64_t k_means_sums(std::int64_t n, std::int64_t count, std::int64_t dim) {
  return std::clamp((n + rows_a_part - 1) / rows_a_part, std::int64_t{1},
                    std::clamp(most_sums / (count * dim), std::int64_t{1}, most_parts));
}

std::vector<double> k_means_uniforms(std::uint64_t seed, std::int64_t count) {
  generators::Row random(seed, stream, 0);
  std::vector<double> uniforms(static_cast<std::size_t>(count));
  for (double& uniform : uniforms) uniform = random.uniform();
  return uniforms;
}

KMeans k_means(const float* rows, std::int64_t n, std::int64_t dim, std::int64_t stride,
               const KMeansParameters& parameters, int threads, const std::function<void()>& check) {
  return Clustering(rows, n, dim, stride, parameters, threads, check).run(parameters.iterations);
}

}  // namespace kith
