/// @file
/// Row-major matrices of vectors: DatasetView (never owns) and Dataset (owns memory or a mapped file).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "kith/dtype.hpp"

namespace kith {

/// Where the bytes of a view lie.
enum class MemorySpace : std::uint8_t { host, cuda };

/// A non-owning matrix of `rows` vectors of `dim` elements; row i starts at element
/// i * row_stride, elements of a row are adjacent. Maps 1:1 to a 2-D DLPack tensor.
struct DatasetView {
  const void* data = nullptr;
  Dtype dtype = Dtype::f32;
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::int64_t row_stride = 0;  ///< in elements; at least dim
  MemorySpace space = MemorySpace::host;
  int device = 0;  ///< ordinal when space is cuda

  DatasetView() = default;

  /// Contiguous rows.
  template <class T>
  DatasetView(const T* values, std::int64_t row_count, std::int64_t dimension)
      : DatasetView(values, row_count, dimension, dimension) {}

  /// Rows `stride` elements apart.
  template <class T>
  DatasetView(const T* values, std::int64_t row_count, std::int64_t dimension, std::int64_t stride)
      : data(values), dtype(dtype_of<T>), rows(row_count), dim(dimension), row_stride(stride) {}

  DatasetView(const void* values, Dtype type, std::int64_t row_count, std::int64_t dimension,
              std::int64_t stride)
      : data(values), dtype(type), rows(row_count), dim(dimension), row_stride(stride) {}

  /// Address of row i.
  const void* row(std::int64_t i) const noexcept {
    return static_cast<const char*>(data) +
           static_cast<std::ptrdiff_t>(i * row_stride) * static_cast<std::ptrdiff_t>(size_of(dtype));
  }

  /// The rows [first, first + count) as a view.
  DatasetView slice(std::int64_t first, std::int64_t count) const noexcept {
    DatasetView part = *this;
    part.data = row(first);
    part.rows = count;
    return part;
  }

  bool contiguous() const noexcept { return row_stride == dim || rows <= 1; }
};

/// Checks a view: sizes not negative, dim at least 1, stride at least dim, pointer present,
/// total size within 2^63 bytes.
/// @param what names the argument in the message ("dataset", "queries").
/// @throws InvalidArgument
void validate(const DatasetView& view, const char* what);

/// Owns (or keeps alive) the memory a view points to. Cheap to copy: copies share the memory.
class Dataset {
 public:
  Dataset() = default;

  /// New zero-filled contiguous host memory, 64-byte aligned.
  /// @throws OutOfMemory, InvalidArgument
  static Dataset allocate(Dtype dtype, std::int64_t rows, std::int64_t dim);

  /// A contiguous copy of a host view.
  static Dataset copy(const DatasetView& view);

  /// Wraps memory owned by somebody else; `keep_alive` is released with the last copy.
  static Dataset adopt(const DatasetView& view, std::shared_ptr<const void> keep_alive);

  /// Rows inside a file, memory-mapped read-only, starting `offset` bytes into it.
  /// @throws IoError when the file is missing or shorter than offset plus the rows
  static Dataset map(const std::filesystem::path& path, std::uint64_t offset, Dtype dtype, std::int64_t rows,
                     std::int64_t dim, std::int64_t row_stride);

  const DatasetView& view() const noexcept { return view_; }
  operator const DatasetView&() const noexcept { return view_; }  // NOLINT(google-explicit-constructor)

  std::int64_t rows() const noexcept { return view_.rows; }
  std::int64_t dim() const noexcept { return view_.dim; }
  Dtype dtype() const noexcept { return view_.dtype; }

  /// Writable memory; only for datasets made by allocate() or copy(), nullptr otherwise.
  void* mutable_data() noexcept { return writable_ ? const_cast<void*>(view_.data) : nullptr; }

  template <class T>
  std::span<T> mutable_values() noexcept {
    return {static_cast<T*>(mutable_data()),
            writable_ ? static_cast<std::size_t>(view_.rows * view_.dim) : 0};
  }

 private:
  DatasetView view_;
  std::shared_ptr<const void> keep_alive_;
  bool writable_ = false;
};

}  // namespace kith
