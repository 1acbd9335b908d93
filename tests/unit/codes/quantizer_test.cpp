// Quantizers of every kind: round trips, estimates against plain loops, the same bits everywhere, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "kith/brute_force.hpp"
#include "kith/codes.hpp"
#include "kith/error.hpp"
#include "kith/evaluate.hpp"
#include "kith/generate.hpp"
#include "support/errors.hpp"
#include "support/instruction_sets.hpp"
#include "support/sanitizers.hpp"
#include "support/threads.hpp"

namespace kith {
namespace {

using test::contains;
using test::Forced;
using test::message_of;
using test::with_threads;

CodesParameters with_metric(CodesParameters parameters, Metric metric) {
  std::visit([metric](auto& its) { its.metric = metric; }, parameters);
  return parameters;
}

struct Kind {
  const char* name;
  CodesParameters parameters;
  double error;   // reconstruction, at most, of the data below
  double recall;  // of the 10 nearest, at least
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"scalar 8", ScalarCodesParameters{}, 3e-4, 0.95},
      {"scalar 4", ScalarCodesParameters{.bits = 4}, 0.08, 0.5},
      {"rabitq 1", RabitqParameters{.bits = 1}, 0.4, 0.25},
      {"rabitq 4", RabitqParameters{}, 0.02, 0.7},
      {"rabitq 8", RabitqParameters{.bits = 8}, 1e-4, 0.98},
      {"pq", PqParameters{.subspaces = 12, .training_rows = 2000}, 0.25, 0.4},
      {"pq rotated", PqParameters{.subspaces = 12, .rotate = true, .training_rows = 2000}, 0.25, 0.4},
      {"pq uneven", PqParameters{.subspaces = 7, .iterations = 5, .training_rows = 500}, 0.45, 0.2}};
  return all;
}

constexpr Metric metrics[] = {Metric::sqeuclidean, Metric::inner_product};

Dataset rows_of(std::int64_t rows, std::uint64_t seed, Dtype dtype = Dtype::f32, std::int64_t dim = 48) {
  return generate({.generator = Generator::clusters,
                   .rows = rows,
                   .dim = dim,
                   .dtype = dtype,
                   .seed = seed,
                   .clusters = 12});
}

double value_of(const Dataset& data, std::int64_t row, std::int64_t i) {
  const void* at = data.view().row(row);
  return data.dtype() == Dtype::f64 ? static_cast<const double*>(at)[i] : static_cast<const float*>(at)[i];
}

double distance(const Dataset& a, std::int64_t i, const Dataset& b, std::int64_t j, Metric metric) {
  double square = 0, product = 0;
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    const double x = value_of(a, i, d), y = value_of(b, j, d);
    square += (x - y) * (x - y);
    product += x * y;
  }
  return metric == Metric::inner_product ? -product : square;
}

bool equal(const Dataset& a, const Dataset& b) {
  return a.rows() == b.rows() && a.dim() == b.dim() &&
         std::memcmp(a.view().data, b.view().data,
                     static_cast<std::size_t>(a.rows() * a.dim()) * size_of(a.dtype())) == 0;
}

