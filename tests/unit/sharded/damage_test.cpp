// Manifests and shards that are damaged, foreign, newer, exchanged or lead out of the folder.
#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "kith/sharded.hpp"
#include "sharded/manifest.hpp"
#include "sharded/row_numbers.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "unit/sharded/rows.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::contains;
using test::message_of;
using test::read_file;
using test::write_file;

class ShardedDamage : public testing::Test {
 protected:
  test::TemporaryFolder folder;
  std::vector<float> values = test::grid(60, 3, 6);
  DatasetView rows{values.data(), 60, 3};
  fs::path place = folder / "s";
  fs::path manifest = place / "manifest.json";

  void SetUp() override { (void)Sharded::build(place, rows, {KdTreeParameters{}, 3, Partition::rows}); }

  std::string refusal() const {
    return message_of<IoError>([&] { (void)Sharded::open(place); });
  }

  // A manifest that is whole, of other content.
  std::string with(const std::function<void(json&)>& change, int version = 1) const {
    const std::string text = read_file(manifest);
    const std::string mark = "\"content\":";
    const std::size_t at = text.find(mark) + mark.size();
    json content = json::parse(text.substr(at, text.size() - at - 2));
    change(content);
    return io::manifest_text(sharded::manifest_kind, version, content.dump());
  }
};

TEST_F(ShardedDamage, EveryByteOfAManifest) {
  const std::string text = read_file(manifest);
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char change : {'\x01', '\x10'}) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ change);
      EXPECT_THROW((void)sharded::parse_manifest(damaged, "m"), IoError) << i;
    }
    EXPECT_THROW((void)sharded::parse_manifest(text.substr(0, i), "m"), IoError) << i;
  }
  EXPECT_THROW((void)sharded::parse_manifest(text + "x", "m"), IoError);
  EXPECT_EQ(sharded::parse_manifest(text, "m").shards.size(), 3U);
}

TEST_F(ShardedDamage, ContentThatIsNone) {
  const std::vector<std::pair<std::string, std::function<void(json&)>>> changes = {
      {"no plain name", [](json& c) { c["shards"][1]["file"] = "../s/shard-1.kith"; }},
      {"no plain name", [](json& c) { c["shards"][1]["file"] = "/etc/passwd"; }},
      {"no plain name", [](json& c) { c["shards"][1]["file"] = ".."; }},
      {"no plain name", [](json& c) { c["shards"][1]["file"] = ""; }},
      {"no plain name", [](json& c) { c["shards"][1]["file"] = "manifest.json"; }},
      {"no plain name", [](json& c) { c["shards"][1]["file"] = std::string("a\0b", 3); }},
      {"two shards have one file", [](json& c) { c["shards"][1]["file"] = "shard-0.kith"; }},
      {"does not begin where", [](json& c) { c["shards"][1]["base"] = 21; }},
      {"do not add up", [](json& c) { c["shards"][1]["rows"] = -1; }},
      {"do not add up", [](json& c) { c["shards"][2]["rows"] = std::int64_t{1} << 62; }},
      {"do not add up", [](json& c) { c["rows"] = 61; }},
      {"too large", [](json& c) { c["rows"] = std::uint64_t{1} << 63U; }},
      {"no integer", [](json& c) { c["rows"] = 60.5; }},
      {"no integer", [](json& c) { c["dim"] = true; }},
      {"dimension", [](json& c) { c["dim"] = 0; }},
      {"element type", [](json& c) { c["dtype"] = "f31"; }},
      {"metric", [](json& c) { c["metric"] = "l2"; }},
      {"bytes", [](json& c) { c["shards"][0]["bytes"] = 0; }},
      {"no checksum", [](json& c) { c["shards"][0]["xxh3"] = "0123"; }},
      {"NaN", [](json& c) { c["shards"][0]["nan_rows"] = 21; }},
      {"NaN", [](json& c) { c["shards"][0]["nan_rows"] = -1; }},
      {"box of a shard is none", [](json& c) { c["shards"][0]["lower"][1] = 1e9; }},
      {"rows' dimension",
       [](json& c) {
         c["shards"][0]["lower"] = {1, 2};
       }},
      {"not what Kith writes", [](json& c) { c["shards"][0].erase("upper"); }},
      {"number of shards", [](json& c) { c["shards"] = json::array(); }},
      {"number of shards", [](json& c) { c["shards"] = json::object(); }},
      {"not what Kith writes", [](json& c) { c.erase("index"); }},
      {"not what Kith writes", [](json& c) { c["shards"][0] = 7; }},
  };
  for (const auto& [what, change] : changes) {
    const std::string message =
        message_of<IoError>([&] { (void)sharded::parse_manifest(with(change), "m.json"); });
    EXPECT_TRUE(contains(message, "'m.json' is corrupt")) << message;
    EXPECT_TRUE(contains(message, what)) << message;
  }
}

