// fvecs, bvecs, ivecs, fbin, u8bin, i8bin and ibin: bytes by hand, round trips, slices, refusals.
#include "unit/io/support.hpp"

namespace kith {
namespace {

using test::expect_error;
using test::raw;
using test::values;
using VectorFiles = test::IoTest;

TEST_F(VectorFiles, FvecsIsMappedWithTheDimensionInTheStride) {
  const auto path = put("a.fvecs", raw(2) + raw(1.5F) + raw(-2.0F) + raw(2) + raw(3.0F) + raw(4.0F));
  const Dataset data = read_dataset(path);
  EXPECT_EQ(data.dtype(), Dtype::f32);
  EXPECT_EQ(data.view().row_stride, 3);
  EXPECT_EQ(values(data), (std::vector<double>{1.5, -2, 3, 4}));
}

TEST_F(VectorFiles, BvecsIsMappedWithTheDimensionInTheStride) {
  const auto path = put("a.bvecs", raw(3) + "\x01\x02\xff" + raw(3) + "\x04\x05\x06");
  const Dataset data = read_dataset(path);
  EXPECT_EQ(data.dtype(), Dtype::u8);
  EXPECT_EQ(data.view().row_stride, 7);
  EXPECT_EQ(values(data), (std::vector<double>{1, 2, 255, 4, 5, 6}));
}

TEST_F(VectorFiles, BinFilesHaveTwoHeaders) {
  const std::string rows = raw(1.0F) + raw(2.0F) + raw(3.0F) + raw(4.0F) + raw(5.0F) + raw(6.0F);
  const auto narrow = put("a.fbin", raw(std::uint32_t{3}) + raw(std::uint32_t{2}) + rows);
  const auto wide = put("b.fbin", raw(std::uint64_t{3}) + raw(std::uint64_t{2}) + rows);
  for (const auto& path : {narrow, wide}) {
    const Dataset data = read_dataset(path);
    EXPECT_EQ(data.rows(), 3);
    EXPECT_EQ(data.dim(), 2);
    EXPECT_EQ(values(data), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  }
  EXPECT_EQ(inspect(narrow).details.at(0).second, "8");
  EXPECT_EQ(inspect(wide).details.at(0).second, "16");
}

TEST_F(VectorFiles, RoundTripsOfEveryTypeAndOfStridedRows) {
  const std::vector<float> f = {1, 2, 9, 3, 4, 9};
  const std::vector<std::uint8_t> u = {0, 255, 9, 128, 1, 9};
  const std::vector<std::int8_t> i = {0, -128, 9, 127, -1, 9};
  const DatasetView views[] = {{f.data(), 2, 2, 3}, {u.data(), 2, 2, 3}, {i.data(), 2, 2, 3}};
  for (const auto& [file, view] : std::vector<std::pair<std::string, DatasetView>>{{"a.fvecs", views[0]},
                                                                                   {"a.bvecs", views[1]},
                                                                                   {"a.fbin", views[0]},
                                                                                   {"a.u8bin", views[1]},
                                                                                   {"a.i8bin", views[2]}}) {
    write_dataset((*this)(file), view);
    const Dataset back = read_dataset((*this)(file));
    EXPECT_EQ(back.dtype(), view.dtype) << file;
    EXPECT_EQ(values(back), values(view)) << file;
    const FileInfo info = inspect((*this)(file));
    EXPECT_EQ(info.rows, 2) << file;
    EXPECT_EQ(info.dim, 2) << file;
    EXPECT_EQ(info.element_type, name(view.dtype)) << file;
    EXPECT_EQ(info.bytes, std::filesystem::file_size((*this)(file))) << file;
  }
}

TEST_F(VectorFiles, ExactBytesAreWritten) {
  const std::vector<float> f = {1, 2};
  write_dataset((*this)("a.fvecs"), DatasetView(f.data(), 2, 1));
  EXPECT_EQ(slurp((*this)("a.fvecs")), raw(1) + raw(1.0F) + raw(1) + raw(2.0F));
  write_dataset((*this)("a.fbin"), DatasetView(f.data(), 2, 1));
  EXPECT_EQ(slurp((*this)("a.fbin")), raw(2) + raw(1) + raw(1.0F) + raw(2.0F));
}

TEST_F(VectorFiles, FirstRowAndMaxRowsSelect) {
  for (const char* file : {"a.fvecs", "a.fbin", "a.npy", "a.h5", "a.pcd", "a.ply", "a.xyz", "a.las"}) {
    std::vector<float> f(30);
    for (std::size_t i = 0; i < f.size(); ++i) f[i] = static_cast<float>(i);
    const auto path = (*this)(file);
    write_dataset(path, DatasetView(f.data(), 10, 3));
    ReadOptions options;
    options.first_row = 4;
    options.max_rows = 2;
    EXPECT_EQ(values(read_dataset(path, options)), (std::vector<double>{12, 13, 14, 15, 16, 17})) << file;
    options.max_rows = -1;
    EXPECT_EQ(read_dataset(path, options).rows(), 6) << file;
    options.max_rows = INT64_MAX;
    EXPECT_EQ(read_dataset(path, options).rows(), 6) << file;
    options.max_rows = 0;
    EXPECT_EQ(read_dataset(path, options).rows(), 0) << file;
    options.first_row = 10;
    options.max_rows = -1;
    EXPECT_EQ(read_dataset(path, options).rows(), 0) << file;
    options.first_row = 11;
    expect_error<InvalidArgument>([&] { read_dataset(path, options); }, {"11", "10"});
    options.first_row = -1;
    expect_error<InvalidArgument>([&] { read_dataset(path, options); }, {"-1"});
    options.first_row = 0;
    options.max_rows = -2;
    expect_error<InvalidArgument>([&] { read_dataset(path, options); }, {"-2"});
  }
}

TEST_F(VectorFiles, RowsMustAgreeInDimension) {
  const auto path = put("a.fvecs", raw(2) + raw(1.0F) + raw(2.0F) + raw(1) + raw(3.0F) + raw(4.0F));
  expect_error<IoError>([&] { read_dataset(path); }, {"a.fvecs", "row 1", "dimension 1", "2"});
}

TEST_F(VectorFiles, AbsurdHeadersAreRefusedBeforeAnythingIsAllocated) {
  for (const std::int32_t dim : {0, -1, INT32_MIN, INT32_MAX}) {
    EXPECT_THROW(read_dataset(put("a.fvecs", raw(dim) + raw(1.0F))), IoError) << dim;
    EXPECT_THROW(read_dataset(put("a.bvecs", raw(dim) + raw(1.0F))), IoError) << dim;
    EXPECT_THROW(read_neighbors(put("a.ivecs", raw(dim) + raw(1))), IoError) << dim;
  }
  for (const std::uint64_t rows :
       {std::uint64_t{1} << 63U, ~std::uint64_t{0}, std::uint64_t{1} << 62U, std::uint64_t{5}}) {
    for (const std::uint64_t dim :
         {std::uint64_t{1} << 63U, ~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{4}}) {
      for (const char* file : {"a.fbin", "a.u8bin", "a.i8bin"}) {
        EXPECT_THROW(read_dataset(put(file, raw(rows) + raw(dim) + raw(1.0F))), IoError)
            << rows << ' ' << dim;
      }
      EXPECT_THROW(read_neighbors(put("a.ibin", raw(rows) + raw(dim) + raw(1))), IoError)
          << rows << ' ' << dim;
    }
  }
  // No rows: any dimension would fit the file.
  EXPECT_THROW(read_dataset(put("a.fbin", raw(std::uint64_t{0}) + raw(~std::uint64_t{0}))), IoError);
  EXPECT_EQ(read_dataset(put("a.fbin", raw(std::uint32_t{0}) + raw(std::uint32_t{5}))).dim(), 5);
}

TEST_F(VectorFiles, NanIsData) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(read_dataset(put("a.fbin", raw(1) + raw(2) + raw(nan) + raw(nan))).rows(), 1);
}

TEST_F(VectorFiles, TypesThatAFormatCannotHoldAreRefused) {
  const std::vector<double> d = {1, 2, 3};
  for (const char* file : {"a.fvecs", "a.bvecs", "a.fbin", "a.u8bin", "a.i8bin"}) {
    expect_error<InvalidArgument>([&] { write_dataset((*this)(file), DatasetView(d.data(), 1, 3)); },
                                  {"f64", "npy"});
  }
  EXPECT_EQ(files(), 0U);
  const float f = 0;
  expect_error<InvalidArgument>([&] { write_dataset((*this)("a.fvecs"), DatasetView(&f, 0, 1)); },
                                {"0 rows", "npy"});
}

TEST_F(VectorFiles, IndicesAreNoDataset) {
  const auto path = put("a.ivecs", raw(1) + raw(7));
  expect_error<IoError>([&] { read_dataset(path); }, {"a.ivecs", "holds no vectors", "fvecs"});
  EXPECT_EQ(read_neighbors(path).indices, (std::vector<std::int64_t>{7}));
}

}  // namespace
}  // namespace kith