TEST(Quantizer, CodesStandForTheirRows) {
  const Dataset data = rows_of(1500, 1);
  for (const Kind& kind : kinds()) {
    for (const Metric metric : metrics) {
      const Quantizer quantizer = Quantizer::train(data, with_metric(kind.parameters, metric));
      const Dataset codes = quantizer.encode(data);
      ASSERT_EQ(codes.rows(), 1500);
      ASSERT_EQ(codes.dim(), quantizer.code_bytes());
      const Dataset decoded = quantizer.decode(codes);
      ASSERT_EQ(decoded.dtype(), Dtype::f32);
      double lost = 0, whole = 0;
      std::vector<double> mean(48, 0.0);
      for (std::int64_t i = 0; i < 1500; ++i) {
        for (std::int64_t j = 0; j < 48; ++j)
          mean[static_cast<std::size_t>(j)] += value_of(data, i, j) / 1500;
      }
      for (std::int64_t i = 0; i < 1500; ++i) {
        lost += distance(data, i, decoded, i, Metric::sqeuclidean);
        for (std::int64_t j = 0; j < 48; ++j) {
          whole += std::pow(value_of(data, i, j) - mean[static_cast<std::size_t>(j)], 2);
        }
      }
      const double error = quantizer.reconstruction_error(data, codes);
      EXPECT_NEAR(error, lost / whole, 1e-4 * error + 1e-9) << kind.name;
      EXPECT_LT(error, kind.error) << kind.name << " " << name(metric);
      EXPECT_GT(error, 0) << kind.name;
    }
  }
}

TEST(Quantizer, EstimatesFollowDistances) {
  const Dataset data = rows_of(1200, 2);
  const Dataset queries = rows_of(60, 2);
  for (const Kind& kind : kinds()) {
    for (const Metric metric : metrics) {
      const Quantizer quantizer = Quantizer::train(data, with_metric(kind.parameters, metric));
      const Dataset codes = quantizer.encode(data);
      const Estimates found = quantizer.estimate(queries, codes);
      ASSERT_EQ(found.queries, 60);
      ASSERT_EQ(found.rows, 1200);
      EXPECT_EQ(found.bounds.empty(), quantizer.kind() != CodeKind::rabitq);
      // Against distances to what the codes stand for; RaBitQ's differ from them, to be without bias.
      const Dataset decoded = quantizer.decode(codes);
      double worst = 0, spread = 0;
      for (std::int64_t q = 0; q < 60; ++q) {
        for (std::int64_t i = 0; i < 1200; ++i) {
          const double estimate = found.distances[static_cast<std::size_t>(q * 1200 + i)];
          worst = std::max(worst, std::abs(estimate - distance(queries, q, decoded, i, metric)));
          spread = std::max(spread, std::abs(estimate));
        }
      }
      const double room = quantizer.kind() == CodeKind::pq ? 1e-5 : kind.error < 1e-3 ? 0.03 : 0.5;
      EXPECT_LT(worst, room * spread) << kind.name << " " << name(metric);
      const Neighbors nearest = quantizer.search(queries, codes, 10);
      EXPECT_FALSE(nearest.statistics.certified);
      const Neighbors exact = knn(data, queries, 10, {.metric = metric});
      EXPECT_GE(evaluate(nearest, exact).recall, kind.recall) << kind.name << " " << name(metric);
    }
  }
}

TEST(Quantizer, ScalarEstimatesAreDistancesOfCodes) {
  const Dataset data = rows_of(300, 3);
  for (const std::int64_t bits : {4, 8}) {
    const Quantizer quantizer = Quantizer::train(data, ScalarCodesParameters{.bits = bits});
    EXPECT_EQ(quantizer.code_bytes(), bits == 4 ? 32 : 64);
    const Dataset codes = quantizer.encode(data);
    const Dataset decoded = quantizer.decode(codes);
    const Estimates found = quantizer.estimate(data, codes);
    for (std::int64_t q = 0; q < 300; q += 7) {
      for (std::int64_t i = 0; i < 300; ++i) {
        const double expected = distance(decoded, q, decoded, i, Metric::sqeuclidean);
        EXPECT_NEAR(found.distances[static_cast<std::size_t>(q * 300 + i)], expected, 1e-5 * expected + 1e-6);
      }
    }
  }
}

