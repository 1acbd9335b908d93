// Normals, outliers, radius searches and counts from tiles: the bits of a tree in memory.
#include <algorithm>
#include <tuple>

#include "core/piece_reader.hpp"
#include "kith/point_tiles.hpp"
#include "support/errors.hpp"
#include "support/threads.hpp"
#include "unit/point_tiles/clouds.hpp"

namespace kith {
namespace {

using test::Cloud;
using test::contains;
using test::make_cloud;
using test::message_of;
using test::TemporaryFolder;
using test::with_threads;

// The values of an npy, which end the file.
template <class T>
std::vector<T> array_of(const std::filesystem::path& file, std::int64_t count) {
  const std::string bytes = test::read_file(file);
  const auto size = static_cast<std::size_t>(count) * sizeof(T);
  EXPECT_GT(bytes.size(), size);
  EXPECT_EQ((bytes.size() - size) % 64, 0U) << "another number of values";
  std::vector<T> values(static_cast<std::size_t>(count));
  if (size > 0) std::memcpy(values.data(), bytes.data() + bytes.size() - size, size);
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// A radius with some tens of neighbours in it, whatever the cloud.
template <class T>
double some_radius(const KdTree& tree) {
  const Neighbors near = tree.all_knn(12);
  std::vector<T> far;
  for (std::size_t i = 11; i < near.indices.size(); i += 12) {
    if (near.indices[i] >= 0 && std::isfinite(near.distances_as<T>()[i])) {
      far.push_back(near.distances_as<T>()[i]);
    }
  }
  if (far.empty()) return 1;
  std::nth_element(far.begin(), far.begin() + static_cast<std::ptrdiff_t>(far.size() / 2), far.end());
  return static_cast<double>(far[far.size() / 2]);
}

class AnswersOf : public testing::TestWithParam<test::CloudCase> {
 protected:
  // Among equal points every list holds all of them.
  std::int64_t rows = GetParam().cloud == Cloud::equal ? 500 : 2000;

  template <class T>
  void compare() {
    const auto [cloud, dim, doubles] = GetParam();
    const std::vector<T> values = make_cloud<T>(cloud, rows, dim, 17);
    const DatasetView view(values.data(), rows, dim);
    const std::vector<T> asked = make_cloud<T>(cloud, 150, dim, 18);
    const DatasetView queries(asked.data(), 150, dim);
    const KdTree tree = KdTree::build(view);
    const double radius = some_radius<T>(tree);
    for (const std::int64_t tile_points : {50, 900}) {
      const TemporaryFolder folder;
      const int threads = tile_points == 50 ? 1 : 2;
      const PointTiles tiles = PointTiles::build(folder / "tiles", view, {tile_points});
      const PointTiles others = PointTiles::build(folder / "others", queries, {40});
      for (const Neighborhood& near : {Neighborhood{9}, Neighborhood{9, radius}, Neighborhood{0, radius}}) {
        SCOPED_TRACE(testing::Message()
                     << tile_points << " points a tile, k = " << near.k << ", radius " << near.radius);
        compare_normals(tree, tiles, near, folder, threads);
        compare_outliers(tree, tiles, near, folder, threads);
      }
      for (const std::int64_t most : {0, 5}) {
        const RadiusOptions how_many{true, most};
        const RadiusNeighbors own = tree.radius_search(view, radius, how_many);
        (void)tiles.radius_search(folder / "r", tiles, radius, how_many, {}, {}, with_threads(threads));
        check_files<T>(own, folder / "r");
        const RadiusNeighbors right = tree.radius_search(queries, radius, how_many);
        const TileAnswer answer =
            tiles.radius_search(folder / "r", others, radius, how_many, {}, {}, with_threads(threads));
        EXPECT_EQ(answer.neighbors, right.offsets.back());
        check_files<T>(right, folder / "r");
        const RadiusNeighbors found =
            tiles.radius_search(queries, radius, how_many, {}, with_threads(threads));
        EXPECT_EQ(found.offsets, right.offsets);
        EXPECT_EQ(found.indices, right.indices);
        EXPECT_TRUE(
            same_bits(std::get<std::vector<T>>(found.distances), std::get<std::vector<T>>(right.distances)));
      }
      EXPECT_EQ(tiles.count_within(queries, radius, {}, with_threads(threads)),
                tree.count_within(queries, radius));
      (void)tiles.count_within(folder / "c", tiles, radius, {}, {}, with_threads(threads));
      EXPECT_EQ(array_of<std::int64_t>(folder / "c.npy", rows), tree.count_within(view, radius));
      (void)tiles.count_within(folder / "c", others, radius, {}, {}, with_threads(threads));
      EXPECT_EQ(array_of<std::int64_t>(folder / "c.npy", 150), tree.count_within(queries, radius));
    }
  }

  void compare_normals(const KdTree& tree, const PointTiles& tiles, const Neighborhood& near,
                       const TemporaryFolder& folder, int threads) {
    const std::int64_t dim = tree.dim();
    std::optional<std::vector<double>> viewpoint;
    if (near.k > 0) viewpoint = std::vector<double>(static_cast<std::size_t>(dim), 2.5);
    const Normals right = tree.normals(near, viewpoint);
    (void)tiles.normals(folder / "n", near, viewpoint, {}, {}, with_threads(threads));
    std::vector<double> expected;
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
      const auto from = right.normals.begin() + static_cast<std::ptrdiff_t>(i) * dim;
      expected.insert(expected.end(), from, from + dim);
      expected.push_back(right.curvature[i]);
    }
    EXPECT_TRUE(same_bits(array_of<double>(folder / "n.npy", rows * (dim + 1)), expected));
  }

  void compare_outliers(const KdTree& tree, const PointTiles& tiles, const Neighborhood& near,
                        const TemporaryFolder& folder, int threads) {
    const Outliers right = tree.outliers(near, 1.5);
    const TileOutliers found =
        tiles.outliers({folder / "flags.npy", folder / "means.npy", folder / "kept.npy"}, near, 1.5, {},
                       with_threads(threads));
    EXPECT_TRUE(same_bits(array_of<double>(folder / "means.npy", rows), right.mean_distance));
    const auto flags = array_of<std::uint8_t>(folder / "flags.npy", rows);
    EXPECT_TRUE(std::equal(flags.begin(), flags.end(), right.outlier.begin()));
    EXPECT_TRUE(same_bits(std::vector<double>{found.mean, found.deviation, found.threshold},
                          std::vector<double>{right.mean, right.deviation, right.threshold}));
    EXPECT_EQ(found.outliers, std::count(right.outlier.begin(), right.outlier.end(), true));
    EXPECT_EQ(inspect(folder / "kept.npy").rows, rows - found.outliers);
  }

  template <class T>
  static void check_files(const RadiusNeighbors& right, const std::filesystem::path& output) {
    const std::string name = output.string();
    EXPECT_EQ(array_of<std::int64_t>(name + ".offsets.npy", right.queries + 1), right.offsets);
    EXPECT_EQ(array_of<std::int64_t>(name + ".indices.npy", right.offsets.back()), right.indices);
    EXPECT_TRUE(same_bits(array_of<T>(name + ".distances.npy", right.offsets.back()),
                          std::get<std::vector<T>>(right.distances)));
  }
};

TEST_P(AnswersOf, GiveTheBitsOfATreeInMemory) {
  GetParam().doubles ? compare<double>() : compare<float>();
}

INSTANTIATE_TEST_SUITE_P(, AnswersOf, testing::ValuesIn(test::cloud_cases()), test::label);

class TileAnswersTest : public testing::Test {
 protected:
  static constexpr std::int64_t rows = 30000;
  std::vector<double> values = make_cloud<double>(Cloud::uniform, rows, 3, 3);
  DatasetView view{values.data(), rows, 3};
  TemporaryFolder folder;
  PointTiles tiles = PointTiles::build(folder / "tiles", view, {1000});
};

// Lists are made a few at a time, queries wait in a file, rows come back in several buckets.
TEST_F(TileAnswersTest, LittleMemoryChangesNothing) {
  const KdTree tree = KdTree::build(view);
  const Execution little = with_threads(2, 4 << 20);
  const double radius = 0.002;
  (void)tiles.radius_search(folder / "r", tiles, radius, {}, {}, {}, little);
  const RadiusNeighbors right = tree.radius_search(view, radius);
  EXPECT_GT(right.offsets.back(), rows * 8);
  EXPECT_EQ(array_of<std::int64_t>(folder / "r.indices.npy", right.offsets.back()), right.indices);
  const TileAnswer answer = tiles.normals(folder / "n", {16}, {}, {}, {}, little);
  EXPECT_GT(answer.statistics.postponed, 0);
  const Normals normals = tree.normals({16});
  const auto found = array_of<double>(folder / "n.npy", rows * 4);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
    ASSERT_EQ(std::memcmp(&found[i * 4], &normals.normals[i * 3], 3 * sizeof(double)), 0) << i;
    ASSERT_EQ(found[i * 4 + 3], normals.curvature[i]) << i;
  }
  EXPECT_THROW((void)tiles.radius_search(view, 0.02, {}, {}, little), OutOfMemory);
}

TEST_F(TileAnswersTest, MetricsAndWhatIsInside) {
  const std::vector<double> some(values.begin(), values.begin() + 3 * 700);
  const DatasetView queries(some.data(), 700, 3);
  for (const Metric metric : tree_metrics) {
    const KdTree tree = KdTree::build(view, {metric});
    for (const char* inside : {"kd_tree", "octree", "brute_force"}) {
      SCOPED_TRACE(std::string(name(metric)) + " " + inside);
      TileSearchOptions options;
      options.metric = metric;
      options.inside = inside;
      const RadiusNeighbors most = tiles.radius_search(queries, 0.05, {true, 4}, options);
      EXPECT_EQ(most.indices, tree.radius_search(queries, 0.05, {true, 4}).indices);
      (void)tiles.outliers({folder / "o.npy", {}, {}}, {6, 0.05}, 2, options);
      const Outliers right = tree.outliers({6, 0.05});
      const auto flags = array_of<std::uint8_t>(folder / "o.npy", rows);
      EXPECT_TRUE(std::equal(flags.begin(), flags.end(), right.outlier.begin()));
      if (std::string(inside) == "brute_force") {
        EXPECT_TRUE(
            contains(message_of<InvalidArgument>([&] { (void)tiles.count_within(queries, 0.05, options); }),
                     "brute_force"));
      } else {
        EXPECT_EQ(tiles.count_within(queries, 0.05, options), tree.count_within(queries, 0.05));
      }
    }
  }
}

TEST_F(TileAnswersTest, TheOrderOfTilesIsThatOfTheRowsBeside) {
  TileAnswerOptions how;
  how.order = AnswerOrder::tiles;
  how.index_width = IndexWidth::u32;
  const TileAnswer answer = tiles.normals(folder / "n", {8}, {}, {}, how);
  ASSERT_EQ(answer.files.size(), 2U);
  EXPECT_EQ(answer.files[1].filename(), "n.rows.npy");
  const auto order = array_of<std::uint32_t>(answer.files[1], rows);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  const auto found = array_of<double>(answer.files[0], rows * 4);
  const Normals right = KdTree::build(view).normals({8});
  for (std::size_t i = 0; i < order.size(); ++i) ASSERT_EQ(found[i * 4 + 3], right.curvature[order[i]]);
}

// Whatever reads the tiles, one after the other or as queries need them, small ones together or large ones.
TEST_F(TileAnswersTest, EveryReaderGivesTheSame) {
  using Way = PieceReader::Way;
  const PointTiles asked = PointTiles::build(folder / "asked", view.slice(0, 300), {60});
  for (const std::int64_t tile_points : {30, 900}) {
    const PointTiles some = PointTiles::build(folder / "t", view.slice(0, 6000), {tile_points});
    std::vector<std::string> bytes;
    for (const Way way : {Way::pread, Way::uring, Way::fitting}) {
      PieceReader::way = way;
      const TileAnswer own = some.all_knn(folder / "r", 9);
      const TileAnswer others = some.search_tiles(folder / "s", asked, 9);
      for (const TileStatistics& s : {own.statistics, others.statistics}) {
        EXPECT_LE(s.waited_seconds, s.seconds);
        EXPECT_GT(s.read_seconds, 0);
        if (way == Way::pread) {
          EXPECT_EQ(s.reader, "pread");
        }
        if (s.reader == "pread") {
          EXPECT_EQ(s.bytes_direct, 0U);
        }
        // None where the file system has no O_DIRECT.
        if (way == Way::uring && s.bytes_direct > 0) {
          EXPECT_EQ(s.bytes_direct, s.bytes_read);
        }
      }
      std::string all;
      for (const TileAnswer& answer : {own, others}) {
        for (const auto& file : answer.files) all += test::read_file(file);
      }
      bytes.push_back(std::move(all));
    }
    PieceReader::way = Way::fitting;
    EXPECT_TRUE(bytes[1] == bytes[0]);
    EXPECT_TRUE(bytes[2] == bytes[0]);
  }
}

TEST_F(TileAnswersTest, TheRowsThatAreNoOutliersKeepTheirOrder) {
  (void)tiles.outliers({folder / "o.npy", {}, folder / "kept.npy"}, {5}, 1, {}, with_threads(2, 4 << 20));
  const auto flags = array_of<std::uint8_t>(folder / "o.npy", rows);
  std::vector<double> expected;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] == 0) expected.insert(expected.end(), &values[i * 3], &values[i * 3] + 3);
  }
  EXPECT_LT(expected.size(), values.size());
  EXPECT_TRUE(
      same_bits(array_of<double>(folder / "kept.npy", static_cast<std::int64_t>(expected.size())), expected));
}

