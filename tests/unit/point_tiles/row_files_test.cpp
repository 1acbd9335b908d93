// Rows in one file, and dealt out to several.
#include "point_tiles/row_files.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "point_tiles/tuning.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"

namespace kith::point_tiles {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;

struct Row {
  std::int64_t values[3];
  bool operator==(const Row&) const = default;
};
constexpr std::int64_t row_bytes = sizeof(Row);

struct RowFilesTest : testing::Test {
  test::TemporaryFolder folder;
  WorkFolder work{folder / "answer", {{"call", "test"}}};

  // Writes rows by ranges of any lengths in any order, and reads them by others.
  void round_trip(RowFiles& files, std::int64_t rows) {
    std::vector<Row> all(static_cast<std::size_t>(rows));
    for (std::int64_t i = 0; i < rows; ++i) all[static_cast<std::size_t>(i)] = {{i, i * i, -i}};
    std::mt19937_64 random(rows);
    std::vector<std::int64_t> ends{0};
    while (ends.back() < rows) {
      const auto most = std::min<std::int64_t>(rows - ends.back(), 3 * files.block_rows());
      ends.push_back(ends.back() + std::uniform_int_distribution<std::int64_t>(1, most)(random));
    }
    std::vector<std::size_t> order(ends.size() - 1);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    for (const std::size_t i : order) {
      files.write(ends[i], ends[i + 1] - ends[i], &all[static_cast<std::size_t>(ends[i])]);
      files.start_writing(ends[i], ends[i + 1] - ends[i]);
    }
    files.sync(2);
    std::vector<Row> found(all.size());
    files.read(0, rows, found.data());
    EXPECT_EQ(found, all);
    for (int i = 0; i < 100; ++i) {
      const auto first = std::uniform_int_distribution<std::int64_t>(0, rows - 1)(random);
      const auto count = std::uniform_int_distribution<std::int64_t>(1, rows - first)(random);
      found.assign(static_cast<std::size_t>(count), {});
      files.read(first, count, found.data());
      EXPECT_TRUE(std::equal(found.begin(), found.end(), all.begin() + first)) << first << ", " << count;
    }
  }
};

TEST_F(RowFilesTest, Few) {
  RowFiles files(work, "few", 1000, row_bytes);
  EXPECT_EQ(files.sizes().size(), 1U);
  round_trip(files, 1000);
  EXPECT_EQ(files.sizes(), std::vector<std::uint64_t>{1000 * row_bytes});
}

TEST_F(RowFilesTest, DealtOut) {
  // The last block is cut, the last round is not full, and some file has one block less.
  const std::int64_t block = tuning::row_block_bytes / row_bytes;
  for (const std::int64_t rows : {5 * tuning::least_row_file / row_bytes + 1, 43 * block + 7, 48 * block}) {
    RowFiles files(work, "many" + std::to_string(rows), rows, row_bytes);
    files.extend(rows);
    const std::vector<std::uint64_t> sizes = files.sizes();
    EXPECT_GT(sizes.size(), 4U);
    round_trip(files, rows);
    EXPECT_EQ(files.sizes(), sizes);
    EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}),
              static_cast<std::uint64_t>(rows * row_bytes));
  }
}

TEST_F(RowFilesTest, NotMoreFilesThanItShouldBe) {
  const RowFiles files(work, "most", std::int64_t{1} << 24, row_bytes);
  EXPECT_EQ(files.sizes().size(), static_cast<std::size_t>(tuning::row_files));
}

TEST_F(RowFilesTest, OneArray) {
  const std::string header = "a header";
  RowFiles files(work, "array", header, 5000, row_bytes);
  round_trip(files, 5000);
  const std::string bytes = test::read_file(work.path() / "array");
  EXPECT_EQ(bytes.size(), header.size() + 5000 * row_bytes);
  EXPECT_TRUE(bytes.starts_with(header));
  EXPECT_EQ(files.offset(3), header.size() + 3 * row_bytes);
}

// Ranges that share pages, small ones and ones that go past the page cache.
TEST_F(RowFilesTest, OneAfterTheOther) {
  for (const std::int64_t said : {std::int64_t{300'000}, tuning::least_direct / row_bytes + 1}) {
    RowFiles files(work, "array" + std::to_string(said), std::string(128, 'h'), said, row_bytes);
    const std::int64_t some = 100'000;
    AlignedBuffer<char> memory(some * row_bytes + 4096);
    std::string expected(128, 'h');
    for (std::int64_t first = 0; first < 3 * some; first += some) {
      char* from = memory.data() + files.offset(first) % OutputFile::direct_page;
      for (std::int64_t i = 0; i < some * row_bytes; ++i) from[i] = static_cast<char>((first + i) * 31 % 127);
      expected.append(from, static_cast<std::size_t>(some * row_bytes));
      files.write_next(first, some, from);
    }
    files.sync(1);
    const InputFile file(work.path() / ("array" + std::to_string(said)));
    std::string found(expected.size(), ' ');
    file.read(0, found.data(), found.size());
    EXPECT_TRUE(found == expected);
  }
}

TEST_F(RowFilesTest, TakenUpAgain) {
  const std::int64_t rows = 3 * tuning::least_row_file / row_bytes + 1;
  std::vector<Row> all(static_cast<std::size_t>(rows), Row{{1, 2, 3}});
  nlohmann::json noted;
  {
    RowFiles files(work, "some", rows, row_bytes);
    files.write(0, rows, all.data());
    noted = files.sizes();
  }
  ASSERT_EQ(noted.size(), 3U);
  RowFiles::check(work, "some", noted);
  std::vector<Row> found(all.size());
  RowFiles(work, "some", rows, row_bytes).read(0, rows, found.data());
  EXPECT_EQ(found, all);
  const auto refused = [&](const nlohmann::json& sizes) {
    return message_of<IoError>([&] { RowFiles::check(work, "some", sizes); });
  };
  fs::resize_file(work.path() / "some.1", 1000);
  EXPECT_TRUE(contains(refused(noted), "some.1' is damaged"));
  fs::remove(work.path() / "some.2");
  EXPECT_TRUE(contains(refused({0, 0, 1}), "some.2' is damaged"));
  for (const nlohmann::json& forged : {nlohmann::json(7), nlohmann::json::array(), nlohmann::json({1, -1}),
                                       nlohmann::json({"all"}), nlohmann::json()}) {
    EXPECT_THROW(RowFiles::check(work, "some", forged), BadRecord) << forged;
  }
}

}  // namespace
}  // namespace kith::point_tiles
