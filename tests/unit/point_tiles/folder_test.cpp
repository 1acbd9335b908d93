// Folders that were damaged: every error names the file, and nothing crashes.
#include "point_tiles/folder.hpp"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#define XXH_INLINE_ALL  // no libxxhash at run time
#include <xxhash.h>

#include "fuzz/seeds.hpp"
#include "point_tiles/partition.hpp"
#include "support/errors.hpp"
#include "unit/point_tiles/clouds.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using test::Cloud;
using test::contains;
using test::message_of;
using test::TemporaryFolder;

class FolderOfTiles : public testing::Test {
 protected:
  void SetUp() override { (void)PointTiles::build(path, DatasetView(values.data(), rows, 2), {40}); }

  // What opening and reading everything says of the folder as it is.
  std::string failure() const {
    return message_of<IoError>([&] {
      const PointTiles tiles = PointTiles::open(path);
      tiles.verify();
    });
  }
  // What use() comes to after a change to the manifest, whose checksum is right.
  template <class Use>
  auto after(const std::function<void(nlohmann::json&)>& change, const Use& use) const {
    const std::string text = test::read_file(manifest);
    const std::size_t begin = text.find("\"content\":") + 10;
    nlohmann::json content = nlohmann::json::parse(text.substr(begin, text.size() - begin - 2));
    change(content);
    const std::string changed = content.dump();
    char hash[17];
    std::snprintf(hash, sizeof hash, "%016llx",
                  static_cast<unsigned long long>(XXH3_64bits(changed.data(), changed.size())));
    test::write_file(manifest, R"({"format":"kith point tiles","version":1,"xxh3":")" + std::string(hash) +
                                   R"(","content":)" + changed + "}\n");
    const auto result = use();
    test::write_file(manifest, text);
    return result;
  }
  std::string failure_after(const std::function<void(nlohmann::json&)>& change) const {
    return after(change, [&] { return failure(); });
  }

  static constexpr std::int64_t rows = 200;
  TemporaryFolder folder;
  fs::path path = folder / "tiles";
  fs::path manifest = path / "manifest.json";
  fs::path segment = path / "segment-0.bin";
  std::vector<float> values = test::make_cloud<float>(Cloud::nan_rows, rows, 2, 1);
};

TEST_F(FolderOfTiles, IsTwoFiles) {
  EXPECT_EQ(std::distance(fs::directory_iterator(path), fs::directory_iterator()), 2);
  EXPECT_EQ(fs::file_size(segment), static_cast<std::uintmax_t>(rows * 16));
}

TEST_F(FolderOfTiles, EveryByteThatChangesIsFound) {
  for (const fs::path& file : {manifest, segment}) {
    const std::string sound = test::read_file(file);
    for (std::size_t i = 0; i < sound.size(); ++i) {
      std::string damaged = sound;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
      test::write_file(file, damaged);
      ASSERT_TRUE(contains(failure(), file.filename().string())) << "byte " << i << " of " << file;
    }
    test::write_file(file, sound);
  }
  PointTiles::open(path).verify();
}

TEST_F(FolderOfTiles, EveryCutIsFound) {
  for (const fs::path& file : {manifest, segment}) {
    const std::string sound = test::read_file(file);
    for (std::size_t size = 0; size < sound.size(); size += 1 + sound.size() / 500) {
      test::write_file(file, sound.substr(0, size));
      ASSERT_TRUE(contains(failure(), file.filename().string())) << size << " bytes of " << file;
    }
    test::write_file(file, sound + "x");
    EXPECT_TRUE(contains(failure(), file.filename().string()));
    test::write_file(file, sound);
  }
}

