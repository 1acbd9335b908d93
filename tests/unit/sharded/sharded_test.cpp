// Answers of shards against those of one index.
#include "kith/sharded.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <limits>
#include <optional>
#include <thread>

#include "kith/error.hpp"
#include "kith/support.hpp"
#include "sharded/folder.hpp"
#include "sharded/visits.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/forked.hpp"
#include "support/threads.hpp"
#include "unit/sharded/rows.hpp"

namespace kith {
namespace {

using conformance::Random;
using test::bell;
using test::contains;
using test::expect_same;
using test::grid;
using test::message_of;
using test::TemporaryFolder;

// Every exact type, element type and metric, on data that break searches; k beyond a shard and beyond all
// rows.
TEST(Sharded, ExactShardsGiveTheBitsOfOneIndex) {
  const TemporaryFolder folder;
  std::uint64_t seed = 77;
  std::int64_t compared = 0;
  const auto& kinds = conformance::kinds();
  for (const Support& entry : supported) {
    const IndexType& type = Indexes::get(entry.index);
    if (entry.backend != Device::Kind::cpu || type.guarantee != Guarantee::exact) continue;
    for (int i = 0; i < 3; ++i) {
      const conformance::Kind& kind = kinds[++seed % kinds.size()];
      Random random(seed);
      const conformance::Values values = kind.make(130, 3, 7, random);
      const conformance::Problem problem =
          conformance::make_problem(kind.name, values, entry.dtype, entry.metric, 1);
      const conformance::Rows data(problem.data, entry.dtype, i == 1 ? 2 : 0, i);
      const conformance::Rows queries(problem.queries, entry.dtype);
      const AnyIndex one = AnyIndex::build(entry.index, Dataset::copy(data.view()), entry.metric);
      const Partition partition = i > 0 && is_tree_metric(entry.metric) ? Partition::space : Partition::rows;
      const Sharded many = Sharded::build(folder / "shards", data.view(),
                                          {Indexes::parameters(entry.index, entry.metric), 4, partition});
      EXPECT_EQ(many.partition(), partition);
      for (const std::int64_t k : {1, 10, 60, 140}) {
        const std::string where = std::string(entry.index) + " " + std::string(name(entry.dtype)) + " " +
                                  std::string(name(entry.metric)) + " " + kind.name +
                                  " k=" + std::to_string(k);
        const Neighbors found = many.search(queries.view(), k);
        const Neighbors expected = one.search(queries.view(), k);
        expect_same(found, expected, where);
        EXPECT_EQ(found.statistics.nan_rows, expected.statistics.nan_rows) << where;
        EXPECT_EQ(found.statistics.nan_queries, expected.statistics.nan_queries) << where;
        EXPECT_TRUE(found.statistics.certified);
        EXPECT_EQ(found.statistics.recall, 1);
        EXPECT_EQ(found.statistics.index, entry.index);
        ++compared;
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(compared, 500);
}

// Rows in an order of space: each query asks few shards, and what they are asked is what it takes.
TEST(Sharded, RowsInAnOrderOfSpaceAskFewShards) {
  const TemporaryFolder folder;
  Random random(21);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::u8}) {
    conformance::Values values{{1200, 3, std::vector<double>(3600)}, {80, 3, std::vector<double>(240)}, 1};
    for (std::int64_t i = 0; i < 1200; ++i) {
      // Whole numbers, so that many rows are at just the distance of a border, or of each other.
      values.data.row(i)[0] = static_cast<double>(i / 10 - 60);
      for (int j = 1; j < 3; ++j) values.data.row(i)[j] = static_cast<double>(random.below(4));
    }
    for (std::int64_t i = 0; i < 80; ++i) {
      for (int j = 0; j < 3; ++j) values.queries.row(i)[j] = values.data.row(random.below(1200))[j];
    }
    for (const Metric metric : tree_metrics) {
      const conformance::Problem problem = conformance::make_problem("sorted", values, dtype, metric, 1);
      const conformance::Rows data(problem.data, dtype);
      const conformance::Rows queries(problem.queries, dtype);
      for (const std::string_view type : {"kd_tree", "brute_force"}) {
        const IndexParameters parameters = Indexes::parameters(type, metric);
        const AnyIndex one = AnyIndex::build(Dataset::copy(data.view()), parameters);
        const Sharded many = Sharded::build(folder / "s", data.view(), {parameters, 12, Partition::rows});
        for (const std::int64_t k : {1, 7, 110, 1300}) {
          const std::string where = std::string(type) + " " + std::string(name(metric)) + std::to_string(k);
          expect_same(many.search(queries.view(), k), one.search(queries.view(), k), where);
          if (one.point_tree() == nullptr) continue;
          for (const double radius : {0.0, 1.0, 2.5}) {
            expect_same(many.search(queries.view(), k, {}, {.radius = radius}),
                        one.search(queries.view(), k, {}, {.radius = radius}), where + " within");
            const RadiusOptions most{true, k};
            expect_same(many.radius_search(queries.view(), radius, most),
                        one.point_tree()->radius_search(queries.view(), radius, most), where + " radius");
            EXPECT_EQ(many.count_within(queries.view(), radius),
                      one.point_tree()->count_within(queries.view(), radius));
          }
        }
        // One query in the first shard's middle opens that one alone.
        many.close();
        (void)many.search(data.view().slice(50, 1), 3);
        EXPECT_EQ(many.open_shards(), 1);
      }
    }
  }
}

// Rows in no order, divided by space: likewise, and what is far from all of them asks none.
TEST(Sharded, BySpaceAQueryAsksFewShards) {
  const TemporaryFolder folder;
  const std::vector<float> values = bell(4000, 3, 8);
  const DatasetView rows(values.data(), 4000, 3);
  const Sharded shards = Sharded::build(folder / "s", rows, {KdTreeParameters{}, 16});
  const AnyIndex one = AnyIndex::build(Dataset::copy(rows), KdTreeParameters{});
  std::int64_t opened = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    shards.close();
    expect_same(shards.search(rows.slice(i, 1), 3), one.search(rows.slice(i, 1), 3), std::to_string(i));
    opened += shards.open_shards();
    expect_same(shards.radius_search(rows.slice(i, 1), 0.2),
                one.point_tree()->radius_search(rows.slice(i, 1), 0.2), std::to_string(i));
  }
  EXPECT_LT(opened, 400);
  shards.close();
  const std::vector<float> away = {1e6F, 0, 0};
  EXPECT_EQ(shards.count_within({away.data(), 1, 3}, 10.0), std::vector<std::int64_t>{0});
  EXPECT_EQ(shards.open_shards(), 0);
  EXPECT_EQ(shards.radius_search({away.data(), 1, 3}, 10.0).indices.size(), 0U);
  EXPECT_THROW((void)shards.count_within({away.data(), 1, 3}, -1.0), InvalidArgument);
  EXPECT_THROW((void)shards.radius_search({away.data(), 1, 3}, -1.0), InvalidArgument);
}

TEST(Sharded, TiesGoToTheLowerRowAcrossShards) {
  const TemporaryFolder folder;
  const std::vector<float> equal(24, 1.0F);
  const DatasetView rows(equal.data(), 12, 2);
  const Sharded shards = Sharded::build(folder / "s", rows, {KdTreeParameters{}, 5});
  EXPECT_EQ(shards.search(rows.slice(0, 1), 8).indices, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Sharded, InfiniteDistancesComeBeforePadding) {
  const TemporaryFolder folder;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {infinity, 0, 1, infinity, std::numeric_limits<float>::quiet_NaN()};
  const DatasetView rows(values.data(), 5, 1);
  const Sharded shards = Sharded::build(folder / "s", rows, {BruteForceParameters{}, 5});
  const Neighbors found = shards.search(rows.slice(1, 1), 5);
  EXPECT_EQ(found.indices, (std::vector<std::int64_t>{1, 2, 0, 3, -1}));
  EXPECT_EQ(found.statistics.nan_rows, 1);
}

TEST(Sharded, AllowedRowsAreCutByShard) {
  const TemporaryFolder folder;
  const std::vector<float> values = grid(300, 3, 3);
  const DatasetView rows(values.data(), 300, 3);
  for (const std::string_view type : {"brute_force", "kd_tree", "octree"}) {
    const IndexParameters parameters = Indexes::parameters(type, Metric::euclidean);
    const AnyIndex one = AnyIndex::build(Dataset::copy(rows), parameters);
    const Sharded many = Sharded::build(folder / "s", rows, {parameters, 7, Partition::rows});
    const Sharded divided = Sharded::build(folder / "d", rows, {parameters, 7, Partition::space});
    Random random(5);
    for (const std::int64_t one_of : {1, 2, 30, 1000}) {
      RowSet allowed(300);
      for (std::int64_t row = 0; row < 300; ++row) {
        if (random.below(one_of) == 0) allowed.insert(row);
      }
      expect_same(many.search(rows.slice(0, 20), 9, {}, {.allowed = &allowed}),
                  one.search(rows.slice(0, 20), 9, {}, {.allowed = &allowed}), std::to_string(one_of));
      expect_same(divided.search(rows.slice(0, 20), 9, {}, {.allowed = &allowed}),
                  one.search(rows.slice(0, 20), 9, {}, {.allowed = &allowed}), std::to_string(one_of));
    }
    // Only what is needed is opened.
    many.close();
    const RowSet last = RowSet::from_indices(300, std::vector<std::int64_t>{299, 280});
    EXPECT_EQ(many.search(rows.slice(0, 1), 3, {}, {.allowed = &last}).indices[2], -1);
    EXPECT_EQ(many.open_shards(), 1);
    const RowSet other(299);
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { (void)many.search(rows.slice(0, 1), 1, {}, {.allowed = &other}); }),
        "299"));
  }
}

