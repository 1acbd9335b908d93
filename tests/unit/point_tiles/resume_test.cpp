// A process that is killed anywhere, and the same call again: the bytes of a run that nobody disturbed.
#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>

#include <sys/stat.h>
#include <unistd.h>

#include "kith/point_tiles.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/partition.hpp"
#include "point_tiles/work_folder.hpp"
#include "support/errors.hpp"
#include "unit/point_tiles/killed.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::contents;
using test::message_of;
using test::ResumeTest;

TEST_F(ResumeTest, Partition) {
  write_dataset(folder / "cloud.npy", view);
  const std::vector<fs::path> clouds = {folder / "cloud.npy"};
  // The first level has 4 checkpoints in these, the second one for each tile that came out too large.
  for (const std::int64_t tile_points : {400, 40}) {
    SCOPED_TRACE(tile_points);
    const std::string name = std::to_string(tile_points);
    disturb(folder / ("a" + name), folder / ("b" + name), 3,
            [&](const fs::path& where, const Execution& how) {
              Execution little = how;
              little.memory_limit = 400000;
              (void)PointTiles::build(where / "tiles", clouds, {tile_points}, little);
            });
  }
  PointTiles::open(folder / "b40" / "tiles").verify();
}

// Tiles that are searched while they reach the disk.
TEST_F(ResumeTest, TilesThatAreNotSafeYet) {
  write_dataset(folder / "cloud.npy", view);
  const std::vector<fs::path> clouds = {folder / "cloud.npy"};
  disturb(folder / "a", folder / "b", 7, [&](const fs::path& where, const Execution& how) {
    const PointTiles tiles = point_tiles::build_behind(where / "tiles", clouds, {500}, how);
    (void)tiles.normals(where / "n", {10}, {}, {}, {}, how);
  });
  PointTiles::open(folder / "b" / "tiles").verify();
  const PointTiles tiles = point_tiles::build_behind(folder / "c", clouds, {500}, {});
  EXPECT_EQ(tiles.folder(), folder / "c");  // waits for them
  EXPECT_FALSE(fs::exists(folder / "c.kith-work"));
  EXPECT_EQ(contents(folder / "c"), contents(folder / "a" / "tiles"));
}

// Of a folder that is open.
struct OpenTiles : PointTiles {
  explicit OpenTiles(std::shared_ptr<const point_tiles::Folder> folder) : PointTiles(std::move(folder)) {}
};

TEST_F(ResumeTest, NothingIsNotedOfTilesThatAreNotSafe) {
  (void)PointTiles::build(folder / "tiles", view, {500});
  const auto search = [&](const std::string& to, std::future<void> safe) {
    auto opened = std::make_shared<point_tiles::Folder>(folder / "tiles");
    opened->becomes(folder / "tiles", std::move(safe));
    return std::async(std::launch::async, [to = folder / to, tiles = OpenTiles(std::move(opened))] {
      (void)tiles.all_knn(to, 12);
    });
  };
  std::promise<void> safe, lost;
  std::future<void> found = search("r", safe.get_future());
  const fs::path journal = folder / "r.indices.npy.kith-work" / "journal";
  // Notes come with every tile here, and take a millisecond.
  EXPECT_EQ(found.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  EXPECT_EQ(std::ranges::count(test::read_file(journal), '\n'), 1);
  safe.set_value();
  found.get();
  (void)PointTiles::open(folder / "tiles").all_knn(folder / "expected", 12);
  EXPECT_EQ(test::read_file(folder / "r.indices.npy"), test::read_file(folder / "expected.indices.npy"));

  found = search("s", lost.get_future());
  lost.set_exception(std::make_exception_ptr(IoError("the disk is gone")));
  EXPECT_TRUE(contains(message_of<IoError>([&] { found.get(); }), "the disk is gone"));
  EXPECT_FALSE(fs::exists(folder / "s.indices.npy"));
}

TEST_F(ResumeTest, EverythingThatGoesToFiles) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  const PointTiles asked = PointTiles::build(folder / "asked", view.slice(100, 1500), {150});
  const std::map<std::string, std::function<void(const fs::path&, const Execution&)>> calls = {
      {"all_knn",
       [&](const fs::path& to, const Execution& how) { (void)tiles.all_knn(to / "r", 12, {}, {}, how); }},
      {"order of tiles",
       [&](const fs::path& to, const Execution& how) {
         (void)tiles.all_knn(to / "r", 12, {}, {AnswerOrder::tiles, IndexWidth::u32}, how);
       }},
      {"search", [&](const fs::path& to,
                     const Execution& how) { (void)tiles.search_tiles(to / "r", asked, 9, {}, {}, how); }},
      {"normals", [&](const fs::path& to,
                      const Execution& how) { (void)tiles.normals(to / "n", {10}, {}, {}, {}, how); }},
      {"outliers",
       [&](const fs::path& to, const Execution& how) {
         (void)tiles.outliers({to / "o.npy", to / "m.npy", to / "k.npy"}, {8}, 2, {}, how);
       }},
      {"radius",
       [&](const fs::path& to, const Execution& how) {
         (void)tiles.radius_search(to / "r", tiles, 0.001, {}, {}, {}, how);
       }},
      {"count", [&](const fs::path& to, const Execution& how) {
         (void)tiles.count_within(to / "c", asked, 0.001, {}, {}, how);
       }}};
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    disturb(folder / (name + " a"), folder / (name + " b"), 7, call);
  }
}

