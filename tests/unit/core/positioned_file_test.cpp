// Files that are read and written at offsets.
#include "core/positioned_file.hpp"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <utility>

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
