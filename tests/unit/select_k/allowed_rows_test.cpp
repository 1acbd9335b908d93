// What searches over allowed rows say of themselves; their answers are the conformance suite's.
#include <gtest/gtest.h>

#include <algorithm>
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

// Many queries pay for a copy of few rows, one query does not, nor do most of the rows or those there is no
// memory for. The answers are the same.
TEST(AllowedRows, AreCopiedWhereThatIsLessWork) {
  constexpr std::int64_t rows = 20000;
  constexpr std::int64_t queries = 500;
  const Dataset data = generate({.rows = rows, .dim = 32});
  const Dataset asked = generate({.rows = queries, .dim = 32, .first_row = rows});
  const auto one_of = [](std::int64_t part) {
    RowSet allowed(rows);
    for (std::int64_t row = 0; row < rows; row += part) allowed.insert(row);
    return allowed;
  };
  const BruteForce index = BruteForce::build(data, {.filter = Filter::int8});
  const RowSet tenth = one_of(10);
  const Neighbors found = index.search(asked, 10, {}, {.allowed = &tenth});
  EXPECT_EQ(found.statistics.pairs, queries * rows / 10);
  const Neighbors single = index.search(asked.view().slice(3, 1), 10, {}, {.allowed = &tenth});
  EXPECT_GE(single.statistics.pairs, rows);
  EXPECT_TRUE(std::equal(single.indices.begin(), single.indices.end(), found.indices_of(3).begin()));
  Execution limited;
  limited.memory_limit = std::uint64_t{rows} / 10 * 32 * sizeof(float) - 1;
  const Neighbors uncopied = index.search(asked, 10, limited, {.allowed = &tenth});
  EXPECT_GE(uncopied.statistics.pairs, queries * rows);
  EXPECT_EQ(uncopied.indices, found.indices);
  EXPECT_EQ(uncopied.distances, found.distances);
  RowSet most(rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    if (row % 10 != 0) most.insert(row);
  }
  EXPECT_GE(index.search(asked, 10, {}, {.allowed = &most}).statistics.pairs, queries * rows);
}

}  // namespace
}  // namespace kith
