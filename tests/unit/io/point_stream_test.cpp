// Clouds read in blocks: the same rows as the readers of whole files give, from wherever reading goes on.
#include "io/point_stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "fuzz/seeds.hpp"
#include "io/format.hpp"
#include "io/source_stream.hpp"
#include "kith/error.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"

namespace kith::io {
namespace {

using test::contains;
using test::message_of;

class PointStreams : public testing::Test {
 protected:
  PointStreams() {
    for (std::int64_t i = 0; i < rows * 3; ++i) values.push_back(0.5F * static_cast<float>(i));
  }

  // All rows by blocks of `block`, and once more from the middle.
  void expect_all(PointStream& stream, std::int64_t block) const {
    ASSERT_EQ(stream.rows(), rows);
    ASSERT_EQ(stream.dim(), 3);
    ASSERT_EQ(stream.dtype(), Dtype::f32);
    std::vector<float> read(values.size());
    for (std::int64_t at = 0; at < rows; at += block) {
      stream.read(read.data() + at * 3, std::min(block, rows - at));
    }
    EXPECT_EQ(read, values);
    for (const std::int64_t row : {rows / 2, std::int64_t{0}, rows - 1}) {
      stream.seek(row);
      float point[3];
      stream.read(point, 1);
      EXPECT_EQ(point[0], values[static_cast<std::size_t>(row * 3)]);
      EXPECT_EQ(point[2], values[static_cast<std::size_t>(row * 3 + 2)]);
    }
    stream.seek(0);
    std::vector<float> again(values.size());
    stream.read(again.data(), rows);
    EXPECT_EQ(again, values);
  }

  static constexpr std::int64_t rows = 100;
  std::vector<float> values;
  DatasetView view() const { return DatasetView(values.data(), rows, 3); }
  test::TemporaryFolder folder;
};

TEST_F(PointStreams, RowsInMemory) {
  expect_all(*stream_rows(Dataset::copy(view())), 7);
  std::vector<float> wide(rows * 5);
  for (std::int64_t i = 0; i < rows; ++i) std::memcpy(wide.data() + i * 5, values.data() + i * 3, 12);
  expect_all(*stream_rows(Dataset::adopt(DatasetView(wide.data(), rows, 3, 5), nullptr)), 7);
}

TEST_F(PointStreams, FilesOfEveryKind) {
  for (const char* file : {"a.npy", "a.ply", "a.pcd", "a.fvecs", "a.fbin"}) {
    SCOPED_TRACE(file);
    write_dataset(folder / file, view());
    for (const std::int64_t block : {1, 13, 100}) expect_all(*open_point_stream(folder / file, 0), block);
  }
}

TEST_F(PointStreams, AnNpyOfTheOtherByteOrder) {
  write_dataset(folder / "a.npy", view());
  std::string bytes = test::read_file(folder / "a.npy");
  bytes.replace(bytes.find("<f4"), 3, ">f4");
  const std::size_t start = bytes.size() - values.size() * 4;
  for (std::size_t i = start; i < bytes.size(); i += 4) {
    std::swap(bytes[i], bytes[i + 3]);
    std::swap(bytes[i + 1], bytes[i + 2]);
  }
  test::write_file(folder / "big.npy", bytes);
  expect_all(*open_point_stream(folder / "big.npy", 0), 9);
}

TEST_F(PointStreams, AnNpyOfColumns) {
  write_dataset(folder / "a.npy", view());
  std::string bytes = test::read_file(folder / "a.npy");
  bytes.replace(bytes.find("False"), 5, "True ");
  const std::size_t start = bytes.size() - values.size() * 4;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < 3; ++j)
      std::memcpy(bytes.data() + start + (j * rows + i) * 4, &values[i * 3 + j], 4);
  }
  test::write_file(folder / "columns.npy", bytes);
  expect_all(*open_point_stream(folder / "columns.npy", 0), 9);
}

