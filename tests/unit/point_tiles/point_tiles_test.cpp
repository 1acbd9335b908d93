// Answers from tiles: the bits of a tree in memory, whatever the points, the tiles, the memory and the
// threads.
#include "kith/point_tiles.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "kith/brute_force.hpp"
#include "support/errors.hpp"
#include "support/sanitizers.hpp"
#include "support/threads.hpp"
#include "unit/point_tiles/clouds.hpp"

namespace kith {
namespace {

using test::Cloud;
using test::contains;
using test::make_cloud;
using test::message_of;
using test::same;
using test::TemporaryFolder;
using test::with_threads;

constexpr double infinity = std::numeric_limits<double>::infinity();

// What parts of the tiles answer, put together by row; each row once.
template <class T>
Neighbors in_parts(const PointTiles& tiles, std::int64_t k, const Execution& execution,
                   const TileSearchOptions& options = {}, std::int64_t a_part = 3) {
  const auto size = static_cast<std::size_t>(k);
  Neighbors all;
  all.queries = tiles.rows();
  all.k = k;
  all.indices.assign(static_cast<std::size_t>(tiles.rows()) * size, -2);
  std::vector<T> distances(all.indices.size(), T(-1));
  std::vector<bool> seen(static_cast<std::size_t>(tiles.rows()));
  for (std::int64_t first = 0; first < tiles.tiles(); first += a_part) {
    const std::int64_t last = std::min(first + a_part, tiles.tiles());
    const auto [found, rows] = tiles.all_knn_of_tiles(first, last, k, options, execution);
    EXPECT_EQ(found.queries, std::ssize(rows));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = static_cast<std::size_t>(rows[i]);
      EXPECT_FALSE(seen[row]);
      seen[row] = true;
      std::copy_n(found.indices.begin() + static_cast<std::ptrdiff_t>(i * size), k,
                  all.indices.begin() + static_cast<std::ptrdiff_t>(row * size));
      std::copy_n(found.distances_as<T>().begin() + static_cast<std::ptrdiff_t>(i * size), k,
                  distances.begin() + static_cast<std::ptrdiff_t>(row * size));
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0);
  all.distances = std::move(distances);
  return all;
}

class TilesOf : public testing::TestWithParam<test::CloudCase> {
 protected:
  template <class T>
  void compare() {
    const auto [cloud, dim, doubles] = GetParam();
    // Among huge ones distances are infinite, and every search looks at all.
    const std::int64_t rows = cloud == Cloud::huge ? 1000 : 3000;
    const std::vector<T> values = make_cloud<T>(cloud, rows, dim, 7);
    const DatasetView view(values.data(), rows, dim);
    const std::vector<T> asked = make_cloud<T>(cloud, 200, dim, 8);
    const DatasetView queries(asked.data(), 200, dim);
    const KdTree tree = KdTree::build(view);
    std::map<std::int64_t, std::pair<Neighbors, Neighbors>> wanted;  // of the rows, and of the queries
    for (const std::int64_t k : {1, 8, 32}) {
      if (test::reduced() && k != 32) continue;  // by two threads
      wanted[k] = {tree.all_knn(k), tree.search(queries, k)};
    }
    for (const std::int64_t tile_points : {50, 700, 5000}) {
      if (test::reduced() && tile_points == 5000) continue;
      const TemporaryFolder folder;
      const PointTiles tiles = PointTiles::build(folder / "tiles", view, {tile_points});
      tiles.verify();
      ASSERT_EQ(tiles.rows(), rows);
      for (const std::int64_t size : tiles.tile_sizes()) EXPECT_LE(size, 2 * tile_points);
      for (const auto& [k, answers] : wanted) {
        const auto& [of_rows, of_queries] = answers;
        const int threads = k == 8 ? 1 : 2;
        SCOPED_TRACE(testing::Message() << tile_points << " points a tile, k = " << k);
        const TileAnswer answer = tiles.all_knn(folder / "all", k, {}, {}, with_threads(threads));
        EXPECT_TRUE(same<T>(of_rows, read_neighbors(folder / "all")));
        EXPECT_EQ(answer.statistics.queries, rows);
        EXPECT_TRUE(same<T>(of_rows, in_parts<T>(tiles, k, with_threads(threads))));
        EXPECT_TRUE(same<T>(of_queries, tiles.search(queries, k, {}, with_threads(threads))));
      }
    }
  }
};

TEST_P(TilesOf, GiveTheBitsOfATreeInMemory) {
  GetParam().doubles ? compare<double>() : compare<float>();
}

INSTANTIATE_TEST_SUITE_P(, TilesOf, testing::ValuesIn(test::cloud_cases()), test::label);

class PointTilesTest : public testing::Test {
 protected:
  static constexpr std::int64_t rows = 4000;
  std::vector<float> values = make_cloud<float>(Cloud::surface, rows, 3, 3);
  DatasetView view{values.data(), rows, 3};
  TemporaryFolder folder;
};

TEST_F(PointTilesTest, EveryMetricAndIndexInside) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {300});
  const std::vector<float> lattice = make_cloud<float>(Cloud::lattice, 1500, 3, 4);
  const DatasetView ties(lattice.data(), 1500, 3);
  const PointTiles of_ties = PointTiles::build(folder / "ties", ties, {100});
  for (const Metric metric : tree_metrics) {
    for (const char* inside : {"kd_tree", "octree", "brute_force"}) {
      SCOPED_TRACE(std::string(name(metric)) + " " + inside);
      TileSearchOptions options;
      options.metric = metric;
      options.inside = inside;
      for (const bool include_self : {false, true}) {
        options.include_self = include_self;
        (void)tiles.all_knn(folder / "all", 5, options);
        EXPECT_TRUE(same<float>(KdTree::build(view, {metric}).all_knn(5, include_self),
                                read_neighbors(folder / "all")));
        (void)of_ties.all_knn(folder / "all", 7, options);
        EXPECT_TRUE(same<float>(KdTree::build(ties, {metric}).all_knn(7, include_self),
                                read_neighbors(folder / "all")));
      }
    }
  }
}

