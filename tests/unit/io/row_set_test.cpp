// Sets of rows as text and as npy.
#include "unit/io/support.hpp"

namespace kith {
namespace {

using test::expect_error;
using test::raw;
using Sets = test::IoTest;

std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
  const std::string dict = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  return std::string("\x93NUMPY\x01\0", 8) + raw(static_cast<std::uint16_t>(dict.size())) + dict + data;
}

std::vector<std::int64_t> held(const RowSet& set) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < set.rows(); ++row) {
    if (set.contains(row)) rows.push_back(row);
  }
  return rows;
}

TEST_F(Sets, OfTextAndOfArrays) {
  const std::vector<std::int64_t> wanted = {0, 3, 4};
  EXPECT_EQ(held(read_row_set(put("a.txt", "3\n# a comment\n 0\t\r\n\n4 # last\n3"), 5)), wanted);
  EXPECT_EQ(held(read_row_set(put("a.npy", npy("|b1", "(5,)", std::string("\1\0\0\1\1", 5))), 5)), wanted);
  EXPECT_EQ(
      held(read_row_set(put("a.npy", npy("<i8", "(3,)",
                                         raw<std::int64_t>(4) + raw<std::int64_t>(0) + raw<std::int64_t>(3))),
                        5)),
      wanted);
  EXPECT_EQ(
      held(read_row_set(put("a.npy", npy(">u4", "(3,)", std::string("\0\0\0\3\0\0\0\0\0\0\0\4", 12))), 5)),
      wanted);
  EXPECT_EQ(read_row_set(put("empty.txt", ""), 5).count(), 0);
}

TEST_F(Sets, WhatIsNoneIsNamed) {
  const auto refuse = [&](const std::string& bytes, const std::string& why) {
    const auto path = put("a.rows", bytes);
    expect_error<IoError>([&] { read_row_set(path, 5); }, {"a.rows", why});
  };
  refuse("1\n5\n", "row 5 in a set over 5 rows; use 0 to 4");
  refuse("1\n-1\n", "row -1");
  refuse("1\n2 3\n", "line 2 is '2 3'");
  refuse("12345678901234567890\n", "line 1");
  refuse(npy("|b1", "(4,)", "\1\1\1\1"), "4 flags for 5 rows");
  refuse(npy("|b1", "(5,)", "\1\1\1\1"), "truncated");
  refuse(npy("<f4", "(1,)", raw(1.0F)), "f32 elements");
  refuse(npy("|i1", "(5,)", "\1\1\1\1\1"), "i8 elements");
  refuse(npy("<i8", "(1, 1)", raw<std::int64_t>(1)), "2 dimensions");
  refuse(npy("<i8", "(1,)", raw<std::int64_t>(7)), "row 7");
  expect_error<IoError>([&] { read_row_set((*this)("nowhere"), 5); }, {"nowhere"});
  // Flags are no vectors.
  expect_error<IoError>([&] { read_dataset(put("b.npy", npy("|b1", "(2, 2)", "\1\1\1\1"))); }, {"|b1"});
}

}  // namespace
}  // namespace kith