TEST_F(PointStreams, SeveralAsOne) {
  const std::vector<std::filesystem::path> names = {folder / "a.npy", folder / "none.npy", folder / "b.ply",
                                                    folder / "c.npy"};
  write_dataset(names[0], view().slice(0, 40));
  write_dataset(names[1], view().slice(40, 0));
  write_dataset(names[2], view().slice(40, 11));
  write_dataset(names[3], view().slice(51, 49));
  for (const std::int64_t block : {1, 13, 100}) {
    std::vector<std::unique_ptr<PointStream>> parts;
    for (const auto& name : names) parts.push_back(open_point_stream(name, 0));
    expect_all(*concatenate(std::move(parts), names), block);
  }
}

// What the readers of whole files give, bit by bit, for each of the fuzzers' seeds.
TEST_F(PointStreams, EverySeed) {
  int compared = 0;
  for (const auto& [format, seeds] : fuzz::make_seeds(folder / "")) {
    for (const auto& seed : seeds) {
      SCOPED_TRACE(seed.name);
      test::write_file(folder / "seed", seed.bytes);
      const Format& entry = *std::ranges::find(formats(), format, &Format::name);
      if (entry.read == nullptr) continue;
      ReadOptions options;
      options.format = entry.format;
      Dataset whole;
      try {
        whole = read_dataset(folder / "seed", options);
      } catch (const Error& error) {
        const std::string message =
            message_of<Error>([&] { (void)open_point_stream(folder / "seed", 0, entry.format); });
        EXPECT_EQ(message, error.what());
        continue;
      }
      const auto stream = open_point_stream(folder / "seed", 0, entry.format);
      ASSERT_EQ(stream->rows(), whole.rows());
      ASSERT_EQ(stream->dtype(), whole.dtype());
      const std::size_t bytes = static_cast<std::size_t>(whole.dim()) * size_of(whole.dtype());
      std::vector<std::byte> row(bytes);
      for (std::int64_t i = whole.rows() - 1; i >= 0; --i) {
        stream->seek(i);
        stream->read(row.data(), 1);
        EXPECT_EQ(std::memcmp(row.data(), whole.view().row(i), bytes), 0) << i;
      }
      ++compared;
    }
  }
  EXPECT_GE(compared, 20);
}

// Rows of different lengths, so many that the places of most of them are not kept.
TEST_F(PointStreams, TextFromAnywhere) {
  constexpr int count = 20'000;
  std::string xyz = "# some points\nx y z\n";
  std::string ply =
      "ply\nformat ascii 1.0\nelement vertex 20000\nproperty double x\nproperty double y\n"
      "property double z\nend_header\n";
  std::string pcd =
      "VERSION .7\nFIELDS x y z\nSIZE 8 8 8\nTYPE F F F\nCOUNT 1 1 1\nPOINTS 20000\nDATA ascii\n";
  for (int i = 0; i < count; ++i) {
    const std::string line = fmt::format("{} {} {}\n", i, i * i * 0.125, 1.0 / (1 + i));
    xyz += (i % 3 == 0 ? "\n# \n" : "") + line;
    ply += line;
    pcd += (i % 5 == 0 ? "\n" : "") + line;
  }
  for (const auto& [file, text] : {std::pair{"a.xyz", &xyz}, {"a.ply", &ply}, {"a.pcd", &pcd}}) {
    SCOPED_TRACE(file);
    test::write_file(folder / file, *text);
    const auto stream = open_point_stream(folder / file, 0);
    ASSERT_EQ(stream->rows(), count);
    for (const std::int64_t row : {19'999, 3, 255, 256, 257, 12'345, 12'344, 12'346, 0, 5'000}) {
      stream->seek(row);
      double point[3];
      stream->read(point, 1);
      EXPECT_EQ(point[0], static_cast<double>(row));
      EXPECT_EQ(point[1], static_cast<double>(row) * static_cast<double>(row) * 0.125);
      EXPECT_EQ(point[2], 1.0 / static_cast<double>(1 + row));
    }
  }
}

TEST(RowPlaces, StayFewAndNear) {
  RowPlaces places;
  constexpr std::int64_t rows = 30'000'000;
  for (std::int64_t row = 0; row < rows; ++row)
    places.passed({row, static_cast<std::uint64_t>(row) * 3, row});
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{1}, rows / 3, rows - 1}) {
    const RowPlace& place = places.before(row);
    EXPECT_LE(place.row, row);
    EXPECT_LE(row - place.row, 2 * rows / (1 << 14));
    EXPECT_EQ(place.offset, static_cast<std::uint64_t>(place.row) * 3);
    EXPECT_EQ(place.lines, place.row);
  }
}

