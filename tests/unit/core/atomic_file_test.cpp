// Output files appear whole or not at all.
#include "core/atomic_file.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/stream.hpp"
#include "core/temporary_files.hpp"
#include "kith/error.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/full_disk.hpp"

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

// What goes past the page cache, where the file system lets it, has the same bytes: parts of any sizes, an
// end within a page, and more or less than was said.
TEST(AtomicFile, LargeFiles) {
  const test::TemporaryFolder folder;
  constexpr std::uint64_t large = std::uint64_t{256} << 20U;
  std::string some(20'000'003, ' ');
  for (std::size_t i = 0; i < some.size(); ++i) some[i] = static_cast<char>(i * 31 % 253);
  for (const std::size_t more : {std::size_t{0}, std::size_t{5}, (std::size_t{8} << 20U) - 3 - 11}) {
    AtomicFile file(folder / "out");
    file.expect(large);
    file.write(some.substr(0, 3));
    file.write(some.data(), some.size());
    file.write(some.substr(0, more));
    AtomicFile moved = std::move(file);
    moved.write("hello world");
    moved.commit();
    const std::string expected = some.substr(0, 3) + some + some.substr(0, more) + "hello world";
    EXPECT_TRUE(read_file(folder / "out") == expected) << more;
  }
  // In parts of any order, from memory that begins with a page.
  constexpr std::size_t part = 2 * AtomicFile::direct_page;
  AlignedBuffer<char> pages(static_cast<std::int64_t>(64 * part));
  const std::string expected = some.substr(0, 40 * part + 77);
  std::copy(expected.begin(), expected.end(), pages.data());
  AtomicFile parts(folder / "out");
  parts.expect(large);
  for (const std::size_t first : {16, 0, 24, 8, 32}) {
    parts.write_at(first * part, pages.data() + first * part, 8 * part);
    parts.sync_written();
  }
  parts.write_at(40 * part, pages.data() + 40 * part, 77);
  parts.write_at(part, pages.data() + part, part);
  parts.commit();
  EXPECT_TRUE(read_file(folder / "out") == expected);
  AtomicFile empty(folder / "empty");
  empty.expect(large);
  empty.commit();
  EXPECT_EQ(read_file(folder / "empty"), "");
  EXPECT_EQ(folder.entries(), 2);
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

// /dev/fd/N is what the process has open, not a file to open anew.
TEST(AtomicFile, DescriptorsAreWrittenFromWhereTheyStand) {
  const test::TemporaryFolder folder;
  const std::string name = (folder / "out").string();
  const int opened = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(opened, 0);
  ASSERT_EQ(::write(opened, "one ", 4), 4);
  const auto by_name = "/dev/fd/" + std::to_string(opened);
  std::filesystem::create_symlink(by_name, folder / "link");
  for (const std::string& path :
       {by_name, "/proc/self/fd/" + std::to_string(opened), (folder / "link").string()}) {
    EXPECT_EQ(descriptor_of(path), opened);
    EXPECT_TRUE(is_stream(path));
    AtomicFile file(path);
    EXPECT_TRUE(file.temporary().empty());
    file.write("more ");
    file.commit();
  }
  ASSERT_EQ(::write(opened, "end", 3), 3);
  ::close(opened);
  EXPECT_EQ(read_file(name), "one more more more end");
  EXPECT_FALSE(is_stream(name));
  EXPECT_FALSE(is_stream(folder / "absent"));
  EXPECT_FALSE(descriptor_of(folder / "3"));
  EXPECT_EQ(descriptor_of("/dev/stdout"), 1);
}

// A pipe that nobody reads, and one whose reader takes nothing.
TEST(AtomicFile, CancelledWhileAPipeWaits) {
  const test::TemporaryFolder folder;
  const std::string name = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
  int asked = 0;
  EXPECT_THROW(AtomicFile(name, [&] { return ++asked > 2; }), Cancelled);
  const int reader = ::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  asked = 0;
  AtomicFile file(name, [&] { return ++asked > 2; });
  const std::string much(std::size_t{3} << 20U, 'x');
  const int filled = ::open(name.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  while (::write(filled, much.data(), much.size()) > 0) {
  }
  EXPECT_THROW(file.write(much), Cancelled);
  ::close(filled);
  ::close(reader);
}

TEST(AtomicFile, TemporariesCanBeRemovedFromOutside) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "old", "old");
  AtomicFile one(folder / "old");
  one.write("new");
  AtomicFile done(folder / "done");
  done.commit();
  EXPECT_EQ(folder.entries(), 3);
  remove_temporary_files();
  EXPECT_EQ(folder.entries(), 2);
  EXPECT_EQ(read_file(folder / "old"), "old");
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

TEST(AtomicFile, TemporaryFilesCanBeRemovedAtOnce) {
  const test::TemporaryFolder folder;
  std::vector<AtomicFile> files;
  for (int i = 0; i < 3; ++i) {
    files.emplace_back(folder / ("out" + std::to_string(i)));
    files.back().write("half of it");
  }
  files[0].commit();
  AtomicFile moved = std::move(files[1]);
  EXPECT_EQ(folder.entries(), 3);
  EXPECT_TRUE(remove_temporary_files());
  EXPECT_EQ(folder.entries(), 1);
  EXPECT_EQ(read_file(folder / "out0"), "half of it");
}

// Written to the disk while more comes, many times the size of the buffer.
TEST(AtomicFile, LongFilesAreWhole) {
  const test::TemporaryFolder folder;
  std::string part(1'000'003, 'a');
  AtomicFile file(folder / "out");
  for (int i = 0; i < 40; ++i) {
    part.front() = static_cast<char>('A' + i % 26);
    file.write(part);
  }
  file.commit();
  const std::string all = read_file(folder / "out");
  ASSERT_EQ(all.size(), 40 * part.size());
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(all[i * part.size()], static_cast<char>('A' + i % 26));
}

// A full disk, played by a limit on the size of files.
TEST(AtomicFile, FullDiskLeavesNothing) {
  const test::TemporaryFolder folder;
  const std::string message = message_of<IoError>([&] {
    const test::FullDisk full(1'500'000);
    AtomicFile file(folder / "out");
    for (int i = 0; i < 40; ++i) file.write(std::string(100'000, 'x'));
    file.commit();
  });
  EXPECT_TRUE(contains(message, "too large"));
  EXPECT_TRUE(contains(message, "out"));
  EXPECT_EQ(folder.entries(), 0);
}

}  // namespace
}  // namespace kith
