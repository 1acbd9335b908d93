// Folders of shards: from files and arrays, killed meanwhile, refused.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "kith/io.hpp"
#include "kith/sharded.hpp"
#include "sharded/cells.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/threads.hpp"
#include "unit/point_tiles/killed.hpp"
#include "unit/sharded/rows.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using test::bell;
using test::contains;
using test::contents;
using test::message_of;
using test::read_file;
using test::TemporaryFolder;
using test::write_file;

class ShardedBuild : public test::ResumeTest {
 protected:
  std::vector<float> numbers = bell(1000, 4, 1);
  DatasetView cloud{numbers.data(), 1000, 4};
};

TEST_F(ShardedBuild, TheSameFilesFromAnArrayAndFromFiles) {
  const Sharded whole = Sharded::build(folder / "array", cloud, {KdTreeParameters{}, 7, Partition::rows});
  EXPECT_EQ(whole.shards(), 7);
  EXPECT_EQ(whole.rows(), 1000);
  EXPECT_EQ(whole.shard_rows(), (std::vector<std::int64_t>{142, 143, 143, 143, 143, 143, 143}));
  EXPECT_EQ(whole.index_type().name, "kd_tree");
  EXPECT_EQ(whole.partition(), Partition::rows);
  // Files whose borders are not those of shards, one of them mapped and one in its own layout.
  write_dataset(folder / "a.npy", cloud.slice(0, 333));
  write_dataset(folder / "b.fvecs", cloud.slice(333, 1));
  write_dataset(folder / "c.fbin", cloud.slice(334, 666));
  const std::vector<fs::path> files = {folder / "a.npy", folder / "b.fvecs", folder / "c.fbin"};
  (void)Sharded::build(folder / "files", files, {KdTreeParameters{}, 7, Partition::rows});
  EXPECT_EQ(contents(folder / "array"), contents(folder / "files"));
  Sharded::open(folder / "files").verify();
  // By space, in memory at once or one shard's rows at a time.
  const Sharded divided = Sharded::build(folder / "array", cloud, {KdTreeParameters{}, 7});
  EXPECT_EQ(divided.partition(), Partition::space);
  EXPECT_EQ(divided.rows(), 1000);
  (void)Sharded::build(folder / "files", files, {KdTreeParameters{}, 7}, test::with_threads(1, 60'000));
  EXPECT_EQ(contents(folder / "array"), contents(folder / "files"));
  EXPECT_EQ(contents(folder / "array").size(), 15U);
  Sharded::open(folder / "files").verify();
}

TEST_F(ShardedBuild, BySpaceEveryRowIsInOneShardAndTheyAreAboutEquallyMany) {
  constexpr std::int64_t count = 300'000;  // more than are sampled
  const std::vector<float> points = bell(count, 2, 5);
  const Sharded shards = Sharded::build(folder / "s", {points.data(), count, 2}, {KdTreeParameters{}, 11});
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < shards.shards(); ++i) {
    const std::vector<std::int64_t> its = shards.row_numbers(i);
    EXPECT_EQ(std::ssize(its), shards.shard_rows()[static_cast<std::size_t>(i)]);
    EXPECT_NEAR(static_cast<double>(its.size()), count / 11.0, count / 11.0 / 10);
    EXPECT_TRUE(std::ranges::is_sorted(its));
    all.insert(all.end(), its.begin(), its.end());
  }
  std::ranges::sort(all);
  ASSERT_EQ(std::ssize(all), count);
  for (std::int64_t row = 0; row < count; ++row) ASSERT_EQ(all[static_cast<std::size_t>(row)], row);
  EXPECT_THROW((void)shards.row_numbers(11), InvalidArgument);
}

// Rows that lie beside each other in long runs, and so many cells that each has few of the sample.
TEST(ShardedCells, ManyCellsOfRowsInOrderAreAboutEqual) {
  constexpr std::int64_t rows = 4'000'000;
  constexpr std::int64_t cells = 16'000;
  std::vector<float> values(rows);
  for (std::int64_t i = 0; i < rows; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i);
  const DatasetView view(values.data(), rows, 1);
  const sharded::RowSource source = {
      .rows = rows, .dim = 1, .dtype = Dtype::f32, .in_memory = true, .take = [&](auto first, auto count) {
        return Dataset::adopt(view.slice(first, count), nullptr);
      }};
  std::vector<std::int64_t> sizes(cells);
  for (const std::int32_t cell : sharded::Cells(source, cells, {}).of(view, 0, {})) {
    ++sizes[static_cast<std::size_t>(cell)];
  }
  EXPECT_LE(std::ranges::max(sizes), 2 * rows / cells);
}

TEST_F(ShardedBuild, FloodsOfEqualRowsAndRowsThatAreNotFiniteAreDividedToo) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> equal(3'000, 2.5F);
  const Sharded flood = Sharded::build(folder / "equal", {equal.data(), 1'000, 3}, {KdTreeParameters{}, 8});
  EXPECT_EQ(flood.partition(), Partition::space);
  EXPECT_EQ(flood.shard_rows(), std::vector<std::int64_t>(8, 125));
  const std::vector<float> nothing(3'000, nan);
  const Sharded none = Sharded::build(folder / "nan", {nothing.data(), 1'000, 3}, {KdTreeParameters{}, 8});
  EXPECT_EQ(none.shard_rows(), std::vector<std::int64_t>(8, 125));
  EXPECT_EQ(none.search({equal.data(), 1, 3}, 1).statistics.nan_rows, 1'000);
  // Cells without a row: divided as they follow each other.
  std::vector<float> few(30, nan);
  std::fill_n(few.begin() + 15, 9, 1.0F);
  const Sharded mixed = Sharded::build(folder / "few", {few.data(), 10, 3}, {KdTreeParameters{}, 9});
  EXPECT_EQ(mixed.partition(), Partition::rows);
  EXPECT_EQ(mixed.search({equal.data(), 1, 3}, 4).indices, (std::vector<std::int64_t>{5, 6, 7, -1}));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] {
        (void)Sharded::build(folder / "no", {few.data(), 10, 3}, {KdTreeParameters{}, 9, Partition::space});
      }),
      "of 9 shards not all would have a row"));
}

TEST_F(ShardedBuild, APartitionBySpaceNeedsBoxesThatTell) {
  const auto refusal = [&](const IndexParameters& index, std::int64_t dim) {
    const std::vector<float> points = bell(50, dim, 1);
    return message_of<InvalidArgument>([&] {
      (void)Sharded::build(folder / "s", {points.data(), 50, dim}, {index, 2, Partition::space});
    });
  };
  EXPECT_TRUE(contains(refusal(BruteForceParameters{}, 17), "takes up to 16 dimensions"));
  EXPECT_TRUE(contains(refusal(BruteForceParameters{.metric = Metric::cosine}, 3), "use the partition rows"));
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([] { (void)parse_partition("place"); }), "auto, rows or space"));
  // Those of brute force follow each other unless told otherwise.
  EXPECT_EQ(Sharded::build(folder / "s", cloud, {BruteForceParameters{}, 3}).partition(), Partition::rows);
  EXPECT_EQ(Sharded::build(folder / "s", cloud, {BruteForceParameters{}, 3, Partition::space}).partition(),
            Partition::space);
}

TEST_F(ShardedBuild, OneShardsRowsInMemory) {
  const std::vector<float> large = bell(200'000, 8, 3);  // 6.4 MB
  write_dataset(folder / "a.fvecs", DatasetView(large.data(), 200'000, 8));
  const std::vector<fs::path> files = {folder / "a.fvecs"};
  const ShardedParameters many{BruteForceParameters{}, 16};
  (void)Sharded::build(folder / "s", files, many, test::with_threads(2, 3'000'000));
  EXPECT_TRUE(contains(message_of<OutOfMemory>([&] {
                         (void)Sharded::build(folder / "t", files, {BruteForceParameters{}, 2},
                                              test::with_threads(2, 3'000'000));
                       }),
                       "more shards than 2"));
  EXPECT_FALSE(fs::exists(folder / "t"));
  EXPECT_FALSE(fs::exists(folder / "t.kith-work"));
}

TEST_F(ShardedBuild, OfNoRowsAndOfOneEach) {
  const Sharded none = Sharded::build(folder / "none", cloud.slice(0, 0), {BruteForceParameters{}, 1});
  EXPECT_EQ(none.rows(), 0);
  EXPECT_EQ(none.search(cloud.slice(0, 1), 2).indices, (std::vector<std::int64_t>{-1, -1}));
  const Sharded each = Sharded::build(folder / "each", cloud.slice(0, 5), {KdTreeParameters{}, 5});
  EXPECT_EQ(each.search(cloud.slice(3, 1), 1).indices, std::vector<std::int64_t>{3});
}

TEST_F(ShardedBuild, RefusesNumbersAndPlaces) {
  const auto refusal = [&](std::int64_t shards) {
    return message_of<InvalidArgument>([&] {
      (void)Sharded::build(folder / "s", cloud, {BruteForceParameters{}, shards});
    });
  };
  EXPECT_TRUE(contains(refusal(0), "use 1 to 1000"));
  EXPECT_TRUE(contains(refusal(-1), "use 1 to 1000"));
  EXPECT_TRUE(contains(refusal(1001), "1001 shards of 1000 rows"));
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] {
                 (void)Sharded::build(folder / "s", cloud, {KdTreeParameters{.metric = Metric::cosine}, 2});
               }),
               "cosine"));
  EXPECT_THROW((void)Sharded::build(folder / "s", std::span<const fs::path>(), {BruteForceParameters{}, 1}),
               InvalidArgument);
  EXPECT_EQ(folder.entries(), 0);

  const auto blocked = [&](const char* name) {
    return message_of<IoError>([&] {
      (void)Sharded::build(folder / name, cloud, {BruteForceParameters{}, 2});
    });
  };
  write_file(folder / "file", "x");
  EXPECT_TRUE(contains(blocked("file"), "it is a file"));
  fs::create_directory(folder / "mine");
  write_file(folder / "mine/notes.txt", "x");
  EXPECT_TRUE(contains(blocked("mine"), "holds no shards"));
  (void)Sharded::build(folder / "old", cloud, {BruteForceParameters{}, 5});
  const auto before = contents(folder / "old");
  write_file(folder / "old/notes.txt", "x");
  EXPECT_TRUE(contains(blocked("old"), "notes.txt"));
  fs::remove(folder / "old/notes.txt");
  for (const char* name : {"shard-mine.rows", "shard-.kith", "shard-5.kith.rows"}) {
    write_file(folder / "old" / name, "x");
    EXPECT_TRUE(contains(blocked("old"), name));
    fs::remove(folder / "old" / name);
  }
  fs::create_directory(folder / "old/shard-7.rows");
  EXPECT_TRUE(contains(blocked("old"), "shard-7.rows"));
  fs::remove(folder / "old/shard-7.rows");
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] {
                         (void)Sharded::build("", cloud, {BruteForceParameters{}, 2});
                       }),
                       "has no name"));
  EXPECT_EQ(contents(folder / "old"), before);
  (void)Sharded::build(folder / "old", cloud, {BruteForceParameters{}, 2});
  EXPECT_EQ(Sharded::open(folder / "old").shards(), 2);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "old"), fs::directory_iterator()), 3);
}