TEST_F(ShardedDamage, ForeignNewerAndMissing) {
  const std::string text = read_file(manifest);
  write_file(manifest, "{}");
  EXPECT_TRUE(contains(refusal(), "is not the manifest of shards"));
  EXPECT_FALSE(Sharded::is_at(place));
  std::string newer = text;
  newer.replace(newer.find("\"version\":1"), 11, "\"version\":3");
  write_file(manifest, newer);
  EXPECT_TRUE(contains(refusal(), "has version 3"));
  std::string tiles = text;
  tiles.replace(tiles.find("kith shards"), 11, "kith point tiles");
  write_file(manifest, tiles);
  EXPECT_TRUE(contains(refusal(), "is the manifest of point tiles, not of shards"));
  write_file(manifest, with([](json& c) { c["index"] = "graph_of_2050"; }));
  EXPECT_TRUE(contains(refusal(), "'graph_of_2050'"));
  fs::remove(manifest);
  EXPECT_TRUE(contains(refusal(), "has no manifest.json"));
  fs::remove_all(place);
  EXPECT_TRUE(contains(refusal(), "there is no such folder"));
  write_file(place, "x");
  EXPECT_TRUE(contains(refusal(), "is a file"));
}

TEST_F(ShardedDamage, ShardsThatAreMissingCutOrLinks) {
  const fs::path shard = place / "shard-1.kith";
  const std::string bytes = read_file(shard);
  write_file(shard, bytes.substr(0, bytes.size() - 1));
  EXPECT_TRUE(contains(refusal(), shard.string() + "' is truncated"));
  write_file(shard, bytes + "x");
  EXPECT_TRUE(contains(refusal(), shard.string() + "' is corrupt"));
  fs::remove(shard);
  EXPECT_TRUE(contains(refusal(), shard.string() + "' is missing"));
  write_file(folder / "elsewhere", bytes);
  fs::create_symlink(folder / "elsewhere", shard);
  EXPECT_TRUE(contains(refusal(), "is no file but a link"));
  fs::remove(shard);
  fs::create_directory(shard);
  EXPECT_TRUE(contains(refusal(), "is no file but a link"));
}

TEST_F(ShardedDamage, ShardsOfOtherRowsAndDamagedOnes) {
  const fs::path shard = place / "shard-1.kith";
  const std::string bytes = read_file(shard);
  const Sharded shards = Sharded::open(place);
  const auto both = [&](const std::string& what) {
    EXPECT_TRUE(contains(message_of<IoError>([&] { (void)shards.search(rows, 1); }), what));
    EXPECT_TRUE(contains(message_of<IoError>([&] { shards.verify(); }), what));
    EXPECT_TRUE(contains(message_of<IoError>([&] { shards.verify(); }), shard.string()));
    shards.close();
  };
  // Another index of the same shape and size in its place.
  const std::vector<float> others = test::grid(60, 3, 7);
  (void)Sharded::build(folder / "other", DatasetView(others.data(), 60, 3), {KdTreeParameters{}, 3});
  const std::string exchanged = read_file(folder / "other/shard-1.kith");
  ASSERT_EQ(exchanged.size(), bytes.size());
  write_file(shard, exchanged);
  both("is not the shard that the manifest names");
  std::string damaged = bytes;
  damaged[bytes.size() - 5] = static_cast<char>(damaged[bytes.size() - 5] ^ 1);
  write_file(shard, damaged);
  both("is corrupt");
  write_file(shard, bytes);
  shards.verify();
  // A manifest that names a shard's row count, dimension or type wrongly, all else in order.
  for (const auto& change : std::vector<std::function<void(json&)>>{
           [](json& c) {
             c["dim"] = 4;
             for (json& its : c["shards"]) {
               its.erase("lower");
               its.erase("upper");
             }
           },
           [](json& c) { c["metric"] = "euclidean"; }, [](json& c) { c["index"] = "octree"; },
           [](json& c) { c["dtype"] = "f64"; },
           [](json& c) {
             c["shards"][0]["rows"] = 19;
             c["shards"][1]["base"] = 19;
             c["shards"][1]["rows"] = 21;
           }}) {
    const std::string sound = read_file(manifest);
    write_file(manifest, with(change));
    const Sharded wrong = Sharded::open(place);
    const std::vector<double> zeros(8);
    const DatasetView query(static_cast<const void*>(zeros.data()), wrong.dtype(), 1, wrong.dim(),
                            wrong.dim());
    EXPECT_TRUE(contains(message_of<IoError>([&] { (void)wrong.search(query, 1); }), "the manifest says"));
    write_file(manifest, sound);
  }
}

