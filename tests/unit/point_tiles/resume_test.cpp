// A process that is killed anywhere, and the same call again: the bytes of a run that nobody disturbed.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <map>

#include <sys/wait.h>
#include <unistd.h>

#include "kith/point_tiles.hpp"
#include "point_tiles/pacer.hpp"
#include "point_tiles/work_folder.hpp"
#include "support/errors.hpp"
#include "unit/point_tiles/clouds.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using test::Cloud;
using test::contains;
using test::make_cloud;
using test::message_of;
using test::TemporaryFolder;

// Everything below a folder, by name.
std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), folder).string()] = test::read_file(entry.path());
  }
  return files;
}

class ResumeTest : public testing::Test {
 protected:
  static constexpr std::int64_t rows = 10000;
  std::vector<double> values = make_cloud<double>(Cloud::uniform, rows, 3, 31);
  DatasetView view{values.data(), rows, 3};
  TemporaryFolder folder;

  void SetUp() override { point_tiles::Pacer::always = true; }
  void TearDown() override { point_tiles::Pacer::always = false; }

  // Has a child do the work, which is killed at its n-th report of progress. @return whether it was
  static bool killed_at(int report, const std::function<void(const Execution&)>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      int left = report;
      Execution execution;
      execution.threads = 2;
      execution.memory_limit = 6 << 20;
      execution.progress = [&](const Progress&) {
        if (--left <= 0) (void)::kill(::getpid(), SIGKILL);
      };
      try {
        work(execution);
      } catch (const std::exception& error) {
        (void)::fprintf(stderr, "%s\n", error.what());
        ::_exit(2);
      }
      ::_exit(0);
    }
    int status = 0;
    (void)::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
  }

  // Kills it after some reports, more from time to time so that it comes to its end, and compares with what
  // an undisturbed child leaves.
  static void disturb(const fs::path& expected, const fs::path& found, int reports,
                      const std::function<void(const fs::path&, const Execution&)>& work) {
    fs::create_directories(expected);
    fs::create_directories(found);
    ASSERT_FALSE(killed_at(1 << 30, [&](const Execution& how) { work(expected, how); }));
    int kills = 0;
    while (killed_at(reports + 2 * kills, [&](const Execution& how) { work(found, how); })) {
      ASSERT_LT(++kills, 100);
    }
    EXPECT_GT(kills, 0);
    EXPECT_EQ(contents(expected), contents(found));
  }
};

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

// A run that is killed at `report`, and files of its work lost or cut: each is refused by name, again and
// again, and with the file back the work goes on.
class LostFileTest : public ResumeTest {
 protected:
  using Call = std::function<void(const fs::path&, const Execution&)>;

  // Reports of a stage alone, when so many rows of it are done.
  static Execution after(const Execution& how, const std::string& stage, std::int64_t rows) {
    Execution some = how;
    if (!how.progress) return some;
    some.progress = [=](const Progress& at) {
      if (at.stage == stage && at.done > rows) how.progress(at);
    };
    return some;
  }

  void lose(const Call& call, int report, const std::vector<std::string>& names) {
    fs::create_directories(folder / "a");
    fs::create_directories(folder / "b");
    ASSERT_FALSE(killed_at(1 << 30, [&](const Execution& how) { call(folder / "a", how); }));
    ASSERT_TRUE(killed_at(report, [&](const Execution& how) { call(folder / "b", how); }));
    const fs::path work = *fs::directory_iterator(folder / "b");
    Execution little;
    little.memory_limit = 6 << 20;
    for (const std::string& name : names) {
      SCOPED_TRACE(name);
      const std::string bytes = test::read_file(work / name);
      ASSERT_GT(bytes.size(), 1000U);
      const auto refused = [&] { return message_of<IoError>([&] { call(folder / "b", little); }); };
      fs::remove(work / name);
      EXPECT_TRUE(contains(refused(), (work / name).string() + "' is damaged"));
      EXPECT_TRUE(contains(refused(), "remove '" + work.string() + "'"));
      test::write_file(work / name, bytes.substr(0, bytes.size() / 3));
      EXPECT_TRUE(contains(refused(), (work / name).string() + "' is damaged"));
      test::write_file(work / name, bytes);
    }
    call(folder / "b", little);
    EXPECT_EQ(contents(folder / "a"), contents(folder / "b"));
  }
};

TEST_F(LostFileTest, Search) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  lose([&](const fs::path& to, const Execution& how) { (void)tiles.all_knn(to / "r", 12, {}, {}, how); }, 9,
       {"indices", "distances", "rows"});
}

TEST_F(LostFileTest, Lists) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  lose([&](const fs::path& to,
           const Execution& how) { (void)tiles.radius_search(to / "r", tiles, 0.001, {}, {}, {}, how); },
       12, {"lists", "lists.places", "rows"});
}

TEST_F(LostFileTest, OrderOfTheInput) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  const auto call = [&](const fs::path& to, const Execution& how) {
    Execution little = after(how, "answer", 5000);
    little.memory_limit = 1600000;  // a bucket has half of it: there are three
    (void)tiles.all_knn(to / "r", 12, {}, {}, little);
  };
  lose(call, 1, {"indices.input", "distances.input"});
}

TEST_F(LostFileTest, Partition) {
  write_dataset(folder / "cloud.npy", view);
  const std::vector<fs::path> clouds = {folder / "cloud.npy"};
  const auto call = [&](const fs::path& to, const Execution& how) {
    Execution little = after(how, "partition", 7000);
    little.memory_limit = 150000;  // rows are safe after 4200
    (void)PointTiles::build(to / "tiles", clouds, {100}, little);
  };
  lose(call, 1, {"tiles/segment-0.bin"});
}

// A file that is there for one call alone has another name in the next: that begins anew.
TEST_F(LostFileTest, TemporaryFilesAreDividedFromTheBeginning) {
  const auto build = [&](const char* name, const Execution& how) {
    write_dataset(folder / name, view);
    fs::last_write_time(folder / name, std::chrono::file_clock::from_sys(std::chrono::sys_seconds{}));
    const std::vector<fs::path> clouds = {folder / name};
    Execution little = after(how, "partition", 7000);
    little.memory_limit = 150000;
    (void)PointTiles::build(folder / "tiles", clouds, {100}, little);
  };
  const fs::path work = folder / "tiles.kith-work";
  ASSERT_TRUE(killed_at(1, [&](const Execution& how) { build("one.npy", how); }));
  const std::string journal = test::read_file(work / "journal");
  ASSERT_GT(std::count(journal.begin(), journal.end(), '\n'), 1);
  build("two.npy", {});
  EXPECT_EQ(PointTiles::open(folder / "tiles").rows(), rows);
  EXPECT_FALSE(fs::exists(work));
}

// Row numbers say where answers go in memory.
TEST_F(LostFileTest, ChangedRowNumbersAreNotTaken) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  const auto call = [&](const Execution& how) { (void)tiles.all_knn(folder / "r", 12, {}, {}, how); };
  ASSERT_TRUE(killed_at(9, call));
  const fs::path numbers = folder / "r.indices.npy.kith-work" / "rows";
  std::string bytes = test::read_file(numbers);
  bytes[128 + 8 * 20 + 6] ^= 0x40;  // a row number far beyond the last
  test::write_file(numbers, bytes);
  EXPECT_TRUE(contains(message_of<IoError>([&] { call({}); }), numbers.string() + "' is damaged"));
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