TEST_F(FolderOfTiles, MissingAndForeignOnesAreNamed) {
  EXPECT_TRUE(
      contains(message_of<IoError>([&] { (void)PointTiles::open(folder / "none"); }), "no such folder"));
  EXPECT_TRUE(contains(message_of<IoError>([&] { (void)PointTiles::open(manifest); }), "is a file"));
  EXPECT_TRUE(contains(message_of<IoError>([&] { (void)PointTiles::open(folder.path()); }), "manifest.json"));
  const std::string sound = test::read_file(manifest);
  test::write_file(manifest, "{\"name\": \"a package\"}\n");
  EXPECT_TRUE(contains(failure(), "not the manifest of point tiles"));
  std::string other = sound;
  other.replace(other.find("\"version\":1"), 11, "\"version\":7");
  test::write_file(manifest, other);
  EXPECT_TRUE(contains(failure(), "version 7"));
  test::write_file(manifest, sound);
  fs::remove(segment);
  EXPECT_TRUE(contains(failure(), "segment-0.bin"));
}

TEST_F(FolderOfTiles, WhatNoChecksumCatchesIsCheckedAsWell) {
  using Json = nlohmann::json;
  const auto says = [&](const std::function<void(Json&)>& change, std::string_view part) {
    const std::string message = failure_after(change);
    EXPECT_TRUE(contains(message, part));
    EXPECT_TRUE(contains(message, "manifest.json"));
  };
  says([](Json& c) { c.erase("rows"); }, "not what Kith writes");
  says([](Json& c) { c["rows"] = "many"; }, "not what Kith writes");
  says([](Json& c) { c["rows"] = 199; }, "add up");
  says([](Json& c) { c["rows"] = -1; }, "rows");
  says([](Json& c) { c["dim"] = 0; }, "dimension");
  says([](Json& c) { c["dim"] = std::int64_t{1} << 40; }, "dimension");
  says([](Json& c) { c["dtype"] = "i64"; }, "i64");
  says([](Json& c) { c["nan_rows"] = 1000; }, "rows");
  const Json ones = {1.0, 1.0, 1.0};
  says([&](Json& c) { c["integers"] = {{"scale", ones}, {"offset", ones}}; }, "not those of points");
  says([](Json& c) { c["integers"] = {{"scale", 1}}; }, "not what Kith writes");
  says([](Json& c) { c["parameters"]["tile_points"] = 0; }, "tile_points");
  says([](Json& c) { c["segments"][0]["file"] = "../../etc/passwd"; }, "name");
  says([](Json& c) { c["tiles"].erase(0); }, "add up");
  says([](Json& c) { c["tiles"][0]["rows"] = 0; }, "rows");
  says([](Json& c) { c["tiles"][0]["first"] = 200; }, "first row");
  says([](Json& c) { c["tiles"][0]["first"] = -1; }, "first row");
  says([](Json& c) { c["tiles"][0]["lower"] = {1}; }, "dimension");
  says([](Json& c) { std::swap(c["tiles"][0]["lower"], c["tiles"][0]["upper"]); }, "box");
  says(
      [](Json& c) {
        c["tiles"][0]["upper"][0] = 1e-3;
        c["tiles"][0]["lower"][0] = 0;
      },
      "outside of its box");
  says([](Json& c) { c["tiles"][0].erase("lower"); }, "no box");
  says([](Json& c) { c["tiles"][0]["extents"][0][0] = 3; }, "segment");
  says([](Json& c) { c["tiles"][0]["extents"][0][1] = std::int64_t{1} << 60; }, "past the end");
  says([](Json& c) { c["tiles"][0]["extents"][0][3] = "zz"; }, "checksum");
  says([](Json& c) { c["tiles"][0]["extents"] = Json::array(); }, "add up");
  says([](Json& c) { c["tiles"][0]["extents"][0] = {1, 2}; }, "four parts");
  // One tile in the place of another of as many rows, checksum and all: rows that are there twice.
  says(
      [](Json& c) {
        for (std::size_t a = 0; a < c["tiles"].size(); ++a) {
          for (std::size_t b = 0; b < a; ++b) {
            if (c["tiles"][a]["rows"] == c["tiles"][b]["rows"] && c["tiles"][a].contains("lower") &&
                c["tiles"][b].contains("lower")) {
              c["tiles"][a] = c["tiles"][b];
              return;
            }
          }
        }
        FAIL() << "no two tiles of one size";
      },
      "out of place");
}