TEST_F(PointStreams, DamageIsFoundWhereItIsRead) {
  test::write_file(folder / "a.xyz", "1 2 3\n4 5\n");
  EXPECT_TRUE(contains(message_of<IoError>([&] { (void)open_point_stream(folder / "a.xyz", 0); }), "line 2"));
  test::write_file(folder / "a.ply",
                   "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\n"
                   "property float z\nend_header\n1 2 3\n4 a 6\n");
  const auto stream = open_point_stream(folder / "a.ply", 0);
  float point[3];
  stream->read(point, 1);
  EXPECT_EQ(point[2], 3.0F);
  EXPECT_TRUE(contains(message_of<IoError>([&] { stream->read(point, 1); }), "vertex 1 has 'a'"));
  stream->seek(0);
  stream->read(point, 1);
  EXPECT_EQ(point[0], 1.0F);
}

// Before anybody takes memory for points that cannot be there.
TEST_F(PointStreams, ImpossibleSizesOfACompressedFileAreRefusedWhenItIsOpened) {
  std::string text =
      "# .PCD v0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nPOINTS 422222222\n"
      "DATA binary_compressed\n";
  text += std::string("\x02\0\0\0\x0c\0\0\0xx", 10);
  test::write_file(folder / "packed.pcd", text);
  EXPECT_TRUE(contains(message_of<IoError>([&] { (void)open_point_stream(folder / "packed.pcd", 0); }),
                       "truncated or corrupt"));
}

TEST_F(PointStreams, WhatIsReadWholeKeepsToTheLimit) {
  test::write_file(folder / "packed.pcd", fuzz::compressed_pcd());  // 4 points of 12 bytes
  float point[3];
  const auto packed = open_point_stream(folder / "packed.pcd", 47);
  const std::string refused = message_of<OutOfMemory>([&] { packed->read(point, 1); });
  EXPECT_TRUE(contains(refused, "48 bytes"));
  EXPECT_TRUE(contains(refused, "leaves 47"));
  open_point_stream(folder / "packed.pcd", 48)->read(point, 1);
  write_dataset(folder / "a.npy", view());
  write_dataset(folder / "a.ply", view());
  expect_all(*open_point_stream(folder / "a.ply", 1), 10);
  write_dataset(folder / "a.h5", view());
  const auto stream = open_point_stream(folder / "a.h5", 1199);
  std::vector<float> read(values.size());
  const std::string message = message_of<OutOfMemory>([&] { stream->read(read.data(), 1); });
  EXPECT_TRUE(contains(message, "1200 bytes"));
  EXPECT_TRUE(contains(message, "1199"));
  expect_all(*open_point_stream(folder / "a.h5", 1200), 10);
  expect_all(*open_point_stream(folder / "a.npy", 1), 10);
}

TEST_F(PointStreams, WhatIsNoCloudIsRefused) {
  test::write_file(folder / "a.json", "{}");
  EXPECT_TRUE(
      contains(message_of<IoError>([&] { (void)open_point_stream(folder / "a.json", 0); }), "a.json"));
  EXPECT_TRUE(
      contains(message_of<IoError>([&] { (void)open_point_stream(folder / "none.npy", 0); }), "none.npy"));
  write_dataset(folder / "a.npy", view());
  const auto stream = open_point_stream(folder / "a.npy", 0);
  std::filesystem::resize_file(folder / "a.npy", 700);
  std::vector<float> read(values.size());
  EXPECT_TRUE(contains(message_of<IoError>([&] { stream->read(read.data(), rows); }), "a.npy"));
}

}  // namespace
}  // namespace kith::io
