// Codes along leading directions: taken where they pay and nowhere else, and no answer knows of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <vector>

#include <unistd.h>

#include "brute_force/directions.hpp"
#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "support/forced_directions.hpp"
#include "support/instruction_sets.hpp"
#include "support/sanitizers.hpp"

namespace kith {
namespace {

constexpr std::int64_t rows = 60000;
constexpr std::int64_t dim = 128;
constexpr std::int64_t queries = 12;

// Deviations fall by e every `decay` dimensions; the queries come after the rows.
std::vector<float> falling(double decay) {
  conformance::Random random(41);
  std::vector<float> values(static_cast<std::size_t>((rows + queries) * dim));
  std::vector<double> deviations(dim);
  for (std::size_t j = 0; j < deviations.size(); ++j)
    deviations[j] = std::exp(-static_cast<double>(j) / decay);
  for (std::size_t i = 0; i < values.size(); ++i) {
    // A sum of uniform values: quicker to draw than normal ones.
    const double value = random.uniform() + random.uniform() + random.uniform() - 1.5;
    values[i] = static_cast<float>(value * deviations[i % dim]);
  }
  return values;
}

const std::vector<float>& steep() {
  static const std::vector<float> values = falling(8);
  return values;
}

DatasetView rows_of(const std::vector<float>& values) {
  return DatasetView(values.data(), rows, dim);
}
DatasetView queries_of(const std::vector<float>& values) {
  return DatasetView(values.data() + rows * dim, queries, dim);
}

BruteForce with_all_values(const DatasetView& data, const BruteForceParameters& parameters = {}) {
  const test::ForcedDirections none(0);
  return BruteForce::build(data, parameters);
}

void expect_same(const Neighbors& found, const Neighbors& expected) {
  EXPECT_EQ(found.indices, expected.indices);
  EXPECT_EQ(found.distances, expected.distances);
}

TEST(BruteForceDirections, AreTakenWhereTheyPay) {
  const DatasetView asked = queries_of(steep());
  for (const InstructionSet set : usable_instruction_sets()) {
    const test::Forced forced(set);
    for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product, Metric::cosine}) {
      if (test::reduced() && metric != Metric::inner_product) continue;
      const BruteForce index = BruteForce::build(rows_of(steep()), {.metric = metric});
      const Neighbors found = index.search(asked, 10);
      EXPECT_GT(found.statistics.directions, 0) << name(set) << " " << name(metric);
      EXPECT_LT(found.statistics.directions, dim / 2);
      const BruteForce plain = with_all_values(rows_of(steep()), {.metric = metric});
      const Neighbors expected = plain.search(asked, 10);
      EXPECT_EQ(expected.statistics.directions, 0);
      EXPECT_LT(index.memory_bytes(), plain.memory_bytes());
      expect_same(found, expected);
    }
  }
}

TEST(BruteForceDirections, AreLeftOutWhereTheyDoNotPay) {
  // No directions lead.
  const std::vector<float> even = falling(1e9);
  const BruteForce index = BruteForce::build(rows_of(even));
  EXPECT_EQ(index.search(queries_of(even), 5).statistics.directions, 0);
  // Few queries, few rows, no codes at all.
  const DatasetView data = rows_of(steep());
  EXPECT_EQ(knn(data, queries_of(steep()), 5).statistics.directions, 0);
  EXPECT_EQ(BruteForce::build(data.slice(0, 900)).search(queries_of(steep()), 5).statistics.directions, 0);
  const BruteForce none = BruteForce::build(data, {.filter = Filter::none});
  EXPECT_EQ(none.search(data.slice(0, 2), 5).statistics.directions, 0);
  EXPECT_EQ(BruteForce::build(data, {.metric = Metric::manhattan})
                .search(data.slice(0, 2), 5)
                .statistics.directions,
            0);
}

