// Tiles that are searched on GPUs: the files that the CPU writes, byte for byte, whatever is asked, of all
// clouds, tile sizes, types and indexes inside, within limits of GPU memory. What is the host's part of it,
// tiles made ready ahead and answers that a device has reduced, runs on the CPU as well, for machines and
// sanitizers without a GPU.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/seeds.hpp"
#include "point_tiles/columns.hpp"
#include "point_tiles/devices.hpp"
#include "support/errors.hpp"
#include "support/full_disk.hpp"
#include "support/gpu_test.hpp"
#include "support/gpus.hpp"
#include "support/sanitizers.hpp"
#include "unit/point_tiles/clouds.hpp"
#include "unit/point_tiles/killed.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using test::Cloud;
using test::contains;
using test::gpus;
using test::make_cloud;
using test::message_of;
using test::TemporaryFolder;

Execution on_gpus(int count = 1, std::uint64_t device_memory_limit = 0) {
  Execution execution;
  execution.devices.clear();
  for (int i = 0; i < count; ++i) execution.devices.push_back({Device::Kind::cuda, i});
  execution.device_memory_limit = device_memory_limit;
  execution.threads = 2;
  return execution;
}

// While it lives the CPU does what devices do.
struct CpuAsDevice {
  CpuAsDevice() { point_tiles::cpu_as_device = true; }
  ~CpuAsDevice() { point_tiles::cpu_as_device = false; }
  CpuAsDevice(const CpuAsDevice&) = delete;
  CpuAsDevice& operator=(const CpuAsDevice&) = delete;
};

// Everything that tiles answer, into files "<output>...".
void answer_all(const PointTiles& tiles, const PointTiles& queries, const fs::path& output, double radius,
                const TileSearchOptions& options, const Execution& execution) {
  const auto to = [&](const char* name) {
    fs::path path = output;
    path += name;
    return path;
  };
  const bool tree = options.inside != "brute_force";
  for (const std::int64_t k : {1, 8, 32}) {
    const std::string number = std::to_string(k);
    (void)tiles.all_knn(to(("all-" + number).c_str()), k, options, {}, execution);
    TileSearchOptions with_self = options;
    with_self.include_self = true;
    (void)tiles.all_knn(to(("self-" + number).c_str()), k, with_self, {}, execution);
    TileSearchOptions near = options;
    near.radius = radius;
    (void)tiles.all_knn(to(("near-" + number).c_str()), k, near, {}, execution);
    (void)tiles.search_tiles(to(("search-" + number).c_str()), queries, k, options, {}, execution);
  }
  std::vector<Neighborhood> neighborhoods = {{1}, {2}, {9}, {9, radius}};
  if (tree) neighborhoods.push_back({0, radius});
  for (std::size_t i = 0; i < neighborhoods.size(); ++i) {
    const std::string number = std::to_string(i);
    TileSearchOptions euclidean = options;
    if (options.metric == Metric::manhattan) euclidean.metric = Metric::euclidean;
    std::optional<std::vector<double>> viewpoint;
    if (i == 2) viewpoint = std::vector<double>(static_cast<std::size_t>(tiles.dim()), 2.5);
    (void)tiles.normals(to(("normals-" + number).c_str()), neighborhoods[i], viewpoint, euclidean, {},
                        execution);
    (void)tiles.outliers(
        {to(("flags-" + number + ".npy").c_str()), to(("means-" + number + ".npy").c_str()), {}},
        neighborhoods[i], 1.5, options, execution);
  }
  (void)tiles.normals(to("narrow"), {9}, {}, {}, {AnswerOrder::tiles, IndexWidth::u32, ValueWidth::f32},
                      execution);
  if (!tree) return;
  (void)tiles.radius_search(to("within"), queries, radius, {}, options, {}, execution);
  (void)tiles.radius_search(to("own"), tiles, radius, {}, options, {}, execution);
  (void)tiles.count_within(to("counts"), tiles, radius, options, {}, execution);
}

