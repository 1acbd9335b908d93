// Unfinished work whose journal was changed on purpose, its checksums made anew: refused by name, or
// harmless, whatever is written in it.
#include <algorithm>
#include <cstring>
#include <functional>

#include <nlohmann/json.hpp>
#define XXH_INLINE_ALL  // no libxxhash at run time
#include <xxhash.h>

#include "fuzz/tile_harness.hpp"
#include "kith/point_tiles.hpp"
#include "support/errors.hpp"
#include "unit/point_tiles/killed.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::contains;
using test::message_of;
using test::ResumeTest;

std::string line_of(const json& record) {
  const std::string text = record.dump();
  char hash[18];
  (void)std::snprintf(hash, sizeof hash, "%016llx ",
                      static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return hash + text + "\n";
}

std::vector<json> records_of(const std::string& journal) {
  std::vector<json> records;
  for (std::size_t at = 0; at < journal.size();) {
    const std::size_t end = journal.find('\n', at);
    records.push_back(json::parse(journal.substr(at + 17, end - at - 17)));
    at = end + 1;
  }
  return records;
}

std::string journal_of(const std::vector<json>& records) {
  std::string text;
  for (const json& record : records) text += line_of(record);
  return text;
}

// Every value of a record, leaves and what holds them, as a pointer to it.
void places_in(const json& value, const json::json_pointer& at, std::vector<json::json_pointer>& places) {
  places.push_back(at);
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) places_in(inner, at / key, places);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < std::min<std::size_t>(value.size(), 8); ++i) {
      places_in(value[i], at / i, places);
    }
  }
}

class ForgedTest : public ResumeTest {
 protected:
  using Call = std::function<void(const fs::path&, const Execution&)>;

  // Puts some of these values, in turns, in the place of every value of the last records that the journal of
  // a killed run has, and drops it; the run that goes on must refuse it by name, or answer.
  void forge(const Call& call, int report) {
    fs::create_directories(folder / "b");
    ASSERT_TRUE(killed_at(report, [&](const Execution& how) { call(folder / "b", how); }));
    const fs::path work = *fs::directory_iterator(folder / "b");
    const fs::path saved = folder / "saved";
    fs::copy(work, saved, fs::copy_options::recursive);
    const std::vector<json> sound = records_of(test::read_file(work / "journal"));
    ASSERT_GT(sound.size(), 1U);
    const std::size_t first = std::max<std::size_t>(1, sound.size() - 2);  // the last of each kind counts
    constexpr std::size_t at_a_time = 2;
    point_tiles::Pacer::every = 0;
    point_tiles::Saver::waits = false;
    std::size_t turn = 0;
    const std::vector<json> substitutes = {-1,
                                           0,
                                           3,
                                           1e300,
                                           0.5,
                                           std::int64_t{1} << 40,
                                           std::numeric_limits<std::int64_t>::max(),
                                           std::numeric_limits<std::int64_t>::min(),
                                           std::numeric_limits<std::uint64_t>::max(),
                                           nullptr,
                                           true,
                                           "0123456789abcdef",
                                           "../../x",
                                           json::array(),
                                           json::array({1, 2}),
                                           json::object()};
    Execution little;
    little.threads = 1;
    little.memory_limit = 6 << 20;
    int refused = 0;
    for (std::size_t r = first; r < sound.size(); ++r) {
      std::vector<json::json_pointer> places;
      places_in(sound[r], json::json_pointer(), places);
      places.erase(places.begin());
      for (const json::json_pointer& place : places) {
        for (std::size_t n = 0; n <= at_a_time; ++n) {
          const std::size_t v = n == at_a_time ? substitutes.size() : turn++ % substitutes.size();
          std::vector<json> forged = sound;
          if (v < substitutes.size()) {
            forged[r][place] = substitutes[v];
          } else if (const json& holder = sound[r].at(place.parent_pointer()); holder.is_object()) {
            forged[r][place.parent_pointer()].erase(place.back());
          } else {
            forged[r][place.parent_pointer()].erase(std::stoul(place.back()));
          }
          SCOPED_TRACE(forged[r].dump().substr(0, 400));
          fs::remove_all(folder / "b");
          fs::create_directories(folder / "b");
          fs::copy(saved, work, fs::copy_options::recursive);
          test::write_file(work / "journal", journal_of(forged));
          try {
            call(folder / "b", little);
          } catch (const IoError& error) {
            ++refused;
            ASSERT_TRUE(contains(error.what(), folder.path().string())) << error.what();
          } catch (const OutOfMemory&) {
            ++refused;
          } catch (const std::exception& error) {
            FAIL() << "neither refused nor answered: " << error.what();
          }
        }
      }
    }
    EXPECT_GT(refused, 20);
  }
};

TEST_F(ForgedTest, Search) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {1000});
  forge([&](const fs::path& to, const Execution& how) { (void)tiles.all_knn(to / "r", 4, {}, {}, how); }, 6);
}

TEST_F(ForgedTest, Lists) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {1000});
  forge([&](const fs::path& to,
            const Execution& how) { (void)tiles.radius_search(to / "r", tiles, 0.001, {}, {}, {}, how); },
        8);
}

TEST_F(ForgedTest, Partition) {
  write_dataset(folder / "cloud.npy", view);
  const std::vector<fs::path> clouds = {folder / "cloud.npy"};
  forge(
      [&](const fs::path& to, const Execution& how) {
        Execution little = how;
        if (how.progress) {
          little.progress = [&how](const Progress& at) {
            if (std::string_view(at.stage) == "partition" && at.done > 7000) how.progress(at);
          };
        }
        little.memory_limit = 150000;  // rows are safe after 4200
        (void)PointTiles::build(to / "tiles", clouds, {100}, little);
      },
      1);
}