TEST(Quantizer, PqCodesAreTheNearestCentroids) {
  const Dataset data = rows_of(700, 4);
  const Quantizer quantizer = Quantizer::train(data, PqParameters{.subspaces = 5, .training_rows = 600});
  const Dataset codes = quantizer.encode(data);
  // Codes whose bytes are all c decode to the centroids of number c.
  Dataset numbers = Dataset::allocate(Dtype::u8, 256, 5);
  for (std::int64_t c = 0; c < 256; ++c)
    std::memset(numbers.mutable_values<std::uint8_t>().data() + c * 5, int(c), 5);
  const Dataset centroids = quantizer.decode(numbers);
  const auto* bytes = static_cast<const std::uint8_t*>(codes.view().data);
  const std::int64_t begins[] = {0, 10, 20, 30, 39, 48};  // 48 values in 5 parts: 10 10 10 9 9
  for (std::int64_t i = 0; i < 700; ++i) {
    for (int part = 0; part < 5; ++part) {
      const auto square = [&](std::int64_t c) {
        double sum = 0;
        for (std::int64_t d = begins[part]; d < begins[part + 1]; ++d) {
          sum += std::pow(value_of(data, i, d) - value_of(centroids, c, d), 2);
        }
        return sum;
      };
      double least = square(0);
      for (std::int64_t c = 1; c < 256; ++c) least = std::min(least, square(c));
      EXPECT_LE(square(bytes[i * 5 + part]), least * (1 + 1e-4) + 1e-6);
    }
  }
}

TEST(Quantizer, SearchRanksByEstimates) {
  const Dataset data = rows_of(3000, 5);
  const Dataset queries = rows_of(9, 6);
  for (const Kind& kind : kinds()) {
    const Quantizer quantizer = Quantizer::train(data, kind.parameters);
    const Dataset codes = quantizer.encode(data);
    const Estimates found = quantizer.estimate(queries, codes);
    const Neighbors nearest = quantizer.search(queries, codes, 3005);
    for (std::int64_t q = 0; q < 9; ++q) {
      const float* estimates = found.distances.data() + q * 3000;
      std::vector<std::int64_t> order(3000);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](std::int64_t a, std::int64_t b) { return estimates[a] < estimates[b]; });
      for (std::int64_t rank = 0; rank < 3000; ++rank) {
        ASSERT_EQ(nearest.indices_of(q)[static_cast<std::size_t>(rank)],
                  order[static_cast<std::size_t>(rank)]);
        ASSERT_EQ(nearest.distance(q, rank), estimates[order[static_cast<std::size_t>(rank)]]);
      }
      EXPECT_EQ(nearest.indices_of(q)[3000], -1);
      EXPECT_EQ(nearest.distance(q, 3004), std::numeric_limits<double>::infinity());
    }
  }
}

TEST(Quantizer, TheSameBitsFromAnyThreadsAndInstructionSet) {
  for (const Dtype dtype : {Dtype::f32, Dtype::u8}) {
    if (test::reduced() && dtype != Dtype::f32) continue;
    const Dataset data = rows_of(1100, 7, dtype);
    for (const Kind& kind : kinds()) {
      for (const Metric metric : metrics) {
        if (test::reduced() && metric != Metric::sqeuclidean) continue;
        const CodesParameters parameters = with_metric(kind.parameters, metric);
        const auto run = [&](const Execution& execution) {
          const Quantizer quantizer = Quantizer::train(data, parameters, execution);
          Dataset codes = quantizer.encode(data, execution);
          Dataset decoded = quantizer.decode(codes, execution);
          Estimates found = quantizer.estimate(data.view().slice(100, 20), codes, execution);
          return std::tuple{std::move(codes), std::move(decoded), std::move(found),
                            quantizer.reconstruction_error(data, codes, execution)};
        };
        const auto [codes, decoded, found, error] = run(with_threads(1));
        for (const InstructionSet set : usable_instruction_sets()) {
          const Forced forced(set);
          for (const int threads : {1, 3}) {
            const auto [other_codes, other_decoded, other_found, other_error] = run(with_threads(threads));
            EXPECT_TRUE(equal(codes, other_codes)) << kind.name << " " << name(set) << " " << threads;
            EXPECT_TRUE(equal(decoded, other_decoded)) << kind.name << " " << name(set);
            EXPECT_EQ(found.distances, other_found.distances) << kind.name << " " << name(set);
            EXPECT_EQ(found.bounds, other_found.bounds) << kind.name << " " << name(set);
            EXPECT_EQ(error, other_error) << kind.name << " " << name(set);
          }
        }
      }
    }
  }
}

