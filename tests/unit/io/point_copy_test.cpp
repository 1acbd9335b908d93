// Points copied with all that their file has: LAS with extra bytes, PLY with further properties, some points
// left out.
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
using PointCopy = test::IoTest;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::string padded(std::string text, std::size_t bytes) {
  text.resize(bytes, '\0');
  return text;
}

// A variable length record of a LAS file.
std::string record(const std::string& user, std::uint16_t number, const std::string& content) {
  return raw(std::uint16_t{0}) + padded(user, 16) + raw(number) +
         raw(static_cast<std::uint16_t>(content.size())) + padded("about it", 32) + content;
}

std::string descriptor(char type, char options, const std::string& name) {
  return std::string(2, '\0') + type + options + padded(name, 32) + std::string(156, '\0');
}

constexpr char f32_type = 9;
constexpr char f64_type = 10;

// A point: x, y, z, and bytes that only copying keeps; the return number is at byte 14.
std::string point(int x, std::size_t bytes) {
  std::string text = raw(x) + raw(x + 1) + raw(x + 2);
  while (text.size() < bytes) text += static_cast<char>(x + static_cast<int>(text.size()));
  text[14] = 1;
  return text;
}

struct Las {
  unsigned minor, format;
  std::size_t bytes;  // of a point
  std::vector<std::string> records;
  std::string gap;  // between them and the points
  std::string tail;

  std::string header(std::uint64_t points) const {
    std::string text = fuzz::las_header(minor, format, static_cast<unsigned>(bytes), points);
    const std::size_t size = text.size();
    for (const std::string& one : records) text += one;
    text += gap;
    text.replace(96, 4, raw(static_cast<std::uint32_t>(text.size())));
    text.replace(100, 4, raw(static_cast<std::uint32_t>(records.size())));
    if (minor == 4 && !tail.empty()) {
      text.replace(235, 8, raw(static_cast<std::uint64_t>(text.size() + points * bytes)));
      text.replace(243, 4, raw(std::uint32_t{1}));
    }
    EXPECT_GE(text.size(), size);
    return text;
  }
  std::string file(int points) const {
    std::string text = header(static_cast<std::uint64_t>(points));
    for (int i = 0; i < points; ++i) text += point(10 * i, bytes);
    return text + tail;
  }
};

std::string extended_record(const std::string& user, std::uint16_t number, const std::string& content) {
  return raw(std::uint16_t{0}) + padded(user, 16) + raw(number) + raw(std::uint64_t{content.size()}) +
         padded("", 32) + content;
}

TEST_F(PointCopy, LasOfEveryPointFormatGetsExtraBytes) {
  const std::array<std::size_t, 11> sizes = {20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67};
  const std::vector<float> added = {0.5F, nan, -1, 2, 3, 4};
  for (unsigned format = 0; format < sizes.size(); ++format) {
    const bool wide = format > 5;
    const Las las{wide ? 4U : 2U, format,
                  sizes[format],  {record("GeoTIFF", 34735, "keys")},
                  "\xdd\xcc",     wide ? extended_record("someone", 7, "more") : ""};
    const auto path = put("a.las", las.file(3));
    copy_points((*this)("b.las"), path, {{"normal_x", "curvature"}, DatasetView(added.data(), 3, 2)});
    Las wanted = las;
    wanted.records.push_back(
        record("LASF_Spec", 4, descriptor(f32_type, 0, "normal_x") + descriptor(f32_type, 0, "curvature")));
    wanted.records.back().replace(22, 32, padded("Extra bytes", 32));
    wanted.bytes += 8;
    std::string text = wanted.header(3);
    for (int i = 0; i < 3; ++i) {
      const auto at = static_cast<std::size_t>(2 * i);
      text += point(10 * i, las.bytes) + raw(added[at]) + raw(added[at + 1]);
    }
    EXPECT_EQ(slurp((*this)("b.las")), text + las.tail) << format;
    EXPECT_EQ(values(read_dataset((*this)("b.las"))), values(read_dataset(path))) << format;
  }
}