// A record that says that it is done, and where to: not to other places than those of the call.
TEST_F(ForgedTest, MovesLeadNowhereElse) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {1000});
  const auto call = [&](const Execution& how) { (void)tiles.all_knn(folder / "r", 4, {}, {}, how); };
  ASSERT_TRUE(killed_at(6, call));
  const fs::path work = folder / "r.indices.npy.kith-work";
  const std::vector<json> sound = records_of(test::read_file(work / "journal"));
  const std::string to = (folder / "elsewhere").string();
  const std::string own = (folder / "r.indices.npy").string();
  const auto pairs = [](const std::vector<std::pair<std::string, std::string>>& moves) {
    json list = json::array();
    for (const auto& [name, place] : moves) list.push_back(json::array({name, place}));
    return list;
  };
  for (const json& moves : {pairs({{"journal", to}}), pairs({{"indices.input", to}, {"distances.input", to}}),
                            pairs({{"../../" + to, own}, {"distances.input", to}}),
                            pairs({{"indices.input", own}}), json("all"), json::array({1, 2})}) {
    std::vector<json> forged = sound;
    forged.push_back({{"moves", moves}, {"result", nullptr}});
    test::write_file(work / "journal", journal_of(forged));
    EXPECT_TRUE(
        contains(message_of<IoError>([&] { call({}); }), (work / "journal").string() + "' is damaged"));
    EXPECT_FALSE(fs::exists(folder / "elsewhere"));
    EXPECT_FALSE(fs::exists(folder / "r.indices.npy"));
  }
  test::write_file(work / "journal", journal_of(sound));
  call({});
}

// Brackets enough to run out of stack where each is a call.
TEST_F(ForgedTest, DeepNesting) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {1000});
  const auto call = [&](const Execution& how) { (void)tiles.all_knn(folder / "r", 4, {}, {}, how); };
  ASSERT_TRUE(killed_at(6, call));
  const fs::path journal = folder / "r.indices.npy.kith-work" / "journal";
  const std::string sound = test::read_file(journal);
  const std::string deep = std::string(2'000'000, '[') + std::string(2'000'000, ']');
  const std::string text =
      R"({"format":"kith work","resumable":true,"task":{"k":)" + deep + R"(},"version":3})";
  char hash[18];
  (void)std::snprintf(hash, sizeof hash, "%016llx ",
                      static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  test::write_file(journal, hash + text + "\n" + sound.substr(sound.find('\n') + 1));
  EXPECT_TRUE(contains(message_of<IoError>([&] { call({}); }), journal.string() + "' is damaged"));
}

// The queries that wait, each of their words set to what it cannot be, with a checksum that is right.
TEST_F(ForgedTest, QueriesThatWait) {
  const PointTiles tiles = PointTiles::build(folder / "tiles", view, {1000});
  const auto call = [&](const Execution& how) { (void)tiles.all_knn(folder / "r", 4, {}, {}, how); };
  ASSERT_TRUE(killed_at(6, call));
  const fs::path work = folder / "r.indices.npy.kith-work";
  fs::copy(work, folder / "saved", fs::copy_options::recursive);
  std::vector<json> records = records_of(test::read_file(work / "journal"));
  json& sweep =
      *std::find_if(records.rbegin(), records.rend(), [](const json& r) { return r.contains("sweep"); });
  const fs::path waiting = work / ("waiting-" + std::to_string(sweep["sweep"]["file"].get<int>()));
  const std::string sound = test::read_file(waiting);
  ASSERT_GT(sound.size(), 64U);
  Execution little;
  little.threads = 1;
  little.memory_limit = 6 << 20;
  int refused = 0;
  // Place, length, tiles: three words, and the first tiles.
  for (std::size_t at = 0; at < 32; at += 4) {
    for (const std::int64_t value :
         {std::int64_t{-1}, std::int64_t{1} << 30, std::int64_t{1} << 62, std::int64_t{9999}}) {
      std::string forged = sound;
      std::memcpy(forged.data() + at, &value, at < 24 && at % 8 == 0 ? 8 : 4);
      fs::remove_all(work);
      fs::copy(folder / "saved", work, fs::copy_options::recursive);
      test::write_file(waiting, forged);
      sweep["sweep"]["waiting_hash"] = XXH3_64bits(forged.data(), forged.size());
      test::write_file(work / "journal", journal_of(records));
      try {
        call(little);
      } catch (const IoError& error) {
        ++refused;
        EXPECT_TRUE(contains(error.what(), work.string())) << error.what();
      }
    }
  }
  EXPECT_GT(refused, 20);
}

// The starting points of the fuzzers are what their readers take, and no byte of them brings those down.
TEST(TilesFuzz, SeedsAndChangesOfThem) {
  for (const auto& [format, seeds] : fuzz::tile_seeds()) {
    const bool manifest = format == "tiles-manifest";
    const auto reads = [&](const std::string& bytes) {
      return manifest ? fuzz::try_manifest(fuzz::as_manifest(bytes))
                      : fuzz::try_journal(fuzz::as_journal(bytes));
    };
    for (const fuzz::Seed& seed : seeds) {
      SCOPED_TRACE(seed.name);
      // The last one is put in place where the fuzzer's folder is not.
      EXPECT_EQ(reads(seed.bytes), seed.name != "finished");
      int refused = 0;
      for (std::size_t at = 0; at < seed.bytes.size(); ++at) {
        for (const char value : {'0', '-', '9', '[', '"'}) {
          std::string changed = seed.bytes;
          changed[at] = value;
          refused += reads(changed) ? 0 : 1;
        }
      }
      EXPECT_GT(refused, 0);
    }
  }
}

}  // namespace
}  // namespace kith
