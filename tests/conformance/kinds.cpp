// The distributions of the conformance suite. Each is aimed at something a fast engine may get wrong: a
// bound on rounding errors, a scale spoilt by one value, a list that overflows on ties, a tile's edge.
#include <algorithm>
#include <cmath>
#include <limits>

#include "conformance/problem.hpp"

namespace kith::conformance {
namespace {

using reference::Matrix;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Matrix matrix(std::int64_t rows, std::int64_t dim) {
  return {rows, dim, std::vector<double>(static_cast<std::size_t>(rows * dim))};
}

template <class Value>
Matrix filled(std::int64_t rows, std::int64_t dim, Value value) {
  Matrix out = matrix(rows, dim);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < dim; ++j) out.row(r)[j] = value(r, j);
  }
  return out;
}

void copy_row(const Matrix& from, std::int64_t i, Matrix& to, std::int64_t j) {
  std::copy_n(from.row(i), from.dim, to.row(j));
}

double norm(const double* row, std::int64_t dim) {
  double sum = 0;
  for (std::int64_t j = 0; j < dim; ++j) sum += row[j] * row[j];
  return std::sqrt(sum);
}

// Data and queries from one rule; every other query is a row of the data.
template <class Value>
Values alike(std::int64_t n, std::int64_t d, std::int64_t q, Random& random, Value value, double scale = 30) {
  Values out{filled(n, d, value), filled(q, d, value), scale};
  for (std::int64_t i = 0; i < q && n > 0; i += 2) copy_row(out.data, random.below(n), out.queries, i);
  return out;
}

Values normal(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return alike(n, d, q, random, [&](auto, auto) { return random.normal(); });
}

// Many rows at exactly equal distances.
Values lattice(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return alike(
      n, d, q, random, [&](auto, auto) { return static_cast<double>(random.below(3)) - 1; }, 1);
}

Values all_equal(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  const Matrix row = filled(1, d, [&](auto, auto) { return random.normal(); });
  return alike(n, d, q, random,
               [&](auto, std::int64_t j) { return row.values[static_cast<std::size_t>(j)]; });
}

// Three distinct rows, again and again, and a few others among them.
Values duplicates(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out = normal(n, d, q, random);
  for (std::int64_t i = 3; i < n; ++i) {
    if (random.below(20) != 0) copy_row(out.data, random.below(3), out.data, i);
  }
  return out;
}

// Each row twice, the copies far apart.
Values pairs(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out = normal(n, d, q, random);
  for (std::int64_t i = n / 2; i < n; ++i) copy_row(out.data, i - n / 2, out.data, i);
  return out;
}

// Zeros of both signs: equal numbers, different bits.
Values signed_zeros(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return alike(n, d, q, random, [&](auto, auto) { return random.below(4) == 0 ? 1.0 : random.sign() * 0.0; });
}

Values zero_rows(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out = normal(n, d, q, random);
  for (std::int64_t i = 0; i < n; ++i) {
    if (random.below(3) == 0) std::fill_n(out.data.row(i), d, 0.0);
  }
  for (std::int64_t i = 1; i < q; i += 4) std::fill_n(out.queries.row(i), d, 0.0);
  return out;
}

Values nan_rows(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out = normal(n, d, q, random);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto dice = random.below(6);
    if (dice == 0) out.data.row(i)[d - 1] = nan;  // in the tail of a vector register
    if (dice == 1) out.data.row(i)[random.below(d)] = nan;
    if (dice == 2) std::fill_n(out.data.row(i), d, nan);
  }
  for (std::int64_t i = 2; i < q; i += 5) out.queries.row(i)[i % 2 == 0 ? d - 1 : random.below(d)] = nan;
  return out;
}

// Hardly a row that may be returned.
Values mostly_nan(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out = normal(n, d, q, random);
  for (std::int64_t i = 0; i + 3 < n; ++i) out.data.row(i)[random.below(d)] = nan;
  return out;
}