TEST_F(PointTilesTest, PartsOfTheTilesInLittleMemory) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {100});
  TileSearchOptions options;
  options.metric = Metric::euclidean;
  options.include_self = true;
  const KdTree tree = KdTree::build(view, {Metric::euclidean});
  for (const std::int64_t a_part : {1, 7, 1000}) {
    EXPECT_TRUE(
        same<float>(tree.all_knn(6, true), in_parts<float>(tiles, 6, with_threads(2), options, a_part)));
  }
  // Answers of all rows do not fit, those of a part do.
  const Execution little = with_threads(1, 1'600'000);
  EXPECT_TRUE(same<float>(tree.all_knn(20, true), in_parts<float>(tiles, 20, little, options, 2)));
  EXPECT_THROW((void)tiles.all_knn_of_tiles(0, tiles.tiles(), 20, options, little), OutOfMemory);
  EXPECT_TRUE(tiles.all_knn_of_tiles(2, 2, 3).second.empty());
  for (const auto& [first, last] : {std::pair{-1, 2}, {3, 2}, {0, 1000}}) {
    EXPECT_TRUE(contains(message_of<InvalidArgument>([&, first = first, last = last] {
                           (void)tiles.all_knn_of_tiles(first, last, 3);
                         }),
                         "use 0 to"));
  }
  EXPECT_THROW((void)tiles.all_knn_of_tiles(0, 1, 0), InvalidArgument);
}

TEST_F(PointTilesTest, ARadiusCutsLists) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {200});
  const KdTree tree = KdTree::build(view, {Metric::euclidean});
  for (const char* inside : {"kd_tree", "brute_force"}) {
    for (const double radius : {0.0, 1.5, 20.0}) {
      TileSearchOptions options;
      options.metric = Metric::euclidean;
      options.inside = inside;
      options.radius = radius;
      (void)tiles.all_knn(folder / "all", 9, options);
      EXPECT_TRUE(same<float>(tree.all_knn(9, false, {}, radius), read_neighbors(folder / "all")));
      EXPECT_TRUE(same<float>(tree.search(view, 9, {}, radius), tiles.search(view, 9, options)));
    }
  }
}

TEST_F(PointTilesTest, OtherElementTypesAndDimensions) {
  for (const std::int64_t dim : {1, 5, 11}) {
    const std::vector<double> uniform = make_cloud<double>(Cloud::uniform, 900, dim, 5);
    const DatasetView doubles(uniform.data(), 900, dim);
    const PointTiles tiles = PointTiles::build(folder / "tiles", doubles, {100});
    (void)tiles.all_knn(folder / "all", 4);
    EXPECT_TRUE(same<double>(KdTree::build(doubles).all_knn(4), read_neighbors(folder / "all")));
  }
  std::vector<std::uint8_t> bytes;
  for (const float value : make_cloud<float>(Cloud::uniform, 1200, 3, 6)) {
    bytes.push_back(static_cast<std::uint8_t>(255 * value));
  }
  const DatasetView small(bytes.data(), 1200, 3);
  const PointTiles tiles = PointTiles::build(folder / "tiles", small, {100});
  (void)tiles.all_knn(folder / "all", 4);
  EXPECT_TRUE(same<float>(KdTree::build(small).all_knn(4), read_neighbors(folder / "all")));
}

