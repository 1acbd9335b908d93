// The golden index files: what is in them, by formula. They are never rewritten once a version is out;
// a new format version, or a new layout of trees, adds files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "conformance/problem.hpp"
#include "kith/brute_force.hpp"

namespace kith::test {

struct Golden {
  const char* file;
  Dtype dtype;
  Metric metric;
  Filter filter;
};

inline const std::vector<Golden>& golden_files() {
  static const std::vector<Golden> list = {
      {"f32_cosine.kith", Dtype::f32, Metric::cosine, Filter::int8},
      {"f16_euclidean.kith", Dtype::f16, Metric::euclidean, Filter::fp16},
      {"bf16_inner_product.kith", Dtype::bf16, Metric::inner_product, Filter::fp32},
      {"i8_sqeuclidean.kith", Dtype::i8, Metric::sqeuclidean, Filter::int8},
      {"u8_sqeuclidean.kith", Dtype::u8, Metric::sqeuclidean, Filter::int8},
      {"f64_manhattan.kith", Dtype::f64, Metric::manhattan, Filter::none},
  };
  return list;
}

/// 9 rows and 4 queries of dimension 5: small multiples of 1/4 (of 1 for integers), a duplicate, a zero row.
inline conformance::Problem golden_problem(const Golden& golden) {
  conformance::Values values;
  values.integer_scale = 4;
  values.data = {9, 5, {}};
  values.queries = {4, 5, {}};
  for (int i = 0; i < 45; ++i) values.data.values.push_back((i * 7 + i / 5 * 3) % 23 * 0.25 - 2);
  for (int i = 0; i < 20; ++i) values.queries.values.push_back((i * 5 + i / 5) % 19 * 0.25 - 2);
  for (int j = 0; j < 5; ++j) {
    values.data.row(7)[j] = values.data.row(2)[j];
    values.data.row(4)[j] = 0;
  }
  return conformance::make_problem(golden.file, values, golden.dtype, golden.metric, 9);
}

struct GoldenTree {
  const char* file;
  const char* index;
  Dtype dtype;
  Metric metric;
};

inline const std::vector<GoldenTree>& golden_trees() {
  static const std::vector<GoldenTree> list = {
      {"kd_tree_f32.kith", "kd_tree", Dtype::f32, Metric::euclidean},
      {"octree_f64.kith", "octree", Dtype::f64, Metric::sqeuclidean},
  };
  return list;
}

constexpr std::int64_t golden_leaf_size = 4;

/// 150 rows and 6 queries of dimension 3, multiples of 1/4: nodes on two levels, a leaf of 20 equal rows, a
/// row with a NaN, one with an infinity; the last query has an infinity, too.
inline conformance::Problem golden_tree_problem(const GoldenTree& golden) {
  conformance::Values values;
  values.data = {150, 3, {}};
  values.queries = {6, 3, {}};
  for (int i = 0; i < 450; ++i) values.data.values.push_back((i * i * 7 + i * 11) % 97 * 0.25 - 9);
  for (int i = 0; i < 18; ++i) values.queries.values.push_back((i * i * 5 + i * 3) % 89 * 0.25 - 8);
  for (int i = 30; i < 50; ++i) std::copy_n(values.data.row(7), 3, values.data.row(i));
  values.data.row(60)[1] = std::numeric_limits<double>::quiet_NaN();
  values.data.row(61)[2] = std::numeric_limits<double>::infinity();
  values.queries.row(5)[0] = -std::numeric_limits<double>::infinity();
  return conformance::make_problem(golden.file, values, golden.dtype, golden.metric, 150);
}

}  // namespace kith::test