Values infinities(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out = normal(n, d, q, random);
  for (std::int64_t i = 0; i < n; ++i) {
    if (random.below(5) == 0) out.data.row(i)[random.below(d)] = random.sign() * infinity;
  }
  for (std::int64_t i = 1; i < q; i += 3) out.queries.row(i)[random.below(d)] = random.sign() * infinity;
  return out;
}

// Every special value there is, rows and queries.
Values specials(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  const double values[] = {0.0,   -0.0,  1.0,  -1.0,     1e30,      -1e30, 1e-30, 1e-45,
                           65504, 1e-40, 3e38, infinity, -infinity, 1e19,  nan,   6e-8};
  return alike(n, d, q, random, [&](auto r, auto) {
    // A NaN or an infinity in every element would leave nothing to compare.
    const double value = values[random.below(16)];
    return (std::isnan(value) || std::isinf(value)) && (r % 3 != 0 || random.below(d) > 1) ? 2.0 : value;
  });
}

template <int exponent>
Values powers_of_ten(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return alike(n, d, q, random, [&](auto, auto) { return random.normal() * std::pow(10.0, exponent); });
}

// Row norms over many orders of magnitude.
template <int exponent>
Values wild_norms(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out = normal(n, d, q, random);
  for (std::int64_t i = 0; i < n; ++i) {
    const double factor = std::pow(10.0, random.between(-exponent, exponent));
    for (std::int64_t j = 0; j < d; ++j) out.data.row(i)[j] *= factor;
  }
  return out;
}

// One row spoils any common scale.
Values outlier(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out = normal(n, d, q, random);
  if (n > 0) std::fill_n(out.data.row(random.below(n)), d, 1e30);
  if (q > 1) out.queries.row(1)[0] = -1e30;
  return out;
}

// One dimension far larger than the others, and without meaning.
Values loud_dimension(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return alike(n, d, q, random, [&](auto, std::int64_t j) { return random.normal() * (j == 0 ? 3000 : 1); });
}

Values translated(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return alike(
      n, d, q, random, [&](auto, auto) { return 1e6 + random.normal(); }, 1e-4);
}

// Metres in UTM to the millimetre: in float32 many points fall together.
Values utm(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return alike(
      n, d, q, random,
      [&](auto, std::int64_t j) {
        const double origin = j == 0 ? 512345.0 : j == 1 ? 5403210.0 : 240.0;
        return origin + std::round(random.between(0, 40) * 1000) / 1000;
      },
      1e-4);
}

// Queries far outside of the data: their own codes saturate.
Values far_queries(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out = normal(n, d, q, random);
  for (double& value : out.queries.values) value = value * 1e5 + 1e4;
  return out;
}

// Rows on a thin shell around a query: no low-precision filter tells them apart.
template <int digits>
Values shell(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out = normal(n, d, q, random);
  const Matrix centre = filled(1, d, [&](auto, auto) { return random.normal(); });
  for (std::int64_t i = 0; i < n; ++i) {
    double* row = out.data.row(i);
    const double length = norm(row, d);
    const double radius = 1 + random.uniform() * std::pow(10.0, -digits);
    for (std::int64_t j = 0; j < d; ++j) {
      row[j] = centre.values[static_cast<std::size_t>(j)] + row[j] / length * radius;
    }
  }
  for (std::int64_t i = 0; i < q; i += 2) copy_row(centre, 0, out.queries, i);
  return out;
}

// Unit vectors a hair apart, as embeddings of one document.
template <int digits>
Values near_duplicates(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  const Matrix centre = filled(1, d, [&](auto, auto) { return random.normal(); });
  const auto draw = [&](std::int64_t rows) {
    Matrix out = filled(rows, d, [&](auto, std::int64_t j) {
      return centre.values[static_cast<std::size_t>(j)] + std::pow(10.0, -digits) * random.normal();
    });
    for (std::int64_t r = 0; r < rows; ++r) {
      const double length = norm(out.row(r), d);
      for (std::int64_t j = 0; j < d; ++j) out.row(r)[j] /= length;
    }
    return out;
  };
  Values out{draw(n), draw(q), 127};
  for (std::int64_t i = 0; i < q && n > 0; i += 2) copy_row(out.data, random.below(n), out.queries, i);
  return out;
}