// What a search leaves out by it would be missed.
TEST_F(FolderOfTiles, AFirstRowThatIsNoneIsFound) {
  const std::string message = failure_after([](nlohmann::json& content) {
    nlohmann::json& first = content["tiles"][0]["first"];
    first = first.get<std::int64_t>() + 1;
  });
  EXPECT_TRUE(contains(message, "tile 0 has row")) << message;
}

TEST_F(FolderOfTiles, OlderOnesDoNotSayWhereTilesBegin) {
  const auto answer = [&] {
    const PointTiles tiles = PointTiles::open(path);
    tiles.verify();
    return tiles.search(DatasetView(values.data(), rows, 2), 5);
  };
  const Neighbors found = after(
      [](nlohmann::json& content) {
        for (nlohmann::json& tile : content["tiles"]) EXPECT_EQ(tile.erase("first"), 1U);
      },
      answer);
  EXPECT_EQ(found.indices, answer().indices);
}

// Row numbers say where answers go: none may lead out of them, whatever its checksum says.
TEST_F(FolderOfTiles, RowNumbersThatLeadNowhereAreFound) {
  const std::string sound = test::read_file(segment);
  for (const std::int64_t row :
       {std::int64_t{-1}, std::int64_t{200}, std::int64_t{1} << 60, std::int64_t{0}}) {
    const std::string message = failure_after([&](nlohmann::json& content) {
      nlohmann::json& extent = content["tiles"][0]["extents"][0];
      const auto offset = extent[1].get<std::size_t>();
      const auto count = extent[2].get<std::size_t>();
      std::string damaged = sound;
      std::memcpy(damaged.data() + offset + count * 8 + (count - 1) * 8, &row, sizeof row);
      test::write_file(segment, damaged);
      std::vector<std::int64_t> numbers(count);
      std::memcpy(numbers.data(), damaged.data() + offset + count * 8, count * 8);
      char hash[17];
      std::snprintf(hash, sizeof hash, "%016llx",
                    static_cast<unsigned long long>(
                        point_tiles::extent_hash(damaged.data() + offset, count * 8, numbers.data(), count)));
      extent[3] = hash;
    });
    EXPECT_TRUE(contains(message, "row " + std::to_string(row) + " of 200 where it cannot be"));
    test::write_file(segment, sound);
  }
}