TEST(Quantizer, ParametersTakeEffect) {
  const Dataset data = rows_of(1000, 8);
  const auto decoded = [&](const CodesParameters& parameters) {
    const Quantizer quantizer = Quantizer::train(data, parameters);
    return quantizer.decode(quantizer.encode(data));
  };
  EXPECT_FALSE(equal(decoded(RabitqParameters{}), decoded(RabitqParameters{.seed = 1})));
  EXPECT_FALSE(equal(decoded(RabitqParameters{}), decoded(RabitqParameters{.bits = 5})));
  const Dataset pq = decoded(PqParameters{});
  EXPECT_FALSE(equal(pq, decoded(PqParameters{.rotate = true})));
  EXPECT_FALSE(
      equal(decoded(PqParameters{.rotate = true}), decoded(PqParameters{.rotate = true, .seed = 4})));
  EXPECT_FALSE(equal(pq, decoded(PqParameters{.iterations = 1})));
  EXPECT_FALSE(equal(pq, decoded(PqParameters{.training_rows = 400})));
  EXPECT_FALSE(equal(pq, decoded(PqParameters{.seed = 1})));
  EXPECT_EQ(std::get<PqParameters>(Quantizer::train(data, PqParameters{}).parameters()).subspaces, 12);
  EXPECT_EQ(Quantizer::train(data, PqParameters{.subspaces = 48}).code_bytes(), 48);
}

// Few rows, one dimension, equal rows, other element types, rows apart in memory.
TEST(Quantizer, RowsOfEveryKind) {
  for (const Kind& kind : kinds()) {
    for (const Dtype dtype : all_dtypes) {
      const Dataset data = rows_of(40, 9, dtype);
      const Quantizer quantizer = Quantizer::train(data, kind.parameters);
      EXPECT_EQ(quantizer.decode(quantizer.encode(data)).dtype(), distance_dtype(dtype));
      EXPECT_LT(quantizer.reconstruction_error(data, quantizer.encode(data)), 0.4)
          << kind.name << name(dtype);
    }
    CodesParameters parameters = kind.parameters;
    if (auto* pq = std::get_if<PqParameters>(&parameters)) pq->subspaces = 0;
    for (const std::int64_t dim : {1, 3}) {
      const Dataset narrow = rows_of(300, 10, Dtype::f32, dim);
      const Quantizer quantizer = Quantizer::train(narrow, parameters);
      EXPECT_LT(quantizer.reconstruction_error(narrow, quantizer.encode(narrow)), 0.45)
          << kind.name << " " << dim;
    }
    const std::vector<float> equal_rows(10 * 48, 2.5F);
    const DatasetView same(equal_rows.data(), 10, 48);
    const Quantizer quantizer = Quantizer::train(same, kind.parameters);
    EXPECT_EQ(quantizer.reconstruction_error(same, quantizer.encode(same)), 0) << kind.name;
    EXPECT_EQ(quantizer.estimate(same, quantizer.encode(same)).distances, std::vector<float>(100, 0.0F))
        << kind.name;
    const Dataset none = quantizer.encode(same.slice(0, 0));
    EXPECT_EQ(none.rows(), 0);
    EXPECT_EQ(quantizer.search(same, none, 2).indices, std::vector<std::int64_t>(20, -1));

    const Dataset wide = rows_of(50, 11, Dtype::f32, 96);
    const DatasetView apart(static_cast<const float*>(wide.view().data), 50, 48, 96);
    const Quantizer strided = Quantizer::train(apart, kind.parameters);
    const Dataset packed = Dataset::copy(apart);
    const Dataset codes = strided.encode(apart);
    EXPECT_TRUE(equal(codes, Quantizer::train(packed, kind.parameters).encode(packed))) << kind.name;
    // Codes apart in memory, too.
    std::vector<std::uint8_t> gaps(static_cast<std::size_t>(50 * (codes.dim() + 3)), 0xAA);
    for (std::int64_t i = 0; i < 50; ++i) {
      std::memcpy(gaps.data() + i * (codes.dim() + 3), codes.view().row(i),
                  static_cast<std::size_t>(codes.dim()));
    }
    const DatasetView gapped(gaps.data(), 50, codes.dim(), codes.dim() + 3);
    EXPECT_EQ(strided.estimate(apart, gapped).distances, strided.estimate(apart, codes).distances)
        << kind.name;
    EXPECT_TRUE(equal(strided.decode(gapped), strided.decode(codes))) << kind.name;
  }
}