TEST_F(PointCopy, LasKeepsTheExtraBytesItHas) {
  // Described: a u16 and three doubles; two bytes that nobody describes.
  const std::string described = descriptor(3, 0, "amplitude") + descriptor(30, 1, "beam");
  Las las{3, 1, 28 + 2 + 24 + 2, {record("LASF_Spec", 4, described), record("x", 1, "")}, "", ""};
  const auto path = put("a.las", las.file(2));
  const std::vector<double> added = {1.0 / 3, -5};
  copy_points((*this)("b.las"), path, {{"density"}, DatasetView(added.data(), 2, 1)});
  Las wanted = las;
  wanted.records[0] =
      record("LASF_Spec", 4, described + descriptor(0, 2, "") + descriptor(f64_type, 0, "density"));
  wanted.bytes += 8;
  const std::string got = slurp((*this)("b.las"));
  EXPECT_EQ(got, wanted.header(2) + point(0, las.bytes) + raw(1.0 / 3) + point(10, las.bytes) + raw(-5.0));
  // A second time, under names that are there: those of the file give way, in their order.
  const std::vector<float> again = {1, 2, 3, 4};
  copy_points((*this)("b.las"), (*this)("b.las"), {{"beam", "density"}, DatasetView(again.data(), 2, 2)});
  wanted.records[0] = record("LASF_Spec", 4,
                             descriptor(3, 0, "amplitude") + descriptor(0, 2, "") +
                                 descriptor(f32_type, 0, "beam") + descriptor(f32_type, 0, "density"));
  wanted.bytes = 28 + 2 + 2 + 8;
  const auto kept = [&](int x) {
    const std::string all = point(x, las.bytes);
    return all.substr(0, 30) + all.substr(54);
  };
  EXPECT_EQ(slurp((*this)("b.las")),
            wanted.header(2) + kept(0) + raw(1.0F) + raw(2.0F) + kept(10) + raw(3.0F) + raw(4.0F));
}

TEST_F(PointCopy, LasLosesPointsAndGetsColumnsAtOnce) {
  const Las las{4, 6, 30, {}, "", extended_record("someone", 7, "more")};
  const auto path = put("a.las", las.file(3));
  const std::vector<float> added = {1, 2, 3};
  const std::vector<std::int64_t> rows = {2, 0};
  const RowSet kept = RowSet::from_indices(3, rows);
  copy_points((*this)("b.las"), path, {{"c"}, DatasetView(added.data(), 3, 1)}, &kept);
  const std::string got = slurp((*this)("b.las"));
  const std::string points = point(0, 30) + raw(1.0F) + point(20, 30) + raw(3.0F);
  EXPECT_EQ(got.substr(got.size() - points.size() - las.tail.size()), points + las.tail);
  EXPECT_EQ(got.substr(235, 8), raw(std::uint64_t{got.size() - las.tail.size()}));
  EXPECT_EQ(got.substr(247, 16), raw(std::uint64_t{2}) + raw(std::uint64_t{2}));
  EXPECT_EQ(values(read_dataset((*this)("b.las"))), (std::vector<double>{0, 100.5, 201, 10, 110.5, 211}));
  // Points alone: as write_las_rows().
  copy_points((*this)("c.las"), path, {}, &kept);
  const std::vector<std::int64_t> ascending = {0, 2};
  write_las_rows((*this)("d.las"), path, ascending);
  EXPECT_EQ(slurp((*this)("c.las")), slurp((*this)("d.las")));
  // Neither: the same file.
  copy_points((*this)("e.las"), path, {});
  EXPECT_EQ(slurp((*this)("e.las")), las.file(3));
}

TEST_F(PointCopy, DamagedLasIsRefused) {
  const std::vector<float> added = {1, 2};
  const PointColumns columns{{"c"}, DatasetView(added.data(), 2, 1)};
  const auto refused = [&](const Las& las, const std::string& word) {
    const auto path = put("a.las", las.file(2));
    expect_error<IoError>([&] { copy_points((*this)("b.las"), path, columns); }, {"a.las", word});
    EXPECT_FALSE(std::filesystem::exists((*this)("b.las")));
  };
  const std::string one = descriptor(f64_type, 0, "d");
  refused({2, 0, 20, {record("LASF_Spec", 4, one)}, "", ""}, "0 extra bytes");
  refused({2, 0, 24, {record("LASF_Spec", 4, one)}, "", ""}, "4 extra bytes");
  refused({2, 0, 28, {record("LASF_Spec", 4, descriptor(31, 0, "odd"))}, "", ""}, "'odd'");
  refused({2, 0, 28, {record("LASF_Spec", 4, one), record("LASF_Spec", 4, one)}, "", ""}, "twice");
  refused({2, 0, 20, {"short"}, "", ""}, "record 0 of the 1");
  std::string claims = record("x", 1, "");
  claims.replace(20, 2, raw(std::uint16_t{9}));
  refused({2, 0, 20, {claims}, "12345678", ""}, "record 0 of the 1");
  refused({4, 6, 30, {}, "", "short"}, "extended record 0 of 1");
  refused({4, 6, 38, {}, "", extended_record("LASF_Spec", 4, one)}, "extended record");
  std::string absurd = extended_record("x", 1, "");
  absurd.replace(20, 8, raw(~std::uint64_t{0}));
  refused({4, 6, 30, {}, "", absurd}, "claims");
  // Every cut and every flipped byte of a file: an answer or a message.
  const std::string good =
      Las{4, 7, 38, {record("LASF_Spec", 4, descriptor(3, 0, "u"))}, "", extended_record("x", 1, "abc")}.file(
          2);
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const bool cut : {true, false}) {
      std::string bad = cut ? good.substr(0, i) : good;
      if (!cut) bad[i] = static_cast<char>(~bad[i]);
      try {
        copy_points((*this)("b.las"), put("a.las", bad), columns);
      } catch (const Error&) {
      }
    }
  }
}

