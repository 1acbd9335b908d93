// Files that are read and written at offsets.
#include "core/positioned_file.hpp"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <utility>

#include "core/aligned_buffer.hpp"
#include "core/temporary_files.hpp"
#include "kith/error.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;
using test::TemporaryFolder;

TEST(InputFile, ReadsAnywhereAndNotBeyondTheEnd) {
  const TemporaryFolder folder;
  test::write_file(folder / "a", "0123456789");
  const InputFile file(folder / "a");
  EXPECT_EQ(file.size(), 10U);
  std::array<char, 4> some{};
  file.read(6, some.data(), 4);
  EXPECT_EQ(std::string(some.data(), 4), "6789");
  file.read(0, some.data(), 2);
  EXPECT_EQ(std::string(some.data(), 4), "0189");
  const std::string message = message_of<IoError>([&] { file.read(8, some.data(), 4); });
  EXPECT_TRUE(contains(message, "truncated"));
  EXPECT_TRUE(contains(message, "ends at byte 10"));
  EXPECT_TRUE(contains(message_of<IoError>([&] { InputFile(folder / "b"); }), "'"));
  EXPECT_TRUE(contains(message_of<IoError>([&] { InputFile{folder.path()}; }), "folder"));
  EXPECT_TRUE(contains(message_of<IoError>([&] { InputFile(folder / "b", "the cloud"); }), "the cloud"));
}

TEST(OutputFile, WritesAnywhereAndGoesUnlessItIsKept) {
  const TemporaryFolder folder;
  {
    OutputFile file(folder / "a.tmp");
    file.write(3, "def", 3);
    file.write(0, "abc", 3);
    std::array<char, 6> all{};
    file.read(0, all.data(), 6);
    EXPECT_EQ(std::string(all.data(), 6), "abcdef");
    OutputFile moved = std::move(file);
    moved.sync();
    moved.rename_to(folder / "a");
    const OutputFile other(folder / "b.tmp");
    EXPECT_EQ(folder.entries(), 2);
    EXPECT_THROW(OutputFile(folder / "b.tmp"), IoError);
  }
  EXPECT_EQ(folder.entries(), 1);
  EXPECT_EQ(test::read_file(folder / "a"), "abcdef");
}

TEST(OutputFile, OneThatLastsStaysAndIsTakenUpAgain) {
  const TemporaryFolder folder;
  {
    OutputFile file = OutputFile::lasting(folder / "a");
    file.write(0, "abcdef", 6);
    file.sync();
  }
  EXPECT_EQ(test::read_file(folder / "a"), "abcdef");
  OutputFile file = OutputFile::lasting(folder / "a");
  EXPECT_EQ(file.size(), 6U);
  file.truncate(2);
  file.write(3, "x", 1);
  EXPECT_EQ(test::read_file(folder / "a"), std::string("ab\0x", 4));
  EXPECT_TRUE(
      contains(message_of<IoError>([&] { (void)OutputFile::lasting(folder / "none" / "a"); }), "none"));
}

// Wherever a range begins and ends in its pages, and however memory lies in them.
TEST(OutputFile, WritesPastThePageCache) {
  const TemporaryFolder folder;
  constexpr std::size_t page = OutputFile::direct_page;
  AlignedBuffer<char> memory(5 * page + (2 << 20));  // begins with a page
  for (std::int64_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<char>(i * 131 % 251);
  for (const std::size_t offset : {std::size_t{0}, std::size_t{128}, page - 1, page, 3 * page + 5}) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, page, page + 1, 4 * page}) {
      for (const std::size_t shift : {offset % page, (offset + 64) % page}) {
        SCOPED_TRACE(testing::Message() << offset << ", " << bytes << " bytes, " << shift);
        const std::string before(8 * page, 'x');
        test::write_file(folder / "a", before);
        OutputFile file = OutputFile::lasting(folder / "a");
        file.write_direct(offset, memory.data() + shift, bytes);
        std::string expected = before;
        expected.replace(offset, bytes, memory.data() + shift, bytes);
        EXPECT_EQ(test::read_file(folder / "a"), expected);
        std::string read(expected.size(), ' ');
        file.read(0, read.data(), read.size());
        EXPECT_EQ(read, expected);
      }
    }
  }
  // Beyond the end, by several ranges that share pages; and after a move.
  OutputFile file = OutputFile::lasting(folder / "b");
  file.write(0, "header", 6);
  file.write_direct(6, memory.data() + 6, 2 * page);
  OutputFile moved = std::move(file);
  moved.write_direct(6 + 2 * page, memory.data() + page + 6, 2 * page + 17);
  moved.sync();
  const std::string expected = "header" + std::string(memory.data() + 6, 2 * page) +
                               std::string(memory.data() + page + 6, 2 * page + 17);
  EXPECT_EQ(test::read_file(folder / "b"), expected);
}

TEST(TemporaryFiles, FoldersGoAfterTheirFiles) {
  const TemporaryFolder folder;
  const TemporaryFileNote outer(folder / "new");
  const TemporaryFileNote inner(folder / "new" / "tiles");
  fs::create_directories(folder / "new" / "tiles");
  const OutputFile file(folder / "new" / "tiles" / "segment");
  EXPECT_TRUE(remove_temporary_files());
  EXPECT_EQ(folder.entries(), 0);
}

}  // namespace
}  // namespace kith