std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = test::read_file(entry.path());
  }
  return files;
}

class TilesBesideTheCpu {
 public:
  void compare(const PointTiles& tiles, const PointTiles& queries, double radius,
               const TileSearchOptions& options, const Execution& execution) {
    fs::create_directory(folder_ / "cpu");
    fs::create_directory(folder_ / "there");
    Execution cpu;
    cpu.threads = 2;
    {
      const bool pretends = point_tiles::cpu_as_device.exchange(false);
      answer_all(tiles, queries, folder_ / "cpu" / "", radius, options, cpu);
      point_tiles::cpu_as_device = pretends;
    }
    answer_all(tiles, queries, folder_ / "there" / "", radius, options, execution);
    const auto right = files_in(folder_ / "cpu");
    const auto found = files_in(folder_ / "there");
    ASSERT_EQ(found.size(), right.size());
    for (const auto& [name, bytes] : right) {
      ASSERT_TRUE(found.contains(name)) << name;
      EXPECT_TRUE(found.at(name) == bytes) << name;
    }
    fs::remove_all(folder_ / "cpu");
    fs::remove_all(folder_ / "there");
  }

  template <class T>
  void compare(const test::CloudCase& asked, const Execution& execution) {
    // Among equal points every list holds all of them, among huge ones every search looks at all.
    const std::int64_t rows = asked.cloud == Cloud::equal ? 400 : asked.cloud == Cloud::huge ? 800 : 2000;
    const std::vector<T> values = make_cloud<T>(asked.cloud, rows, asked.dim, 27);
    const std::vector<T> others = make_cloud<T>(asked.cloud, 150, asked.dim, 28);
    const DatasetView view(values.data(), rows, asked.dim);
    const KdTree tree = KdTree::build(view);
    const double radius = some_radius(tree);
    const PointTiles queries =
        PointTiles::build(folder_ / "queries", DatasetView(others.data(), 150, asked.dim), {40});
    for (const std::int64_t tile_points : {150, 900, 5000}) {
      if (test::reduced() && tile_points != 150) continue;
      SCOPED_TRACE(testing::Message() << tile_points << " points a tile");
      const PointTiles tiles = PointTiles::build(folder_ / "tiles", view, {tile_points});
      compare(tiles, queries, radius, {}, execution);
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  // That of half of the rows has some neighbours within it.
  static double some_radius(const KdTree& tree) {
    const Neighbors near = tree.all_knn(12);
    std::vector<double> far;
    for (std::int64_t i = 0; i < near.queries; ++i) {
      if (std::isfinite(near.distance(i, 11))) far.push_back(near.distance(i, 11));
    }
    if (far.empty()) return 1;
    std::nth_element(far.begin(), far.begin() + static_cast<std::ptrdiff_t>(far.size() / 2), far.end());
    return far[far.size() / 2];
  }

  TemporaryFolder folder_;
};

class CudaTilesOf : public testing::TestWithParam<test::CloudCase> {};

TEST_P(CudaTilesOf, GiveTheBitsOfTheCpu) {
  if (gpus() == 0) GTEST_SKIP() << "no usable CUDA device here";
  TilesBesideTheCpu tiles;
  GetParam().doubles ? tiles.compare<double>(GetParam(), on_gpus())
                     : tiles.compare<float>(GetParam(), on_gpus());
}

INSTANTIATE_TEST_SUITE_P(, CudaTilesOf, testing::ValuesIn(test::cloud_cases()), test::label);

class TilesAheadOf : public testing::TestWithParam<test::CloudCase> {};

TEST_P(TilesAheadOf, GiveTheBitsOfThoseInTurn) {
  const CpuAsDevice pretends;
  Execution execution;
  execution.threads = 2;
  TilesBesideTheCpu tiles;
  GetParam().doubles ? tiles.compare<double>(GetParam(), execution)
                     : tiles.compare<float>(GetParam(), execution);
}

INSTANTIATE_TEST_SUITE_P(, TilesAheadOf, testing::ValuesIn(test::cloud_cases()), test::label);

class CudaTilesTest : public test::GpuTest {
 protected:
  static constexpr std::int64_t rows = 40'000;
  std::vector<float> values = make_cloud<float>(Cloud::surface, rows, 3, 3);
  DatasetView view{values.data(), rows, 3};
  TemporaryFolder folder;
};

TEST_F(CudaTilesTest, EveryMetricAndIndexInside) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view.slice(0, 4000), {300});
  const PointTiles queries = PointTiles::build(folder / "queries", view.slice(5000, 200), {70});
  const double radius = TilesBesideTheCpu::some_radius(KdTree::build(view.slice(0, 4000)));
  TilesBesideTheCpu both;
  for (const Metric metric : tree_metrics) {
    for (const char* inside : {"kd_tree", "octree", "brute_force"}) {
      SCOPED_TRACE(std::string(name(metric)) + " " + inside);
      TileSearchOptions options;
      options.metric = metric;
      options.inside = inside;
      both.compare(tiles, queries, metric == Metric::sqeuclidean ? radius : std::sqrt(radius), options,
                   on_gpus());
    }
  }
}

