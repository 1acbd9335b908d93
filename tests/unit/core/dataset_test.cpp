// Views and datasets: what is refused, what is kept alive, what is mapped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include <sys/stat.h>

#include "core/aligned_buffer.hpp"
#include "core/mapped_file.hpp"
#include "kith/dataset.hpp"
#include "kith/error.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

std::string refusal(const DatasetView& view) {
  return message_of<InvalidArgument>([&] { validate(view, "dataset"); });
}

TEST(Validate, SaysWhatIsWrong) {
  const float values[4] = {};
  EXPECT_NO_THROW(validate(DatasetView(values, 2, 2), "dataset"));
  EXPECT_TRUE(contains(refusal(DatasetView(values, -1, 2)), "-1 rows"));
  EXPECT_TRUE(contains(refusal(DatasetView(values, 2, 0)), "dimension 0"));
  EXPECT_TRUE(contains(refusal(DatasetView(values, 2, -5)), "dimension -5"));
  EXPECT_TRUE(contains(refusal(DatasetView(values, 2, 2, 1)), "stride of 1"));
  EXPECT_TRUE(contains(refusal(DatasetView(static_cast<const float*>(nullptr), 2, 2)), "null"));
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { validate(DatasetView(values, -1, 2), "queries"); }),
                       "queries"));
}

TEST(Validate, AcceptsTheEdges) {
  const float value = 1;
  EXPECT_NO_THROW(validate(DatasetView(static_cast<const float*>(nullptr), 0, 3), "dataset"));
  EXPECT_NO_THROW(validate(DatasetView(&value, 1, 1, 0), "dataset"));  // one row needs no stride
  EXPECT_NO_THROW(validate(DatasetView(&value, 1, 1, 7), "dataset"));
}

TEST(Validate, RefusesWhatNoMachineAddresses) {
  const double value = 1;
  EXPECT_TRUE(contains(refusal(DatasetView(&value, largest, 1)), "2^63"));
  EXPECT_TRUE(contains(refusal(DatasetView(&value, 1, largest)), "2^63"));
  EXPECT_TRUE(contains(refusal(DatasetView(&value, largest, largest)), "2^63"));
  EXPECT_TRUE(contains(refusal(DatasetView(&value, 3, 1, largest)), "2^63"));
  EXPECT_NO_THROW(validate(DatasetView(&value, largest / 8, 1), "dataset"));
}

TEST(View, RowsAndSlicesFollowTheStride) {
  std::vector<std::uint8_t> values(40);
  std::iota(values.begin(), values.end(), std::uint8_t{0});
  const DatasetView view(values.data(), 5, 3, 8);
  EXPECT_FALSE(view.contiguous());
  EXPECT_EQ(view.row(2), values.data() + 16);
  const DatasetView part = view.slice(3, 2);
  EXPECT_EQ(part.rows, 2);
  EXPECT_EQ(part.row(1), values.data() + 32);
  EXPECT_EQ(part.dim, 3);
  EXPECT_EQ(part.row_stride, 8);
  EXPECT_TRUE(DatasetView(values.data(), 5, 8).contiguous());
  EXPECT_TRUE(view.slice(0, 1).contiguous());
}

TEST(Dataset, AllocateIsZeroedAlignedAndWritable) {
  // Less than 2 MiB comes from the heap, more from the system, as huge pages.
  for (const std::int64_t rows : {0, 1, 7, 209'715, 209'716, 500'000}) {
    {
      AlignedBuffer<unsigned char> used(rows * 10);  // so that the heap is not zeros by itself
      std::fill_n(used.data(), used.size(), std::uint8_t{0xFF});
    }
    Dataset data = Dataset::allocate(Dtype::f16, rows, 5);
    EXPECT_EQ(data.rows(), rows);
    EXPECT_EQ(data.dim(), 5);
    EXPECT_EQ(data.dtype(), Dtype::f16);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data.view().data) % 64, 0U);
    ASSERT_NE(data.mutable_data(), nullptr);
    EXPECT_EQ(data.mutable_values<float16>().size(), static_cast<std::size_t>(rows * 5));
    for (const float16 value : data.mutable_values<float16>()) EXPECT_EQ(value.bits, 0);
  }
}

TEST(Dataset, AllocateRefusesSizes) {
  EXPECT_THROW(Dataset::allocate(Dtype::f32, -1, 5), InvalidArgument);
  EXPECT_THROW(Dataset::allocate(Dtype::f32, 5, 0), InvalidArgument);
  EXPECT_THROW(Dataset::allocate(Dtype::f64, largest, 5), InvalidArgument);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Dataset, AllocateNamesTheSizeWhenMemoryIsShort) {
  const std::string message =
      message_of<OutOfMemory>([] { Dataset::allocate(Dtype::u8, std::int64_t{1} << 50U, 4); });
  EXPECT_TRUE(contains(message, std::to_string(std::int64_t{1} << 52U)));
}
#endif