TEST_F(PointCopy, LasWithoutRoomIsRefused) {
  const Las las{2, 0, 65532, {}, "", ""};
  const auto path = put("a.las", las.file(1));
  const std::vector<float> added = {1};
  expect_error<InvalidArgument>(
      [&] {
        copy_points((*this)("b.las"), path, {{"c"}, DatasetView(added.data(), 1, 1)});
      },
      {"65536", "fewer"});
  expect_error<InvalidArgument>(
      [&] {
        copy_points((*this)("b.las"), path, {{std::string(33, 'n')}, DatasetView(added.data(), 1, 1)});
      },
      {"32 characters", "33"});
}

const std::string mesh_header =
    "comment a mesh\nobj_info of two\nelement sensor 1\nproperty list uchar short ids\nelement vertex 3\n"
    "property uchar red\nproperty float x\nproperty float y\nproperty float z\nproperty float nx\n"
    "element face 1\nproperty list uchar int vertex_indices\n";

template <class T>
std::string ordered(T value, bool swap) {
  std::string text = raw(value);
  return swap ? std::string(text.rbegin(), text.rend()) : text;
}

TEST_F(PointCopy, BinaryPlyInBothOrders) {
  const std::vector<float> added = {1, 2, 3, 4, nan, 6};
  for (const bool swap : {false, true}) {
    const std::string start =
        std::string("ply\nformat binary_") + (swap ? "big" : "little") + "_endian 1.0\n";
    const std::string sensor =
        std::string("\2") + ordered(std::int16_t{7}, swap) + ordered(std::int16_t{8}, swap);
    const std::string face = std::string("\3") + ordered(0, swap) + ordered(1, swap) + ordered(2, swap);
    const auto vertex = [&](int i) {
      return std::string(1, static_cast<char>('a' + i)) + ordered(static_cast<float>(i), swap) +
             ordered(0.5F, swap) + ordered(-1.0F, swap);
    };
    const auto old = ordered(9.0F, swap);
    const auto path = put("a.ply", start + mesh_header + "end_header\n" + sensor + vertex(0) + old +
                                       vertex(1) + old + vertex(2) + old + face);
    copy_points((*this)("b.ply"), path, {{"nx", "curvature"}, DatasetView(added.data(), 3, 2)});
    std::string header = start + mesh_header + "end_header\n";
    header.replace(header.find("property float nx\n"), 18, "property float nx\nproperty float curvature\n");
    std::string wanted = header + sensor;
    for (int i = 0; i < 3; ++i) {
      const auto at = static_cast<std::size_t>(2 * i);
      wanted += vertex(i) + ordered(added[at], swap) + ordered(added[at + 1], swap);
    }
    EXPECT_EQ(slurp((*this)("b.ply")), wanted + face) << swap;
    // Where a point goes, so does what refers to points by number.
    const std::vector<std::int64_t> rows = {0, 2};
    const RowSet kept = RowSet::from_indices(3, rows);
    copy_points((*this)("c.ply"), path, {}, &kept);
    EXPECT_EQ(slurp((*this)("c.ply")),
              start +
                  "comment a mesh\nobj_info of two\nelement vertex 2\nproperty uchar red\nproperty float x\n"
                  "property float y\nproperty float z\nproperty float nx\nend_header\n" +
                  vertex(0) + old + vertex(2) + old);
    copy_points((*this)("d.ply"), path, {});
    EXPECT_EQ(slurp((*this)("d.ply")), slurp(path));
  }
}

