// PCD, PLY, LAS and xyz: files by hand, round trips, refusals.
#include <limits>

#include "fuzz/seeds.hpp"
#include "io/lzf.hpp"
#include "unit/io/support.hpp"

namespace kith {
namespace {

using test::expect_error;
using test::raw;
using test::values;
using Points = test::IoTest;

const std::vector<double> utm = {513149.97, 5404078.5, 343.1, 513150.02, 5404079.25, 343.123456789};

std::string pcd(const std::string& fields, const std::string& rest) {
  return "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\nFIELDS " + fields + "\n" + rest;
}

TEST_F(Points, RoundTripsKeepTypeAndEveryBit) {
  const std::vector<float> f = {1, -2, 0.1F, 3e30F, 1e-40F, std::numeric_limits<float>::quiet_NaN()};
  const std::vector<double> d = {0.1, -1e300, 5e-324, 1.0 / 3, std::numeric_limits<double>::infinity(), 2};
  for (const char* file : {"a.pcd", "a.ply", "a.xyz"}) {
    for (const DatasetView& view : {DatasetView(f.data(), 2, 3), DatasetView(d.data(), 2, 3)}) {
      write_dataset((*this)(file), view);
      const Dataset back = read_dataset((*this)(file));
      EXPECT_EQ(back.dtype(), std::string(file) == "a.xyz" ? Dtype::f64 : view.dtype) << file;
      const auto got = values(back);
      const auto want = values(view);
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) << file << ' ' << i;
      }
      const FileInfo info = inspect((*this)(file));
      EXPECT_EQ(info.rows, 2);
      EXPECT_EQ(info.dim, 3);
      EXPECT_EQ(info.element_type, name(back.dtype()));
    }
  }
}

TEST_F(Points, NoPointsGoRound) {
  const double d = 0;
  for (const char* file : {"a.pcd", "a.ply", "a.xyz", "a.las"}) {
    write_dataset((*this)(file), DatasetView(&d, 0, 3));
    EXPECT_EQ(read_dataset((*this)(file)).rows(), 0) << file;
  }
}

TEST_F(Points, OnlyThreeDimensionsOfFloatsCanBeWritten) {
  const std::vector<double> d(4);
  const std::vector<std::uint8_t> u(3);
  for (const char* file : {"a.pcd", "a.ply", "a.xyz", "a.las"}) {
    expect_error<InvalidArgument>([&] { write_dataset((*this)(file), DatasetView(d.data(), 1, 4)); },
                                  {"4", "npy"});
    expect_error<InvalidArgument>([&] { write_dataset((*this)(file), DatasetView(u.data(), 1, 3)); },
                                  {"u8", "npy"});
  }
  EXPECT_EQ(files(), 0U);
}

TEST_F(Points, PcdFieldsInAnyOrderAndSize) {
  const auto ascii =
      put("a.pcd", pcd("z rgb normal x y",
                       "SIZE 4 4 4 4 4\nTYPE F U F F F\nCOUNT 1 1 3 1 1\nWIDTH 2\nHEIGHT 1\n"
                       "VIEWPOINT 0 0 0 1 0 0 0\nPOINTS 2\nDATA ascii\n3 7 0 0 1 1 2\n6 7 0 0 1 4 5\n"));
  EXPECT_EQ(values(read_dataset(ascii)), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read_dataset(ascii).dtype(), Dtype::f32);
  const auto binary =
      put("b.pcd", pcd("flag z x y", "SIZE 1 8 4 8\nTYPE U F F F\nCOUNT 1 1 1 1\nPOINTS 1\nDATA binary\n") +
                       "!" + raw(3.5) + raw(1.5F) + raw(2.5));
  EXPECT_EQ(values(read_dataset(binary)), (std::vector<double>{1.5, 2.5, 3.5}));
  EXPECT_EQ(read_dataset(binary).dtype(), Dtype::f64);
}

TEST_F(Points, PcdNumbersMayBeNanInfOrSigned) {
  const auto path =
      put("a.pcd",
          pcd("x y z", "SIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nPOINTS 1\nDATA ascii\r\nnan +1.5 -inf\r\n"));
  const auto got = values(read_dataset(path));
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], 1.5);
  EXPECT_EQ(got[2], -std::numeric_limits<double>::infinity());
}