TEST(Sharded, RadiusOptionAndRadiusSearchOfTrees) {
  const TemporaryFolder folder;
  const std::vector<float> values = grid(400, 2, 11);
  const DatasetView rows(values.data(), 400, 2);
  for (const std::string_view type : {"kd_tree", "octree"}) {
    const IndexParameters parameters = Indexes::parameters(type, Metric::manhattan);
    const AnyIndex one = AnyIndex::build(Dataset::copy(rows), parameters);
    const Sharded many = Sharded::build(folder / "s", rows, {parameters, 6});
    const DatasetView queries = rows.slice(0, 30);
    for (const double radius : {0.0, 1.0, 3.0}) {
      expect_same(many.search(queries, 20, {}, {.radius = radius}),
                  one.search(queries, 20, {}, {.radius = radius}), "k nearest");
      for (const std::int64_t most : {0, 5, 100}) {
        expect_same(many.radius_search(queries, radius, {.max_neighbors = most}),
                    one.point_tree()->radius_search(queries, radius, {.max_neighbors = most}), "radius");
      }
      RadiusNeighbors unsorted = many.radius_search(queries, radius, {.sorted = false});
      const RadiusNeighbors sorted = one.point_tree()->radius_search(queries, radius);
      EXPECT_EQ(unsorted.offsets, sorted.offsets);
      for (std::int64_t q = 0; q < unsorted.queries; ++q) {
        std::vector<std::int64_t> a(unsorted.indices_of(q).begin(), unsorted.indices_of(q).end());
        std::vector<std::int64_t> b(sorted.indices_of(q).begin(), sorted.indices_of(q).end());
        std::ranges::sort(a);
        std::ranges::sort(b);
        EXPECT_EQ(a, b);
      }
      EXPECT_EQ(many.count_within(queries, radius), one.point_tree()->count_within(queries, radius));
    }
    EXPECT_THROW((void)many.radius_search(queries, -1), InvalidArgument);
  }
}