TEST_F(PointTilesTest, MoreNeighboursThanRows) {
  const DatasetView few = view.slice(0, 150);
  const PointTiles tiles = PointTiles::build(folder / "tiles", few, {20});
  const KdTree tree = KdTree::build(few);
  for (const std::int64_t k : {149, 150, 151, 400}) {
    (void)tiles.all_knn(folder / "all", k);
    EXPECT_TRUE(same<float>(tree.all_knn(k), read_neighbors(folder / "all"))) << k;
    EXPECT_TRUE(same<float>(tree.search(few, k), tiles.search(few, k))) << k;
  }
}

TEST_F(PointTilesTest, NoRowsAndOneRow) {
  for (const std::int64_t count : {0, 1}) {
    const DatasetView few = view.slice(0, count);
    const PointTiles tiles = PointTiles::build(folder / "tiles", few);
    tiles.verify();
    EXPECT_EQ(tiles.rows(), count);
    (void)tiles.all_knn(folder / "all", 3);
    EXPECT_TRUE(same<float>(KdTree::build(few).all_knn(3), read_neighbors(folder / "all")));
    EXPECT_TRUE(same<float>(KdTree::build(few).search(view, 3), tiles.search(view, 3)));
  }
}

TEST_F(PointTilesTest, QueriesFarAwayAndWithoutAPlace) {
  std::vector<float> asked;
  for (const float at : {-1e30F, -3e38F, 1e9F, -5.0F, 105.0F, std::numeric_limits<float>::infinity(),
                         std::numeric_limits<float>::quiet_NaN()}) {
    asked.insert(asked.end(), {at, 50, 0.01F, at, at, at, 7, 8, at});
  }
  const DatasetView queries(asked.data(), static_cast<std::int64_t>(asked.size()) / 3, 3);
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {100});
  for (const Metric metric : tree_metrics) {
    TileSearchOptions options;
    options.metric = metric;
    const auto [found, statistics] = tiles.search_with_statistics(queries, 6, options);
    EXPECT_TRUE(same<float>(KdTree::build(view, {metric}).search(queries, 6), found));
    EXPECT_EQ(statistics.nan_queries, 3);
    EXPECT_EQ(found.statistics.nan_queries, 3);
  }
}

TEST_F(PointTilesTest, TheOrderOfTilesIsThatOfTheRowsBeside) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {300});
  TileAnswerOptions how;
  how.order = AnswerOrder::tiles;
  const TileAnswer answer = tiles.all_knn(folder / "all", 5, {}, how);
  ASSERT_EQ(answer.files.size(), 3U);
  EXPECT_EQ(answer.files[2].filename(), "all.rows.npy");
  EXPECT_EQ(folder.entries(), 4);  // nothing else is left
  const Neighbors found = read_neighbors(folder / "all");
  const std::string rows_file = test::read_file(answer.files[2]);
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  ASSERT_GT(rows_file.size(), order.size() * 8);
  std::memcpy(order.data(), rows_file.data() + rows_file.size() - order.size() * 8, order.size() * 8);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::vector<std::int64_t> indices(found.indices.size());
  std::vector<float> distances(found.indices.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      indices[static_cast<std::size_t>(order[i]) * 5 + j] = found.indices[i * 5 + j];
      distances[static_cast<std::size_t>(order[i]) * 5 + j] = found.distances_as<float>()[i * 5 + j];
    }
  }
  EXPECT_TRUE(test::same_lists(KdTree::build(view).all_knn(5), indices, distances));
}