// Squares of integer distances beyond 2^24: distinct in float64, tied once rounded to float32.
Values rounding_ties(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return alike(
      n, d, q, random, [&](auto, auto) { return 4096 + static_cast<double>(random.below(40)); }, 0.03);
}

// Far from the query in one dimension, a little apart in the others: float32 distances tie.
Values swamped(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out = normal(n, d, q, random);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < d; ++j) out.data.row(i)[j] *= 0.01;
  }
  for (std::int64_t i = 0; i < q; ++i) out.queries.row(i)[d - 1] = 2000 + static_cast<double>(i);
  return out;
}

// Extreme integers: products that overflow 16 bits, sums that need 32.
Values extremes(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return alike(
      n, d, q, random, [&](auto, auto) { return 300 * random.sign(); }, 1);
}

Values one_hot(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out{matrix(n, d), matrix(q, d), 100};
  for (std::int64_t i = 0; i < n; ++i) out.data.row(i)[random.below(d)] = random.sign();
  for (std::int64_t i = 0; i < q; ++i) out.queries.row(i)[random.below(d)] = random.uniform();
  return out;
}

// Variance falls with the dimension: codes with one scale see the first few dimensions only.
Values decaying(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return alike(
      n, d, q, random,
      [&](auto, std::int64_t j) { return random.normal() * std::pow(0.8, static_cast<double>(j)); }, 60);
}

Values clusters(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  const Matrix centres = filled(7, d, [&](auto, auto) { return random.normal(); });
  std::int64_t last = -1;
  std::int64_t cluster = 0;
  return alike(
      n, d, q, random,
      [&](std::int64_t r, std::int64_t j) {
        if (r != last) cluster = random.below(7);
        last = r;
        return centres.row(cluster)[j] + 0.001 * random.normal();
      },
      60);
}

// Nearest last: the bound on the k-th distance tightens at every row.
Values descending(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out{filled(n, d,
                    [&](std::int64_t r, auto) {
                      return static_cast<double>(n - r) / static_cast<double>(n + 1) + 1e-4 * random.normal();
                    }),
             filled(q, d, [&](auto, auto) { return 1e-4 * random.normal(); }), 100};
  return out;
}

// Nearest first, so that a later row is never taken but for a tie.
Values ascending(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out = descending(n, d, q, random);
  for (std::int64_t i = 0; i < n / 2; ++i) {
    std::swap_ranges(out.data.row(i), out.data.row(i) + d, out.data.row(n - 1 - i));
  }
  return out;
}

// Finite in the data, infinite when squared in the result type.
Values overflowing(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return alike(n, d, q, random, [&](auto r, auto) { return random.normal() * (r % 2 == 0 ? 3e19 : 1e19); });
}

// Subnormal in float16 and bfloat16's tiny end.
Values subnormal(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return alike(n, d, q, random, [&](auto r, auto) { return random.normal() * (r % 2 == 0 ? 1e-6 : 1e-39); });
}

// All on one line through the origin: cosine sees only ties.
Values collinear(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  const Matrix direction = filled(1, d, [&](auto, auto) { return static_cast<double>(random.below(5)) - 2; });
  std::int64_t last = -1;
  double factor = 1;
  return alike(
      n, d, q, random,
      [&](std::int64_t r, std::int64_t j) {
        if (r != last) factor = random.sign() * std::exp2(static_cast<double>(random.below(5)));
        last = r;
        return factor * direction.values[static_cast<std::size_t>(j)];
      },
      1);
}

// Positive quadrant, all nearly the same norm, as image descriptors.
Values descriptors(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return alike(
      n, d, q, random,
      [&](auto, auto) {
        const double value = random.normal();
        return std::floor(std::min(127.0, 40 * value * value)) - 128;
      },
      1);
}