TEST_F(ShardedDamage, RowNumbersThatAreNone) {
  (void)Sharded::build(place, rows, {KdTreeParameters{}, 3});
  EXPECT_TRUE(contains(read_file(manifest), "\"version\":2"));
  const std::vector<std::pair<std::string, std::function<void(json&)>>> changes = {
      {"no plain name", [](json& c) { c["shards"][1]["row_numbers"]["file"] = "../s/shard-1.rows"; }},
      {"no plain name", [](json& c) { c["shards"][1]["row_numbers"]["file"] = ""; }},
      {"two shards have one file", [](json& c) { c["shards"][1]["row_numbers"]["file"] = "shard-0.rows"; }},
      {"two shards have one file", [](json& c) { c["shards"][1]["row_numbers"]["file"] = "shard-2.kith"; }},
      {"not as many as its rows", [](json& c) { c["shards"][1]["row_numbers"]["bytes"] = 81; }},
      {"bytes", [](json& c) { c["shards"][1]["row_numbers"]["bytes"] = 0; }},
      {"no checksum", [](json& c) { c["shards"][1]["row_numbers"]["xxh3"] = "x"; }},
      {"not what Kith writes", [](json& c) { c["shards"][1]["row_numbers"] = 7; }},
      {"not what Kith writes", [](json& c) { c["shards"][1]["row_numbers"].erase("file"); }},
      {"does not begin where", [](json& c) { c["shards"][1]["base"] = 1; }},
      {"does not begin where", [](json& c) { c["shards"][1].erase("row_numbers"); }},
  };
  for (const auto& [what, change] : changes) {
    const std::string message =
        message_of<IoError>([&] { (void)sharded::parse_manifest(with(change, 2), "m.json"); });
    EXPECT_TRUE(contains(message, what)) << message;
  }
  const fs::path file = place / "shard-1.rows";
  const std::string bytes = read_file(file);
  ASSERT_EQ(bytes.size(), 80U);
  const auto search = [&] {
    return message_of<IoError>([&] { (void)Sharded::open(place).search(rows, 3); });
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    write_file(file, damaged);
    ASSERT_TRUE(contains(search(), "'" + file.string() + "' is corrupt: it does not match its checksum"))
        << i;
    EXPECT_THROW(Sharded::open(place).verify(), IoError);
    EXPECT_THROW((void)Sharded::open(place).row_numbers(1), IoError);
  }
  write_file(file, bytes.substr(4));
  EXPECT_TRUE(contains(refusal(), file.string() + "' is truncated"));
  write_file(file, bytes);
  fs::remove(place / "shard-2.rows");
  EXPECT_TRUE(contains(refusal(), "is missing"));
  fs::create_symlink(file, place / "shard-2.rows");
  EXPECT_TRUE(contains(refusal(), "no file but a link"));
}

// Numbers whose checksum is right, of rows that there are not, or out of order.
TEST_F(ShardedDamage, RowNumbersAreLookedAtOneByOne) {
  (void)Sharded::build(place, rows, {KdTreeParameters{}, 3});
  const fs::path file = place / "shard-1.rows";
  const std::string bytes = read_file(file);
  const auto refused_with = [&](std::size_t at, std::uint32_t number) {
    std::string other = bytes;
    std::memcpy(other.data() + at * sizeof number, &number, sizeof number);
    write_file(file, other);
    const std::string hash = io::hash_text(sharded::numbers_hash(file));
    write_file(manifest, with([&](json& c) { c["shards"][1]["row_numbers"]["xxh3"] = hash; }, 2));
    return message_of<IoError>([&] { (void)Sharded::open(place).search(rows, 3); });
  };
  EXPECT_TRUE(contains(refused_with(19, 60), "there are no such rows"));
  EXPECT_TRUE(contains(refused_with(19, 0xFFFFFFFF), "there are no such rows"));
  EXPECT_TRUE(contains(refused_with(0, 59), "do not ascend"));
}

// Each file is sound, and one has a row of another.
TEST_F(ShardedDamage, VerifyFindsARowThatTwoShardsHave) {
  (void)Sharded::build(place, rows, {KdTreeParameters{}, 3});
  Sharded::open(place).verify();
  const std::string bytes = read_file(place / "shard-0.rows");
  write_file(place / "shard-1.rows", bytes);
  const std::string hash = io::hash_text(sharded::numbers_hash(place / "shard-1.rows"));
  write_file(manifest, with([&](json& c) { c["shards"][1]["row_numbers"]["xxh3"] = hash; }, 2));
  EXPECT_TRUE(contains(message_of<IoError>([&] { Sharded::open(place).verify(); }),
                       "shard-1.rows' is corrupt: it has rows that another shard has"));
}

}  // namespace
}  // namespace kith
