// Builds on the CPU: the tree is the same however many threads divide its points.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/problem.hpp"
#include "kith/kd_tree.hpp"
#include "support/files.hpp"

namespace kith {
namespace {

// More threads divide more nodes together, and points then take another way to their leaves.
TEST(Build, ManyThreadsBuildTheTreeOfOne) {
  constexpr std::int64_t rows = 1'200'000;
  conformance::Random random(43);
  std::vector<float> values(rows * 4);
  for (float& v : values) v = static_cast<float>(random.uniform());
  const std::vector<double> wide(values.begin(), values.end());
  Execution one;
  one.threads = 1;
  Execution sixteen;
  sixteen.threads = 16;
  const test::TemporaryFolder folder;
  const auto bytes = [&](const DatasetView& view, const Execution& execution) {
    KdTree::build(view, {}, execution).save(folder / "t");
    return test::read_file(folder / "t");
  };
  const DatasetView packed(values.data(), rows, 3);
  const DatasetView apart(values.data(), rows, 3, 4);
  const DatasetView doubles(wide.data(), rows, 2, 4);
  for (const DatasetView& view : {packed, apart, doubles}) EXPECT_EQ(bytes(view, one), bytes(view, sixteen));
}

}  // namespace
}  // namespace kith