// LAS integers stay integers in the tiles: half the bytes, and the values that its reader gives, to the bit.
TEST(TilesOfLas, KeepTheIntegersOfTheirFiles) {
  TemporaryFolder folder;
  conformance::Random random(16);
  const auto write = [&](const char* name, std::int64_t rows, double scale, double offset) {
    std::string text = fuzz::las_header(2, 0, 22, static_cast<std::uint64_t>(rows));
    for (std::size_t axis = 0; axis < 3; ++axis) {
      text.replace(131 + 8 * axis, 8, fuzz::raw(scale));
      text.replace(155 + 8 * axis, 8, fuzz::raw(offset * static_cast<double>(axis + 1)));
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      for (int axis = 0; axis < 3; ++axis)
        text += fuzz::raw(static_cast<std::int32_t>(random.below(1 << 30)) - (1 << 29));
      text += std::string(10, 'x');
    }
    test::write_file(folder / name, text);
    return folder / name;
  };
  const fs::path a = write("a.las", 3000, 0.001, 500000.1);
  const fs::path b = write("b.las", 1000, 0.001, 500000.1);
  const fs::path c = write("c.las", 500, 0.01, 0);
  const auto check = [&](const std::vector<fs::path>& files, bool integers,
                         const PointTilesParameters& parameters) {
    std::vector<double> all;
    for (const fs::path& file : files) {
      const Dataset rows = read_dataset(file);
      const auto* first = static_cast<const double*>(rows.view().row(0));
      all.insert(all.end(), first, first + 3 * rows.rows());
    }
    const DatasetView cloud(all.data(), static_cast<std::int64_t>(all.size() / 3), 3);
    const PointTiles tiles = PointTiles::build(folder / "tiles", files, parameters);
    EXPECT_EQ(tiles.dtype(), Dtype::f64);
    EXPECT_EQ(tiles.bytes(), static_cast<std::uint64_t>(cloud.rows) * (integers ? 20 : 32));
    EXPECT_EQ(contains(test::read_file(folder / "tiles" / "manifest.json"), "\"version\":2"), integers);
    if (integers) {  // an older program would take the integers for something else
      std::string text = test::read_file(folder / "tiles" / "manifest.json");
      const std::string sound = text;
      text.replace(text.find("\"version\":2"), 11, "\"version\":1");
      test::write_file(folder / "tiles" / "manifest.json", text);
      EXPECT_TRUE(contains(message_of<IoError>([&] { (void)PointTiles::open(folder / "tiles"); }),
                           "its version is not"));
      test::write_file(folder / "tiles" / "manifest.json", sound);
    }
    tiles.verify();
    const PointTiles plain = PointTiles::build(folder / "plain", cloud, parameters);
    EXPECT_EQ(tiles.bounds(), plain.bounds());
    for (const PointTiles& one : {tiles, plain}) {
      const std::string name = one.folder().filename().string();
      one.all_knn(folder / (name + ".knn"), 7);
      one.outliers({{}, {}, folder / (name + ".kept.npy")}, {8, 1e300});
    }
    for (const char* suffix : {".knn.indices.npy", ".knn.distances.npy", ".kept.npy"}) {
      EXPECT_EQ(test::read_file(folder / (std::string("tiles") + suffix)),
                test::read_file(folder / (std::string("plain") + suffix)))
          << suffix;
    }
    const Neighbors found = tiles.search(cloud.slice(0, 40), 3);
    const Neighbors wanted = plain.search(cloud.slice(0, 40), 3);
    EXPECT_EQ(found.indices, wanted.indices);
    EXPECT_EQ(found.distances, wanted.distances);
  };
  check({a}, true, {100});
  check({a, b}, true, {250});
  check({a, c}, false, {250});
  // Everything in one place: tiles that are cut by row number.
  std::string equal = fuzz::las_header(2, 0, 20, 3000);
  for (int i = 0; i < 3000; ++i) equal += fuzz::raw(7) + fuzz::raw(8) + fuzz::raw(9) + std::string(8, '\0');
  test::write_file(folder / "equal.las", equal);
  check({folder / "equal.las"}, true, {50});
}

TEST(TilePoints, AreFewerWhereMemoryIsSmall) {
  using point_tiles::default_tile_points;
  EXPECT_EQ(default_tile_points(std::int64_t{64} << 30, 20), 1 << 20);
  EXPECT_LT(default_tile_points(std::int64_t{256} << 20, 32), 1 << 20);
  EXPECT_GE(default_tile_points(1, 32), 1);
}

// More of them than that, or smaller ones, and the search is about tiles.
TEST(TilePoints, AreNotAbsurdlyFew) {
  const TemporaryFolder folder;
  const std::vector<float> values = test::make_cloud<float>(test::Cloud::uniform, 1'100'000, 2, 5);
  const DatasetView many{values.data(), 1'100'000, 2};
  for (const std::int64_t tile_points : {-1, 1, 15}) {
    const std::string message =
        message_of<InvalidArgument>([&] { (void)PointTiles::build(folder / "t", many, {tile_points}); });
    EXPECT_TRUE(contains(message, std::to_string(tile_points) + " points a tile; use 16 or more"));
  }
  const std::string message =
      message_of<InvalidArgument>([&] { (void)PointTiles::build(folder / "t", many, {16}); });
  EXPECT_TRUE(contains(message, "would be 68750 tiles, and more than 65536"));
  EXPECT_TRUE(contains(message, "use tiles of 17 points or more"));
  constexpr std::int64_t most = std::int64_t{1} << 60U;
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { (void)PointTiles::build(folder / "t", many, {most + 1}); }),
               "use at most 1152921504606846976"));
  EXPECT_FALSE(std::filesystem::exists(folder / "t"));
  EXPECT_EQ(PointTiles::build(folder / "t", many.slice(0, 100), {most}).tiles(), 1);
  EXPECT_FALSE(std::filesystem::exists(folder / "t.kith-work"));
  EXPECT_EQ(PointTiles::build(folder / "t", many.slice(0, 1000), {16}).rows(), 1000);
}

}  // namespace
}  // namespace kith