TEST(Sharded, RefusesWhatItsTypeCannot) {
  const TemporaryFolder folder;
  const std::vector<float> values = grid(40, 3, 1);
  const DatasetView rows(values.data(), 40, 3);
  const Sharded shards = Sharded::build(folder / "s", rows, {BruteForceParameters{}, 3});
  const auto refusal = [](auto call) { return message_of<InvalidArgument>(call); };
  EXPECT_TRUE(contains(refusal([&] { (void)shards.radius_search(rows, 1); }), "kd_tree or octree"));
  EXPECT_TRUE(contains(refusal([&] { (void)shards.count_within(rows, 1); }), "kd_tree or octree"));
  EXPECT_TRUE(contains(refusal([&] { (void)shards.search(rows, 1, {}, {.recall = 0.9}); }), "no recall"));
  EXPECT_TRUE(contains(refusal([&] { (void)shards.search(rows, 1, {}, {.radius = 1}); }), "no radius"));
  EXPECT_TRUE(contains(refusal([&] { (void)shards.search(rows, 0); }), "k is 0"));
  const DatasetView narrow(values.data(), 60, 2);
  EXPECT_TRUE(contains(refusal([&] { (void)shards.search(narrow, 1); }), "dimension 2"));
  const std::vector<double> wide(6);
  EXPECT_TRUE(contains(refusal([&] { (void)shards.search(DatasetView(wide.data(), 2, 3), 1); }), "f64"));
  EXPECT_EQ(shards.open_shards(), 0);
}