TEST(Dataset, CopyPacksRows) {
  const std::vector<std::int8_t> values = {1, 2, 99, 3, 4, 99, 5, 6};
  Dataset copy = Dataset::copy(DatasetView(values.data(), 3, 2, 3));
  EXPECT_TRUE(copy.view().contiguous());
  const auto packed = copy.mutable_values<std::int8_t>();
  EXPECT_EQ(std::vector<std::int8_t>(packed.begin(), packed.end()),
            (std::vector<std::int8_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Dataset, CopiesShareTheMemoryAndKeepItAlive) {
  auto owner = std::make_shared<std::vector<float>>(6, 1.0F);
  const std::weak_ptr<std::vector<float>> watch = owner;
  Dataset first = Dataset::adopt(DatasetView(owner->data(), 3, 2), owner);
  owner.reset();
  Dataset second = first;
  first = Dataset();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(second.mutable_data(), nullptr) << "adopted memory is not ours to write";
  second = Dataset();
  EXPECT_TRUE(watch.expired());
}

TEST(Dataset, MapsRowsOfAFile) {
  const test::TemporaryFolder folder;
  const std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7};
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  test::write_file(folder / "rows", bytes);

  const Dataset all = Dataset::map(folder / "rows", 4, Dtype::f32, 2, 2, 3);
  EXPECT_EQ(static_cast<const float*>(all.view().row(1))[1], 5);
  // The last row may end with the file although its stride reaches past it.
  EXPECT_NO_THROW(Dataset::map(folder / "rows", 0, Dtype::f32, 3, 2, 3));
  EXPECT_NO_THROW(Dataset::map(folder / "rows", 32, Dtype::f32, 0, 2, 2));
  for (const std::uint64_t offset : {1ULL, 33ULL, ~0ULL}) {
    EXPECT_TRUE(
        contains(message_of<IoError>([&] { Dataset::map(folder / "rows", offset, Dtype::f32, 2, 4, 4); }),
                 "truncated"));
  }
  EXPECT_THROW(Dataset::map(folder / "rows", 0, Dtype::f32, 3, 3, 3), IoError);
  EXPECT_THROW(Dataset::map(folder / "none", 0, Dtype::f32, 1, 1, 1), IoError);
}

TEST(MappedFile, OpensRegularFilesOnly) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "empty", "");
  EXPECT_EQ(MappedFile::open(folder / "empty")->size(), 0U);
  test::write_file(folder / "some", "bytes");
  EXPECT_EQ(MappedFile::open(folder / "some")->bytes()[4], std::byte{'s'});
  EXPECT_TRUE(contains(message_of<IoError>([&] { MappedFile::open(folder / "absent"); }), "absent"));
  EXPECT_TRUE(contains(message_of<IoError>([&] { MappedFile::open(folder.path()); }), "regular"));
  EXPECT_TRUE(contains(message_of<IoError>([] { MappedFile::open("/dev/null"); }), "regular"));
  // Nobody ever writes to it.
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(contains(message_of<IoError>([&] { MappedFile::open(folder / "pipe"); }), "regular"));
}

TEST(MappedFile, IsFoundByAnAddressAndWhenItGetsShorter) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "some", std::string(5000, 's'));
  const std::string name = (folder / "some").string();
  auto file = MappedFile::open(name);
  const std::byte* data = file->bytes().data();
  for (const std::size_t at : {0, 4999, 8191}) EXPECT_EQ(mapped_file_at(data + at), name);
  EXPECT_EQ(mapped_file_at(data + 8192), nullptr);
  EXPECT_EQ(mapped_file_at(&folder), nullptr);
  EXPECT_EQ(shortened_mapped_file(), "");
  std::filesystem::resize_file(folder / "some", 4999);
  EXPECT_EQ(shortened_mapped_file(), name);
  std::filesystem::remove(folder / "some");
  test::write_file(folder / "some", "another");
  EXPECT_EQ(shortened_mapped_file(), "");
  file.reset();
  EXPECT_EQ(mapped_file_at(data), nullptr);
}

TEST(MappedFile, OutlivesItsName) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "rows", std::string(8, 'x'));
  const Dataset data = Dataset::map(folder / "rows", 0, Dtype::u8, 2, 4, 4);
  std::filesystem::remove(folder / "rows");
  EXPECT_EQ(static_cast<const char*>(data.view().row(1))[3], 'x');
}

}  // namespace
}  // namespace kith