TEST_F(CudaTilesTest, OtherTypesAndDimensions) {
  std::vector<std::uint8_t> bytes;
  for (const float value : make_cloud<float>(Cloud::uniform, 1200, 3, 6)) {
    bytes.push_back(static_cast<std::uint8_t>(255 * value));
  }
  const PointTiles small =
      PointTiles::build(folder / "bytes", DatasetView(bytes.data(), Dtype::u8, 1200, 3, 3), {100});
  TilesBesideTheCpu both;
  both.compare(small, small, 30, {}, on_gpus());
  for (const std::int64_t dim : {1, 5, 11}) {
    const std::vector<double> uniform = make_cloud<double>(Cloud::uniform, 900, dim, 5);
    const PointTiles tiles =
        PointTiles::build(folder / "tiles", DatasetView(uniform.data(), 900, dim), {100});
    for (const Execution& execution : {Execution{}, on_gpus()}) {
      const std::string name = execution.devices.front().kind == Device::Kind::cpu ? "cpu" : "gpu";
      (void)tiles.all_knn(folder / name, 4, {}, {}, execution);
    }
    EXPECT_EQ(test::read_file(folder / "cpu.indices.npy"), test::read_file(folder / "gpu.indices.npy"));
    EXPECT_EQ(test::read_file(folder / "cpu.distances.npy"), test::read_file(folder / "gpu.distances.npy"));
  }
}

TEST_F(CudaTilesTest, IntegersOfLasFiles) {
  conformance::Random random(16);
  std::string text = fuzz::las_header(2, 0, 22, 3000);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    text.replace(131 + 8 * axis, 8, fuzz::raw(0.001));
    text.replace(155 + 8 * axis, 8, fuzz::raw(500000.1 * static_cast<double>(axis + 1)));
  }
  for (std::int64_t i = 0; i < 3000; ++i) {
    for (int axis = 0; axis < 3; ++axis) text += fuzz::raw(static_cast<std::int32_t>(random.below(1 << 20)));
    text += std::string(10, 'x');
  }
  test::write_file(folder / "a.las", text);
  const std::vector<fs::path> files = {folder / "a.las"};
  const PointTiles tiles = PointTiles::build(folder / "tiles", files, {400});
  ASSERT_TRUE(contains(test::read_file(folder / "tiles" / "manifest.json"), "\"integers\""));
  TilesBesideTheCpu both;
  both.compare(tiles, tiles, 2000, {}, on_gpus());
}