TEST(Sharded, OpensLazilyAndKeepsWhatFits) {
  const TemporaryFolder folder;
  const std::vector<float> values = bell(8000, 16, 2);
  const DatasetView rows(values.data(), 8000, 16);
  const Sharded shards = Sharded::build(folder / "s", rows, {BruteForceParameters{}, 8});
  EXPECT_EQ(shards.open_shards(), 0);
  EXPECT_EQ(shards.memory_bytes(), 0U);
  const Neighbors all = shards.search(rows.slice(0, 50), 10);
  EXPECT_EQ(shards.open_shards(), 8);
  EXPECT_GT(shards.memory_bytes(), 0U);
  shards.close();
  EXPECT_EQ(shards.open_shards(), 0);
  // One shard's file is 64 kB and its codes 16 to 64 kB: there is room for some, and never for all.
  const Execution little = test::with_threads(2, 450'000);
  for (int again = 0; again < 3; ++again) {
    expect_same(shards.search(rows.slice(0, 50), 10, little), all, "little memory");
    EXPECT_GT(shards.open_shards(), 0);
    EXPECT_LT(shards.open_shards(), 6);
  }
  // What is open closes for a call that has no room for it.
  (void)shards.search(rows.slice(0, 50), 10);
  EXPECT_EQ(shards.open_shards(), 8);
  expect_same(shards.search(rows.slice(0, 50), 10, test::with_threads(2, 200'000)), all, "less memory");
  EXPECT_LT(shards.open_shards(), 2);
  // The answer alone does not fit.
  EXPECT_TRUE(contains(message_of<OutOfMemory>([&] {
                         (void)shards.search(rows.slice(0, 50), 1000, test::with_threads(1, 1000));
                       }),
                       "1000"));
}

TEST(Sharded, IntoTheCallersMemory) {
  const TemporaryFolder folder;
  const std::vector<float> values = grid(90, 3, 8);
  const DatasetView rows(values.data(), 90, 3);
  const Sharded shards = Sharded::build(folder / "s", rows, {OctreeParameters{}, 4});
  const Neighbors expected = shards.search(rows, 5);
  std::vector<std::int64_t> indices(450);
  std::vector<float> distances(450);
  const SearchStatistics statistics = shards.search_into(
      rows, {.indices = indices.data(), .distances = distances.data(), .queries = 90, .k = 5});
  EXPECT_EQ(indices, expected.indices);
  EXPECT_EQ(distances, std::get<std::vector<float>>(expected.distances));
  EXPECT_EQ(statistics.index, "octree");
  EXPECT_THROW((void)shards.search_into(
                   rows, {.indices = indices.data(), .distances = distances.data(), .queries = 9, .k = 5}),
               InvalidArgument);
}

// Lists that began anew in each shard would let in some six times as many rows as one list.
TEST(Sharded, ShardsKnowHowFarTheOthersFoundNeighbours) {
  const TemporaryFolder folder;
  const std::vector<float> values = bell(20000, 24, 12);
  const DatasetView rows(values.data(), 20000, 24);
  const DatasetView queries(values.data(), 50, 24);
  const BruteForceParameters parameters;
  const Neighbors one = BruteForce::build(rows, parameters).search(queries, 10);
  for (const int threads : {1, 2}) {
    Execution execution;
    execution.threads = threads;
    const Neighbors found =
        Sharded::build(folder / "shards", rows, {parameters, 8}).search(queries, 10, execution);
    expect_same(found, one, std::to_string(threads));
    EXPECT_EQ(found.statistics.pairs, one.statistics.pairs);
    EXPECT_LT(found.statistics.candidates, 3 * one.statistics.candidates);
  }
}

TEST(Sharded, ManyThreadsSearchOneFolder) {
  const TemporaryFolder folder;
  const std::vector<float> values = bell(3000, 8, 4);
  const DatasetView rows(values.data(), 3000, 8);
  const Sharded shards = Sharded::build(folder / "s", rows, {BruteForceParameters{}, 5});
  const Neighbors expected = shards.search(rows.slice(0, 20), 7);
  shards.close();
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        const Execution how = test::with_threads(1, t % 2 == 0 ? 0 : 120'000);
        wrong += shards.search(rows.slice(0, 20), 7, how).indices == expected.indices ? 0 : 1;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

// Queries that are spread evenly are dealt out to threads by shard, others not.
TEST(ShardedVisits, AreBalancedWhereThreadsHaveAboutAsMuchToDo) {
  const TemporaryFolder folder;
  const std::vector<float> values = bell(800, 3, 5);
  const DatasetView rows(values.data(), 800, 3);
  (void)Sharded::build(folder / "s", rows, {KdTreeParameters{}, 8, Partition::space});
  const sharded::Manifest manifest = sharded::Folder(folder / "s").manifest();
  const std::vector<float> one_place(600, 0.5F);
  const sharded::Visits even(manifest, rows, {}, {});
  const sharded::Visits few(manifest, rows.slice(0, 63), {}, {});
  const sharded::Visits skewed(manifest, {one_place.data(), 200, 3}, {}, {});
  for (const int threads : {2, 4, 7}) EXPECT_TRUE(even.are_balanced(threads)) << threads;
  for (const int threads : {1, 9}) EXPECT_FALSE(even.are_balanced(threads)) << threads;
  for (const int threads : {2, 8}) {
    EXPECT_FALSE(few.are_balanced(threads)) << threads;
    EXPECT_FALSE(skewed.are_balanced(threads)) << threads;
  }
}

// A shard a thread, every shard by all threads, and with so many visits of other shards that these are made
// one after the other: the same answers.
TEST(Sharded, ShardsSideBySideGiveTheSameBits) {
  const TemporaryFolder folder;
  std::vector<float> asked = bell(300, 3, 10);
  for (float& value : asked) value = value * 2 + 2;
  asked[30] = std::numeric_limits<float>::quiet_NaN();
  asked[60] = std::numeric_limits<float>::infinity();
  const std::vector<float> one_place(300, 0.25F);
  for (const Partition partition : {Partition::space, Partition::rows}) {
    std::vector<float> values = grid(2000, 3, 9);
    if (partition == Partition::rows) {  // along an axis, with boxes that overlap
      for (std::size_t i = 0; i < 2000; ++i) values[i * 3] = static_cast<float>(i) / 500 + values[i * 3] / 8;
    }
    const DatasetView rows(values.data(), 2000, 3);
    const Sharded shards = Sharded::build(folder / "s", rows, {KdTreeParameters{}, 7, partition});
    const AnyIndex one = AnyIndex::build(Dataset::copy(rows), KdTreeParameters{});
    const auto compare = [&](const DatasetView& queries, std::int64_t k, std::optional<double> radius) {
      const Neighbors expected = one.search(queries, k, test::with_threads(1), {.radius = radius});
      for (const int threads : {1, 2, 3, 8}) {
        std::int64_t last = 0;
        Execution how = test::with_threads(threads);
        how.progress = [&](const Progress& at) {
          EXPECT_GE(at.done, last);
          last = at.done;
        };
        const Neighbors found = shards.search(queries, k, how, {.radius = radius});
        expect_same(found, expected, std::to_string(threads));
        EXPECT_EQ(last, 2000);
        EXPECT_EQ(found.statistics.nan_queries, expected.statistics.nan_queries);
        // Asked by one thread at a time.
        std::atomic<int> inside = 0;
        int polls = 0;
        how.cancelled = [&] {
          EXPECT_EQ(++inside, 1);
          const bool stop = ++polls > 2;
          --inside;
          return stop;
        };
        EXPECT_THROW((void)shards.search(queries, k, how, {.radius = radius}), Cancelled);
      }
    };
    for (const std::int64_t k : {1, 40, 400}) compare({asked.data(), 300, 3}, k, {});
    compare({asked.data(), 300, 3}, 40, 1.5);
    compare({one_place.data(), 100, 3}, 40, {});
    shards.close();
    std::filesystem::resize_file(folder / "s" / "shard-5.kith", 100);
    EXPECT_THROW((void)shards.search({asked.data(), 300, 3}, 5, test::with_threads(2)), IoError);
    EXPECT_EQ(shards.search({one_place.data(), 1, 3}, 1).indices.size(), 1U);
  }
}

// A thread that opens a shard, or holds its lock, has none in the child.
TEST(Sharded, AForkedProcessSearchesWhileThreadsOfTheParentDo) {
  if (!test::forks_among_threads) GTEST_SKIP() << "AddressSanitizer's allocator keeps its locks in the child";
  const TemporaryFolder folder;
  const std::vector<float> values = bell(20000, 3, 4);
  const DatasetView rows(values.data(), 20000, 3);
  const Sharded shards = Sharded::build(folder / "s", rows, {KdTreeParameters{}, 6});
  const Neighbors expected = shards.search(rows.slice(0, 200), 5);
  std::atomic<bool> stop = false;
  std::jthread busy([&] {
    while (!stop) {
      (void)shards.search(rows.slice(0, 200), 5);
      shards.close();
    }
  });
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    EXPECT_EQ(test::in_child([&] {
                return shards.search(rows.slice(0, 200), 5, test::with_threads(1)).indices ==
                       expected.indices;
              }),
              0);
  }
  stop = true;
}

// Reports end with all of it, also where nothing is asked.
TEST(Sharded, FarFromAllRowsProgressGoesForward) {
  const TemporaryFolder folder;
  const std::vector<float> values = bell(4000, 3, 4);
  const DatasetView rows(values.data(), 4000, 3);
  const Sharded shards = Sharded::build(folder / "s", rows, {KdTreeParameters{}, 4});
  const std::vector<float> far(3000, 1e3F);
  Execution execution;
  std::vector<std::int64_t> reports;
  execution.progress = [&](const Progress& at) {
    EXPECT_EQ(at.total, 4000);
    reports.push_back(at.done);
  };
  (void)shards.search({far.data(), 1000, 3}, 5, execution, {.radius = 1.0});
  (void)shards.radius_search({far.data(), 1000, 3}, 1.0, {}, execution);
  ASSERT_GE(reports.size(), 2U);
  EXPECT_EQ(std::ranges::count(reports, 4000), 2);
}

TEST(Sharded, StopsWhenAskedAndReportsProgress) {
  const TemporaryFolder folder;
  const std::vector<float> values = bell(4000, 8, 4);
  const DatasetView rows(values.data(), 4000, 8);
  const Sharded shards = Sharded::build(folder / "s", rows, {BruteForceParameters{}, 4});
  Execution execution;
  std::int64_t last = 0;
  bool ascends = true;
  execution.progress = [&](const Progress& at) {
    ascends = ascends && at.done >= last && at.total == 4000;
    last = at.done;
  };
  (void)shards.search(rows, 5, execution);
  EXPECT_TRUE(ascends);
  EXPECT_EQ(last, 4000);
  int asked = 0;
  execution.cancelled = [&] { return ++asked > 3; };
  EXPECT_THROW((void)shards.search(rows, 5, execution), Cancelled);
  EXPECT_THROW((void)shards.radius_search(rows, 5, {}, execution), InvalidArgument);
}

// Each graph goes by its own curve; what is stated of all is the least of theirs, and is true.
TEST(Sharded, GraphsReachTheRecallThatTheyState) {
  const TemporaryFolder folder;
  const std::vector<float> values = bell(6000, 24, 9);
  const std::vector<float> asked = bell(300, 24, 10);
  const DatasetView rows(values.data(), 6000, 24);
  const DatasetView queries(asked.data(), 300, 24);
  const Sharded shards =
      Sharded::build(folder / "s", rows, {VamanaParameters{.max_degree = 16, .build_list_size = 32}, 3});
  const Neighbors truth = knn(rows, queries, 10);
  const Neighbors found = shards.search(queries, 10, {}, {.recall = 0.9});
  EXPECT_FALSE(found.statistics.certified);
  EXPECT_GE(found.statistics.recall, 0.9);
  EXPECT_LT(found.statistics.recall, 1);
  EXPECT_GT(found.statistics.list_size, 0);
  std::int64_t right = 0;
  for (std::int64_t q = 0; q < 300; ++q) {
    for (const std::int64_t row : truth.indices_of(q)) {
      right += std::ranges::count(found.indices_of(q), row);
    }
  }
  EXPECT_GE(static_cast<double>(right) / 3000, 0.9);
  const Neighbors exact = shards.search(queries, 10, {}, {.recall = 1});
  expect_same(exact, truth, "recall 1");
  EXPECT_TRUE(exact.statistics.certified);
  const Neighbors walked = shards.search(queries, 10, {}, {.list_size = 40, .beam_width = 2, .rerank = 20});
  EXPECT_EQ(walked.statistics.list_size, 40);
}

}  // namespace
}  // namespace kith