TEST(Quantizer, DoublesFarFromTheOriginKeepTheirDigits) {
  Dataset data = Dataset::allocate(Dtype::f64, 500, 8);
  const Dataset near = rows_of(500, 12, Dtype::f64, 8);
  for (std::int64_t i = 0; i < 500 * 8; ++i) {
    data.mutable_values<double>()[static_cast<std::size_t>(i)] = 5e9 + value_of(near, 0, i);
  }
  for (const Kind& kind : kinds()) {
    CodesParameters parameters = kind.parameters;
    if (auto* pq = std::get_if<PqParameters>(&parameters)) pq->subspaces = 4;
    const Quantizer quantizer = Quantizer::train(data, parameters);
    EXPECT_LT(quantizer.reconstruction_error(data, quantizer.encode(data)), 0.4) << kind.name;
  }
}

TEST(Quantizer, WhatCannotBeCodedIsNamed) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values(static_cast<std::size_t>(2000 * 4), 1.0F);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97);
  const DatasetView good(values.data(), 2000, 4);
  std::vector<float> bad_values = values;
  bad_values[4 * 1500 + 1] = inf;
  bad_values[4 * 1800] = 2e15F;
  bad_values[4 * 1900 + 3] = std::numeric_limits<float>::quiet_NaN();
  const DatasetView bad(bad_values.data(), 2000, 4);
  for (const Kind& kind : kinds()) {
    CodesParameters parameters = kind.parameters;
    if (auto* pq = std::get_if<PqParameters>(&parameters)) pq->subspaces = 2;
    const Quantizer quantizer = Quantizer::train(bad, parameters);  // from the others
    EXPECT_TRUE(
        contains(message_of<InvalidArgument>([&] { (void)quantizer.encode(bad); }), "row 1500 of the rows"));
    const Dataset codes = quantizer.encode(good);
    EXPECT_LT(quantizer.reconstruction_error(good, codes), 0.4) << kind.name;  // they have spoilt nothing
    for (const std::int64_t row : {1500, 1800, 1900}) {
      EXPECT_TRUE(contains(
          message_of<InvalidArgument>([&] { (void)quantizer.estimate(bad.slice(row - 2, 3), codes); }),
          "row 2 of the queries"));
      EXPECT_THROW((void)quantizer.search(bad.slice(row, 1), codes, 1), InvalidArgument);
    }
  }
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { Quantizer::train(bad.slice(1900, 1), RabitqParameters{}); }),
               "none of the 1 rows"));
  // A row longer than those trained on has no code where lengths are part of it.
  const Quantizer products = Quantizer::train(good, ScalarCodesParameters{.metric = Metric::inner_product});
  const float longest[] = {1000, 0, 0, 0};
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { (void)products.encode(DatasetView(longest, 1, 4)); }),
               "longer than every row"));
  EXPECT_NO_THROW((void)products.encode(good));
  EXPECT_NO_THROW((void)products.estimate(DatasetView(longest, 1, 4), products.encode(good)));
}

