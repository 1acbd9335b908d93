// Tables that go to their file while they are made.
#include "io/table_file.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "kith/io.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/full_disk.hpp"

namespace kith::io {
namespace {

using test::contains;
using test::message_of;
using test::read_file;

double value(std::int64_t row, std::int64_t column) {
  return static_cast<double>(row) * 8 + static_cast<double>(column) + 0.25;
}

void fill(TableFile& table, std::int64_t row, std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; ++c) table.values()[row * columns + c] = value(row, c);
}

std::string expected(const std::filesystem::path& path, std::int64_t rows, std::int64_t columns) {
  Dataset table = Dataset::allocate(Dtype::f64, rows, columns);
  auto* values = static_cast<double*>(table.mutable_data());
  for (std::int64_t i = 0; i < rows * columns; ++i) values[i] = value(i / columns, i % columns);
  write_dataset(path, table);
  return read_file(path);
}

// Rows of 24 bytes lie across the ends of parts; a tenth of them is not finished before the end.
TEST(TableFile, HasTheBytesOfAnNpy) {
  const test::TemporaryFolder folder;
  for (const std::int64_t columns : {1, 3, 4}) {
    const std::int64_t rows = 1'500'001 / columns;
    std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 random(static_cast<unsigned>(columns));
    // In stretches, as trees have them, of any order.
    for (auto at = order.begin(); order.end() - at > 5000; at += 5000) std::shuffle(at, at + 5000, random);
    std::rotate(order.begin(), order.begin() + rows / 3, order.end());
    TableFile table(folder / "table.npy", rows, columns);
    constexpr std::int64_t block = 999;
    std::atomic<std::int64_t> next{0};
    const auto work = [&] {
      for (std::int64_t b = next++; b * block < rows; b = next++) {
        const std::span<const std::int64_t> some(order.data() + b * block,
                                                 static_cast<std::size_t>(std::min(block, rows - b * block)));
        for (const std::int64_t row : some) fill(table, row, columns);
        if (b % 10 != 3) table.finished(some);
      }
    };
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    EXPECT_FALSE(std::filesystem::exists(folder / "table.npy"));
    table.commit();
    EXPECT_TRUE(read_file(folder / "table.npy") == expected(folder / "expected.npy", rows, columns))
        << columns;
    std::filesystem::remove(folder / "table.npy");
  }
  EXPECT_EQ(folder.entries(), 1);
}

TEST(TableFile, OfFewRowsOrNone) {
  const test::TemporaryFolder folder;
  for (const std::int64_t rows : {0, 1, 5}) {
    TableFile table(folder / "table.npy", rows, 4);
    for (std::int64_t row = 0; row < rows; ++row) {
      fill(table, row, 4);
      table.finished({&row, 1});
    }
    table.close();
    table.commit();
    EXPECT_EQ(read_file(folder / "table.npy"), expected(folder / "expected.npy", rows, 4)) << rows;
  }
}

// A part goes to the file when its last row is finished, not before and not only at the end, and its memory
// to the system.
TEST(TableFile, WritesWhileOthersAreMade) {
  const test::TemporaryFolder folder;
  constexpr std::int64_t rows = 1'000'000;
  TableFile table(folder / "table.npy", rows, 4);
  const auto written = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) return entry.file_size();
    return std::uintmax_t{0};
  };
  std::vector<std::int64_t> numbers(300'000);
  std::iota(numbers.begin(), numbers.end(), 0);
  for (const std::int64_t row : numbers) fill(table, row, 4);
  table.finished(std::span(numbers).first(262'139));  // but for one, the first part: 8 MiB with the header
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(written(), 0U);
  table.finished(std::span(numbers).subspan(262'139));
  constexpr std::uintmax_t part = std::uintmax_t{8} << 20U;
  for (int wait = 0; wait < 1000 && written() < part; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(written(), part);
  const auto in_memory = [&](std::int64_t row) {
    const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    auto* page = reinterpret_cast<char*>(table.values() + 4 * row);
    page -= reinterpret_cast<std::uintptr_t>(page) % page_bytes;
    unsigned char resident = 0;
    EXPECT_EQ(mincore(page, page_bytes, &resident), 0);
    return (resident & 1U) != 0;
  };
  for (int wait = 0; wait < 1000 && in_memory(1000); ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_FALSE(in_memory(1000));
  EXPECT_TRUE(in_memory(299'999));
}

TEST(TableFile, LeavesNothingWithoutCommit) {
  const test::TemporaryFolder folder;
  {
    TableFile table(folder / "table.npy", 1000, 4);
    EXPECT_EQ(folder.entries(), 1);
  }
  EXPECT_EQ(folder.entries(), 0);
  EXPECT_TRUE(contains(message_of<IoError>([&] { TableFile table(folder / "none" / "table.npy", 9, 4); }),
                       "none/table.npy"));
}

TEST(TableFile, StopsWhenAsked) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "table.npy", "old");
  {
    TableFile table(folder / "table.npy", 1000, 4, [] { return true; });
    EXPECT_THROW(table.commit(), Cancelled);
    const std::int64_t row = 0;
    EXPECT_THROW(table.finished({&row, 1}), Cancelled);
  }
  EXPECT_EQ(read_file(folder / "table.npy"), "old");
  EXPECT_EQ(folder.entries(), 1);
}

// A full disk, played by a limit on the size of files, is told as soon as it is met.
TEST(TableFile, FullDiskLeavesNothing) {
  const test::TemporaryFolder folder;
  const std::string message = message_of<IoError>([&] {
    const test::FullDisk full(1'500'000);
    constexpr std::int64_t rows = 1'000'000;
    TableFile table(folder / "table.npy", rows, 4);
    std::fill_n(table.values(), rows * 4, 1.0);
    std::vector<std::int64_t> numbers(rows / 2);
    std::iota(numbers.begin(), numbers.end(), 0);
    table.finished(numbers);
    for (int wait = 0; wait < 1000; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      table.finished({});
    }
  });
  EXPECT_TRUE(contains(message, "too large"));
  EXPECT_TRUE(contains(message, "table.npy"));
  EXPECT_EQ(folder.entries(), 0);
}

}  // namespace
}  // namespace kith::io
