// Equal rows are found where there are many, and only equal ones.
#include "codes/duplicates.hpp"

#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/problem.hpp"

namespace kith::codes {
namespace {

// Every group must be exactly the rows equal to its first.
void expect_groups(const std::vector<float>& values, std::int64_t dim, const Duplicates& found) {
  std::map<std::vector<float>, std::vector<std::int64_t>> groups;
  const auto rows = static_cast<std::int64_t>(values.size()) / dim;
  for (std::int64_t i = 0; i < rows; ++i) {
    groups[{values.begin() + i * dim, values.begin() + (i + 1) * dim}].push_back(i);
  }
  std::size_t collapsed = 0;
  for (const auto& [row, members] : groups) {
    const auto twins = found.of(members.front());
    EXPECT_EQ(std::vector<std::int64_t>(twins.begin(), twins.end()),
              std::vector<std::int64_t>(members.begin() + 1, members.end()));
    collapsed += members.size() - 1;
  }
  EXPECT_EQ(found.collapsed().size(), collapsed);
}

std::vector<float> rows_of_kinds(std::int64_t rows, std::int64_t kinds, std::int64_t dim) {
  conformance::Random random(static_cast<std::uint64_t>(rows + kinds));
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto kind = static_cast<float>(random.below(kinds));
    for (std::int64_t j = 0; j < dim; ++j) values.push_back(kind + static_cast<float>(j));
  }
  return values;
}

TEST(Duplicates, GroupsAFlood) {
  for (const std::int64_t kinds : {1, 10, 5000}) {
    const auto values = rows_of_kinds(20000, kinds, 3);
    for (const int threads : {1, 3}) {
      Execution execution;
      execution.threads = threads;
      expect_groups(values, 3, Duplicates::find(DatasetView(values.data(), 20000, 3), execution));
    }
  }
}

TEST(Duplicates, FindsOneValueThatFillsATenthOfDistinctRows) {
  constexpr std::int64_t rows = 200000;
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows; ++i) {
    values.push_back(i % 10 == 3 ? -1.0F : static_cast<float>(i));
    values.push_back(0.5F);
  }
  const auto found = Duplicates::find(DatasetView(values.data(), rows, 2), {});
  EXPECT_EQ(found.of(3).size(), static_cast<std::size_t>(rows / 10 - 1));
  EXPECT_TRUE(found.of(4).empty());
}

TEST(Duplicates, HalfOfTheRowsTwiceIsWorthIt) {
  constexpr std::int64_t rows = 150000;
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows; ++i) values.push_back(static_cast<float>(i % (rows / 2)));
  const auto found = Duplicates::find(DatasetView(values.data(), rows, 1), {});
  EXPECT_EQ(found.collapsed().size(), static_cast<std::size_t>(rows / 2));
  EXPECT_EQ(found.of(17).front(), 17 + rows / 2);
}

TEST(Duplicates, DistinctRowsCostNothing) {
  std::vector<float> values(30000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  EXPECT_TRUE(Duplicates::find(DatasetView(values.data(), 10000, 3), {}).empty());
  EXPECT_TRUE(Duplicates::find(DatasetView(values.data(), 0, 3), {}).empty());
  EXPECT_TRUE(Duplicates::find(DatasetView(values.data(), 1, 3), {}).empty());
}

}  // namespace
}  // namespace kith::codes