// The last rows of what was noted may be those that wait, of which nothing has been put yet.
TEST_F(ResumeTest, ListsThatWaitAtTheEndOfWhatWasNoted) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  const auto search = [&](const fs::path& to, const Execution& how) {
    return tiles.radius_search(to / "r", tiles, 0.05, {}, {}, {}, how).statistics.resumed_tiles;
  };
  fs::create_directories(folder / "expected");
  (void)search(folder / "expected", {});
  // Killed when it asks for the n-th time whether to stop, and run again. @return tiles that were not
  // searched again; nothing where it came to its end
  const auto resumed_after = [&](int poll) -> std::optional<std::int64_t> {
    const fs::path to = folder / std::to_string(poll);
    fs::create_directories(to);
    const auto work = [&](const Execution& how) { (void)search(to, how); };
    if (!killed_at(poll, work, Kill::poll)) return std::nullopt;
    const std::int64_t tiles_of_before = search(to, {});
    EXPECT_EQ(contents(folder / "expected"), contents(to)) << poll;
    fs::remove_all(to);
    return tiles_of_before;
  };
  int kills = 0, resumed = 0;
  for (int poll = 57; kills < 5; poll += 9) {
    const auto tiles_of_before = resumed_after(poll);
    if (!tiles_of_before) break;
    ++kills;
    resumed += *tiles_of_before > 0 ? 1 : 0;
  }
  EXPECT_GT(kills, 3);
  EXPECT_GT(resumed, 2);
  // In the middle of a save, too; how many tiles need not be searched again is then up to the disk.
  point_tiles::Saver::waits = false;
  for (const int poll : {57, 75, 93}) (void)resumed_after(poll);
}

TEST_F(ResumeTest, LittleMemoryLetsQueriesWaitInFiles) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  disturb(folder / "a", folder / "b", 9, [&](const fs::path& to, const Execution& how) {
    Execution little = how;
    little.memory_limit = 2 << 20;
    const TileAnswer answer = tiles.all_knn(to / "r", 24, {}, {}, little);
    if (answer.statistics.postponed == 0) throw InvalidArgument("nothing has waited");
  });
}

