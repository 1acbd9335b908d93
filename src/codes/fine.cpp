#include "codes/fine.hpp"

#include <algorithm>
#include <cmath>

#include "codes/transform.hpp"

namespace kith::codes {
namespace {

constexpr double more = 1 + 0x1p-40;
constexpr double underflow = 0x1p-1000;  // more than the terms of a canonical distance may gain by it

struct Coded {
  double norm_sq;  // of the code: an integer
  double error;
};

// code = z / step, rounded. Everything it stands for is exact: the step has 24 bits, a code 15.
Coded code_of(const double* z, std::int64_t values, double step, double error, std::int16_t* code) {
  constexpr double largest = fine_norm;
  constexpr double rounder = 0x1.8p52;  // adding and subtracting it rounds to the nearest integer
  const double inverse = 1 / step;
  double norm_sq = 0;
  double squares = 0;
  for (std::int64_t i = 0; i < values; ++i) {
    double v = z[i] * inverse;
    v = v < -largest ? -largest : v;
    v = v > largest ? largest : v;
    v = (v + rounder) - rounder;
    code[i] = static_cast<std::int16_t>(static_cast<int>(v));
    norm_sq += v * v;
    const double left = z[i] - v * step;
    squares += left * left;
  }
  // Squares that underflow are of differences below 2^-511.
  return {norm_sq, std::sqrt(squares) * (1 + sum_error) + error + 0x1p-500};
}

// @param z of rest_values halves
double half_rest(const double* z, std::int64_t values) {
  return z[values - 1];
}

// A few rows may go without codes.
double of_nearly_all(std::vector<double>& list) {
  const auto nearly_all = list.begin() + (std::ssize(list) - 1) * 998 / 1000;
  std::nth_element(list.begin(), nearly_all, list.end());
  return *nearly_all;
}

}  // namespace

FineCodes::FineCodes(const FineSpace& fine_space, std::int64_t rows)
    : space(fine_space), codes(rows * fine_space.width()), norms(rows) {}

void FineCodes::put(std::int64_t row, const double* z, double error) {
  std::int16_t* code = codes.data() + row * space.width();
  std::fill(code + space.values, code + space.width(), std::int16_t{0});
  const Coded coded = code_of(z, space.values, space.step, error, code);
  const double length = std::sqrt(coded.norm_sq) * space.step * more + coded.error;
  const bool fits = coded.norm_sq <= static_cast<double>(fine_norm * fine_norm) &&
                    coded.error <= space.error && length <= space.longest;
  if (!fits) std::fill_n(code, space.values, std::int16_t{0});
  norms[row] = !fits ? no_fine_code : space.euclid ? static_cast<std::int32_t>(coded.norm_sq) : 0;
}

FineQuery::FineQuery(const CodeSpace& space, const FineSpace& fine, const double* z, double error)
    : metric_(space.metric),
      fine_(fine),
      unit_(space.unit),
      inverse_unit_(1 / space.unit),
      code_(static_cast<std::size_t>(fine.width())) {
  const Coded coded = code_of(z, fine.values, fine.step, error, code_.data());
  if (coded.norm_sq > static_cast<double>(fine_norm * fine_norm)) {
    code_.clear();
    return;
  }
  norm_sq_ = coded.norm_sq;
  length_ = std::sqrt(coded.norm_sq) * fine.step * more;
  error_ = coded.error;
  rest_ = 2 * half_rest(z, fine.values) + error;
}

std::int32_t FineQuery::least_value(double real) const {
  constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min();
  double value = 0;
  if (fine_.euclid) {
    const double reach = (std::sqrt(real) * unit_ * more + error_ + fine_.error) / fine_.step;
    value = norm_sq_ - reach * reach * more;
  } else {
    const double scaled = real * unit_ * unit_;
    const double product =
        metric_ == Metric::inner_product ? -scaled - std::fabs(scaled) * 0x1p-40 : 1 - real - 0x1p-40;
    const double slack =
        error_ * fine_.longest + length_ * fine_.error + 0x1p-30 * (length_ + error_) * fine_.longest;
    value = 2 * (product - slack * more) / (fine_.step * fine_.step);
  }
  value = std::ceil(value - std::fabs(value) * 0x1p-40);
  if (!(value > static_cast<double>(least))) return least;  // nor is a NaN a reason to drop a row
  return value < -static_cast<double>(least) ? static_cast<std::int32_t>(value)
                                             : std::numeric_limits<std::int32_t>::max();
}

double FineQuery::most_distance(std::int32_t value, std::int16_t half) const {
  const double rest = 2 * (half * fine_.step + fine_.error);
  const double off_directions = 2 * rest_ * rest * more;
  constexpr double room = 1 + 0x1p-30;
  if (fine_.euclid) {
    const double apart = std::sqrt(norm_sq_ - value) * fine_.step * more + error_ + fine_.error;
    const double square =
        (apart * apart * more + 2 * off_directions) * inverse_unit_ * inverse_unit_ * room + underflow;
    return metric_ == Metric::sqeuclidean ? square : std::sqrt(square) * room;
  }
  const double product = static_cast<double>(value) / 2 * fine_.step * fine_.step;
  const double slack = (error_ * fine_.longest + length_ * fine_.error) * more + off_directions +
                       0x1p-30 * (length_ + error_) * fine_.longest;
  const double least = product - slack - std::fabs(product) * 0x1p-40;
  if (metric_ == Metric::cosine) return 1 - least + 0x1p-40;
  const double distance = -least * inverse_unit_ * inverse_unit_;
  return distance + std::fabs(distance) * 0x1p-40 + underflow;
}

FineSpace fine_space_of(const DatasetView& data, const CodeSpace& space) {
  constexpr std::int64_t most_rows = 1024;
  // Rows may be twice as long as those of the sample before they have no code.
  constexpr double room = 2;
  const ProjectedSample sample = projected_sample(data, space, most_rows);
  FineSpace fine;
  fine.values = space.values();
  fine.euclid = space.metric == Metric::sqeuclidean || space.metric == Metric::euclidean;
  std::vector<double> lengths;
  for (std::int64_t i = 0; i < sample.rows; ++i)
    lengths.push_back(std::sqrt(row_kernels().sum_of_squares(sample.row(i), fine.values)));
  if (lengths.empty()) return {};
  fine.longest = room * of_nearly_all(lengths);
  fine.step = static_cast<double>(static_cast<float>(fine.longest / fine_norm));
  if (!(fine.step >= 0x1p-60)) return {};
  std::vector<std::int16_t> code(static_cast<std::size_t>(fine.values));
  std::vector<double> errors;
  std::vector<std::int16_t> rests;
  for (std::int64_t i = 0; i < sample.rows; ++i) {
    errors.push_back(code_of(sample.row(i), fine.values, fine.step,
                             sample.errors[static_cast<std::size_t>(i)], code.data())
                         .error);
    rests.push_back(code[static_cast<std::size_t>(fine.values - 1)]);
  }
  const auto middle = rests.begin() + std::ssize(rests) / 2;
  std::nth_element(rests.begin(), middle, rests.end());
  fine.usual_half_rest = *middle;
  constexpr double spare = 1.05;
  fine.error = spare * of_nearly_all(errors);
  return fine;
}

}  // namespace kith::codes
