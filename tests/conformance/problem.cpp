// Problems: values, their dtype, their truth.
#include "conformance/problem.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <utility>

#include "core/visit_dtype.hpp"

namespace kith::conformance {
namespace {

template <class T>
T encode(double value, double scale) {
  if constexpr (std::is_integral_v<T>) {
    if (std::isnan(value)) return 0;
    const double low = std::numeric_limits<T>::min();
    const double high = std::numeric_limits<T>::max();
    const double offset = std::is_unsigned_v<T> ? 128 : 0;
    return static_cast<T>(std::clamp(std::nearbyint(value * scale) + offset, low, high));
  } else if constexpr (std::is_same_v<T, float16>) {
    return to_float16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// The stored form of a value the dtype holds exactly.
template <class T>
T exactly(double value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value);
  } else {
    return encode<T>(value, 1);
  }
}

}  // namespace

std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

double Random::uniform() {
  return static_cast<double>(next() >> 11U) * 0x1p-53;
}

double Random::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

std::int64_t Random::below(std::int64_t n) {
  return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n));
}

Rows::Rows(const reference::Matrix& values, Dtype dtype, std::int64_t gap, std::int64_t shift) {
  const std::int64_t stride = values.dim + gap;
  visit_dtype(dtype, [&]<class T>(T /*tag*/) {
    const auto elements = static_cast<std::size_t>(shift + values.rows * stride);
    memory_.assign(elements * sizeof(T) / sizeof(std::uint64_t) + 1, 0);
    auto* bytes = reinterpret_cast<char*>(memory_.data());
    T filler;
    if constexpr (std::is_integral_v<T>) {
      filler = 0x5A;
    } else {
      filler = encode<T>(std::numeric_limits<double>::quiet_NaN(), 1);
    }
    for (std::size_t i = 0; i < elements; ++i) std::memcpy(bytes + i * sizeof(T), &filler, sizeof(T));
    for (std::int64_t r = 0; r < values.rows; ++r) {
      for (std::int64_t j = 0; j < values.dim; ++j) {
        const T value = exactly<T>(values.row(r)[j]);
        std::memcpy(bytes + static_cast<std::size_t>(shift + r * stride + j) * sizeof(T), &value, sizeof(T));
      }
    }
    view_ = DatasetView(bytes + static_cast<std::size_t>(shift) * sizeof(T), dtype, values.rows, values.dim,
                        stride);
  });
}

reference::Matrix quantize(const reference::Matrix& values, Dtype dtype, double integer_scale) {
  reference::Matrix out = values;
  visit_dtype(dtype, [&]<class T>(T /*tag*/) {
    for (double& value : out.values) value = to_double(encode<T>(value, integer_scale));
  });
  return out;
}

void Problem::solve(std::int64_t max_k) {
  truth.clear();
  for (std::int64_t q = 0; q < queries.rows; ++q) {
    truth.push_back(reference::nearest(data, queries.row(q), max_k, metric, dtype != Dtype::f64));
  }
}

Problem make_problem(std::string name, const Values& values, Dtype dtype, Metric metric, std::int64_t max_k) {
  Problem problem;
  problem.name = std::move(name);
  problem.dtype = dtype;
  problem.metric = metric;
  problem.data = quantize(values.data, dtype, values.integer_scale);
  problem.queries = quantize(values.queries, dtype, values.integer_scale);
  problem.solve(max_k);
  return problem;
}

Values gaussian(std::int64_t rows, std::int64_t dim, std::int64_t queries, std::uint64_t seed) {
  Random random(seed);
  Values out;
  out.data = {rows, dim, std::vector<double>(static_cast<std::size_t>(rows * dim))};
  out.queries = {queries, dim, std::vector<double>(static_cast<std::size_t>(queries * dim))};
  for (double& value : out.data.values) value = random.normal();
  for (double& value : out.queries.values) value = random.normal();
  for (std::int64_t q = 0; q < queries && rows > 0; q += 3) {
    std::copy_n(out.data.row(random.below(rows)), dim, out.queries.row(q));
  }
  return out;
}

}  // namespace kith::conformance