TEST_F(ResumeTest, AnotherCallIsRefusedByName) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  const auto work = [&](const Execution& how) { (void)tiles.all_knn(folder / "r", 12, {}, {}, how); };
  ASSERT_TRUE(killed_at(9, work));
  ASSERT_TRUE(fs::exists(folder / "r.indices.npy.kith-work"));
  const auto refused = [&](const auto& call) { return message_of<IoError>(call); };
  const std::string other = refused([&] { (void)tiles.all_knn(folder / "r", 13); });
  EXPECT_TRUE(contains(other, "k is 12 there, 13 here"));
  EXPECT_TRUE(contains(other, "r.indices.npy.kith-work"));
  // Tiles of another build.
  const PointTiles again = PointTiles::build(folder / "tiles", view, {400});
  EXPECT_TRUE(contains(refused([&] { (void)again.all_knn(folder / "r", 12); }), "tiles is"));
  // A journal that was changed, and one of another version.
  const fs::path journal = folder / "r.indices.npy.kith-work" / "journal";
  const std::string text = test::read_file(journal);
  std::string changed = text;
  changed[text.size() / 2] ^= 1;
  test::write_file(journal, changed);
  EXPECT_TRUE(contains(refused([&] { (void)tiles.all_knn(folder / "r", 12); }), "is damaged"));
  test::write_file(journal, text);
  // Queries that waited, and are no longer what they were.
  for (const char* name : {"waiting-0", "waiting-1"}) {
    const fs::path file = folder / "r.indices.npy.kith-work" / name;
    std::string bytes = test::read_file(file);
    if (bytes.empty()) continue;
    bytes[bytes.size() / 2] ^= 1;
    test::write_file(file, bytes);
  }
  EXPECT_TRUE(contains(refused([&] { (void)tiles.all_knn(folder / "r", 12); }), "waiting-"));
  EXPECT_TRUE(fs::exists(journal));
}

TEST_F(ResumeTest, ASymbolicLinkStaysOne) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  (void)tiles.all_knn(folder / "expected", 5);
  fs::create_directory(folder / "elsewhere");
  test::write_file(folder / "elsewhere" / "old.npy", "old");
  fs::create_symlink("elsewhere/old.npy", folder / "r.indices.npy");
  fs::create_symlink(folder / "elsewhere" / "new.npy", folder / "r.distances.npy");  // is not there yet
  ASSERT_TRUE(killed_at(9, [&](const Execution& how) { (void)tiles.all_knn(folder / "r", 5, {}, {}, how); }));
  EXPECT_TRUE(fs::exists(folder / "elsewhere" / "old.npy.kith-work"));
  EXPECT_GT(tiles.all_knn(folder / "r", 5).statistics.resumed_tiles, 0);
  EXPECT_TRUE(fs::is_symlink(folder / "r.indices.npy"));
  EXPECT_TRUE(fs::is_symlink(folder / "r.distances.npy"));
  EXPECT_EQ(test::read_file(folder / "elsewhere" / "old.npy"),
            test::read_file(folder / "expected.indices.npy"));
  EXPECT_EQ(test::read_file(folder / "elsewhere" / "new.npy"),
            test::read_file(folder / "expected.distances.npy"));
  // Tiles as well.
  fs::create_symlink("elsewhere/tiles", folder / "link");
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(PointTiles::build(folder / "link", view, {500}).rows(), rows);
    EXPECT_TRUE(fs::is_symlink(folder / "link"));
    PointTiles::open(folder / "elsewhere" / "tiles").verify();
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "elsewhere"), {}), 3);
}

// What cannot be renamed there is copied.
TEST_F(ResumeTest, AFileOfTheAnswerOnAnotherFileSystem) {
  const fs::path other = "/dev/shm";
  struct stat here {
  }, there{};
  if (::stat(other.c_str(), &there) != 0 || ::stat((folder / ".").c_str(), &here) != 0 ||
      here.st_dev == there.st_dev || ::access(other.c_str(), W_OK) != 0) {
    GTEST_SKIP() << "no other file system to write to";
  }
  const fs::path file = other / ("kith-resume-test-" + std::to_string(::getpid()) + ".npy");
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  (void)tiles.outliers({folder / "o.npy", folder / "m.npy", {}}, {8});
  (void)tiles.outliers({folder / "p.npy", file, {}}, {8});
  EXPECT_EQ(test::read_file(file), test::read_file(folder / "m.npy"));
  EXPECT_FALSE(fs::exists(file.string() + ".kith-work.tmp"));
  fs::remove(file);
}

TEST_F(ResumeTest, ACallThatIsCancelledLeavesNothing) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  int asked = 0;
  Execution execution;
  execution.cancelled = [&] { return ++asked > 30; };
  EXPECT_THROW((void)tiles.all_knn(folder / "r", 12, {}, {}, execution), Cancelled);
  EXPECT_EQ(folder.entries(), 1);
}

