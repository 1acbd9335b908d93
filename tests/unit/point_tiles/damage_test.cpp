// Unfinished work whose files were lost, cut or changed meanwhile.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <functional>

#include "kith/point_tiles.hpp"
#include "support/errors.hpp"
#include "unit/point_tiles/killed.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::contents;
using test::message_of;
using test::ResumeTest;

// A run that is killed at `report`, and files of its work lost, cut or changed: each is refused by name,
// again and again, and with the file back the work goes on.
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
      // The lowest bits of some values: several, since what a query that waits has there may be anything.
      std::string changed = bytes;
      for (std::size_t at = 128; at < 1000; at += 24) changed[at] ^= 1;
      test::write_file(work / name, changed);
      // Of several files of a column any may be the one.
      const std::string all = std::isdigit(name.back()) != 0 ? name.substr(0, name.size() - 1) + "*" : name;
      EXPECT_TRUE(contains(refused(), (work / all).string() + "' is damaged"));
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

TEST_F(LostFileTest, ColumnsInManyFiles) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  lose([&](const fs::path& to, const Execution& how) { (void)tiles.all_knn(to / "r", 100, {}, {}, how); }, 16,
       {"indices.0", "indices.5", "distances.1"});
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

// Those that came out too large are read again, and get new checksums.
TEST_F(LostFileTest, DividedAgain) {
  write_dataset(folder / "cloud.npy", view);
  const std::vector<fs::path> clouds = {folder / "cloud.npy"};
  const auto call = [&](const fs::path& to, const Execution& how) {
    Execution little = after(how, "partition", rows - 1);
    little.memory_limit = 400000;
    (void)PointTiles::build(to / "tiles", clouds, {40}, little);
  };
  lose(call, 1, {"tiles/segment-0.bin"});
}

TEST_F(LostFileTest, Searched) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {500});
  const auto call = [&](const fs::path& to, const Execution& how) {
    (void)tiles.all_knn(to / "r", 12, {}, {AnswerOrder::input, IndexWidth::u32}, after(how, "answer", 0));
  };
  lose(call, 1, {"indices", "distances", "rows"});
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

}  // namespace
}  // namespace kith