// Deviations that fall by `exponent` decades in all, along directions that are no axes: the mirror image in a
// plane across all of them.
Values falling(std::int64_t n, std::int64_t d, std::int64_t q, Random& random, double exponent,
               double offset) {
  const Matrix plane = filled(1, d, [&](auto, auto) { return random.normal(); });
  const double length = norm(plane.row(0), d);
  Values out = alike(n, d, q, random, [&](auto, std::int64_t j) {
    return random.normal() * std::pow(10.0, -exponent * static_cast<double>(j) / static_cast<double>(d));
  });
  for (Matrix* matrix : {&out.data, &out.queries}) {
    for (std::int64_t i = 0; i < matrix->rows; ++i) {
      double product = 0;
      for (std::int64_t j = 0; j < d; ++j) product += matrix->row(i)[j] * plane.row(0)[j];
      for (std::int64_t j = 0; j < d; ++j) {
        matrix->row(i)[j] += offset - 2 * product / (length * length) * plane.row(0)[j];
      }
    }
  }
  return out;
}

Values spectrum(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  return falling(n, d, q, random, 12, 0);
}

Values spectrum_far_away(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  Values out = falling(n, d, q, random, 3, 1e6);
  out.integer_scale = 1e-4;
  return out;
}

// Sums of few rows: nothing is left across them but rounding.
template <int rank>
Values rank_deficient(std::int64_t n, std::int64_t d, std::int64_t q, Random& random) {
  const Matrix base = filled(rank, d, [&](auto, auto) { return random.normal(); });
  Values out{matrix(n, d), matrix(q, d), 30};
  for (Matrix* to : {&out.data, &out.queries}) {
    for (std::int64_t i = 0; i < to->rows; ++i) {
      for (std::int64_t r = 0; r < rank; ++r) {
        const double factor = random.normal();
        for (std::int64_t j = 0; j < d; ++j) to->row(i)[j] += factor * base.row(r)[j];
      }
    }
  }
  for (std::int64_t i = 0; i < q && n > 0; i += 2) copy_row(out.data, random.below(n), out.queries, i);
  return out;
}

}  // namespace

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> list = {
      {"normal", normal},
      {"lattice", lattice},
      {"all_equal", all_equal},
      {"duplicates", duplicates},
      {"pairs", pairs},
      {"signed_zeros", signed_zeros},
      {"zero_rows", zero_rows},
      {"nan_rows", nan_rows},
      {"mostly_nan", mostly_nan},
      {"infinities", infinities},
      {"specials", specials},
      {"huge", powers_of_ten<30>},
      {"large", powers_of_ten<4>},
      {"tiny", powers_of_ten<-30>},
      {"smallest", powers_of_ten<-44>},
      {"overflowing_f64", powers_of_ten<160>},
      {"underflowing_f64", powers_of_ten<-165>},
      {"wild_norms", wild_norms<10>},
      {"wildest_norms", wild_norms<170>},
      {"outlier", outlier},
      {"loud_dimension", loud_dimension},
      {"translated", translated},
      {"utm", utm},
      {"far_queries", far_queries},
      {"shell_1e-3", shell<3>},
      {"shell_1e-7", shell<7>},
      {"near_duplicates_1e-3", near_duplicates<3>},
      {"near_duplicates_1e-6", near_duplicates<6>},
      {"rounding_ties", rounding_ties},
      {"swamped", swamped},
      {"extremes", extremes},
      {"one_hot", one_hot},
      {"decaying", decaying},
      {"clusters", clusters},
      {"descending", descending},
      {"ascending", ascending},
      {"overflowing", overflowing},
      {"subnormal", subnormal},
      {"collinear", collinear},
      {"descriptors", descriptors},
      {"spectrum_1e12", spectrum},
      {"spectrum_far_away", spectrum_far_away},
      {"rank_deficient", rank_deficient<3>},
      {"one_direction", rank_deficient<1>},
  };
  return list;
}

}  // namespace kith::conformance