TEST_F(ResumeTest, TwoAtOnceAreRefused) {
  point_tiles::WorkFolder first(folder / "r", {{"call", "one"}});
  EXPECT_TRUE(contains(message_of<IoError>([&] {
                         const point_tiles::WorkFolder second(folder / "r", {{"call", "one"}});
                       }),
                       "in use"));
}

// One that was opened, and is gone before it is locked, with or without another in its place.
TEST_F(ResumeTest, TheLockIsThatOfTheFolderWhichIsThere) {
  for (const bool another : {false, true}) {
    SCOPED_TRACE(another);
    int opened = 0;
    point_tiles::WorkFolder::before_lock = [&] {
      if (++opened > 1) return;
      // Renamed, so that the number of the old one is not given again.
      fs::rename(folder / "r.kith-work", folder / "older");
      if (another) fs::create_directory(folder / "r.kith-work");
    };
    {
      point_tiles::WorkFolder work(folder / "r", {{"call", "one"}});
      point_tiles::WorkFolder::before_lock = nullptr;
      EXPECT_EQ(opened, 2);
      EXPECT_TRUE(fs::exists(folder / "r.kith-work" / "journal"));
      EXPECT_TRUE(contains(message_of<IoError>([&] {
                             const point_tiles::WorkFolder second(folder / "r", {{"call", "one"}});
                           }),
                           "in use"));
    }
    EXPECT_TRUE(fs::is_empty(folder / "older"));
    fs::remove(folder / "older");
  }
}

// A limit that the rest does not fit into is no reason to throw away what is done.
TEST_F(ResumeTest, ALimitThatIsTooSmallLeavesWhatWasDone) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  const auto work = [&](const Execution& how) { (void)tiles.all_knn(folder / "r", 12, {}, {}, how); };
  ASSERT_TRUE(killed_at(9, work));
  const fs::path place = folder / "r.indices.npy.kith-work";
  const auto before = contents(place);
  Execution little;
  little.memory_limit = 100000;
  const std::string refused = message_of<OutOfMemory>([&] { work(little); });
  EXPECT_TRUE(contains(refused, "the limit is 100000"));
  EXPECT_TRUE(contains(refused, "what is done stays in '" + place.string() + "'"));
  EXPECT_EQ(before, contents(place));
  EXPECT_GT(tiles.all_knn(folder / "r", 12).statistics.resumed_tiles, 0);
  // Where nothing was done before nothing is left.
  EXPECT_THROW((void)tiles.all_knn(folder / "s", 12, {}, {}, little), OutOfMemory);
  EXPECT_FALSE(fs::exists(folder / "s.indices.npy.kith-work"));
}

TEST_F(ResumeTest, AFolderOfSomebodyElseIsLeftAlone) {
  fs::create_directory(folder / "r.kith-work");
  test::write_file(folder / "r.kith-work" / "letter.txt", "dear");
  EXPECT_TRUE(contains(message_of<IoError>([&] {
                         const point_tiles::WorkFolder work(folder / "r", {{"call", "one"}});
                       }),
                       "in the way"));
  EXPECT_TRUE(fs::exists(folder / "r.kith-work" / "letter.txt"));
}

// The last line may be torn: what it speaks of counts as not done.
TEST_F(ResumeTest, ATornLineIsForgotten) {
  const nlohmann::json task = {{"call", "one"}};
  {
    point_tiles::WorkFolder work(folder / "r", task);
    work.note({{"a", 1}});
    work.note({{"b", 2}});
    EXPECT_TRUE(contains(work.keep(), "r.kith-work"));
  }
  const fs::path journal = folder / "r.kith-work" / "journal";
  const std::string text = test::read_file(journal);
  test::write_file(journal, text.substr(0, text.size() - 3));
  {
    point_tiles::WorkFolder work(folder / "r", task);
    ASSERT_EQ(work.records().size(), 1U);
    EXPECT_EQ(*work.last("a"), 1);
    EXPECT_EQ(work.last("b"), nullptr);
    work.note({{"c", 3}});
    (void)work.keep();
  }
  point_tiles::WorkFolder work(folder / "r", task);
  EXPECT_EQ(work.records().size(), 2U);
}

}  // namespace
}  // namespace kith
