// Frozen recall curves: on fixed data a graph finds exactly as many of the nearest rows as it did when these
// numbers were written down, on every machine, since nothing in it depends on one. A change that moves them
// is a change of the algorithm: look at both directions, then write down the new ones (the failure prints
// them).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kith/brute_force.hpp"
#include "kith/generate.hpp"
#include "kith/vamana.hpp"

namespace kith {
namespace {

struct Curve {
  const char* name;
  GenerateParameters data;
  Metric metric;
  /// Of 200 queries' 10 nearest rows, those that lists of 10, 20, 40, 80 and 160 find.
  std::vector<std::int64_t> found;
  /// Nodes that the list of 40 expanded for all of them.
  std::int64_t hops;
  /// What walks compare.
  CodeKind codes = CodeKind::scalar;
  std::int64_t rabitq_bits = 0;
};

const std::vector<Curve>& curves() {
  static const std::vector<Curve> list = {
      {"low_intrinsic_f32",
       {.generator = Generator::low_intrinsic_dimension, .dim = 96, .seed = 1, .intrinsic_dim = 16},
       Metric::sqeuclidean,
       {1602, 1846, 1953, 1991, 1999},
       8286},
      {"gaussian_32_f32",
       {.generator = Generator::gaussian, .dim = 32, .seed = 2},
       Metric::euclidean,
       {1119, 1433, 1679, 1858, 1943},
       8386},
      {"clusters_u8",
       {.generator = Generator::clusters, .dim = 64, .dtype = Dtype::u8, .seed = 3},
       Metric::sqeuclidean,
       {1762, 1797, 1846, 1879, 1940},
       8523},
      {"clusters_cosine",
       {.generator = Generator::clusters, .dim = 48, .seed = 4},
       Metric::cosine,
       {1874, 1963, 1981, 1986, 1997},
       8361},
      {"gaussian_inner_product",
       {.generator = Generator::gaussian, .dim = 24, .seed = 5},
       Metric::inner_product,
       {571, 845, 1119, 1397, 1629},
       8666},
      {"low_intrinsic_f64",
       {.generator = Generator::low_intrinsic_dimension, .dim = 20, .dtype = Dtype::f64, .seed = 6},
       Metric::euclidean,
       {1896, 1987, 2000, 2000, 2000},
       8255},
      {"low_intrinsic_f32_rabitq_4",
       {.generator = Generator::low_intrinsic_dimension, .dim = 96, .seed = 1, .intrinsic_dim = 16},
       Metric::sqeuclidean,
       {1538, 1831, 1956, 1989, 1998},
       8281,
       CodeKind::rabitq,
       4},
      {"clusters_cosine_rabitq_1",
       {.generator = Generator::clusters, .dim = 48, .seed = 4},
       Metric::cosine,
       {740, 1294, 1687, 1864, 1962},
       8689,
       CodeKind::rabitq,
       1},
      {"low_intrinsic_f32_pq",
       {.generator = Generator::low_intrinsic_dimension, .dim = 96, .seed = 1, .intrinsic_dim = 16},
       Metric::sqeuclidean,
       {1267, 1723, 1934, 1988, 1997},
       8313,
       CodeKind::pq},
  };
  return list;
}

class RecallCurves : public testing::TestWithParam<Curve> {};

TEST_P(RecallCurves, AreWhatTheyWere) {
  // Their walks are the longest, and the others run the same code.
  constexpr std::int64_t rows = 4000;
  constexpr std::int64_t queries = 200;
  constexpr std::int64_t k = 10;
  GenerateParameters parameters = GetParam().data;
  parameters.rows = rows;
  const Dataset base = generate(parameters);
  parameters.first_row = rows;
  parameters.rows = queries;
  const Dataset asked = generate(parameters);
  const Neighbors truth = knn(base, asked, k, {.metric = GetParam().metric});
  const Vamana index = Vamana::build(base, {.metric = GetParam().metric,
                                            .max_degree = 16,
                                            .build_list_size = 40,
                                            .alpha = 1.1,
                                            .codes = GetParam().codes,
                                            .rabitq_bits = GetParam().rabitq_bits});
  std::vector<std::int64_t> found;
  std::int64_t hops = 0;
  for (const std::int64_t list : {10, 20, 40, 80, 160}) {
    const Neighbors answer = index.search(asked, k, {}, {.list_size = list});
    std::int64_t hits = 0;
    for (std::int64_t q = 0; q < queries; ++q) {
      for (std::int64_t j = 0; j < k; ++j) hits += answer.distance(q, j) <= truth.distance(q, k - 1) ? 1 : 0;
    }
    found.push_back(hits);
    if (list == 40) hops = answer.statistics.hops;
  }
  EXPECT_EQ(found, GetParam().found) << fmt::format("now {{{}}}, hops {}", fmt::join(found, ", "), hops);
  EXPECT_EQ(hops, GetParam().hops);
}

INSTANTIATE_TEST_SUITE_P(Fixed, RecallCurves, testing::ValuesIn(curves()),
                         [](const auto& curve) { return std::string(curve.param.name); });

}  // namespace
}  // namespace kith
