// Shards on a GPU: the CPU's bits, from shards built on either side.
#include "kith/sharded.hpp"
#include "support/files.hpp"
#include "support/gpus.hpp"
#include "unit/sharded/rows.hpp"

namespace kith {
namespace {

class ShardedCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (test::gpus() == 0) GTEST_SKIP() << "no usable CUDA device";
    gpu.devices = {{Device::Kind::cuda, 0}};
  }
  test::TemporaryFolder folder;
  Execution gpu;
};

TEST_F(ShardedCuda, GivesTheCpusBits) {
  const std::vector<float> values = test::grid(20'000, 3, 12);
  const DatasetView rows(values.data(), 20'000, 3);
  const DatasetView queries = rows.slice(0, 500);
  // By manhattan the CPU chooses a filter that GPUs do not have: it is chosen anew there.
  for (const auto& [type, metric] : {std::pair<std::string_view, Metric>{"brute_force", Metric::euclidean},
                                     {"brute_force", Metric::manhattan},
                                     {"kd_tree", Metric::euclidean},
                                     {"octree", Metric::manhattan}}) {
    const IndexParameters parameters = Indexes::parameters(type, metric);
    const Neighbors expected = AnyIndex::build(Dataset::copy(rows), parameters).search(queries, 20);
    const Sharded built_there = Sharded::build(folder / "gpu", rows, {parameters, 5}, gpu);
    const Sharded built_here = Sharded::build(folder / "cpu", rows, {parameters, 5});
    for (const Sharded& shards : {built_there, built_here}) {
      // There, here and there again: shards are opened for the devices that search them.
      test::expect_same(shards.search(queries, 20, gpu), expected, std::string(type) + " on the GPU");
      test::expect_same(shards.search(queries, 20), expected, std::string(type) + " on the CPU");
      test::expect_same(shards.search(queries, 20, gpu), expected, std::string(type) + " on the GPU again");
      EXPECT_EQ(shards.open_shards(), 5);
    }
  }
}

TEST_F(ShardedCuda, KeepsToALimitOnItsMemory) {
  const std::vector<float> values = test::bell(40'000, 32, 3);
  const DatasetView rows(values.data(), 40'000, 32);
  const Sharded shards = Sharded::build(folder / "s", rows, {BruteForceParameters{}, 8}, gpu);
  const Neighbors expected = shards.search(rows.slice(0, 50), 10, gpu);
  shards.close();
  gpu.device_memory_limit = 4 << 20;
  test::expect_same(shards.search(rows.slice(0, 50), 10, gpu), expected, "4 MiB");
  EXPECT_LE(shards.memory_bytes(), gpu.device_memory_limit);
}

TEST_F(ShardedCuda, GraphsAreWalkedThere) {
  const std::vector<float> values = test::bell(6'000, 24, 9);
  const DatasetView rows(values.data(), 6'000, 24);
  const Sharded shards = Sharded::build(folder / "s", rows, {VamanaParameters{.max_degree = 16}, 3}, gpu);
  for (const SearchOptions& options : {SearchOptions{.recall = 0.9}, SearchOptions{.list_size = 50}}) {
    test::expect_same(shards.search(rows.slice(0, 100), 10, gpu, options),
                      shards.search(rows.slice(0, 100), 10, {}, options), "walks");
  }
}

}  // namespace
}  // namespace kith
