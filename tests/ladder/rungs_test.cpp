// Every rung gives the one right answer, ties and all: compared with whole-number arithmetic, which makes no
// error on the ladder's data and shares nothing with rungs or engine.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coarse.hpp"
#include "grid.hpp"
#include "kith/kith.hpp"
#include "kith/point_tiles.hpp"
#include "ladder.hpp"
#include "support/files.hpp"
#include "support/sanitizers.hpp"

namespace kith::ladder {
namespace {

struct Data {
  std::int64_t dim, queries, points, k;
  std::int64_t largest;  // coordinates 0..largest; 0: all points are one
  std::string name() const {
    return std::to_string(dim) + "," + std::to_string(queries) + "," + std::to_string(points) + "," +
           std::to_string(k) + " to " + std::to_string(largest);
  }
};

class Instance {
 public:
  explicit Instance(const Data& data)
      : point_(values(data.points, data, 7)), query_(values(data.queries, data, 8)) {
    problem_ = {data.dim, data.queries, data.points, data.k, query_.data(), point_.data()};
  }
  const Problem& problem() const { return problem_; }

  Answer truth() const {
    Answer answer(problem_);
    std::vector<std::pair<std::int64_t, std::int64_t>> all(static_cast<std::size_t>(problem_.points));
    const std::int64_t found = std::min(problem_.k, problem_.points);
    for (std::int64_t q = 0; q < problem_.queries; ++q) {
      for (std::int64_t i = 0; i < problem_.points; ++i) {
        std::int64_t sum = 0;
        for (std::int64_t c = 0; c < problem_.dim; ++c) {
          const auto difference = static_cast<std::int64_t>(problem_.query[q * problem_.dim + c]) -
                                  static_cast<std::int64_t>(problem_.point[i * problem_.dim + c]);
          sum += difference * difference;
        }
        all[static_cast<std::size_t>(i)] = {sum, i};
      }
      std::partial_sort(all.begin(), all.begin() + found, all.end());
      for (std::int64_t rank = 0; rank < found; ++rank) {
        const auto at = static_cast<std::size_t>(q * problem_.k + rank);
        answer.indices[at] = all[static_cast<std::size_t>(rank)].second;
        answer.distances[at] = static_cast<float>(all[static_cast<std::size_t>(rank)].first);
      }
    }
    return answer;
  }

