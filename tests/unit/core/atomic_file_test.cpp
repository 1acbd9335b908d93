// Output files appear whole or not at all.
#include "core/atomic_file.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>

#include "kith/error.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;
using test::read_file;

TEST(AtomicFile, AppearsOnCommit) {
  const test::TemporaryFolder folder;
  AtomicFile file(folder / "out");
  file.write("hello ");
  file.write("world", 5);
  EXPECT_EQ(file.size(), 11U);
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  file.commit();
  EXPECT_EQ(read_file(folder / "out"), "hello world");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const test::TemporaryFolder folder;
  {
    AtomicFile file(folder / "out");
    file.write(std::string(3'000'000, 'x'));
    EXPECT_EQ(folder.entries(), 1);
  }
  EXPECT_EQ(folder.entries(), 0);
}

TEST(AtomicFile, KeepsTheOldFileUntilCommit) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "out", "old");
  {
    AtomicFile file(folder / "out");
    file.write("new");
  }
  EXPECT_EQ(read_file(folder / "out"), "old");
  AtomicFile file(folder / "out");
  file.write("new");
  file.commit();
  EXPECT_EQ(read_file(folder / "out"), "new");
}

TEST(AtomicFile, WritesMoreThanItsBuffer) {
  const test::TemporaryFolder folder;
  std::string expected;
  AtomicFile file(folder / "out");
  for (int i = 0; i < 300; ++i) {
    const std::string part(static_cast<std::size_t>(i * 101), static_cast<char>('a' + i % 26));
    file.write(part);
    expected += part;
  }
  file.commit();
  EXPECT_EQ(read_file(folder / "out"), expected);
}

TEST(AtomicFile, MovesItsDuty) {
  const test::TemporaryFolder folder;
  std::vector<AtomicFile> files;
  for (const char* name : {"a", "b", "c"}) {
    AtomicFile file(folder / name);
    file.write(name);
    files.push_back(std::move(file));
  }
  EXPECT_EQ(folder.entries(), 3);
  commit_all(files);
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(read_file(folder / name), name);
  EXPECT_EQ(folder.entries(), 3);
}

TEST(AtomicFile, RefusesFoldersAndMissingFolders) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(contains(message_of<IoError>([&] { AtomicFile{folder.path()}; }), "folder"));
  EXPECT_TRUE(contains(message_of<IoError>([&] { AtomicFile{folder / "none/out"}; }), "No such file"));
  EXPECT_THROW(AtomicFile{std::filesystem::path()}, IoError);
}

bool is_device(const char* path) {
  struct stat status {};
  return ::stat(path, &status) == 0 && S_ISCHR(status.st_mode);
}

// A rename would put a file in the place of the device.
TEST(AtomicFile, DevicesAreWrittenInPlace) {
  AtomicFile file("/dev/null");
  file.write("gone");
  file.commit();
  EXPECT_TRUE(is_device("/dev/null"));
}

TEST(AtomicFile, AFullDeviceIsReported) {
  const std::string message = message_of<IoError>([] {
    AtomicFile file("/dev/full");
    file.write("no room");
    file.commit();
  });
  EXPECT_TRUE(contains(message, "/dev/full"));
  EXPECT_TRUE(contains(message, "No space left"));
  EXPECT_TRUE(is_device("/dev/full"));
}

TEST(AtomicFile, SymbolicLinksStayLinks) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "target", "old");
  std::filesystem::create_symlink("target", folder / "link");
  AtomicFile file(folder / "link");
  file.write("new");
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "target"), "new");
}

// A full disk, played by a limit on the size of files.
TEST(AtomicFile, FullDiskLeavesNothing) {
  const test::TemporaryFolder folder;
  struct rlimit old {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit tight { 1'500'000, old.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const std::string message = message_of<IoError>([&] {
    AtomicFile file(folder / "out");
    for (int i = 0; i < 40; ++i) file.write(std::string(100'000, 'x'));
    file.commit();
  });
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(contains(message, "too large"));
  EXPECT_TRUE(contains(message, "out"));
  EXPECT_EQ(folder.entries(), 0);
}

}  // namespace
}  // namespace kith