TEST_F(CudaTilesTest, SearchesInMemoryToo) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {5000});
  const DatasetView queries = view.slice(100, 3000);
  const Neighbors right = tiles.search(queries, 8);
  const auto [found, statistics] = tiles.search_with_statistics(queries, 8, {}, on_gpus());
  EXPECT_TRUE(test::same<float>(right, found));
  EXPECT_EQ(statistics.device, "cuda:0");
  EXPECT_GT(statistics.device_seconds, 0);
  const RadiusNeighbors near = tiles.radius_search(queries, 2.0);
  const RadiusNeighbors there = tiles.radius_search(queries, 2.0, {}, {}, on_gpus());
  EXPECT_EQ(near.offsets, there.offsets);
  EXPECT_EQ(near.indices, there.indices);
  EXPECT_EQ(tiles.count_within(queries, 2.0), tiles.count_within(queries, 2.0, {}, on_gpus()));
}

TEST_F(CudaTilesTest, SeveralDevicesShareTheTiles) {
  if (gpus() < 2) GTEST_SKIP() << "no usable CUDA device here beside the first";
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {3000});
  TilesBesideTheCpu both;
  both.compare(tiles, tiles, 1.0, {}, on_gpus(gpus()));
}

// From a limit that two tiles and a search just fit into, without room for tiles ahead, to plenty.
TEST_F(CudaTilesTest, LimitsOfGpuMemory) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {8000});
  const PointTiles queries = PointTiles::build(folder / "queries", view.slice(3, 150), {70});
  std::string message =
      message_of<OutOfMemory>([&] { (void)tiles.all_knn(folder / "all", 8, {}, {}, on_gpus(1, 1 << 16)); });
  EXPECT_TRUE(contains(message, "searching two tiles of ")) << message;
  EXPECT_TRUE(contains(message, "the limit is 65536")) << message;
  EXPECT_TRUE(contains(message, "raise the limit on GPU memory")) << message;
  const auto at = message.find("takes about ") + 12;
  const std::uint64_t least = std::stoull(message.substr(at));
  EXPECT_FALSE(fs::exists(folder / "all.indices.npy"));
  TilesBesideTheCpu both;
  // What else is asked takes a little more.
  for (const std::uint64_t limit : {2 * least, 4 * least, 40 * least}) {
    SCOPED_TRACE(testing::Message() << limit << " bytes");
    both.compare(tiles, queries, 1.0, {}, on_gpus(1, limit));
  }
}

TEST_F(CudaTilesTest, LimitsOfHostMemory) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {1000});
  for (const std::uint64_t limit : {8U << 20U, 64U << 20U, 512U << 20U}) {
    Execution execution = on_gpus();
    execution.memory_limit = limit;
    (void)tiles.all_knn(folder / "gpu", 8, {}, {}, execution);
    (void)tiles.all_knn(folder / "cpu", 8);
    EXPECT_EQ(test::read_file(folder / "cpu.indices.npy"), test::read_file(folder / "gpu.indices.npy"));
    (void)tiles.normals(folder / "gpu", {8}, {}, {}, {}, execution);
    (void)tiles.normals(folder / "cpu", {8});
    EXPECT_EQ(test::read_file(folder / "cpu.npy"), test::read_file(folder / "gpu.npy"));
  }
}

TEST_F(CudaTilesTest, AreMadeAndCheckedOnTheCpu) {
  const auto build = [&] { (void)PointTiles::build(folder / "tiles", view, {}, on_gpus()); };
  EXPECT_TRUE(contains(message_of<InvalidArgument>(build), "point tiles are made on the CPU"));
  const PointTiles tiles = PointTiles::build(folder / "tiles", view);
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { tiles.verify(on_gpus()); }), "checked on the CPU"));
}

TEST_F(CudaTilesTest, ACancelledCallLeavesNothing) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  for (const int after : {1, 40, 400}) {
    Execution execution = on_gpus();
    int asked = 0;
    execution.cancelled = [&] { return ++asked > after; };
    try {
      (void)tiles.normals(folder / "n", {9}, {}, {}, {}, execution);
    } catch (const Cancelled&) {
      EXPECT_FALSE(fs::exists(folder / "n.npy"));
      EXPECT_FALSE(fs::exists(folder / "n.npy.kith-work"));
    }
  }
}

