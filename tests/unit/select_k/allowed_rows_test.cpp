// What searches over allowed rows say of themselves; their answers are the conformance suite's.
#include <gtest/gtest.h>

#include <limits>

#include "kith/brute_force.hpp"
#include "kith/generate.hpp"

namespace kith {
namespace {

// A limit cuts the search into blocks of queries: those with a NaN are counted in each.
TEST(AllowedRows, QueriesWithANanAreCountedInEveryBlock) {
  const Dataset data = generate({.rows = 2000, .dim = 3});
  Dataset queries = Dataset::copy(data.view().slice(0, 64));
  const auto values = queries.mutable_values<float>();
  values.front() = values.back() = std::numeric_limits<float>::quiet_NaN();
  RowSet allowed(2000);
  for (std::int64_t row = 0; row < 2000; row += 2) allowed.insert(row);
  const BruteForce index = BruteForce::build(data);
  const Neighbors whole = index.search(queries, 1, {}, {.allowed = &allowed});
  Execution limited;
  limited.memory_limit = 4096;
  const Neighbors cut = index.search(queries, 1, limited, {.allowed = &allowed});
  EXPECT_EQ(whole.statistics.nan_queries, 2);
  EXPECT_EQ(cut.statistics.nan_queries, 2);
  EXPECT_EQ(cut.indices, whole.indices);
  EXPECT_EQ(cut.distances, whole.distances);
}

}  // namespace
}  // namespace kith