TEST_F(ShardedBuild, RowsThatChangeWhileTheyAreDividedAreNoticed) {
  write_dataset(folder / "a.npy", cloud);
  const std::string bytes = read_file(folder / "a.npy");
  const std::string row(bytes.end() - 16, bytes.end());
  const std::vector<fs::path> files = {folder / "a.npy"};
  Execution execution = test::with_threads(1, 60'000);
  bool changed = false;
  execution.progress = [&](const Progress& progress) {
    if (changed || progress.done < progress.total / 2) return;
    changed = true;
    // The last row is now the one before, too.
    std::fstream file(folder / "a.npy", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(bytes.size()) - 32);
    file.write(row.data(), static_cast<std::streamsize>(row.size()));
  };
  EXPECT_TRUE(contains(message_of<IoError>([&] {
                         (void)Sharded::build(folder / "s", files, {KdTreeParameters{}, 7}, execution);
                       }),
                       "the rows have changed since they were read first"));
  EXPECT_TRUE(changed);
  EXPECT_EQ(folder.entries(), 1);
}

TEST_F(ShardedBuild, CancelledLeavesNothing) {
  Execution execution;
  int asked = 0;
  execution.cancelled = [&] { return ++asked > 20; };
  EXPECT_THROW((void)Sharded::build(folder / "s", cloud, {KdTreeParameters{}, 50}, execution), Cancelled);
  EXPECT_EQ(folder.entries(), 0);
}

TEST_F(ShardedBuild, KilledItGoesOn) {
  write_dataset(folder / "base.npy", view);
  const std::vector<fs::path> files = {folder / "base.npy"};
  for (const Partition partition : {Partition::rows, Partition::space}) {
    const fs::path here = folder / std::string(name(partition));
    fs::create_directory(here);
    disturb(here / "a", here / "b", 3, [&](const fs::path& where, const Execution& how) {
      (void)Sharded::build(where / "s", files, {KdTreeParameters{}, 12, partition}, how);
    });
    Sharded::open(here / "b/s").verify();
  }
}

TEST_F(ShardedBuild, AnotherCallRefusesWhatWasBegunAndDamageIsNamed) {
  write_dataset(folder / "base.npy", view);
  const std::vector<fs::path> files = {folder / "base.npy"};
  const auto build = [&](std::int64_t shards) {
    (void)Sharded::build(folder / "s", files, {KdTreeParameters{}, shards, Partition::rows});
  };
  ASSERT_TRUE(killed_at(4, [&](const Execution& how) {
    (void)Sharded::build(folder / "s", files, {KdTreeParameters{}, 12, Partition::rows}, how);
  }));
  EXPECT_FALSE(fs::exists(folder / "s"));
  EXPECT_TRUE(contains(message_of<IoError>([&] { build(11); }), "shards is 12 there, 11 here"));
  const fs::path shard = folder / "s.kith-work/shards/shard-0.kith";
  const std::string bytes = read_file(shard);
  ASSERT_GT(bytes.size(), 1000U);
  write_file(shard, bytes.substr(0, bytes.size() - 1));
  EXPECT_TRUE(contains(message_of<IoError>([&] { build(12); }), "is damaged"));
  write_file(shard, bytes);
  write_file(folder / "s.kith-work/shards/left.tmp", "of a write that was killed");
  build(12);
  EXPECT_FALSE(fs::exists(folder / "s.kith-work"));
  EXPECT_FALSE(fs::exists(folder / "s/left.tmp"));
}

TEST_F(ShardedBuild, JoinedTheyAreTheBytesOfOneBuild) {
  (void)Sharded::build(folder / "whole", cloud, {KdTreeParameters{}, 4, Partition::rows});
  (void)Sharded::build(folder / "a", cloud.slice(0, 500), {KdTreeParameters{}, 2, Partition::rows});
  (void)Sharded::build(folder / "b", cloud.slice(500, 250), {KdTreeParameters{}, 1, Partition::rows});
  (void)Sharded::build(folder / "c", cloud.slice(750, 250), {KdTreeParameters{}, 1, Partition::rows});
  const std::vector<fs::path> parts = {folder / "a", folder / "b", folder / "c"};
  const auto before = contents(folder / "a");
  const Sharded joined = Sharded::join(folder / "joined", parts);
  EXPECT_EQ(contents(folder / "whole"), contents(folder / "joined"));
  EXPECT_EQ(contents(folder / "a"), before);
  joined.verify();
  // Over an older folder of shards, and what it is made of may go.
  (void)Sharded::join(folder / "joined", std::span(parts).first(1));
  for (const char* part : {"a", "b", "c"}) fs::remove_all(folder / part);
  EXPECT_EQ(Sharded::open(folder / "joined").rows(), 500);
  Sharded::open(folder / "joined").verify();
}

TEST_F(ShardedBuild, JoinRefusesWhatDoesNotBelongTogether) {
  (void)Sharded::build(folder / "a", cloud, {KdTreeParameters{}, 2, Partition::rows});
  (void)Sharded::build(folder / "b", cloud, {KdTreeParameters{.metric = Metric::euclidean}, 2});
  (void)Sharded::build(folder / "c", cloud, {BruteForceParameters{}, 2});
  const auto join = [&](const char* other) {
    const std::vector<fs::path> parts = {folder / "a", folder / other};
    (void)Sharded::join(folder / "joined", parts);
  };
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { join("b"); }), "euclidean"));
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { join("c"); }), "brute_force"));
  EXPECT_TRUE(contains(message_of<IoError>([&] { join("nothing"); }), "there is no such folder"));
  EXPECT_THROW((void)Sharded::join(folder / "joined", {}), InvalidArgument);
  // A part stays.
  const std::vector<fs::path> twice = {folder / "a", folder / "a"};
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { (void)Sharded::join(folder / "a", twice); }),
                       "is one of the parts"));
  EXPECT_EQ(Sharded::open(folder / "a").rows(), cloud.rows);
  // A shard that is not the manifest's.
  (void)Sharded::build(folder / "d", cloud, {KdTreeParameters{.leaf_size = 5}, 2});
  const std::string bytes = read_file(folder / "a/shard-1.kith");
  fs::resize_file(folder / "a/shard-1.kith", 0);
  write_file(folder / "a/shard-1.kith", bytes.substr(0, 40) + 'x' + bytes.substr(41));
  EXPECT_THROW(join("d"), IoError);
  write_file(folder / "a/shard-1.kith", bytes);
  fs::create_directory(folder / "mine");
  write_file(folder / "mine/notes.txt", "x");
  const std::vector<fs::path> parts = {folder / "a"};
  EXPECT_TRUE(
      contains(message_of<IoError>([&] { (void)Sharded::join(folder / "mine", parts); }), "holds no shards"));
  EXPECT_FALSE(fs::exists(folder / "joined"));
  EXPECT_FALSE(fs::exists(folder / "joined.kith-work"));
}

