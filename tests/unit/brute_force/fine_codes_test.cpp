// Fine codes: what they promise of a row, pair by pair; the integers that kernels make of them; and that
// searches evaluate few rows through them, in any way of asking.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "brute_force/cpu/filter.hpp"
#include "codes/fine.hpp"
#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "core/rounding.hpp"
#include "core/sample.hpp"
#include "distance/canonical.hpp"
#include "kith/brute_force.hpp"
#include "support/forced_directions.hpp"
#include "support/instruction_sets.hpp"
#include "support/sanitizers.hpp"
#include "unit/brute_force/shapes.hpp"

namespace kith::brute_force {
namespace {

using conformance::Random;

const Shape shapes[] = {
    {"gaussian", [](Random& r, std::int64_t, std::int64_t) { return r.normal(); }},
    {"far from the origin", [](Random& r, std::int64_t, std::int64_t) { return 1e6 + r.normal(); }},
    {"decaying", [](Random& r, std::int64_t,
                    std::int64_t c) { return r.normal() * std::exp(-0.3 * static_cast<double>(c)); }},
    {"norms over six decades",
     [](Random& r, std::int64_t row, std::int64_t) {
       return r.normal() * std::pow(10.0, static_cast<double>(row % 7) - 3);
     }},
    {"one direction",
     [](Random& r, std::int64_t row, std::int64_t c) {
       return static_cast<double>((row * 37 % 101 + 1) * (c + 1)) + 1e-4 * r.normal();
     }},
    {"tiny", [](Random& r, std::int64_t, std::int64_t) { return r.normal() * 1e-35; }},
    {"huge", [](Random& r, std::int64_t, std::int64_t) { return r.normal() * 1e17; }},
    {"squares that underflow", [](Random& r, std::int64_t, std::int64_t) { return r.normal() * 1e-162; }},
};

std::vector<std::int64_t> rows_in(std::uint64_t mask, std::int64_t first) {
  std::vector<std::int64_t> rows;
  for (; mask != 0; mask &= mask - 1) rows.push_back(first + std::countr_zero(mask));
  return rows;
}

struct Tally {
  std::int64_t pairs = 0, without = 0;
  std::int64_t far = 0, far_dropped = 0;  // rows half as near again as the bound
  double longest = 0;                     // of what a distance is at most, beside what it is
};

template <class R>
void look(const DatasetView& data, const DatasetView& queries, Metric metric, const codes::CodeSpace& space,
          Tally& tally) {
  const codes::FineSpace fine_space = codes::fine_space_of(data, space);
  if (!fine_space) return;
  codes::FineCodes fine(fine_space, data.rows);
  const codes::Codes codes = codes::encode_rows_finely(data, space, fine, {});
  const auto canonical = canonical_function(data.dtype, metric);
  std::vector<double> values(static_cast<std::size_t>(canonical_padded(data.dim)));
  FilterQueries filter(codes, queries.rows);
  for (std::int64_t q = 0; q < queries.rows; ++q) {
    const auto query = prepare_canonical_query(queries.row(q), data.dtype, data.dim, metric, values.data());
    if (filter.add(values.data()) != codes::RowKind::regular) continue;
    const codes::FineQuery its = filter.fine_query(fine_space);
    if (!its.usable()) continue;
    for (std::int64_t t = 0; t < codes.tiles; ++t) {
      const std::uint64_t valid = codes.valid[static_cast<std::size_t>(t)];
      std::int32_t found[tile_rows];
      const std::int64_t width = fine_space.width();
      const std::vector<std::int64_t> rows = rows_in(valid, t * tile_rows);
      fine_kernel()(fine.codes.data(), fine.norms.data(), width, its.code(), rows.data(), std::ssize(rows),
                    found);
      const std::int32_t* value = found;
      for (std::int64_t row = t * tile_rows; row < std::min(data.rows, (t + 1) * tile_rows); ++row) {
        if ((valid >> (row % tile_rows) & 1U) == 0) continue;
        const std::int32_t here = *value++;
        ++tally.pairs;
        if (fine.norms[row] == codes::no_fine_code) {
          ++tally.without;
          continue;
        }
        double exact = 0;
        canonical(canonical_rows(data), query, &row, 1, &exact);
        const R distance = static_cast<R>(exact);
        EXPECT_GE(here, its.least_value(real_bound(distance, metric, data.dim)))
            << "row " << row << " would be dropped at its own distance " << distance;
        const double most = its.most_distance(here, fine.codes[row * width + fine_space.values - 1]);
        EXPECT_LE(distance, round_up<R>(most)) << "row " << row;
        if (metric == Metric::sqeuclidean && distance > 0) {
          const R bound = distance / static_cast<R>(2.25);
          ++tally.far;
          tally.far_dropped += here < its.least_value(real_bound(bound, metric, data.dim)) ? 1 : 0;
          tally.longest = std::max(tally.longest, most / static_cast<double>(distance));
        }
      }
    }
  }
}

class FineCodesTest : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override { force_instruction_set(GetParam()); }
  void TearDown() override { force_instruction_set(std::nullopt); }
};

TEST_P(FineCodesTest, BoundEveryDistanceFromBothSides) {
  Tally total;
  for (const Shape& shape : shapes) {
    // In few dimensions what a row errs by and what a query errs by add up.
    for (const std::int64_t dim : {3, 17, 64}) {
      if (test::reduced() && dim == 64) continue;
      const auto [x, q] = make(shape, dim == 3 ? 400 : 150, dim == 3 ? 30 : 5, dim);
      for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::u8, Dtype::i8, Dtype::bf16}) {
        const conformance::Rows data(conformance::quantize(x, dtype, 20), dtype);
        const conformance::Rows asked(conformance::quantize(q, dtype, 20), dtype);
        for (const Metric metric :
             {Metric::sqeuclidean, Metric::euclidean, Metric::inner_product, Metric::cosine}) {
          const bool euclid = metric == Metric::sqeuclidean || metric == Metric::euclidean;
          codes::CodeSpace space = codes::make_code_space(
              data.view(), metric,
              {Filter::int8, euclid ? codes::Form::triangle : codes::Form::cauchy, codes::prefers_narrow()});
          space = codes::real_valued(data.view(), space);
          for (const std::int64_t count : {(dim + 2) / 3, dim}) {
            space.projection = std::make_shared<codes::Projection>(
                codes::make_projection(codes::directions_of(data.view(), space, count, {}), count));
            if (space.projection->directions == 0) continue;  // nothing varies
            SCOPED_TRACE(testing::Message() << shape.name << " " << name(dtype) << " " << name(metric)
                                            << " d=" << dim << " along " << count);
            Tally tally;
            if (dtype == Dtype::f64) {
              look<double>(data.view(), asked.view(), metric, space, tally);
            } else {
              look<float>(data.view(), asked.view(), metric, space, tally);
            }
            EXPECT_LE(tally.without * 20, tally.pairs);
            total.pairs += tally.pairs;
            // Along all directions nothing but rounding is between the two bounds.
            if (count < dim || shape.name != std::string("gaussian")) continue;
            EXPECT_EQ(tally.far_dropped, tally.far);
            EXPECT_LT(tally.longest, 1.1);
          }
        }
      }
    }
  }
  EXPECT_GT(total.pairs, test::reduced() ? 50000 : 200000);
}