TEST_F(PointCopy, PlyWithListsInItsVertices) {
  const std::string header =
      "ply\nformat binary_little_endian 1.0\nelement vertex 2\nproperty float x\nproperty list uchar short "
      "ids\n"
      "property float y\nproperty float z\nend_header\n";
  const auto vertex = [](float x, const std::string& ids) {
    return raw(x) + static_cast<char>(ids.size() / 2) + ids + raw(2.0F) + raw(3.0F);
  };
  const std::string one = vertex(1, "");
  const std::string two = vertex(5, "abcd");
  const auto path = put("a.ply", header + one + two);
  const std::vector<double> added = {0.1, 0.2};
  copy_points((*this)("b.ply"), path, {{"w"}, DatasetView(added.data(), 2, 1)});
  std::string wanted = header;
  wanted.insert(wanted.find("end_header"), "property double w\n");
  EXPECT_EQ(slurp((*this)("b.ply")), wanted + one + raw(0.1) + two + raw(0.2));
}

TEST_F(PointCopy, TextPly) {
  const std::vector<float> added = {0.1F, nan, -2, 3e30F, 0, 1};
  for (const std::string end : {"\n", "\r\n"}) {
    const auto lines = [&](const std::vector<std::string>& some) {
      std::string text;
      for (const std::string& line : some) text += line + end;
      return text;
    };
    const auto path =
        put("a.ply",
            lines({"ply", "format ascii 1.0", "element camera 1", "property int id", "element vertex 3",
                   "property float x", "property float y", "property list uchar int ids", "property float z",
                   "property float nx", "element face 1", "property list uchar int vertex_indices",
                   "end_header", "12", "1 2.50  2 7 8 3 9", "4 5 0 6 9", "7e0 8 1 1", "9 9", "3 0 1 2"}));
    copy_points((*this)("b.ply"), path, {{"nx", "c"}, DatasetView(added.data(), 3, 2)});
    EXPECT_EQ(slurp((*this)("b.ply")),
              lines({"ply", "format ascii 1.0", "element camera 1", "property int id", "element vertex 3",
                     "property float x", "property float y", "property list uchar int ids",
                     "property float z", "property float nx", "property float c", "element face 1",
                     "property list uchar int vertex_indices", "end_header", "12", "1 2.50 2 7 8 3 0.1 nan",
                     "4 5 0 6 -2 3e+30", "7e0 8 1 1 9 0 1", "3 0 1 2"}));
    EXPECT_EQ(values(read_dataset((*this)("b.ply"))), (std::vector<double>{1, 2.5, 3, 4, 5, 6, 7, 8, 9}));
  }
  // Everything in one line, and no end of it.
  const auto path =
      put("a.ply",
          "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float "
          "z\nelement face 1\nproperty list uchar int v\nend_header\n1 2 3 4 5 6 1 0");
  const std::vector<float> two = {7, 8};
  copy_points((*this)("b.ply"), path, {{"w"}, DatasetView(two.data(), 2, 1)});
  EXPECT_EQ(slurp((*this)("b.ply")).substr(slurp((*this)("b.ply")).find("end_header\n") + 11),
            "1 2 3 7\n4 5 6 8\n 1 0");
}

TEST_F(PointCopy, OtherFilesAndColumnsAreRefused) {
  const auto las = put("a.las", Las{2, 0, 20, {}, "", ""}.file(2));
  const auto ply =
      put("a.ply",
          "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float "
          "z\nend_header\n1 2 3\n");
  const std::vector<float> added = {1, 2};
  const PointColumns two{{"c"}, DatasetView(added.data(), 2, 1)};
  expect_error<InvalidArgument>([&] { copy_points((*this)("b.ply"), las, two); },
                                {"a.las", "is las", "format"});
  expect_error<InvalidArgument>([&] { copy_points((*this)("b.npy"), las, two); }, {".las or .ply"});
  expect_error<InvalidArgument>([&] { copy_points((*this)("b.laz"), las, two); }, {"compressed"});
  expect_error<InvalidArgument>([&] { copy_points((*this)("b.ply"), ply, two); }, {"1 point", "2 rows"});
  const RowSet three(3);
  expect_error<InvalidArgument>([&] { copy_points((*this)("b.ply"), ply, {}, &three); }, {"1 point", "3"});
  expect_error<InvalidArgument>(
      [&] {
        copy_points((*this)("b.las"), las, {{"x"}, DatasetView(added.data(), 2, 1)});
      },
      {"'x'"});
  const std::vector<std::uint8_t> bytes = {1, 2};
  expect_error<InvalidArgument>(
      [&] {
        copy_points((*this)("b.las"), las, {{"c"}, DatasetView(bytes.data(), 2, 1)});
      },
      {"u8"});
  EXPECT_EQ(files(), 2U);
}

}  // namespace
}  // namespace kith
