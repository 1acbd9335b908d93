// npy: versions, orders, byte orders, element types, and what is refused.
#include "unit/io/support.hpp"

namespace kith {
namespace {

using test::expect_error;
using test::raw;
using test::values;
using Npy = test::IoTest;

std::string npy(const std::string& dict, const std::string& data, int version = 1) {
  std::string text = dict + "\n";
  std::string file = std::string("\x93NUMPY") + static_cast<char>(version) + std::string(1, '\0');
  file += version == 1 ? raw(static_cast<std::uint16_t>(text.size()))
                       : raw(static_cast<std::uint32_t>(text.size()));
  return file + text + data;
}

std::string dict(const std::string& descr, const std::string& shape, const char* fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

TEST_F(Npy, WritesWhatNumPyWrites) {
  const std::vector<float> f = {1, 2, 3, 4, 5, 6};
  write_dataset((*this)("a.npy"), DatasetView(f.data(), 2, 3));
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  header.append(117 - header.size(), ' ');
  std::string expected = std::string("\x93NUMPY\x01\0v\0", 10) + header + "\n";
  for (const float value : f) expected += raw(value);
  EXPECT_EQ(slurp((*this)("a.npy")), expected);
}

TEST_F(Npy, HeadersThatAreCutSayWhere) {
  const std::string whole = npy(dict("<f4", "(1, 1)"), raw(1.0F));
  const std::string ends = std::to_string(whole.size() - 4);
  expect_error<IoError>([&] { read_dataset(put("a.npy", whole.substr(0, 40))); },
                        {"ends at byte " + ends, "the file has 40"});
}

TEST_F(Npy, EveryTypeGoesRound) {
  const std::vector<std::uint16_t> halves = {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x3C00, 0x0000};
  const std::vector<double> doubles = {1, -2, 3.25, 1e300, 5e-324, 6};
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::i8, Dtype::u8, Dtype::f64, Dtype::f32}) {
    const DatasetView view(dtype == Dtype::f64 ? static_cast<const void*>(doubles.data()) : halves.data(),
                           dtype, size_of(dtype) < 4 || dtype == Dtype::f64 ? 2 : 1, 3, 3);
    write_dataset((*this)("a.npy"), view);
    const Dataset back = read_dataset((*this)("a.npy"));
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ(values(back), values(view)) << name(dtype);
    EXPECT_EQ(inspect((*this)("a.npy")).element_type, name(dtype));
  }
}

TEST_F(Npy, VersionsOrdersAndByteOrders) {
  const std::string little = raw(1.0F) + raw(2.0F) + raw(3.0F) + raw(4.0F) + raw(5.0F) + raw(6.0F);
  std::string big;
  for (std::size_t i = 0; i < little.size(); i += 4)
    big += std::string(little.rbegin() + (20 - i), little.rbegin() + (24 - i));
  const std::vector<double> rows = {1, 2, 3, 4, 5, 6};
  const std::vector<double> columns = {1, 3, 5, 2, 4, 6};
  for (const int version : {1, 2, 3}) {
    EXPECT_EQ(values(read_dataset(put("a.npy", npy(dict("<f4", "(2, 3)"), little, version)))), rows);
    EXPECT_EQ(inspect((*this)("a.npy")).details.at(0).second, std::to_string(version) + ".0");
  }
  EXPECT_EQ(values(read_dataset(put("a.npy", npy(dict("=f4", "(2, 3)"), little)))), rows);
  EXPECT_EQ(values(read_dataset(put("a.npy", npy(dict(">f4", "(2, 3)"), big)))), rows);
  EXPECT_EQ(values(read_dataset(put("a.npy", npy(dict("<f4", "(2, 3)", "True"), little)))), columns);
  EXPECT_EQ(values(read_dataset(put("a.npy", npy(dict(">f4", "(2L, 3L)", "True"), big)))), columns);
  ReadOptions second;
  second.first_row = 1;
  EXPECT_EQ(values(read_dataset(put("a.npy", npy(dict(">f4", "(2, 3)", "True"), big)), second)),
            (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(values(read_dataset(put("a.npy", npy(dict("|i1", "(2, 1)"), "\xff\x02")))),
            (std::vector<double>{-1, 2}));
}

TEST_F(Npy, BfloatIsAnyTwoByteVoid) {
  for (const char* descr : {"<V2", "|V2", "bfloat16"}) {
    const Dataset data = read_dataset(
        put("a.npy", npy(dict(descr, "(1, 2)"), raw(std::uint16_t{0x3F80}) + raw(std::uint16_t{0xC000}))));
    EXPECT_EQ(data.dtype(), Dtype::bf16);
    EXPECT_EQ(values(data), (std::vector<double>{1, -2}));
  }
}

TEST_F(Npy, LittleEndianRowsAreMappedNotCopied) {
  std::vector<float> f(4096, 1.0F);
  write_dataset((*this)("a.npy"), DatasetView(f.data(), 1024, 4));
  io::Source source = io::open_source((*this)("a.npy"));
  const Dataset data = io::read_npy(source, {});
  const auto* at = static_cast<const std::byte*>(data.view().data);
  EXPECT_EQ(at, source.bytes.data() + 128);
}

TEST_F(Npy, OneDimensionIsRefusedWithBothRemedies) {
  expect_error<IoError>([&] { read_dataset(put("a.npy", npy(dict("<f4", "(2,)"), raw(1.0F) + raw(2.0F)))); },
                        {"1 dimension;", "reshape(-1, 1)", "reshape(1, -1)"});
  expect_error<IoError>([&] { read_dataset(put("a.npy", npy(dict("<f4", "()"), raw(1.0F)))); },
                        {"0 dimensions"});
  expect_error<IoError>([&] { read_dataset(put("a.npy", npy(dict("<f4", "(1, 1, 1)"), raw(1.0F)))); },
                        {"3 dimensions"});
}

TEST_F(Npy, OtherTypesAreRefusedWithARemedy) {
  for (const char* descr : {"|b1", "<c8", "<U4", "|O", "<f1", "<V4", "<M8", "<f16", "", "<i16"}) {
    expect_error<IoError>(
        [&] { read_dataset(put("a.npy", npy(dict(descr, "(1, 1)"), std::string(4, '\0')))); },
        {"a.npy", "astype"});
  }
  expect_error<IoError>([&] { read_dataset(put("a.npy", npy(dict("<i4", "(1, 1)"), raw(1)))); },
                        {"i32", "astype"});
  expect_error<IoError>(
      [&] {
        read_dataset(put(
            "a.npy", npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1, 1), }", raw(1))));
      },
      {"structured"});
}

TEST_F(Npy, BadHeadersAreRefused) {
  const std::string one = raw(1.0F);
  for (const std::string& header :
       {dict("<f4", "(-1, 1)"), dict("<f4", "(9223372036854775808, 1)"),
        dict("<f4", "(1, 99999999999999999999999)"),
        dict("<f4", "(4611686018427387904, 4611686018427387904)"), dict("<f4", "(2, 1)"),
        dict("<f4", "(1, 0)"), dict("<f4", "(1, 1"), dict("<f4", "(1 1)"), dict("<f4", "(1, 1)", "Maybe"),
        std::string("{}"), std::string(), std::string("{'descr': '<f4', 'fortran_order': False}"),
        dict("<f4", "(1, 1)") + "x",
        std::string("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)}")}) {
    EXPECT_THROW(read_dataset(put("a.npy", npy(header, one))), IoError) << header;
  }
  EXPECT_THROW(read_dataset(put("a.npy", npy(dict("<f4", "(1, 1)"), one, 4))), IoError);
  EXPECT_THROW(read_dataset(put("a.npy", npy(dict("<f4", "(1, 1)"), one + "x"))), IoError)
      << "bytes too many";
}

TEST_F(Npy, EmptyArraysKeepTheirDimension) {
  const Dataset data = read_dataset(put("a.npy", npy(dict("<f8", "(0, 7)"), "")));
  EXPECT_EQ(data.rows(), 0);
  EXPECT_EQ(data.dim(), 7);
}

TEST_F(Npy, IndicesOfEveryIntegerType) {
  const std::vector<std::int64_t> expected = {5, 1};
  EXPECT_EQ(read_neighbors(put("a.npy", npy(dict("<i4", "(1, 2)"), raw(5) + raw(1)))).indices, expected);
  EXPECT_EQ(read_neighbors(put("a.npy", npy(dict("<u4", "(1, 2)"), raw(5) + raw(1)))).indices, expected);
  EXPECT_EQ(
      read_neighbors(put("a.npy", npy(dict("<i8", "(1, 2)"), raw(std::int64_t{5}) + raw(std::int64_t{1}))))
          .indices,
      expected);
  EXPECT_EQ(
      read_neighbors(put("a.npy", npy(dict("<u8", "(1, 2)"), raw(std::int64_t{5}) + raw(std::int64_t{1}))))
          .indices,
      expected);
  EXPECT_EQ(read_neighbors(put("a.npy", npy(dict(">i4", "(1, 2)"), std::string("\0\0\0\x05\0\0\0\x01", 8))))
                .indices,
            expected);
  EXPECT_EQ(
      read_neighbors(put("a.npy", npy(dict("<i4", "(2, 2)", "True"), raw(1) + raw(2) + raw(3) + raw(4))))
          .indices,
      (std::vector<std::int64_t>{1, 3, 2, 4}));
  expect_error<IoError>(
      [&] { read_neighbors(put("a.npy", npy(dict("<u8", "(1, 1)"), std::string(8, '\xff')))); },
      {"18446744073709551615", "2^63"});
  expect_error<IoError>([&] { read_neighbors(put("a.npy", npy(dict("<f4", "(1, 1)"), raw(1.0F)))); },
                        {"f32", "int64"});
  expect_error<IoError>([&] { read_neighbors(put("a.npy", npy(dict("|i1", "(1, 1)"), "\1"))); },
                        {"i8", "int64"});
}

}  // namespace
}  // namespace kith