 private:
  static std::vector<float> values(std::int64_t rows, const Data& data, std::uint64_t seed) {
    if (data.largest == 0) return std::vector<float>(static_cast<std::size_t>(rows * data.dim), 5.0F);
    Dataset made = grid(rows, data.dim, data.largest, seed);
    const auto span = made.mutable_values<float>();
    return {span.begin(), span.end()};
  }
  std::vector<float> point_, query_;
  Problem problem_;
};

std::vector<int> usable_gpus() {
  std::vector<int> out;
  for (const DeviceInfo& info : devices()) {
    if (info.device.kind == Device::Kind::cuda && info.usable) out.push_back(info.device.ordinal);
  }
  return out;
}

const Rung& rung_of(int number) {
  return rungs().at(static_cast<std::size_t>(number - 1));
}

bool can_run(const Rung& rung) {
  return rung.search != nullptr && (rung.hardware == Hardware::cpu || !usable_gpus().empty());
}

Run new_run() {
  ladder::Run run;
  run.gpus = usable_gpus();
  run.threads = 2;
  return run;
}

void expect_same(const Answer& answer, const Answer& truth, const std::string& what) {
  ASSERT_EQ(answer.indices, truth.indices) << what;
  ASSERT_EQ(answer.distances.size(), truth.distances.size()) << what;
  EXPECT_EQ(
      std::memcmp(answer.distances.data(), truth.distances.data(), truth.distances.size() * sizeof(float)), 0)
      << what;
}

// Odd sizes around those of warps, blocks, tiles and leaves; few cells, so that most points tie with others;
// more neighbours than points.
const std::vector<Data>& problems() {
  static const std::vector<Data> list = {
      {3, 37, 1000, 1, 2047}, {16, 20, 777, 1, 1023}, {3, 50, 3000, 1, 7},     {3, 50, 3000, 1, 1},
      {3, 9, 700, 1, 0},      {16, 33, 500, 1, 1},    {1, 5, 300, 1, 15},      {2, 31, 257, 1, 3},
      {5, 1, 1, 1, 3},        {3, 3, 1, 1, 3},        {3, 4, 2, 1, 1},         {3, 65, 255, 1, 3},
      {3, 32, 256, 1, 3},     {3, 1, 20000, 1, 31},   {128, 3, 300, 1, 255},   {3, 40, 1000, 2, 2047},
      {3, 40, 3000, 16, 3},   {3, 9, 700, 32, 0},     {128, 20, 500, 16, 255}, {17, 33, 129, 5, 3},
      {16, 17, 15, 16, 1},    {3, 7, 5, 9, 1},        {3, 2, 1, 32, 3},        {3, 20, 400, 33, 7},
      {3, 300, 64, 3, 2},     {2, 65, 4097, 31, 15},
  };
  return list;
}

class Rungs : public testing::TestWithParam<int> {};

TEST_P(Rungs, GiveTheOneAnswer) {
  const Rung& rung = rung_of(GetParam());
  if (!can_run(rung)) GTEST_SKIP() << "no GPU: " << rung.title << " was not run";
  int ran = 0;
  for (const Data& data : problems()) {
    const Instance instance(data);
    if (!rung.refuses(instance.problem()).empty()) continue;
    ladder::Run run = new_run();
    const Answer answer = rung.search(instance.problem(), run);
    expect_same(answer, instance.truth(), std::string(rung.id) + " at " + data.name());
    EXPECT_EQ(run.times.size(), 1U);
    EXPECT_EQ(run.devices > 0, rung.hardware != Hardware::cpu);
    ++ran;
  }
  EXPECT_GE(ran, 10);
}

// The timed runs leave what the first one left: a search changes nothing that the next one reads.
TEST_P(Rungs, GiveItAgainWhenRepeated) {
  const Rung& rung = rung_of(GetParam());
  if (!can_run(rung)) GTEST_SKIP() << "no GPU: " << rung.title << " was not run";
  const bool one = !rung.refuses({3, 1, 1, 4, nullptr, nullptr}).empty();
  const Instance instance({3, 20, 500, one ? 1 : 4, 3});
  ladder::Run run = new_run();
  run.repeat = 3;
  run.seconds = 100;
  expect_same(rung.search(instance.problem(), run), instance.truth(), rung.id);
  EXPECT_EQ(run.times.size(), 3U);
}

TEST_P(Rungs, GiveItFromHostMemoryToHostMemory) {
  const Rung& rung = rung_of(GetParam());
  if (!can_run(rung)) GTEST_SKIP() << "no GPU: " << rung.title << " was not run";
  const Instance instance({3, 20, 500, 1, 3});
  ladder::Run run = new_run();
  run.whole = true;
  expect_same(rung.search(instance.problem(), run), instance.truth(), rung.id);
}

TEST_P(Rungs, StopWhenCancelled) {
  const Rung& rung = rung_of(GetParam());
  if (!can_run(rung)) GTEST_SKIP() << "no GPU: " << rung.title << " was not run";
  const Instance instance({3, 20, 500, 1, 3});
  ladder::Run run = new_run();
  run.cancelled = [] { return true; };
  EXPECT_THROW((void)rung.search(instance.problem(), run), Cancelled);
}

std::string name_of(const testing::TestParamInfo<int>& info) {
  std::string name = rung_of(info.param).id;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Rungs, testing::Range(1, 41), name_of);  // those of graphs: bang_test.cpp

TEST(RungTable, AreNumberedInOrderAndNamedOnce) {
  ASSERT_EQ(rungs().size(), 55U);
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < rungs().size(); ++i) {
    EXPECT_EQ(rungs()[i].number, static_cast<int>(i) + 1);
    EXPECT_EQ(rungs()[i].engine, std::string(rungs()[i].id).starts_with("engine"));
    EXPECT_EQ(rungs()[i].recall_floor < 1, i >= 40);
    ids.emplace_back(rungs()[i].id);
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
}

// Leaves of few points, so that a query has many to choose from and boxes touch; ties across all of them.
TEST(TwoLayers, LeavesOfAnySizeGiveTheOneAnswer) {
  for (const Data& data : problems()) {
    const Instance instance(data);
    const Answer truth = instance.truth();
    for (const Inside inside : {Inside::brute_force, Inside::tree}) {
      for (const std::int64_t leaf : {1, 7, 100}) {
        ladder::Run run = new_run();
        expect_same(two_layers(instance.problem(), run, leaf, inside), truth,
                    data.name() + ", leaves of " + std::to_string(leaf));
      }
    }
  }
}

// Best-first search opens no box that is farther than the k-th neighbour, and those in order.
TEST(TwoLayers, NoLeafIsOpenedThatCannotMatter) {
  const Instance instance({3, 20, 3000, 5, 255});
  const Problem& problem = instance.problem();
  const Answer truth = instance.truth();
  const ladder::Run run = new_run();
  const Coarse coarse = build_coarse(problem, 50, run);
  for (std::int64_t q = 0; q < problem.queries; ++q) {
    const float* query = problem.query + q * problem.dim;
    std::vector<Neighbor> list(5, nobody());
    std::vector<float> opened;
    best_first(coarse, query, list.data(), 5, [&](int leaf) {
      opened.push_back(coarse.distance_to(leaf, query));
      const Coarse::Node& node = coarse.nodes[static_cast<std::size_t>(leaf)];
      EXPECT_LE(node.end - node.begin, 50);
      for (std::int64_t i = node.begin; i < node.end; ++i) {
        insert(list.data(), 5,
               {squared_distance(query, coarse.point.data() + 3 * i, 3),
                coarse.row[static_cast<std::size_t>(i)]});
      }
    });
    EXPECT_TRUE(std::is_sorted(opened.begin(), opened.end()));
    EXPECT_LE(opened.back(), truth.distances[static_cast<std::size_t>(5 * q + 4)]);
    EXPECT_LT(opened.size(), 32U);
  }
}

// The reference path is the oracle of the tiles on disk: the same lists, each query for itself.
TEST(TwoLayers, PointTilesGiveWhatBestFirstSearchGives) {
  const Instance instance({3, 200, 20000, 8, 63});
  const Problem& problem = instance.problem();
  ladder::Run run = new_run();
  const Answer expected = best_first(problem, run);
  const test::TemporaryFolder folder;
  for (const std::int64_t tile_points : {100, 3000}) {
    const PointTiles tiles = PointTiles::build(folder / std::to_string(tile_points),
                                               {problem.point, problem.points, 3}, {tile_points});
    const Neighbors found = tiles.search({problem.query, problem.queries, 3}, 8);
    EXPECT_EQ(found.indices, expected.indices);
    const auto distances = found.distances_as<float>();
    EXPECT_TRUE(std::equal(distances.begin(), distances.end(), expected.distances.begin()));
  }
}

// --- what they refuse

bool refuses(int rung, std::int64_t dim, std::int64_t queries, std::int64_t points, std::int64_t k) {
  return !rung_of(rung).refuses({dim, queries, points, k, nullptr, nullptr}).empty();
}

TEST(Refusals, FollowTheLimits) {
  for (int rung = 2; rung <= 10; ++rung) {
    EXPECT_FALSE(refuses(rung, 3, 1, 10, 1)) << rung;
    EXPECT_TRUE(refuses(rung, 3, 1, 10, 2)) << rung;
  }
  for (const int rung : {11, 12, 13, 14, 16, 18}) {
    EXPECT_FALSE(refuses(rung, 3, 1, 10, 32)) << rung;
    EXPECT_TRUE(refuses(rung, 3, 1, 10, 33)) << rung;
  }
  for (const int rung : {1, 15, 17, 19, 20, 23}) EXPECT_FALSE(refuses(rung, 3, 1, 10, 33)) << rung;
  for (const int rung : {17, 18, 22, 25}) {
    EXPECT_TRUE(refuses(rung, 2, 1, 10, 1)) << rung;
    EXPECT_TRUE(refuses(rung, 4, 1, 10, 1)) << rung;
  }
  EXPECT_FALSE(refuses(6, 1, 1, std::int64_t{65536} * 30000, 1));
  EXPECT_FALSE(refuses(6, 65536, 1, 65536, 1));
  EXPECT_TRUE(refuses(6, 65536, 1, 65537, 1));
  EXPECT_FALSE(refuses(7, 16384, 1, 10, 1));
  EXPECT_TRUE(refuses(7, 16385, 1, 10, 1));
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  for (int rung = 1; rung <= 19; ++rung) {
    if (rung == 6) continue;
    const std::int64_t k = 1;
    EXPECT_FALSE(refuses(rung, 3, 1, most, k)) << rung;
    EXPECT_TRUE(refuses(rung, 3, 1, most + 1, k)) << rung;
  }
}

// --- what they do at and beyond the limits of the hardware

// Runs a rung and says its fallback.
std::string fallback_of(int number, const Data& data, std::vector<int> gpus = {}) {
  const Instance instance(data);
  ladder::Run run = new_run();
  if (!gpus.empty()) run.gpus = std::move(gpus);
  const Answer answer = rung_of(number).search(instance.problem(), run);
  expect_same(answer, instance.truth(), std::string(rung_of(number).id) + " at " + data.name());
  return run.fallback;
}

TEST(Fallbacks, TextureIsFoldedBeyondItsWidth) {
  if (!can_run(rung_of(6))) GTEST_SKIP() << "no GPU";
  EXPECT_EQ(fallback_of(6, {2, 3, 65535, 1, 255}), "");
  EXPECT_EQ(fallback_of(6, {2, 3, 65536, 1, 255}), "");
  EXPECT_NE(fallback_of(6, {2, 3, 65537, 1, 255}).find("folded into 2 rows"), std::string::npos);
  EXPECT_NE(fallback_of(6, {3, 2, 131073, 1, 2047}).find("folded into 3 rows"), std::string::npos);
}

TEST(Fallbacks, QueriesGoInBatchesBeyondConstantMemory) {
  if (!can_run(rung_of(7))) GTEST_SKIP() << "no GPU";
  EXPECT_EQ(fallback_of(7, {16, 1024, 300, 1, 3}), "");
  EXPECT_NE(fallback_of(7, {16, 1025, 300, 1, 3}).find("2 batches"), std::string::npos);
  EXPECT_EQ(fallback_of(7, {16384, 1, 20, 1, 31}), "");
  EXPECT_NE(fallback_of(7, {8193, 3, 20, 1, 31}).find("3 batches"), std::string::npos);
}

TEST(Fallbacks, MatrixIsCutAtTheRowsOfAGrid) {
  if (test::reduced()) GTEST_SKIP() << "reduced";
  if (!can_run(rung_of(3))) GTEST_SKIP() << "no GPU";
  for (const int rung : {3, 12, 19}) {  // as rung 2, which would call a library 65,536 times
    EXPECT_EQ(fallback_of(rung, {1, 65535, 7, 1, 15}), "") << rung;
    EXPECT_NE(fallback_of(rung, {1, 65536, 7, 1, 15}).find("65535 queries at a time"), std::string::npos)
        << rung;
  }
}

// 2^30 cells; the engine tells the truth here, whole numbers would take a minute.
TEST(Fallbacks, MatrixIsCutAtFourGiB) {
  if (test::reduced()) GTEST_SKIP() << "reduced";
  if (!can_run(rung_of(3))) GTEST_SKIP() << "no GPU";
  const Instance instance({1, 16385, 65536, 1, 4095});
  Answer truth(instance.problem());
  const auto view = [](const float* values, std::int64_t rows) { return DatasetView(values, rows, 1); };
  knn_into(view(instance.problem().point, 65536), view(instance.problem().query, 16385),
           {truth.indices.data(), truth.distances.data(), 16385, 1});
  for (const int rung : {3, 12, 19}) {
    ladder::Run run = new_run();
    expect_same(rung_of(rung).search(instance.problem(), run), truth, rung_of(rung).id);
    EXPECT_NE(run.fallback.find("16384 queries at a time"), std::string::npos) << rung;
  }
}

TEST(Fallbacks, SeveralGpusAreTheOnesThereAre) {
  if (!can_run(rung_of(9))) GTEST_SKIP() << "no GPU";
  const int first = usable_gpus().front();
  EXPECT_NE(fallback_of(9, {3, 30, 1000, 1, 3}, {first}).find("one GPU"), std::string::npos);
  // One GPU named three times stands for three: the shares and their merge are the same, ties across shares
  // too.
  EXPECT_EQ(fallback_of(9, {3, 30, 1000, 1, 3}, {first, first, first}), "");
  EXPECT_EQ(fallback_of(9, {3, 30, 2, 1, 3}, {first, first, first}), "");
  EXPECT_EQ(fallback_of(9, {16, 5, 5000, 1, 1}, {first, first}), "");
}

}  // namespace
}  // namespace kith::ladder