TEST_F(ShardedBuild, AShardIsAnIndexOfItsOwn) {
  const Sharded shards = Sharded::build(folder / "s", cloud, {KdTreeParameters{}, 3, Partition::rows});
  const AnyIndex second = shards.shard(1);
  EXPECT_EQ(second.rows(), shards.shard_rows()[1]);
  EXPECT_EQ(second.search(cloud.slice(333, 5), 1).indices, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(shards.open_shards(), 1);
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { (void)shards.shard(3); }), "use 0 to 2"));
  EXPECT_THROW((void)shards.shard(-1), InvalidArgument);
  EXPECT_EQ(shards.row_numbers(1).front(), 333);
  EXPECT_EQ(shards.row_numbers(1).back(), 665);
}

// Rows of space after rows of space, and others between.
TEST_F(ShardedBuild, JoinedPartitionsKeepTheirRows) {
  const auto slice_into = [&](const char* part, std::int64_t first, std::int64_t count, Partition partition) {
    (void)Sharded::build(folder / part, cloud.slice(first, count), {KdTreeParameters{}, 3, partition});
    return folder / part;
  };
  const std::vector<fs::path> parts = {
      slice_into("a", 0, 400, Partition::space), slice_into("b", 400, 100, Partition::rows),
      slice_into("c", 500, 200, Partition::space), slice_into("d", 700, 300, Partition::space)};
  const Sharded joined = Sharded::join(folder / "joined", parts);
  EXPECT_EQ(joined.partition(), Partition::space);
  const AnyIndex one = AnyIndex::build(Dataset::copy(cloud), KdTreeParameters{});
  test::expect_same(joined.search(cloud, 12), one.search(cloud, 12), "joined");
  test::expect_same(joined.radius_search(cloud, 0.3), one.point_tree()->radius_search(cloud, 0.3), "within");
  joined.verify();
  // Once more, and the numbers of rows stay.
  const std::vector<fs::path> again = {folder / "joined"};
  (void)Sharded::join(folder / "again", again);
  EXPECT_EQ(contents(folder / "again"), contents(folder / "joined"));
}

}  // namespace
}  // namespace kith
