// HDF5: the layout of ann-benchmarks, element types, storage layouts, refusals.
#include <array>

#include <hdf5.h>

#include "unit/io/support.hpp"

namespace kith {
namespace {

using test::expect_error;
using test::values;

class Hdf5 : public test::IoTest {
 protected:
  // A file with one dataset `name` of `type`, converted by the library from doubles.
  std::filesystem::path make(const char* name, hid_t type, const std::vector<hsize_t>& shape,
                             const std::vector<double>& data, bool deflate = false) const {
    const auto path = folder_ / "a.h5";
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    add(file, name, type, shape, data, deflate);
    H5Fclose(file);
    return path;
  }
  static void add(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& shape,
                  const std::vector<double>& data, bool deflate = false) {
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    const hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    if (deflate) {
      const std::array<hsize_t, 2> chunk = {2, 2};
      H5Pset_chunk(plist, 2, chunk.data());
      H5Pset_shuffle(plist);
      H5Pset_deflate(plist, 6);
    }
    const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    if (!data.empty()) H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data());
    H5Dclose(set);
    H5Pclose(plist);
    H5Sclose(space);
  }
};

TEST_F(Hdf5, EveryTypeGoesRound) {
  const std::vector<std::uint16_t> halves = {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x3C00, 0x0000};
  const std::vector<double> doubles = {1, -2, 3.25, 1e300, 5e-324, 6};
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::i8, Dtype::u8, Dtype::f64, Dtype::f32}) {
    const DatasetView view(dtype == Dtype::f64 ? static_cast<const void*>(doubles.data()) : halves.data(),
                           dtype, size_of(dtype) == 4 ? 1 : 2, 2, 3);
    write_dataset((*this)("a.h5"), view);
    const Dataset back = read_dataset((*this)("a.h5"));
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ(values(back), values(view)) << name(dtype);
    EXPECT_EQ(inspect((*this)("a.h5")).element_type, name(dtype));
  }
}

TEST_F(Hdf5, StoredTypesAndLayouts) {
  const std::vector<double> data = {1, 2, 3, 4, 5, 6};
  for (const auto& [type, dtype] : std::vector<std::pair<hid_t, Dtype>>{{H5T_IEEE_F32LE, Dtype::f32},
                                                                        {H5T_IEEE_F32BE, Dtype::f32},
                                                                        {H5T_IEEE_F64BE, Dtype::f64},
                                                                        {H5T_IEEE_F64LE, Dtype::f64},
                                                                        {H5T_STD_I8LE, Dtype::i8},
                                                                        {H5T_STD_U8BE, Dtype::u8}}) {
    for (const bool deflate : {false, true}) {
      const auto path = make("train", type, {3, 2}, data, deflate);
      EXPECT_EQ(read_dataset(path).dtype(), dtype);
      EXPECT_EQ(values(read_dataset(path)), data) << deflate;
      ReadOptions last;
      last.first_row = 2;
      EXPECT_EQ(values(read_dataset(path, last)), (std::vector<double>{5, 6})) << deflate;
    }
  }
}

TEST_F(Hdf5, MembersAreChosenByName) {
  const auto path = make("test", H5T_IEEE_F32LE, {1, 2}, {7, 8});
  ReadOptions options;
  options.member = "test";
  EXPECT_EQ(values(read_dataset(path, options)), (std::vector<double>{7, 8}));
  expect_error<IoError>([&] { read_dataset(path); }, {"a.h5", "'train'", "it has test"});
  write_dataset((*this)("a.fbin"), read_dataset(path, options));
  expect_error<InvalidArgument>([&] { read_dataset((*this)("a.fbin"), options); },
                                {"fbin", "'test'", "leave the member out"});
}

TEST_F(Hdf5, OtherShapesAndTypesAreRefused) {
  expect_error<IoError>(
      [&] {
        read_dataset(make("train", H5T_STD_I32LE, {1, 2}, {7, 8}));
      },
      {"i32", "astype"});
  expect_error<IoError>([&] { read_dataset(make("train", H5T_IEEE_F32LE, {2}, {7, 8})); }, {"1 dimension;"});
  expect_error<IoError>(
      [&] {
        read_dataset(make("train", H5T_IEEE_F32LE, {1, 2, 1}, {7, 8}));
      },
      {"3 dimensions"});
  expect_error<IoError>(
      [&] {
        read_dataset(make("train", H5T_IEEE_F32LE, {hsize_t{1} << 40U, 2}, {}, true));
      },
      {"claims", "1099511627776"});
  expect_error<IoError>([&] { read_dataset(put("b.h5", "hello")); }, {"b.h5", "not"});
  expect_error<IoError>(
      [&] { read_dataset(put("b.h5", std::string("\x89HDF\r\n\x1a\n", 8) + std::string(500, '\0'))); },
      {"b.h5", "corrupt"});
}

TEST_F(Hdf5, AnnBenchmarksFile) {
  const auto path = folder_ / "ann.hdf5";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  add(file, "train", H5T_IEEE_F32LE, {2, 2}, {1, 2, 3, 4});
  add(file, "test", H5T_IEEE_F32LE, {1, 2}, {1, 2});
  add(file, "neighbors", H5T_STD_I32LE, {1, 2}, {0, 1});
  add(file, "distances", H5T_IEEE_F32LE, {1, 2}, {0.5, 2.5});
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, H5T_VARIABLE);
  const hid_t scalar = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(file, "distance", text, scalar, H5P_DEFAULT, H5P_DEFAULT);
  const char* value = "euclidean";
  H5Awrite(attribute, text, &value);
  H5Aclose(attribute);
  H5Sclose(scalar);
  H5Tclose(text);
  H5Fclose(file);
  const FileInfo info = inspect(path);
  EXPECT_EQ(info.rows, 2);
  EXPECT_EQ(info.element_type, "f32");
  const auto has = [&](const std::string& key, const std::string& what) {
    for (const auto& [k, v] : info.details) {
      if (k == key && v == what) return true;
    }
    return false;
  };
  EXPECT_TRUE(has("distance", "euclidean"));
  EXPECT_TRUE(has("test", "1 x 2 f32"));
  EXPECT_TRUE(has("neighbors", "1 x 2 i32"));
  const Neighbors truth = read_neighbors(path);
  EXPECT_EQ(truth.indices, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(truth.distance(0, 1), 2.5);
}

}  // namespace
}  // namespace kith