TEST_F(PointTilesTest, NarrowRowNumbers) {
  const std::vector<float> some = make_cloud<float>(Cloud::nan_rows, 500, 3, 4);
  const DatasetView with_nans(some.data(), 500, 3);
  const PointTiles tiles = PointTiles::build(folder / "tiles", with_nans, {60});
  EXPECT_GT(tiles.nan_rows(), 0);
  (void)tiles.all_knn(folder / "wide", 3);
  TileAnswerOptions how;
  how.index_width = IndexWidth::u32;
  for (const AnswerOrder order : {AnswerOrder::input, AnswerOrder::tiles}) {
    how.order = order;
    (void)tiles.all_knn(folder / "narrow", 3, {}, how);
    Neighbors found = read_neighbors(folder / "narrow");
    EXPECT_EQ(inspect(folder / "narrow.indices.npy").element_type, "u32");
    for (std::int64_t& row : found.indices) row = row == 0xFFFFFFFF ? -1 : row;
    if (order == AnswerOrder::input) {
      EXPECT_EQ(found.indices, read_neighbors(folder / "wide").indices);
    }
  }
}

// A limit so small that tiles leave memory, lists are made in blocks, queries wait in a file, and rows come
// back in several buckets; what is found stays the same.
TEST_F(PointTilesTest, LittleMemoryChangesNothing) {
  constexpr std::int64_t many = 60000;
  const std::vector<double> cloud = make_cloud<double>(Cloud::uniform, many, 3, 9);
  const DatasetView large(cloud.data(), many, 3);
  Execution execution = with_threads(2);
  execution.memory_limit = 4 << 20;
  const PointTiles tiles = PointTiles::build(folder / "tiles", large, {2000}, execution);
  const TileAnswer answer = tiles.all_knn(folder / "all", 24, {}, {}, execution);
  EXPECT_TRUE(same<double>(KdTree::build(large).all_knn(24), read_neighbors(folder / "all")));
  EXPECT_GT(answer.statistics.crossed, many / 10);
  EXPECT_GT(answer.statistics.postponed, 0);
  EXPECT_GT(answer.statistics.tiles_read_again, 0);
  EXPECT_GT(answer.statistics.bytes_read, answer.statistics.tile_bytes);
  EXPECT_EQ(answer.statistics.tile_bytes, static_cast<std::uint64_t>(many * 32));
}

TEST_F(PointTilesTest, AmpleMemoryReadsEveryTileOnce) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {100});
  const TileAnswer answer = tiles.all_knn(folder / "all", 8);
  EXPECT_EQ(answer.statistics.bytes_read, answer.statistics.tile_bytes);
  EXPECT_EQ(answer.statistics.tiles_read_again, 0);
  EXPECT_EQ(answer.statistics.postponed, 0);
  EXPECT_EQ(answer.statistics.tiles, tiles.tiles());
  EXPECT_GE(answer.statistics.visits, answer.statistics.crossed);
}

// Thousands of queries are at distance 0 from the boxes of 50 tiles: only the lowest rows are theirs.
TEST_F(PointTilesTest, ManyPointsAtOnePlaceVisitOneTile) {
  constexpr std::int64_t many = 10000;
  const std::vector<float> missing = make_cloud<float>(Cloud::missing, many, 3, 5);
  const DatasetView cloud(missing.data(), many, 3);
  const PointTiles tiles = PointTiles::build(folder / "tiles", cloud, {100});
  const KdTree tree = KdTree::build(cloud);
  const TileAnswer answer = tiles.all_knn(folder / "all", 8);
  EXPECT_TRUE(same<float>(tree.all_knn(8), read_neighbors(folder / "all")));
  EXPECT_GT(answer.statistics.crossed, many / 3);
  EXPECT_LT(answer.statistics.visits, 2 * many);
  // Of outliers the coordinates of neighbours are not asked for, of normals they are.
  const auto near = Neighborhood{8};
  EXPECT_LT(tiles.normals(folder / "normals.npy", near, {}, {.metric = Metric::euclidean}).statistics.visits,
            2 * many);
  TileOutlierFiles files;
  files.mean_distance = folder / "means.npy";
  EXPECT_LT(tiles.outliers(files, near).statistics.visits, 2 * many);
}

TEST_F(PointTilesTest, SeveralFilesAreOneCloud) {
  write_dataset(folder / "a.npy", view.slice(0, 1000));
  write_dataset(folder / "b.ply", view.slice(1000, 2));
  write_dataset(folder / "c.npy", view.slice(1002, rows - 1002));
  const std::vector<std::filesystem::path> files = {folder / "a.npy", folder / "b.ply", folder / "c.npy"};
  const PointTiles tiles = PointTiles::build(folder / "tiles", files, {500});
  tiles.verify();
  (void)tiles.all_knn(folder / "all", 8);
  EXPECT_TRUE(same<float>(KdTree::build(view).all_knn(8), read_neighbors(folder / "all")));
}