TEST(TilesAhead, DamageIsFoundByName) {
  const CpuAsDevice pretends;
  TemporaryFolder folder;
  const std::vector<float> values = make_cloud<float>(Cloud::uniform, 2000, 3, 3);
  const PointTiles tiles = PointTiles::build(folder / "tiles", DatasetView(values.data(), 2000, 3), {100});
  std::string bytes = test::read_file(folder / "tiles" / "segment-0.bin");
  bytes[bytes.size() / 2] ^= 1;
  test::write_file(folder / "tiles" / "segment-0.bin", bytes);
  const std::string message = message_of<IoError>([&] { (void)tiles.normals(folder / "n", {9}); });
  EXPECT_TRUE(contains(message, "segment-0.bin' is corrupt")) << message;
}

class TilesAheadResumed : public test::ResumeTest {
 protected:
  CpuAsDevice pretends;
};

TEST_F(TilesAheadResumed, LeavesTheSameBytes) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  const std::map<std::string, std::function<void(const fs::path&, const Execution&)>> calls = {
      {"all_knn",
       [&](const fs::path& to, const Execution& how) { (void)tiles.all_knn(to / "r", 12, {}, {}, how); }},
      {"normals", [&](const fs::path& to,
                      const Execution& how) { (void)tiles.normals(to / "n", {10}, {}, {}, {}, how); }},
      {"outliers", [&](const fs::path& to, const Execution& how) {
         (void)tiles.outliers({to / "o.npy", to / "m.npy", to / "k.npy"}, {8}, 2, {}, how);
       }}};
  // Between two safe places answers of one tile are put while the next is answered.
  for (const int every : {1, 3}) {
    point_tiles::Pacer::every = every;
    for (const auto& [name, call] : calls) {
      const std::string named = name + " " + std::to_string(every);
      SCOPED_TRACE(named);
      disturb(folder / (named + " a"), folder / (named + " b"), 7, call);
    }
  }
}

// Answers of any number wait in memory where nobody has named a limit on it.
class AnswersInMemory : public TilesAheadResumed {
 protected:
  void SetUp() override {
    TilesAheadResumed::SetUp();
    point_tiles::least_in_memory = 0;
  }
  void TearDown() override {
    point_tiles::least_in_memory = point_tiles::tuning::least_direct;
    TilesAheadResumed::TearDown();
  }

  // @return whether answers lay in files of the work folder meanwhile
  bool normals(const PointTiles& tiles, const fs::path& to, Execution execution, TileStatistics& statistics) {
    bool in_files = false;
    execution.threads = 2;
    execution.memory_limit = 0;
    const auto look = execution.progress;
    execution.progress = [&](const Progress& progress) {
      std::error_code gone;
      for (const auto& entry : fs::directory_iterator(to.string() + ".kith-work", gone)) {
        in_files |= entry.path().filename() == "normals" || entry.path().filename() == "rows";
      }
      if (look) look(progress);
    };
    statistics = tiles.normals(to, {10}, {}, {}, {}, execution).statistics;
    return in_files;
  }
};

TEST_F(AnswersInMemory, HaveTheSameBytes) {
  TilesBesideTheCpu both;
  Execution execution;
  execution.threads = 2;
  both.compare<float>({Cloud::missing, 3, false}, execution);
}

TEST_F(AnswersInMemory, StayOutOfTheWorkFolder) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  TileStatistics statistics;
  EXPECT_FALSE(normals(tiles, folder / "a.npy", {}, statistics));
  point_tiles::least_in_memory = std::int64_t{1} << 40U;
  EXPECT_TRUE(normals(tiles, folder / "b.npy", {}, statistics));
  EXPECT_EQ(test::read_file(folder / "a.npy"), test::read_file(folder / "b.npy"));
}