// Codes as long as they may be, along a query's, against it, and any.
TEST_P(FineCodesTest, ValuesAreExact) {
  Random random(8);
  for (const std::int64_t width : {16, 32, 48, 112, 528}) {
    const auto entry = static_cast<std::int16_t>(static_cast<double>(codes::fine_norm) /
                                                 std::sqrt(static_cast<double>(width)));
    std::vector<std::int16_t> rows(static_cast<std::size_t>(tile_rows * width));
    std::vector<std::int16_t> query(static_cast<std::size_t>(width));
    std::vector<std::int32_t> norms(tile_rows);
    for (std::int16_t& value : query)
      value = random.below(2) == 0 ? entry : static_cast<std::int16_t>(-entry);
    for (std::int64_t r = 0; r < tile_rows; ++r) {
      for (std::int64_t j = 0; j < width; ++j) {
        const std::int16_t along = query[static_cast<std::size_t>(j)];
        std::int16_t& value = rows[static_cast<std::size_t>(r * width + j)];
        value = r == 0   ? along
                : r == 1 ? static_cast<std::int16_t>(-along)
                         : static_cast<std::int16_t>(random.normal() * entry / 3);
      }
      norms[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(random.below(1 << 28));
    }
    for (const std::uint64_t mask :
         {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{0x8000'0001'0400'0003}}) {
      std::vector<std::int32_t> expected, found(tile_rows + 1, 77);
      for (std::int64_t r = 0; r < tile_rows; ++r) {
        if ((mask >> r & 1U) == 0) continue;
        std::int64_t sum = 0;
        for (std::int64_t j = 0; j < width; ++j) {
          sum += std::int64_t{rows[static_cast<std::size_t>(r * width + j)]} *
                 query[static_cast<std::size_t>(j)];
        }
        expected.push_back(static_cast<std::int32_t>(2 * sum - norms[static_cast<std::size_t>(r)]));
      }
      const std::vector<std::int64_t> numbers = rows_in(mask, 0);
      fine_kernel()(rows.data(), norms.data(), width, query.data(), numbers.data(), std::ssize(numbers),
                    found.data());
      EXPECT_EQ(found[expected.size()], 77);
      found.resize(expected.size());
      EXPECT_EQ(found, expected) << width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, FineCodesTest, testing::ValuesIn(usable_instruction_sets()),
                         [](const auto& set) { return std::string(name(set.param)); });

constexpr std::int64_t n = 8000;
constexpr std::int64_t dim = 320;
constexpr std::int64_t queries = 20;

// Deviations fall by e every `decay` values; the last rows are queries.
std::vector<float> falling(double decay) {
  Random random(17);
  std::vector<float> values(static_cast<std::size_t>((n + queries) * dim));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double deviation = std::exp(-static_cast<double>(i % dim) / decay);
    values[i] =
        static_cast<float>((random.uniform() + random.uniform() + random.uniform() - 1.5) * deviation);
  }
  return values;
}

void expect_same(const Neighbors& found, const Neighbors& expected) {
  EXPECT_EQ(found.indices, expected.indices);
  EXPECT_EQ(found.distances, expected.distances);
}

TEST(FineCodes, LeaveFewRowsToEvaluate) {
  const std::vector<float> values = falling(12);
  const DatasetView data(values.data(), n, dim), asked(values.data() + n * dim, queries, dim);
  const test::ForcedDirections forced_directions(64);
  for (const Metric metric :
       {Metric::sqeuclidean, Metric::euclidean, Metric::inner_product, Metric::cosine}) {
    if (test::reduced() && metric != Metric::cosine) continue;
    const BruteForce plain = BruteForce::build(data, {.metric = metric, .filter = Filter::none});
    const std::vector<std::int64_t> ks = {1, 10, 100, 600};  // longer lists than 512 do without
    std::vector<Neighbors> expected, expected_of_one;
    for (const std::int64_t k : ks) {
      expected.push_back(plain.search(asked, k));
      expected_of_one.push_back(plain.search(asked.slice(4, 1), k));
    }
    for (const InstructionSet set : usable_instruction_sets()) {
      const test::Forced forced(set);
      const BruteForce index = BruteForce::build(data, {.metric = metric, .filter = Filter::int8});
      for (std::size_t i = 0; i < ks.size(); ++i) {
        for (const int threads : {1, 3}) {
          Execution execution;
          execution.threads = threads;
          const Neighbors found = index.search(asked, ks[i], execution);
          expect_same(found, expected[i]);
          EXPECT_GT(found.statistics.directions, 0);
          expect_same(index.search(asked.slice(4, 1), ks[i], execution), expected_of_one[i]);
          if (threads == 1 && ks[i] <= 100) {
            EXPECT_LT(found.statistics.candidates, queries * (ks[i] + ks[i] / 2 + 32))
                << name(metric) << " " << ks[i];
          }
        }
      }
    }
  }
}

// Without room for them candidates are evaluated as they come.
TEST(FineCodes, HonourTheMemoryLimit) {
  const std::vector<float> values = falling(12);
  const DatasetView data(values.data(), n, dim), asked(values.data() + n * dim, queries, dim);
  const test::ForcedDirections forced(160);
  const BruteForce index = BruteForce::build(data, {.filter = Filter::int8});
  Execution execution;
  execution.memory_limit = 3'000'000;  // the filter's codes take half of it, fine ones 2,848,000 bytes
  const BruteForce limited = BruteForce::build(data, {.filter = Filter::int8}, execution);
  EXPECT_LT(limited.memory_bytes() + 2'500'000, index.memory_bytes());
  expect_same(limited.search(asked, 10, execution), index.search(asked, 10));
}

// Rows much longer than those of the sample have no fine codes, nor may such queries have any.
TEST(FineCodes, AreNotNeeded) {
  std::vector<float> values = falling(12);
  const std::vector<std::int64_t> sampled = sample_rows(n, 1024);
  std::vector<std::int64_t> longer;
  for (const std::int64_t row : {5, 1234, 6001, 7777}) {
    if (std::ranges::find(sampled, row) == sampled.end()) longer.push_back(row);
  }
  ASSERT_GE(longer.size(), 2U);
  longer.push_back(n + 1);  // one query of twenty: too few for codes of all values
  for (const std::int64_t row : longer) {
    for (std::int64_t j = 0; j < dim; ++j) values[static_cast<std::size_t>(row * dim + j)] *= 50;
  }
  // Equal rows, and a query like them.
  for (std::int64_t row = 100; row < 400; ++row)
    std::copy_n(values.data() + 99 * dim, dim, values.data() + row * dim);
  std::copy_n(values.data() + 99 * dim, dim, values.data() + (n + 4) * dim);
  const DatasetView data(values.data(), n, dim), asked(values.data() + n * dim, queries, dim);
  const test::ForcedDirections forced(40);
  for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product, Metric::cosine}) {
    const BruteForce index = BruteForce::build(data, {.metric = metric, .filter = Filter::int8});
    const BruteForce plain = BruteForce::build(data, {.metric = metric, .filter = Filter::none});
    for (const std::int64_t k : {1, 20, 250}) {
      const Neighbors found = index.search(asked, k);
      expect_same(found, plain.search(asked, k));
      EXPECT_GT(found.statistics.directions, 0);
    }
  }
  // It is of such rows, and such a query, that the search above has no codes.
  codes::CodeSpace space = codes::make_code_space(
      data, Metric::sqeuclidean, {Filter::int8, codes::Form::triangle, codes::prefers_narrow()});
  space.projection = std::make_shared<codes::Projection>(
      codes::make_projection(codes::directions_of(data, space, 40, {}), 40));
  codes::FineCodes fine(codes::fine_space_of(data, space), n);
  const codes::Codes codes = codes::encode_rows_finely(data, space, fine, {});
  longer.pop_back();
  for (const std::int64_t row : longer) EXPECT_EQ(fine.norms[row], codes::no_fine_code) << row;
  EXPECT_LT(std::count(fine.norms.data(), fine.norms.data() + n, codes::no_fine_code), n / 100);
  FilterQueries filter(codes, 2);
  for (const std::int64_t query : {1, 2}) {
    const float* row = values.data() + (n + query) * dim;
    ASSERT_EQ(filter.add(std::vector<double>(row, row + dim).data()), codes::RowKind::regular);
    EXPECT_EQ(filter.fine_query(fine.space).usable(), query == 2);
  }
}

// A query of which the filter keeps many rows leaves it before the sample is through, and stays out of it:
// every row is evaluated once.
TEST(FineCodes, OfAQueryThatLeavesTheFilter) {
  if (test::reduced()) GTEST_SKIP() << "the plain build runs it";
  constexpr std::int64_t block = 16384;  // rows, of codes of eight values
  constexpr std::int64_t rows = 65 * block;
  constexpr std::int64_t width = 16;
  constexpr std::int64_t asked_rows = 20;
  Random random(29);
  std::vector<float> values(static_cast<std::size_t>((rows + asked_rows) * width));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = random.uniform() + random.uniform() + random.uniform() - 1.5;
    values[i] = static_cast<float>(i % width < 4 ? 2 * value : 0.4 * value);
  }
  float* first = values.data() + rows * width;
  std::fill_n(first, width, 0.0F);
  first[0] = 0.1F;
  first[1] = -0.1F;
  first[4] = 7.5F;  // off the directions
  const DatasetView data(values.data(), rows, width), asked(first, asked_rows, width);
  const test::ForcedDirections forced(4);
  Execution alone;
  alone.threads = 1;
  const BruteForce index = BruteForce::build(data, {.filter = Filter::int8});
  const Neighbors found = index.search(asked, 10, alone);
  EXPECT_GT(found.statistics.fallbacks, 0);
  EXPECT_LT(found.statistics.fallbacks, asked_rows);
  EXPECT_EQ(found.statistics.directions, 4);
  expect_same(found, BruteForce::build(data, {.filter = Filter::none}).search(asked, 10));
}

}  // namespace
}  // namespace kith::brute_force