TEST_F(TileAnswersTest, WhatTheyWouldIgnoreIsRefused) {
  const auto refused = [&](const auto& call) { return message_of<InvalidArgument>(call); };
  TileSearchOptions options;
  options.radius = 2;
  EXPECT_TRUE(contains(refused([&] { (void)tiles.normals(folder / "n", {4}, {}, options); }), "radius of 2"));
  options = {};
  options.include_self = true;
  EXPECT_TRUE(
      contains(refused([&] { (void)tiles.normals(folder / "n", {4}, {}, options); }), "include_self"));
  options = {};
  options.metric = Metric::manhattan;
  EXPECT_TRUE(contains(refused([&] { (void)tiles.normals(folder / "n", {4}, {}, options); }), "euclidean"));
  EXPECT_TRUE(contains(refused([&] { (void)tiles.normals(folder / "n", {}); }), "needs k"));
  EXPECT_TRUE(contains(refused([&] { (void)tiles.normals(folder / "n", {-1}); }), "-1"));
  EXPECT_TRUE(contains(refused([&] {
                         (void)tiles.normals(folder / "n", {4}, std::vector<double>{1, 2});
                       }),
                       "viewpoint"));
  EXPECT_TRUE(contains(refused([&] { (void)tiles.outliers({}, {4}); }), "no file"));
  EXPECT_TRUE(contains(refused([&] { (void)tiles.outliers({folder / "o"}, {4}, -2); }), "-2"));
  EXPECT_TRUE(contains(refused([&] { (void)tiles.radius_search(view, -1); }), "-1"));
  EXPECT_TRUE(contains(refused([&] { (void)tiles.radius_search(view, 1, {false, 0}); }), "sorted"));
  TileAnswerOptions how;
  how.order = AnswerOrder::tiles;
  EXPECT_TRUE(
      contains(refused([&] { (void)tiles.radius_search(folder / "r", tiles, 1, {}, {}, how); }), "order"));
  const std::vector<double> five(50);
  const PointTiles flat = PointTiles::build(folder / "flat", DatasetView(five.data(), 10, 5));
  EXPECT_TRUE(contains(refused([&] { (void)flat.normals(folder / "n", {4}); }), "dimension 2 or 3"));
  EXPECT_EQ(folder.entries(), 2);
}

}  // namespace
}  // namespace kith