TEST_F(Points, PcdCompressed) {
  EXPECT_EQ(values(read_dataset(put("a.pcd", fuzz::compressed_pcd()))), std::vector<double>(12, 0.0));
  // Literals only: fields lie one after the other.
  std::string columns = raw(1.0F) + raw(4.0F) + raw(2.0F) + raw(5.0F) + raw(3.0F) + raw(6.0F);
  const auto path =
      put("b.pcd", pcd("x y z", "SIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nPOINTS 2\nDATA binary_compressed\n") +
                       raw(25) + raw(24) + std::string(1, 23) + columns);
  EXPECT_EQ(values(read_dataset(path)), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  ReadOptions second;
  second.first_row = 1;
  EXPECT_EQ(values(read_dataset(path, second)), (std::vector<double>{4, 5, 6}));
}

TEST_F(Points, LzfRefusesWhatReachesOutside) {
  const auto unpack = [](std::string from, std::size_t bytes) {
    std::string to(bytes, '?');
    const bool good =
        io::lzf_decompress(std::as_bytes(std::span(from)), std::as_writable_bytes(std::span(to)));
    return good ? to : std::string("refused");
  };
  EXPECT_EQ(unpack(std::string("\x02"
                               "abc",
                               4),
                   3),
            "abc");
  EXPECT_EQ(unpack(std::string("\x01"
                               "ab\x40\x01",
                               5),
                   6),
            "ababab");  // 4 from 2 back, overlapping
  EXPECT_EQ(unpack(std::string("\x00"
                               "a\xE0\x00\x00",
                               5),
                   10),
            "aaaaaaaaaa");  // the long form: 9
  EXPECT_EQ(unpack(std::string("\x02"
                               "abc",
                               4),
                   2),
            "refused");
  EXPECT_EQ(unpack(std::string("\x02"
                               "abc",
                               4),
                   4),
            "refused");
  EXPECT_EQ(unpack(std::string("\x03"
                               "abc",
                               4),
                   4),
            "refused");
  EXPECT_EQ(unpack(std::string("\x00"
                               "a\x20\x01",
                               4),
                   4),
            "refused")
      << "before the start";
  EXPECT_EQ(unpack(std::string("\x00"
                               "a\x20",
                               3),
                   4),
            "refused");
  EXPECT_EQ(unpack(std::string("\x00"
                               "a\xE0",
                               3),
                   4),
            "refused");
  EXPECT_EQ(unpack("", 0), "");
}

TEST_F(Points, PcdHeadersThatCannotBe) {
  const std::string sizes = "SIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\n";
  for (const std::string& text :
       {pcd("x y", "SIZE 4 4\nTYPE F F\nCOUNT 1 1\nPOINTS 0\nDATA ascii\n"),
        pcd("x y z", sizes + "DATA ascii\n"), pcd("x y z", sizes + "POINTS -1\nDATA binary\n"),
        pcd("x y z", sizes + "POINTS 9223372036854775808\nDATA binary\n"),
        pcd("x y z", sizes + "POINTS 9223372036854775807\nDATA binary\n"),
        pcd("x y z", sizes + "POINTS 2\nDATA binary\n123456789012"),
        pcd("x y z", sizes + "POINTS 4611686018427387904\nDATA ascii\n1 2 3\n"),
        pcd("x y z", sizes + "POINTS 2\nDATA ascii\n1 2 3\n4 5\n"),
        pcd("x y z", sizes + "POINTS 1\nDATA ascii\n1 2 three\n"),
        pcd("x y z", sizes + "WIDTH 2\nHEIGHT 2\nPOINTS 3\nDATA ascii\n1 2 3\n1 2 3\n1 2 3\n"),
        pcd("x y z", sizes + "POINTS 1\nDATA zipped\n1 2 3\n"),
        pcd("x y z", "SIZE 4 4\nTYPE F F F\nPOINTS 0\nDATA ascii\n"),
        pcd("x y z", "SIZE 4 4 4 4\nPOINTS 0\nDATA ascii\n"),
        pcd("x y z", "SIZE 4 4 3\nPOINTS 0\nDATA ascii\n"),
        pcd("x y z", "SIZE 4 4 4\nTYPE F F I\nPOINTS 0\nDATA ascii\n"),
        pcd("x y z",
            sizes + "POINTS 1\nDATA binary_compressed\n" + raw(2) + raw(std::uint32_t{4000000000}) + "xx"),
        pcd("x y z", sizes + "POINTS 0\nWHAT 3\nDATA ascii\n"), std::string("# .PCD v0.7\n")}) {
    EXPECT_THROW(read_dataset(put("a.pcd", text)), IoError) << text;
  }
}

TEST_F(Points, PlyAsciiWithOtherElementsInFront) {
  const auto path = put("a.ply",
                        "ply\r\nformat ascii 1.0\r\ncomment made by hand\r\nelement face 2\r\nproperty list "
                        "uchar int v\r\nproperty int id\r\n"
                        "element vertex 2\r\nproperty uchar red\r\nproperty double z\r\nproperty list uchar "
                        "int w\r\nproperty float x\r\nproperty float y\r\n"
                        "end_header\r\n3 0 1 2 77\r\n0 78\r\n255 3 2 8 9 1 2\r\n254 6 0 4 5\r\n");
  const Dataset data = read_dataset(path);
  EXPECT_EQ(data.dtype(), Dtype::f64);
  EXPECT_EQ(values(data), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Points, PlyBinaryOfBothByteOrders) {
  const std::string head =
      "element edge 2\nproperty int a\nelement face 1\nproperty list uchar short v\nproperty list uint char "
      "w\n"
      "element vertex 2\nproperty uchar red\nproperty float x\nproperty float y\nproperty float "
      "z\nend_header\n";
  const auto big = [](const std::string& little) { return std::string(little.rbegin(), little.rend()); };
  for (const bool swap : {false, true}) {
    const auto put_one = [&](auto value) { return swap ? big(raw(value)) : raw(value); };
    std::string data = put_one(1) + put_one(2) + "\x02" + put_one(short{1}) + put_one(short{2}) +
                       put_one(std::uint32_t{3}) + "abc";
    for (const float start : {1.0F, 4.0F})
      data += "!" + put_one(start) + put_one(start + 1) + put_one(start + 2);
    const auto path =
        put("a.ply", std::string("ply\nformat ") + (swap ? "binary_big_endian" : "binary_little_endian") +
                         " 1.0\n" + head + data);
    EXPECT_EQ(values(read_dataset(path)), (std::vector<double>{1, 2, 3, 4, 5, 6})) << swap;
    EXPECT_EQ(read_dataset(path).dtype(), Dtype::f32);
    ReadOptions second;
    second.first_row = 1;
    EXPECT_EQ(values(read_dataset(path, second)), (std::vector<double>{4, 5, 6})) << swap;
  }
}

TEST_F(Points, PlyIntegerCoordinatesAndListsInVertices) {
  const auto path = put("a.ply",
                        "ply\nformat binary_little_endian 1.0\nelement vertex 2\nproperty list uchar float "
                        "w\nproperty uint x\nproperty short y\nproperty char z\nend_header\n" +
                            std::string("\x02") + raw(9.0F) + raw(9.0F) + raw(4000000000U) + raw(short{-5}) +
                            "\xff" + std::string(1, '\0') + raw(1U) + raw(short{2}) + "\x03");
  EXPECT_EQ(values(read_dataset(path)), (std::vector<double>{4e9, -5, -1, 1, 2, 3}));
}

TEST_F(Points, PlyHeadersThatCannotBe) {
  const std::string xyz = "property float x\nproperty float y\nproperty float z\nend_header\n";
  const std::string little = "ply\nformat binary_little_endian 1.0\n";
  for (const std::string& text :
       {std::string("ply\n"), little + "end_header\n",
        little + "element vertex 1\nproperty float x\nproperty float y\nend_header\n",
        little + "element vertex -1\n" + xyz, little + "element vertex 9223372036854775807\n" + xyz,
        little + "element vertex 9223372036854775808\n" + xyz,
        little + "element vertex 1\n" + xyz + "12345678901",
        little + "element face 9223372036854775807\nproperty int a\nelement vertex 0\n" + xyz,
        little + "element face 1\nproperty list uint double v\nelement vertex 0\n" + xyz + raw(~0U),
        std::string("ply\nformat ascii 1.0\nelement vertex 2\n") + xyz + "1 2 3\n4 5\n",
        std::string("ply\nformat ascii 1.0\nelement vertex 1\n") + xyz + "1 2 x\n",
        std::string("ply\nformat ascii 1.0\nelement vertex 4611686018427387904\n") + xyz + "1 2 3\n",
        std::string("ply\nformat ascii 2.0\nelement vertex 0\n") + xyz,
        std::string("ply\nformat text 1.0\nelement vertex 0\n") + xyz,
        little + "element vertex 0\nproperty quad x\n" + xyz,
        little + "property float x\nelement vertex 0\n" + xyz,
        little + "element vertex 0\nproperty list float int x\n" + xyz,
        little + "nonsense\nelement vertex 0\n" + xyz}) {
    EXPECT_THROW(read_dataset(put("a.ply", text)), IoError) << text;
  }
}

TEST_F(Points, LasScalesAndShiftsIntegers) {
  const auto record = [](int x, int y, int z, std::size_t bytes) {
    return raw(x) + raw(y) + raw(z) + std::string(bytes - 12, '\7');
  };
  for (const auto& [minor, format, bytes] : std::vector<std::array<unsigned, 3>>{{0, 0, 20},
                                                                                 {1, 1, 28},
                                                                                 {2, 2, 26},
                                                                                 {2, 3, 34},
                                                                                 {3, 4, 57},
                                                                                 {3, 5, 63},
                                                                                 {4, 6, 30},
                                                                                 {4, 7, 36},
                                                                                 {4, 8, 38},
                                                                                 {4, 9, 59},
                                                                                 {4, 10, 67},
                                                                                 {4, 6, 41}}) {
    const auto path = put("a.las", fuzz::las_header(minor, format, bytes, 2) + record(1, 2, 3, bytes) +
                                       record(-1, 2147483647, -2147483647 - 1, bytes));
    EXPECT_EQ(values(read_dataset(path)),
              (std::vector<double>{0.5, 101, 201.5, -0.5, 1073741923.5, -1073741624}))
        << minor << ' ' << format;
    const FileInfo info = inspect(path);
    EXPECT_EQ(info.rows, 2);
    EXPECT_EQ(info.element_type, "f64");
    EXPECT_EQ(info.details.at(0).second, "1." + std::to_string(minor));
    EXPECT_EQ(info.details.at(3).second, "0.5 0.5 0.5");
    const auto short_record =
        fuzz::las_header(minor, format, bytes - (bytes == 41 ? 12 : 1), 1) + std::string(100, '\0');
    EXPECT_THROW(read_dataset(put("b.las", short_record)), IoError) << minor << ' ' << format;
  }
}

TEST_F(Points, LasCounts64Bit) {
  std::string header = fuzz::las_header(4, 6, 30, std::uint64_t{1} << 63U);
  EXPECT_THROW(read_dataset(put("a.las", header + std::string(60, '\0'))), IoError);
  header = fuzz::las_header(4, 6, 30, 2);
  header.replace(107, 4, raw(1));  // the 64-bit count rules
  EXPECT_EQ(read_dataset(put("a.las", header + std::string(60, '\0'))).rows(), 2);
  header = fuzz::las_header(4, 0, 20, 0);
  header.replace(107, 4, raw(1));  // unless it is absent
  EXPECT_EQ(read_dataset(put("a.las", header + std::string(20, '\0'))).rows(), 1);
}

TEST_F(Points, LazIsRefusedByName) {
  std::string header = fuzz::las_header(2, 128 + 1, 28, 1) + std::string(28, '\0');
  expect_error<IoError>([&] { read_dataset(put("a.las", header)); }, {"LAZ", "laszip"});
  expect_error<IoError>([&] { read_dataset(put("a.laz", header)); }, {"LAZ", "laszip"});
  expect_error<InvalidArgument>([&] { write_dataset((*this)("b.laz"), DatasetView(utm.data(), 2, 3)); },
                                {".las"});
  header = fuzz::las_header(2, 11, 28, 1) + std::string(28, '\0');
  expect_error<IoError>([&] { read_dataset(put("a.las", header)); }, {"point format 11"});
  header = fuzz::las_header(5, 1, 28, 1) + std::string(28, '\0');
  expect_error<IoError>([&] { read_dataset(put("a.las", header)); }, {"1.5"});
}

TEST_F(Points, LasWritesExactlyWhatItsScaleCanHold) {
  const std::vector<double> centimetres = {513149.97, 5404078.5, 343.1, 513150.02, 5404079.25, 343.12};
  write_dataset((*this)("a.las"), DatasetView(centimetres.data(), 2, 3));
  EXPECT_EQ(slurp((*this)("a.las")).size(), 227U + 2 * 20);
  const auto got = values(read_dataset((*this)("a.las")));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(got[i], centimetres[i], 1e-6) << i;
  const std::vector<double> halves = {0.5, 1024.125, -3, 0.25, 7, 2e6};
  write_dataset((*this)("b.las"), DatasetView(halves.data(), 2, 3));
  EXPECT_EQ(values(read_dataset((*this)("b.las"))), halves);
  const std::vector<double> wide = {-1e12, 0, 0, 1e12, 1, 1};
  write_dataset((*this)("c.las"), DatasetView(wide.data(), 2, 3));
  EXPECT_NEAR(values(read_dataset((*this)("c.las")))[0], -1e12, 1000);
  const std::vector<double> nan = {0, std::numeric_limits<double>::quiet_NaN(), 0};
  expect_error<InvalidArgument>([&] { write_dataset((*this)("d.las"), DatasetView(nan.data(), 1, 3)); },
                                {"finite", "point 0"});
}

TEST_F(Points, XyzSeparatorsCommentsAndHeaders) {
  const std::vector<double> expected = {1, 2.5, -3e2, 4, 5, 6};
  for (const char* text :
       {"1 2.5 -3e2\n4 5 6\n", "1,2.5,-3e2\n4,5,6", "# c\n\n 1\t2.5 , -3e2 extra # x\r\n4 5 6 7 8\r\n",
        "2\n1 2.5 -3e2\n4 5 6\n", "x y z\n1 2.5 -300\n4 5 6\n",
        "\"X\",\"Y\",\"Z\",\"i\"\n1,2.5,-300,9\n4,5,6,9\n"}) {
    for (const char* file : {"a.xyz", "a.csv", "a.pts", "a.txt"}) {
      EXPECT_EQ(values(read_dataset(put(file, text))), expected) << file << ": " << text;
      EXPECT_EQ(inspect((*this)(file)).rows, 2);
      EXPECT_EQ(inspect((*this)(file)).format, FileFormat::xyz);
    }
  }
  EXPECT_EQ(values(read_dataset(put("a.csv", "\xEF\xBB\xBFx,y,z\n1, 2.5, -3e2 a,b\n4 5 6 a,b\n"))), expected);
}

TEST_F(Points, XyzRefusesWhatIsNoPoint) {
  for (const char* text : {"1 2\n", "1 2 3\n4 5\n", "1 2 three\n", "1,,2,3\n", "5\n1 2 3\n", "# only\n", "\n",
                           "3\n", "a b c\n", "1 2 3\nx y z\n", "1 2 0x3\n"}) {
    expect_error<IoError>([&] { read_dataset(put("a.xyz", text)); }, {"a.xyz"});
  }
  expect_error<IoError>([&] { read_dataset(put("a.xyz", "1 2 3\n4 5 six\n")); }, {"line 2", "'six'"});
  for (const char* text : {"1 2 3\n4,5 6 7\n", "1 2 3\n4 5,6 7\n", "1 2 3\n4 5 6,7\n"}) {
    expect_error<IoError>([&] { read_dataset(put("a.xyz", text)); }, {"line 2", "commas"});
  }
  expect_error<IoError>([&] { read_dataset(put("a.xyz", "1 2 3\r4 5 6\r")); }, {"line 1", "carriage"});
}

}  // namespace
}  // namespace kith
