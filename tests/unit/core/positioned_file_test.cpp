// Files at offsets, and folders that appear whole or not at all.
#include "core/positioned_file.hpp"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <utility>

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

TEST(AtomicFolder, AppearsWithEverythingInIt) {
  const TemporaryFolder folder;
  {
    AtomicFolder made(folder / "new");
    test::write_file(made.temporary() / "file", "1");
    EXPECT_FALSE(fs::exists(folder / "new"));
    made.commit(false);
  }
  EXPECT_EQ(test::read_file(folder / "new" / "file"), "1");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(AtomicFolder, GoesWithEverythingInIt) {
  const TemporaryFolder folder;
  {
    const AtomicFolder made(folder / "new");
    fs::create_directory(made.temporary() / "inner");
    test::write_file(made.temporary() / "inner" / "file", "1");
    EXPECT_EQ(folder.entries(), 1);
  }
  EXPECT_EQ(folder.entries(), 0);
  EXPECT_THROW(AtomicFolder(folder / "none" / "new"), IoError);
}

TEST(AtomicFolder, ReplacesOnlyWhereItIsTold) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "old");
  test::write_file(folder / "old" / "file", "old");
  {
    AtomicFolder made(folder / "old");
    test::write_file(made.temporary() / "file", "new");
    EXPECT_THROW(made.commit(false), IoError);
  }
  EXPECT_EQ(test::read_file(folder / "old" / "file"), "old");
  AtomicFolder made((folder / "old").string() + "/");
  test::write_file(made.temporary() / "file", "new");
  made.commit(true);
  EXPECT_EQ(test::read_file(folder / "old" / "file"), "new");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(TemporaryFiles, FoldersGoAfterTheirFiles) {
  const TemporaryFolder folder;
  const AtomicFolder made(folder / "new");
  const OutputFile file(made.temporary() / "segment");
  EXPECT_TRUE(remove_temporary_files());
  EXPECT_EQ(folder.entries(), 0);
}

}  // namespace
}  // namespace kith
