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

TEST_F(PointStreams, WhatIsReadWholeKeepsToTheLimit) {
  write_dataset(folder / "a.ply", view());
  write_dataset(folder / "a.npy", view());
  const auto stream = open_point_stream(folder / "a.ply", 1199);
  std::vector<float> read(values.size());
  const std::string message = message_of<OutOfMemory>([&] { stream->read(read.data(), 1); });
  EXPECT_TRUE(contains(message, "1200 bytes"));
  EXPECT_TRUE(contains(message, "1199"));
  expect_all(*open_point_stream(folder / "a.ply", 1200), 10);
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