// The next run begins anew, whenever that was; what a run with files has noted it goes on with.
TEST_F(AnswersInMemory, OfAProcessThatIsKilled) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  TileStatistics statistics;
  (void)normals(tiles, folder / "whole.npy", {}, statistics);
  const auto run = [&](const Execution& how) { (void)normals(tiles, folder / "n.npy", how, statistics); };
  int killed = 0;
  for (int report = 1; killed_at(report, run); report += 5, ++killed) {
    EXPECT_FALSE(fs::exists(folder / "n.npy"));
    EXPECT_FALSE(normals(tiles, folder / "n.npy", {}, statistics));
    EXPECT_EQ(statistics.resumed_tiles, 0);
    EXPECT_TRUE(test::read_file(folder / "n.npy") == test::read_file(folder / "whole.npy")) << report;
    fs::remove(folder / "n.npy");
  }
  EXPECT_GE(killed, 3);
  const auto with_files = [&](const Execution& how) {
    point_tiles::least_in_memory = std::int64_t{1} << 40U;
    run(how);
  };
  ASSERT_TRUE(killed_at(10, with_files));
  EXPECT_TRUE(normals(tiles, folder / "n.npy", {}, statistics));
  EXPECT_GT(statistics.resumed_tiles, 0);
  EXPECT_TRUE(test::read_file(folder / "n.npy") == test::read_file(folder / "whole.npy"));
}

// A search that takes long has them in files from then on.
TEST_F(AnswersInMemory, GoToFilesWhenItTakesLong) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  TileStatistics statistics;
  (void)normals(tiles, folder / "whole.npy", {}, statistics);
  point_tiles::longest_in_memory = std::chrono::seconds(0);
  const auto run = [&](const Execution& how) { (void)normals(tiles, folder / "n.npy", how, statistics); };
  for (const int report : {4, 11, 17}) {
    ASSERT_TRUE(killed_at(report, run));
    EXPECT_TRUE(normals(tiles, folder / "n.npy", {}, statistics));
    EXPECT_GT(statistics.resumed_tiles, 0);
    EXPECT_TRUE(test::read_file(folder / "n.npy") == test::read_file(folder / "whole.npy")) << report;
    fs::remove(folder / "n.npy");
  }
  // Of queries in one tile all is found when the search first looks at the clock.
  const PointTiles queries = PointTiles::build(folder / "queries", view.slice(0, 3000), {5000});
  const auto search = [&](const Execution& how) {
    Execution free = how;
    free.memory_limit = 0;
    statistics = tiles.search_tiles(folder / "s", queries, 5, {}, {}, free).statistics;
  };
  int resumed = 0;
  for (int report = 1; killed_at(report, search); ++report) {
    search({});
    resumed += statistics.resumed_tiles == 1 ? 1 : 0;
    fs::remove(folder / "s.indices.npy");
  }
  EXPECT_GT(resumed, 0);
  point_tiles::longest_in_memory = point_tiles::tuning::longest_in_memory;
}

TEST_F(AnswersInMemory, OnAFullDisk) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  TileStatistics statistics;
  (void)normals(tiles, folder / "whole.npy", {}, statistics);
  const std::string message = message_of<IoError>([&] {
    const test::FullDisk full(100'000);
    (void)normals(tiles, folder / "n.npy", {}, statistics);
  });
  EXPECT_TRUE(contains(message, "too large")) << message;
  EXPECT_FALSE(fs::exists(folder / "n.npy"));
  EXPECT_FALSE(fs::exists(folder / "n.npy.kith-work"));
  EXPECT_FALSE(normals(tiles, folder / "n.npy", {}, statistics));
  EXPECT_TRUE(test::read_file(folder / "n.npy") == test::read_file(folder / "whole.npy"));
}

}  // namespace
}  // namespace kith