TEST_F(PointTilesTest, FilesOfOneCloudHaveOneType) {
  const std::vector<double> others(30);
  write_dataset(folder / "a.npy", view);
  write_dataset(folder / "b.npy", DatasetView(others.data(), 10, 3));
  const std::vector<std::filesystem::path> files = {folder / "a.npy", folder / "b.npy"};
  const std::string message =
      message_of<InvalidArgument>([&] { (void)PointTiles::build(folder / "tiles", files); });
  EXPECT_TRUE(contains(message, "b.npy"));
  EXPECT_TRUE(contains(message, "f64"));
  EXPECT_EQ(folder.entries(), 2);
}

TEST_F(PointTilesTest, AFileThatIsReadWholeMustFit) {
#if !defined(KITH_TEST_HDF5)
  GTEST_SKIP() << "this build has no HDF5";
#endif
  write_dataset(folder / "a.h5", view);
  const std::vector<std::filesystem::path> files = {folder / "a.h5"};
  Execution execution;
  execution.memory_limit = 150000;
  const std::string message =
      message_of<OutOfMemory>([&] { (void)PointTiles::build(folder / "tiles", files, {50}, execution); });
  EXPECT_TRUE(contains(message, "48000 bytes"));
  EXPECT_TRUE(contains(message, "kith convert"));
  EXPECT_EQ(folder.entries(), 1);
}

TEST_F(PointTilesTest, AFolderTakesThePlaceOfTilesAndOfNothingElse) {
  (void)PointTiles::build(folder / "tiles", view, {100});
  const PointTiles again = PointTiles::build(folder / "tiles", view.slice(0, 10), {100});
  EXPECT_EQ(again.rows(), 10);
  EXPECT_EQ(folder.entries(), 1);
  std::filesystem::create_directory(folder / "other");
  test::write_file(folder / "other" / "letter.txt", "dear");
  EXPECT_TRUE(
      contains(message_of<IoError>([&] { (void)PointTiles::build(folder / "other", view); }), "not empty"));
  test::write_file(folder / "file", "dear");
  EXPECT_TRUE(
      contains(message_of<IoError>([&] { (void)PointTiles::build(folder / "file", view); }), "is a file"));
}

TEST_F(PointTilesTest, TwoTilesThatDoNotFitAreRefusedWithNumbers) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {rows});
  Execution execution;
  execution.memory_limit = 1 << 20;
  const std::string message =
      message_of<OutOfMemory>([&] { (void)tiles.all_knn(folder / "all", 8, {}, {}, execution); });
  EXPECT_TRUE(contains(message, "4000 points"));
  EXPECT_TRUE(contains(message, "the limit is 1048576"));
  EXPECT_TRUE(contains(message, "--tile-points"));
  EXPECT_EQ(message_of<OutOfMemory>([&] { (void)tiles.search(view, 1, {}, execution); }).empty(), false);
  execution.memory_limit = 100000;
  EXPECT_TRUE(contains(
      message_of<OutOfMemory>([&] { (void)PointTiles::build(folder / "more", view, {rows}, execution); }),
      "the limit is 100000"));
  EXPECT_EQ(folder.entries(), 1);
}

TEST_F(PointTilesTest, WhatIsNoTileSearchIsRefused) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {100});
  const auto refused = [&](TileSearchOptions options, std::int64_t k = 3) {
    return message_of<InvalidArgument>([&] { (void)tiles.all_knn(folder / "all", k, options); });
  };
  TileSearchOptions options;
  options.metric = Metric::cosine;
  EXPECT_TRUE(contains(refused(options), "cosine"));
  options = {};
  options.inside = "vamana";
  EXPECT_TRUE(contains(refused(options), "approximate"));
  options.inside = "oak";
  EXPECT_TRUE(contains(refused(options), "oak"));
  options = {};
  options.radius = -1;
  EXPECT_TRUE(contains(refused(options), "-1"));
  EXPECT_TRUE(contains(refused({}, 0), "k is 0"));
  options = {};
  options.include_self = true;
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { (void)tiles.search(view, 3, options); }), "include_self"));
  Execution execution;
  execution.devices = {{Device::Kind::cuda, 99}};
  EXPECT_TRUE(
      contains(message_of<DeviceError>([&] { (void)tiles.search(view, 3, {}, execution); }), "cuda:99"));
  execution.devices = {Device{}};
  execution.device_memory_limit = 1;
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { (void)tiles.search(view, 3, {}, execution); }),
                       "a device memory limit of 1 bytes"));
  const std::vector<double> doubles(3);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { (void)tiles.search(DatasetView(doubles.data(), 1, 3), 3); }), "f64"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { (void)PointTiles::build(folder / "x", view, {-1}); }), "-1"));
  EXPECT_EQ(folder.entries(), 1);
}

