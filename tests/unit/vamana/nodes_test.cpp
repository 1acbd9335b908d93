// Rows with equal codes share a node, in whatever parts and groups they are found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "codes/scalar.hpp"
#include "kith/dataset.hpp"
#include "support/threads.hpp"
#include "vamana/graph.hpp"

namespace kith::vamana {
namespace {

// Nodes as a map from codes to rows makes them, in the order of their first rows.
void expect_grouped(const DatasetView& rows, int threads) {
  const Execution execution = test::with_threads(threads);
  const codes::ScalarSpace space =
      codes::make_scalar_space(rows, Metric::sqeuclidean, execution, {.bits = 8});
  const Nodes nodes = make_nodes(rows, space, execution);
  const auto bytes = static_cast<std::size_t>(space.code_bytes());
  std::map<std::vector<std::uint8_t>, std::size_t> known;
  std::vector<std::vector<std::int64_t>> wanted;
  std::vector<std::vector<std::uint8_t>> codes;
  std::int64_t nan_rows = 0;
  codes::ScalarCodec codec(space);
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    std::vector<std::uint8_t> code(bytes);
    if (!codec.encode_row(rows.row(i), code.data())) {
      ++nan_rows;
      continue;
    }
    const auto [at, fresh] = known.try_emplace(code, wanted.size());
    if (fresh) {
      wanted.emplace_back();
      codes.push_back(code);
    }
    wanted[at->second].push_back(i);
  }
  EXPECT_EQ(nodes.nan_rows, nan_rows);
  ASSERT_EQ(nodes.count, static_cast<std::int64_t>(wanted.size()));
  for (std::int64_t node = 0; node < nodes.count; ++node) {
    const auto& its = wanted[static_cast<std::size_t>(node)];
    ASSERT_EQ(nodes.rows_of(node), static_cast<std::int64_t>(its.size())) << node;
    for (std::size_t j = 0; j < its.size(); ++j) {
      ASSERT_EQ(nodes.row(node, static_cast<std::int64_t>(j)), its[j]) << node;
    }
    ASSERT_TRUE(std::ranges::equal(codes[static_cast<std::size_t>(node)],
                                   std::span(nodes.codes.data() + node * space.code_bytes(), bytes)))
        << node;
  }
}

// 300,000 rows are counted in four parts and sorted in 64 groups.
TEST(Nodes, GroupRowsWithEqualCodes) {
  for (const std::int64_t n : {1, 5000, 9000, 300'000}) {
    for (const std::uint64_t distinct : {1, 700, 1'000'000}) {  // rows, about
      std::vector<float> values(static_cast<std::size_t>(n) * 3);
      for (std::size_t i = 0; i < values.size(); i += 3) {
        const std::uint64_t kind = (i / 3 * 0x9E3779B97F4A7C15ULL >> 20U) % distinct;
        values[i] = static_cast<float>(kind % 100);
        values[i + 1] = static_cast<float>(kind / 100 % 100);
        values[i + 2] = static_cast<float>(kind / 10'000);
      }
      for (const bool nan : {false, true}) {
        // At both ends of a part and of all rows.
        for (const std::int64_t row : {std::int64_t{0}, n / 4 - 1, n / 4, n / 2, n - 1}) {
          if (nan && row >= 0) {
            values[static_cast<std::size_t>(row) * 3 + 1] = std::numeric_limits<float>::quiet_NaN();
          }
        }
        const DatasetView rows(values.data(), Dtype::f32, n, 3, 3);
        for (const int threads : {1, 3}) expect_grouped(rows, threads);
      }
    }
  }
}

}  // namespace
}  // namespace kith::vamana
