// Pieces of files, by io_uring and by pread: the same bytes, whatever the kernel lets us do.
#include "core/piece_reader.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kith/error.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::message_of;
using test::TemporaryFolder;

class PieceReaderTest : public testing::TestWithParam<PieceReader::Way> {
 protected:
  void SetUp() override { PieceReader::way = GetParam(); }
  void TearDown() override { PieceReader::way = PieceReader::Way::fitting; }

  // Bytes that tell where they are.
  static std::string pattern(std::size_t bytes) {
    std::string text(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((i * 2654435761U) >> 13U);
    return text;
  }

  struct Wanted {
    const InputFile* file;
    const std::string* held;
    std::uint64_t offset;
    std::size_t bytes;
  };
  static void expect_pieces(PieceReader& reader, const std::vector<Wanted>& wanted) {
    std::vector<std::string> found;
    for (const Wanted& w : wanted) found.emplace_back(w.bytes, 'x');
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      pieces.push_back({wanted[i].file, wanted[i].offset, found[i].data(), wanted[i].bytes});
    }
    reader.read(pieces);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_TRUE(found[i] == wanted[i].held->substr(wanted[i].offset, wanted[i].bytes)) << i;
    }
  }

  TemporaryFolder folder;
};

// Pieces that begin and end anywhere, follow each other or not, are longer than all buffers together, or
// empty.
TEST_P(PieceReaderTest, GivesWhatIsThere) {
  const std::string a = pattern(9'000'001);
  const std::string b = pattern(70'000);
  test::write_file(folder / "a", a);
  test::write_file(folder / "b", b);
  InputFile file_a(folder / "a");
  InputFile file_b(folder / "b");
  file_a.open_direct();
  file_b.open_direct();
  const auto reader = make_piece_reader();
  expect_pieces(*reader, {{&file_a, &a, 0, a.size()}});
  expect_pieces(*reader, {});
  std::vector<Wanted> many;
  for (std::uint64_t at = 0; at + 5000 < a.size(); at += 30'011) {
    many.push_back({&file_a, &a, at, 1 + at % 4999});
    many.push_back({&file_a, &a, at + many.back().bytes, at % 3000});  // follows it
    if (at % 7 == 0) many.push_back({&file_b, &b, at % 60'000, at % 9000});
  }
  expect_pieces(*reader, many);
  expect_pieces(*reader, {{&file_b, &b, 69'999, 1}, {&file_b, &b, 4096, 8192}, {&file_a, &a, 8'999'999, 2}});
  if (GetParam() == PieceReader::Way::pread) {
    EXPECT_STREQ(reader->name(), "pread");
  }
  if (std::string(reader->name()) == "io_uring" && GetParam() == PieceReader::Way::uring &&
      file_a.direct() >= 0) {
    EXPECT_GT(reader->direct_bytes(), a.size());
  } else if (GetParam() != PieceReader::Way::fitting) {
    EXPECT_EQ(reader->direct_bytes(), 0U);
  }
}

// As on a file system without O_DIRECT.
TEST_P(PieceReaderTest, WithoutADirectDescriptorItReadsAllTheSame) {
  const std::string a = pattern(1'000'003);
  test::write_file(folder / "a", a);
  const InputFile file(folder / "a");
  ASSERT_LT(file.direct(), 0);
  const auto reader = make_piece_reader();
  expect_pieces(*reader, {{&file, &a, 17, 900'000}, {&file, &a, 900'017, 99'000}});
  EXPECT_EQ(reader->direct_bytes(), 0U);
}

TEST_P(PieceReaderTest, AFileThatEndsTooEarlyIsNamed) {
  const std::string a = pattern(500'000);
  test::write_file(folder / "a", a);
  InputFile file(folder / "a");
  file.open_direct();
  const auto reader = make_piece_reader();
  std::string to(600'000, 'x');
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{100'000}, std::uint64_t{700'000}}) {
    const std::vector<Piece> pieces = {{&file, 0, to.data(), 300'000}, {&file, offset, to.data(), to.size()}};
    const std::string message = message_of<IoError>([&] { reader->read(pieces); });
    EXPECT_TRUE(contains(message, "a' is truncated: it ends at byte")) << message;
  }
  // And reads on.
  expect_pieces(*reader, {{&file, &a, 1, 499'999}});
}

std::string name_of(const testing::TestParamInfo<PieceReader::Way>& info) {
  constexpr const char* names[] = {"fitting", "pread", "uring"};
  return names[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Ways, PieceReaderTest,
                         testing::Values(PieceReader::Way::fitting, PieceReader::Way::pread,
                                         PieceReader::Way::uring),
                         name_of);

// From here on io_uring_setup gives this error, as in a container that forbids it or an old kernel.
bool forbid_io_uring(int error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (static_cast<unsigned>(error) & SECCOMP_RET_DATA)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{sizeof program / sizeof program[0], program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

TEST(PieceReader, WhereTheKernelRefusesItIsPread) {
  const TemporaryFolder folder;
  test::write_file(folder / "a", std::string(10'000, 'k'));
  for (const int error : {ENOSYS, EPERM}) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (!forbid_io_uring(error)) ::_exit(77);
      InputFile file(folder / "a");
      file.open_direct();
      const auto reader = make_piece_reader();
      std::string to(9000, 'x');
      const Piece piece{&file, 500, to.data(), to.size()};
      reader->read({&piece, 1});
      const bool right = std::string(reader->name()) == "pread" && to == std::string(9000, 'k');
      ::_exit(right ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp filter can be set here";
    EXPECT_EQ(WEXITSTATUS(status), 0) << error;
  }
}

}  // namespace
}  // namespace kith
