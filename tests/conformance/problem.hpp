// A search problem with its true answer: data of one dtype, queries, and what the oracle says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/metric.hpp"
#include "reference/oracle.hpp"

namespace kith::conformance {

/// A small generator of random numbers whose sequence is the same everywhere (splitmix64, Steele 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  double uniform();                                          ///< [0, 1)
  double normal();                                           ///< mean 0, variance 1
  std::int64_t below(std::int64_t n);                        ///< 0 .. n-1
  double sign() { return (next() & 1U) != 0 ? 1.0 : -1.0; }  ///< -1 or 1
  double between(double a, double b) { return a + (b - a) * uniform(); }

 private:
  std::uint64_t state_;
};

/// Rows of one dtype in memory, `gap` elements between them filled with NaN (0x5A for integers), the
/// first row `shift` elements into the allocation.
class Rows {
 public:
  Rows(const reference::Matrix& values, Dtype dtype, std::int64_t gap = 0, std::int64_t shift = 0);
  const DatasetView& view() const { return view_; }

 private:
  std::vector<std::uint64_t> memory_;
  DatasetView view_;
};

/// What a value becomes in a dtype, as float64: rounded, and saturated for integers (NaN becomes 0).
/// Integers take round(value * integer_scale) (+ 128 for u8).
reference::Matrix quantize(const reference::Matrix& values, Dtype dtype, double integer_scale);

struct Problem {
  std::string name;
  Dtype dtype = Dtype::f32;
  Metric metric = Metric::sqeuclidean;
  reference::Matrix data;                ///< values that the dtype holds exactly
  reference::Matrix queries;             ///< likewise
  std::vector<reference::Answer> truth;  ///< per query, as many as max_k

  /// Computes the truth up to max_k neighbours.
  void solve(std::int64_t max_k);
};

/// A problem's values in float64 before they take a dtype.
struct Values {
  reference::Matrix data;
  reference::Matrix queries;
  double integer_scale = 30;
};

Problem make_problem(std::string name, const Values& values, Dtype dtype, Metric metric, std::int64_t max_k);

/// Standard normal data; every third query is a row of the data.
Values gaussian(std::int64_t rows, std::int64_t dim, std::int64_t queries, std::uint64_t seed);

/// A distribution that some search engine gets wrong.
struct Kind {
  const char* name;
  Values (*make)(std::int64_t rows, std::int64_t dim, std::int64_t queries, Random& random);
};

/// All of them; see kinds.cpp.
const std::vector<Kind>& kinds();

}  // namespace kith::conformance
