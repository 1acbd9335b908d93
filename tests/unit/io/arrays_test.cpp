// Points with columns, rows of LAS files, arrays of one dimension, the rows within a radius.
#include <array>
#include <cmath>
#include <limits>

#include "fuzz/seeds.hpp"
#include "kith/point_tree.hpp"
#include "unit/io/support.hpp"

namespace kith {
namespace {

using test::expect_error;
using test::raw;
using test::values;
using Arrays = test::IoTest;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST_F(Arrays, PlyWithColumnsByTheByte) {
  const std::vector<double> points = {513149.97, 5404078.5, 343.1, nan, 2, 3};
  const std::vector<float> normals = {0, 0.5F, 1, -1, 0, 0.25F};
  write_points((*this)("a.ply"), DatasetView(points.data(), 2, 3),
               {{"nx", "ny", "c"}, DatasetView(normals.data(), 2, 3)});
  EXPECT_EQ(slurp((*this)("a.ply")),
            "ply\nformat binary_little_endian 1.0\nelement vertex 2\nproperty double x\nproperty double y\n"
            "property double z\nproperty float nx\nproperty float ny\nproperty float c\nend_header\n" +
                raw(513149.97) + raw(5404078.5) + raw(343.1) + raw(0.0F) + raw(0.5F) + raw(1.0F) + raw(nan) +
                raw(2.0) + raw(3.0) + raw(-1.0F) + raw(0.0F) + raw(0.25F));
  EXPECT_EQ(inspect((*this)("a.ply")).details.at(1).second, "x y z nx ny c");
}

TEST_F(Arrays, PcdWithColumnsByTheByte) {
  const std::vector<float> points = {1, 2, 3};
  const std::vector<double> columns = {0.1};
  write_points((*this)("a.pcd"), DatasetView(points.data(), 1, 3),
               {{"curvature"}, DatasetView(columns.data(), 1, 1)});
  EXPECT_EQ(
      slurp((*this)("a.pcd")),
      "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS x y z curvature\nSIZE 4 4 4 8\n"
      "TYPE F F F F\nCOUNT 1 1 1 1\nWIDTH 1\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 1\nDATA binary\n" +
          raw(1.0F) + raw(2.0F) + raw(3.0F) + raw(0.1));
}

TEST_F(Arrays, PointsComeBackAsTheyWere) {
  const std::vector<float> f = {1, 0.1F, -3, 4e30F, 5, 6};
  const std::vector<double> d = {0.1, 1e300, 3, 4, 5, 1.0 / 3};
  const std::vector<double> extra = {1, 2};
  for (const char* file : {"a.ply", "a.pcd"}) {
    for (const DatasetView& view : {DatasetView(f.data(), 2, 3), DatasetView(d.data(), 2, 3)}) {
      write_points((*this)(file), view, {{"mass"}, DatasetView(extra.data(), 2, 1)});
      const Dataset back = read_dataset((*this)(file));
      EXPECT_EQ(back.dtype(), view.dtype) << file;
      EXPECT_EQ(values(back), values(view)) << file;
      write_points((*this)(file), view, {});  // no columns: a plain file
      EXPECT_EQ(values(read_dataset((*this)(file))), values(view)) << file;
      write_points((*this)(file), view.slice(0, 0), {{"mass"}, DatasetView(extra.data(), 0, 1)});
      EXPECT_EQ(read_dataset((*this)(file)).rows(), 0) << file;
    }
  }
  // Rows with gaps between them.
  const std::vector<float> wide = {1, 2, 3, 99, 4, 5, 6, 99};
  write_points((*this)("s.ply"), DatasetView(wide.data(), 2, 3, 4),
               {{"mass"}, DatasetView(extra.data(), 2, 1)});
  EXPECT_EQ(values(read_dataset((*this)("s.ply"))), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Arrays, ColumnsThatDoNotFitAreRefused) {
  const std::vector<float> f(12);
  const std::vector<std::uint8_t> u(6);
  const DatasetView points(f.data(), 2, 3);
  const auto refused = [&](const PointColumns& columns, const std::vector<std::string>& words) {
    for (const char* file : {"a.ply", "a.pcd"}) {
      expect_error<InvalidArgument>([&] { write_points((*this)(file), points, columns); }, words);
    }
  };
  refused({{"a"}, DatasetView(f.data(), 3, 1)}, {"2 points", "3 x 1"});
  refused({{"a"}, DatasetView(f.data(), 2, 2)}, {"1 names", "2 x 2"});
  refused({{"a"}, DatasetView(u.data(), 2, 1)}, {"u8", "npy"});
  for (const char* name : {"", "two words", "x", "new\nline"}) {
    refused({{name}, DatasetView(f.data(), 2, 1)}, {"cannot be named"});
  }
  refused({{"a", "a"}, DatasetView(f.data(), 2, 2)}, {"'a'"});
  const PointColumns good{{"a"}, DatasetView(f.data(), 2, 1)};
  for (const char* file : {"a.las", "a.npy", "a.xyz", "a.unknown", "a"}) {
    expect_error<InvalidArgument>([&] { write_points((*this)(file), points, good); }, {".ply or .pcd"});
  }
  expect_error<InvalidArgument>([&] { write_points((*this)("a.ply"), DatasetView(f.data(), 2, 2), good); },
                                {"2"});
  WriteOptions options;
  options.format = FileFormat::ply;
  write_points((*this)("named"), points, good, options);
  EXPECT_TRUE(slurp((*this)("named")).starts_with("ply\n"));
  EXPECT_EQ(files(), 1U);
}

// x, y, z and then bytes that only copying keeps; the return number is at byte 14.
std::string las_record(int x, int y, int z, std::size_t bytes, char number) {
  std::string text = raw(x) + raw(y) + raw(z);
  while (text.size() < bytes) text += static_cast<char>(x + static_cast<int>(text.size()));
  text[14] = number;
  return text;
}

TEST_F(Arrays, LasRowsKeepEverythingElse) {
  for (const auto& [minor, format, bytes] :
       std::vector<std::array<unsigned, 3>>{{1, 1, 28}, {2, 3, 40}, {4, 7, 36}}) {
    std::string header = fuzz::las_header(minor, format, bytes, 3);
    header += "extra records of the header";
    header.replace(96, 4, raw(static_cast<std::uint32_t>(header.size())));
    if (minor < 4) header.replace(111, 4, raw(std::uint32_t{3}));
    const std::uint64_t end = header.size() + 3 * bytes;
    if (minor == 4) header.replace(235, 8, raw(end));
    const auto first = las_record(-4, 1, 2, bytes, 1);
    const auto third = las_record(6, -1, 3, bytes, 2);
    const auto path = put("a.las", header + first + las_record(100, 100, 100, bytes, 1) + third + "tail");
    const std::vector<std::int64_t> rows = {0, 2};
    write_las_rows((*this)("b.las"), path, rows);
    const std::string got = slurp((*this)("b.las"));
    EXPECT_EQ(got.substr(header.size()), first + third + "tail") << minor;
    EXPECT_EQ(got.substr(131, 48), header.substr(131, 48)) << "scale and offset";
    EXPECT_EQ(values(read_dataset((*this)("b.las"))), (std::vector<double>{-2, 100.5, 201, 3, 99.5, 201.5}));
    EXPECT_EQ(got.substr(179, 48), raw(3.0) + raw(-2.0) + raw(100.5) + raw(99.5) + raw(201.5) + raw(201.0));
    if (minor < 4) {
      EXPECT_EQ(got.substr(107, 12), raw(std::uint32_t{2}) + raw(std::uint32_t{1}) + raw(std::uint32_t{1}));
    } else {
      EXPECT_EQ(got.substr(107, 12), std::string(12, '\0')) << "left out, as they were";
      EXPECT_EQ(got.substr(247, 24), raw(std::uint64_t{2}) + raw(std::uint64_t{1}) + raw(std::uint64_t{1}));
      EXPECT_EQ(got.substr(235, 8), raw(end - bytes)) << "what follows the points has moved up";
    }
    write_las_rows(path, path, rows);  // in place
    EXPECT_EQ(slurp(path), got);
    write_las_rows(path, path, {});
    EXPECT_EQ(read_dataset(path).rows(), 0);
  }
}

TEST_F(Arrays, LasRowsRefuses) {
  const auto path = put("a.las", fuzz::las_header(2, 0, 20, 2) + std::string(40, '\0'));
  for (const std::vector<std::int64_t>& rows : {std::vector<std::int64_t>{1, 0}, {0, 0}, {2}, {-1}}) {
    expect_error<InvalidArgument>([&] { write_las_rows((*this)("b.las"), path, rows); },
                                  {"rows must ascend"});
  }
  const std::vector<std::int64_t> good = {1};
  expect_error<InvalidArgument>([&] { write_las_rows((*this)("b.ply"), path, good); }, {"ply", ".las"});
  expect_error<InvalidArgument>([&] { write_las_rows((*this)("b.laz"), path, good); }, {"compressed"});
  EXPECT_THROW(write_las_rows((*this)("b.las"), put("c.las", "no LAS"), good), IoError);
  EXPECT_THROW(write_las_rows((*this)("b.las"), (*this)("gone.las"), good), IoError);
  EXPECT_EQ(files(), 2U);
}

TEST_F(Arrays, OneDimension) {
  const std::vector<std::int64_t> numbers = {3, -1, std::int64_t{1} << 40U};
  write_array((*this)("n.npy"), numbers);
  const std::string text = slurp((*this)("n.npy"));
  EXPECT_NE(text.find("{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }"), std::string::npos);
  ASSERT_EQ(text.size() % 64, 24U);
  EXPECT_EQ(text.substr(text.size() - 24), raw(numbers[0]) + raw(numbers[1]) + raw(numbers[2]));
  write_array((*this)("b.npy"), std::vector<bool>{true, false, true});
  const std::string flags = slurp((*this)("b.npy"));
  EXPECT_NE(flags.find("'descr': '|b1'"), std::string::npos);
  EXPECT_EQ(flags.substr(flags.size() - 3), std::string("\1\0\1", 3));
  for (const char* file : {"n.ply", "n.txt", "n"}) {
    expect_error<InvalidArgument>([&] { write_array((*this)(file), numbers); }, {".npy"});
  }
  EXPECT_EQ(files(), 2U);
}

RadiusNeighbors sample() {
  RadiusNeighbors result;
  result.queries = 3;
  result.offsets = {0, 2, 2, 3};
  result.indices = {4, 7, 1};
  result.distances = std::vector<float>{0, 0.5F, 0.25F};
  return result;
}

TEST_F(Arrays, RadiusNeighborsAreThreeFiles) {
  using Paths = std::vector<std::filesystem::path>;
  RadiusNeighbors result = sample();
  const Paths three = {(*this)("r.offsets.npy"), (*this)("r.indices.npy"), (*this)("r.distances.npy")};
  for (const char* file : {"r", "r.npy", "r.offsets.npy", "r.indices.npy", "r.distances.npy"}) {
    EXPECT_EQ(write_radius_neighbors((*this)(file), result), three) << file;
  }
  EXPECT_EQ(files(), 3U);
  const auto tail = [&](const Paths::value_type& path, std::size_t bytes) {
    const std::string text = slurp(path);
    return text.substr(text.size() - bytes);
  };
  EXPECT_EQ(tail(three[0], 32),
            raw(std::int64_t{0}) + raw(std::int64_t{2}) + raw(std::int64_t{2}) + raw(std::int64_t{3}));
  EXPECT_EQ(tail(three[1], 24), raw(std::int64_t{4}) + raw(std::int64_t{7}) + raw(std::int64_t{1}));
  EXPECT_EQ(tail(three[2], 12), raw(0.0F) + raw(0.5F) + raw(0.25F));
  EXPECT_NE(slurp(three[0]).find("(4,)"), std::string::npos);
  EXPECT_NE(slurp(three[2]).find("<f4"), std::string::npos);
  result.distances = std::vector<double>{0, 0.5, 0.1};
  write_radius_neighbors((*this)("r"), result);
  EXPECT_EQ(tail(three[2], 24), raw(0.0) + raw(0.5) + raw(0.1));
  RadiusNeighbors none;
  none.offsets = {0};
  write_radius_neighbors((*this)("none"), none);
  EXPECT_NE(slurp((*this)("none.indices.npy")).find("(0,)"), std::string::npos);
}

TEST_F(Arrays, RadiusNeighborsAppearAllOrNone) {
  std::filesystem::create_directory((*this)("r.distances.npy"));
  EXPECT_THROW(write_radius_neighbors((*this)("r"), sample()), IoError);
  EXPECT_EQ(files(), 1U) << "the two that could be written must not be there";
  WriteOptions stopped;
  stopped.cancelled = [] { return true; };
  EXPECT_THROW(write_radius_neighbors((*this)("s"), sample(), stopped), Cancelled);
  EXPECT_EQ(files(), 1U);
  expect_error<InvalidArgument>([&] { write_radius_neighbors((*this)("r.ivecs"), sample()); },
                                {"ivecs", ".npy"});
  expect_error<InvalidArgument>([&] { write_radius_neighbors((*this)("r.unknown"), sample()); }, {".npy"});
  RadiusNeighbors odd = sample();
  odd.offsets.back() = 2;
  expect_error<InvalidArgument>([&] { write_radius_neighbors((*this)("r"), odd); }, {"3 indices"});
  odd = sample();
  odd.offsets.pop_back();
  EXPECT_THROW(write_radius_neighbors((*this)("r"), odd), InvalidArgument);
}

}  // namespace
}  // namespace kith