TEST_F(PointTilesTest, ACallerMayStopEverything) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {100});
  Execution execution;
  execution.cancelled = [] { return true; };
  EXPECT_THROW((void)PointTiles::build(folder / "more", view, {100}, execution), Cancelled);
  EXPECT_THROW((void)tiles.all_knn(folder / "all", 3, {}, {}, execution), Cancelled);
  EXPECT_THROW((void)tiles.search(view, 3, {}, execution), Cancelled);
  EXPECT_THROW(tiles.verify(execution), Cancelled);
  EXPECT_EQ(folder.entries(), 1);
}

TEST_F(PointTilesTest, ProgressEndsAtAllRows) {
  std::vector<std::string> stages;
  Execution execution;
  execution.progress = [&](const Progress& progress) {
    if (progress.done == progress.total) stages.emplace_back(progress.stage);
    EXPECT_EQ(progress.total, rows);
  };
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {100}, execution);
  (void)tiles.all_knn(folder / "all", 3, {}, {}, execution);
  (void)tiles.search(view, 3, {}, execution);
  tiles.verify(execution);
  EXPECT_EQ(stages, (std::vector<std::string>{"partition", "all-knn", "answer", "search", "verify"}));
}

TEST_F(PointTilesTest, QueriesInTilesOfTheirOwn) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {300});
  std::vector<float> asked = make_cloud<float>(Cloud::surface, 2000, 3, 12);
  asked.insert(asked.end(), {1e20F, 0, 0, std::numeric_limits<float>::quiet_NaN(), 0, 0,
                             std::numeric_limits<float>::infinity(), 0, 0});
  const DatasetView queries(asked.data(), 2003, 3);
  const PointTiles in_tiles = PointTiles::build(folder / "asked", queries, {170});
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{3} << 20U}) {
    Execution execution = with_threads(2);
    execution.memory_limit = limit;
    const TileAnswer answer = tiles.search_tiles(folder / "found", in_tiles, 12, {}, {}, execution);
    EXPECT_TRUE(same<float>(KdTree::build(view).search(queries, 12), read_neighbors(folder / "found")));
    EXPECT_EQ(answer.statistics.queries, 2003);
    EXPECT_EQ(answer.statistics.nan_queries, 1);
  }
  TileSearchOptions options;
  options.include_self = true;
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { (void)tiles.search_tiles(folder / "x", in_tiles, 3, options); }),
      "include_self"));
  const std::vector<double> others(6);
  const PointTiles doubles = PointTiles::build(folder / "doubles", DatasetView(others.data(), 2, 3));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { (void)tiles.search_tiles(folder / "x", doubles, 3); }), "f64"));
}

TEST_F(PointTilesTest, SaysWhatItHolds) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {300});
  EXPECT_EQ(tiles.dim(), 3);
  EXPECT_EQ(tiles.dtype(), Dtype::f32);
  EXPECT_EQ(tiles.tile_points(), 300);
  const auto sizes = tiles.tile_sizes();
  EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), rows);
  EXPECT_EQ(static_cast<std::int64_t>(sizes.size()), tiles.tiles());
  EXPECT_EQ(tiles.bytes(), static_cast<std::uint64_t>(rows * 20));
  const auto bounds = tiles.bounds();
  ASSERT_EQ(bounds.size(), 6U);
  for (std::size_t j = 0; j < 3; ++j) {
    double low = infinity;
    double high = -infinity;
    for (std::size_t i = j; i < values.size(); i += 3) {
      low = std::min(low, double{values[i]});
      high = std::max(high, double{values[i]});
    }
    EXPECT_EQ(bounds[j], low);
    EXPECT_EQ(bounds[3 + j], high);
  }
  EXPECT_TRUE(PointTiles::is_at(folder / "tiles"));
  EXPECT_FALSE(PointTiles::is_at(folder.path()));
}

}  // namespace
}  // namespace kith