TEST(Quantizer, Refusals) {
  const Dataset data = rows_of(50, 13);
  Execution little;
  little.memory_limit = 99;
  Execution both;
  both.devices = {{Device::Kind::cpu}, {Device::Kind::cuda}};
  const auto refused = [&](const CodesParameters& parameters, const char* words) {
    EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { Quantizer::train(data, parameters); }), words));
  };
  refused(ScalarCodesParameters{.bits = 5}, "scalar codes of 5 bits; use 8 or 4");
  refused(RabitqParameters{.bits = 0}, "rabitq codes of 0 bits; use 1 to 8");
  refused(RabitqParameters{.bits = 9}, "rabitq codes of 9 bits");
  refused(PqParameters{.subspaces = 49}, "49 subspaces");
  refused(PqParameters{.subspaces = -1}, "-1 subspaces");
  refused(PqParameters{.iterations = 0}, "0 iterations");
  refused(PqParameters{.iterations = 1001}, "1001 iterations");
  refused(PqParameters{.training_rows = 0}, "training_rows is 0");
  refused(RabitqParameters{.metric = Metric::euclidean}, "use sqeuclidean");
  refused(PqParameters{.metric = Metric::cosine}, "divide rows and queries by their norms");
  refused(ScalarCodesParameters{.metric = Metric::manhattan}, "metric manhattan");
  EXPECT_THROW(Quantizer::train(data.view().slice(0, 0), RabitqParameters{}), InvalidArgument);
  const std::vector<float> wide(40000, 1.0F);
  EXPECT_TRUE(contains(message_of<InvalidArgument>(
                           [&] { Quantizer::train(DatasetView(wide.data(), 1, 40000), RabitqParameters{}); }),
                       "32768"));
  EXPECT_THROW(Quantizer::train(data, PqParameters{}, little), OutOfMemory);

  const Quantizer quantizer = Quantizer::train(data, RabitqParameters{});
  const Dataset codes = quantizer.encode(data);
  const auto says = [](const auto& call, const char* words) {
    EXPECT_TRUE(contains(message_of<InvalidArgument>(call), words));
  };
  says([&] { (void)quantizer.encode(rows_of(5, 1, Dtype::f64)); }, "f64");
  says([&] { (void)quantizer.encode(rows_of(5, 1, Dtype::f32, 7)); }, "dimension 7");
  says([&] { (void)quantizer.decode(data); }, "the codes are f32 of 48");
  says([&] { (void)quantizer.estimate(data, data); }, "u8 of 44");
  says([&] { (void)quantizer.estimate(data, codes, {}, 1.0); }, "a confidence of 1");
  says([&] { (void)quantizer.estimate(data, codes, {}, 0.0); }, "a confidence of 0");
  says([&] { (void)quantizer.search(data, codes, 0); }, "k");
  says([&] { (void)quantizer.reconstruction_error(data, codes.view().slice(0, 3)); }, "50 rows and 3 codes");
  says([&] { (void)quantizer.encode(data, both); }, "");
  EXPECT_THROW((void)quantizer.encode(data, little), OutOfMemory);
  EXPECT_THROW((void)quantizer.decode(codes, little), OutOfMemory);
  EXPECT_THROW((void)quantizer.estimate(data, codes, little), OutOfMemory);
  EXPECT_THROW((void)quantizer.search(data, codes, 5, little), OutOfMemory);
  Execution stopped;
  stopped.cancelled = [] { return true; };
  EXPECT_THROW((void)Quantizer::train(data, PqParameters{}, stopped), Cancelled);
  EXPECT_THROW((void)quantizer.encode(data, stopped), Cancelled);
  EXPECT_THROW((void)quantizer.estimate(data, codes, stopped), Cancelled);
}

}  // namespace
}  // namespace kith