// Queries that lie off the directions: codes along these would keep most rows.
TEST(BruteForceDirections, GiveWayForQueriesUnlikeTheRows) {
  const std::vector<float> even = falling(1e9);
  for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product, Metric::cosine}) {
    if (test::reduced() && metric != Metric::cosine) continue;
    const BruteForce index = BruteForce::build(rows_of(steep()), {.metric = metric});
    const std::uint64_t before = index.memory_bytes();
    EXPECT_GT(index.search(queries_of(steep()), 10).statistics.directions, 0);
    EXPECT_EQ(index.memory_bytes(), before);
    Execution alone;  // how many several threads keep varies from run to run
    alone.threads = 1;
    Execution little = alone;
    little.memory_limit = before + 1'000'000;
    const Neighbors limited = index.search(queries_of(even), 10, little);
    EXPECT_GT(limited.statistics.directions, 0) << "no memory for others";
    const Neighbors found = index.search(queries_of(even), 10, alone);
    EXPECT_EQ(found.statistics.directions, 0) << name(metric);
    // Seven bits of all values (AVX2) keep about as many.
    const std::int64_t more =
        active_instruction_set() == InstructionSet::avx2 ? limited.statistics.candidates / 10 : 0;
    EXPECT_LT(found.statistics.candidates, limited.statistics.candidates + more) << name(metric);
    EXPECT_GT(index.memory_bytes(), before);
    expect_same(found, limited);
    expect_same(found, with_all_values(rows_of(steep()), {.metric = metric}).search(queries_of(even), 10));
    EXPECT_GT(index.search(queries_of(steep()), 10).statistics.directions, 0);
  }
}

TEST(BruteForceDirections, HonourTheMemoryLimit) {
  const DatasetView data = rows_of(steep());
  Execution execution;
  execution.memory_limit =
      10'000'000;  // codes of all values take 8.4 MB, finding directions 6.4 MB beside them
  const BruteForce index = BruteForce::build(data, {}, execution);
  EXPECT_EQ(index.filter(), Filter::int8);
  EXPECT_EQ(index.search(queries_of(steep()), 5, execution).statistics.directions, 0);
  execution.memory_limit = 60'000'000;
  EXPECT_GT(BruteForce::build(data, {}, execution).search(queries_of(steep()), 5).statistics.directions, 0);
}

TEST(BruteForceDirections, ChangeNoAnswerInAnyWayOfAsking) {
  const DatasetView data = rows_of(steep()), asked = queries_of(steep());
  const BruteForce plain = with_all_values(data);
  const BruteForce index = BruteForce::build(data);
  for (const std::int64_t k : {1, 100, 3000}) {
    const Neighbors expected = plain.search(asked, k);
    for (const int threads : {1, 3}) {
      Execution execution;
      execution.threads = threads;
      expect_same(index.search(asked, k, execution), expected);
      expect_same(index.search(asked.slice(3, 1), k, execution), plain.search(asked.slice(3, 1), k));
    }
  }
  std::vector<std::int64_t> third;
  for (std::int64_t i = 0; i < rows; i += 3) third.push_back(i);
  const RowSet allowed = RowSet::from_indices(rows, third);
  expect_same(index.search(asked, 20, {}, {.allowed = &allowed}),
              plain.search(asked, 20, {}, {.allowed = &allowed}));

  const auto folder =
      std::filesystem::temp_directory_path() / ("kith-directions-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  index.save(folder / "along");
  plain.save(folder / "all");
  EXPECT_EQ(std::filesystem::file_size(folder / "along"), std::filesystem::file_size(folder / "all"));
  const Neighbors loaded = BruteForce::load(folder / "along").search(asked, 10);
  EXPECT_GT(loaded.statistics.directions, 0);
  expect_same(loaded, plain.search(asked, 10));
  std::filesystem::remove_all(folder);
}

TEST(BruteForceDirections, AreFoundUntilTheCallerCancels) {
  Execution execution;
  int asked = 0;
  execution.cancelled = [&] { return ++asked > 2; };
  EXPECT_THROW(BruteForce::build(rows_of(steep()), {}, execution), Cancelled);
}

}  // namespace
}  // namespace kith
