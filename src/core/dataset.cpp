// Dataset: owned, adopted or memory-mapped rows.
#include "kith/dataset.hpp"

#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "core/aligned_buffer.hpp"
#include "core/int128.hpp"
#include "core/mapped_file.hpp"
#include "core/plural.hpp"
#include "kith/error.hpp"

namespace kith {
namespace {

// Bytes from the first element to the end of the last row; checks overflow.
std::uint64_t extent_bytes(Dtype dtype, std::int64_t rows, std::int64_t dim, std::int64_t stride,
                           const char* what) {
  if (rows == 0) return 0;
  const int128 elements = static_cast<int128>(rows - 1) * stride + dim;
  constexpr int128 most = std::numeric_limits<std::int64_t>::max();
  const int128 bytes = elements > most ? elements : elements * static_cast<int128>(size_of(dtype));
  if (bytes > most) {
    throw InvalidArgument(
        fmt::format("{}: {} rows of {} elements are more than 2^63 bytes", what, rows, dim));
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace

void validate(const DatasetView& view, const char* what) {
  if (view.rows < 0)
    throw InvalidArgument(fmt::format("{}: {} rows; at least 0 are needed", what, view.rows));
  if (view.dim < 1) {
    throw InvalidArgument(fmt::format("{}: dimension {}; at least 1 is needed", what, view.dim));
  }
  if (view.rows > 1 && view.row_stride < view.dim) {
    throw InvalidArgument(fmt::format("{}: a row stride of {} elements is less than the dimension {}", what,
                                      view.row_stride, view.dim));
  }
  extent_bytes(view.dtype, view.rows, view.dim, view.row_stride, what);
  if (view.data == nullptr && view.rows > 0) {
    throw InvalidArgument(
        fmt::format("{}: the data pointer is null, but there should be {}", what, plural(view.rows, "row")));
  }
}

Dataset Dataset::allocate(Dtype dtype, std::int64_t rows, std::int64_t dim) {
  DatasetView view(nullptr, dtype, rows, dim, dim);
  if (rows < 0 || dim < 1) {
    throw InvalidArgument(
        fmt::format("cannot allocate {} rows of dimension {}; both must be positive", rows, dim));
  }
  const std::uint64_t bytes = extent_bytes(dtype, rows, dim, dim, "dataset");
  Dataset result;
  try {
    // Zeros that the system gives: memory is taken when it is written.
    auto memory = std::make_shared<AlignedBuffer<std::byte>>(static_cast<std::int64_t>(bytes));
    if (bytes < AlignedBuffer<std::byte>::huge_page) std::memset(memory->data(), 0, bytes);
    view.data = memory->data();
    result.keep_alive_ = std::move(memory);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(
        fmt::format("no memory for {} of dimension {} ({} bytes); read fewer rows or "
                    "memory-map the file",
                    plural(rows, "row"), dim, bytes));
  }
  result.view_ = view;
  result.writable_ = true;
  return result;
}

Dataset Dataset::copy(const DatasetView& view) {
  validate(view, "dataset");
  Dataset result = allocate(view.dtype, view.rows, view.dim);
  const std::size_t row_bytes = static_cast<std::size_t>(view.dim) * size_of(view.dtype);
  auto* to = static_cast<char*>(result.mutable_data());
  for (std::int64_t i = 0; i < view.rows; ++i)
    std::memcpy(to + static_cast<std::size_t>(i) * row_bytes, view.row(i), row_bytes);
  return result;
}

Dataset Dataset::adopt(const DatasetView& view, std::shared_ptr<const void> keep_alive) {
  validate(view, "dataset");
  Dataset result;
  result.view_ = view;
  result.keep_alive_ = std::move(keep_alive);
  return result;
}

Dataset Dataset::map(const std::filesystem::path& path, std::uint64_t offset, Dtype dtype, std::int64_t rows,
                     std::int64_t dim, std::int64_t row_stride) {
  auto file = MappedFile::open(path);
  DatasetView view(file->bytes().data(), dtype, rows, dim, row_stride);
  if (rows > 0) validate(view, "file");
  const std::uint64_t bytes = extent_bytes(dtype, rows, dim, row_stride, "file");
  if (offset > file->size() || bytes > file->size() - offset) {
    throw IoError(
        fmt::format("'{}' is truncated: for {} of dimension {} it needs {} bytes from offset {}, it has {}",
                    path.string(), plural(rows, "row"), dim, bytes, offset, file->size()));
  }
  view.data = file->bytes().data() + offset;
  return adopt(view, std::move(file));
}

}  // namespace kith
