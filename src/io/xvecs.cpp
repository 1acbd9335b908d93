// TEXMEX fvecs, bvecs and ivecs: every row is an int32 dimension followed by that many elements.
// Layout as published with the SIFT1M benchmark (Jegou, Douze, Schmid 2011, corpus-texmex.irisa.fr).
#include "core/plural.hpp"
#include "io/bytes.hpp"
#include "io/format.hpp"

namespace kith::io {
namespace {

struct Layout {
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::uint64_t row_bytes = 0;
};

Layout layout(const Source& source, std::uint64_t element, const char* format) {
  if (source.size() == 0) throw bad_file(source, "is empty; {} needs at least one row", format);
  if (source.size() < 4) {
    throw bad_file(source, "is truncated: it has {}, the dimension alone takes 4",
                   plural(static_cast<std::int64_t>(source.size()), "byte"));
  }
  const auto dim = load<std::int32_t>(source.bytes.data());
  if (dim < 1) {
    throw bad_file(source, "is not {}: its first row claims dimension {}; at least 1 is needed", format, dim);
  }
  Layout result;
  result.dim = dim;
  result.row_bytes = 4 + static_cast<std::uint64_t>(dim) * element;
  if (source.size() % result.row_bytes != 0) {
    throw bad_file(
        source,
        "is truncated or not {}: a row of dimension {} takes {} bytes, the file's {} bytes are not "
        "a multiple of that",
        format, dim, result.row_bytes, source.size());
  }
  result.rows = static_cast<std::int64_t>(source.size() / result.row_bytes);
  return result;
}

// Only the rows asked for are read: a slice of a huge file stays cheap.
void check_rows(const Source& source, const Layout& shape, RowRange range) {
  for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
    const auto dim =
        load<std::int32_t>(source.bytes.data() + static_cast<std::uint64_t>(i) * shape.row_bytes);
    if (dim != shape.dim) {
      throw bad_file(source,
                     "is corrupt: row {} claims dimension {}, the first row {}; all rows must have the same",
                     i, dim, shape.dim);
    }
  }
}

FileInfo info(const Source& source, std::uint64_t element, const char* type, const char* format) {
  const Layout shape = layout(source, element, format);
  check_rows(source, shape, {shape.rows - 1, 1});
  FileInfo result;
  result.element_type = type;
  result.rows = shape.rows;
  result.dim = shape.dim;
  return result;
}

// Rows are mapped where they lie: the dimension in front of each becomes part of the stride.
Dataset read(const Source& source, const ReadOptions& options, Dtype dtype, const char* format) {
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  const Layout shape = layout(source, static_cast<std::uint64_t>(element), format);
  const RowRange range = wanted_rows(source, options, shape.rows);
  check_rows(source, shape, range);
  return view_rows(source, 4, dtype, range, shape.dim, shape.dim + 4 / element);
}

void write(AtomicFile& out, const DatasetView& data, Dtype dtype, const char* format) {
  if (data.dtype != dtype) refuse_dtype(format, name(dtype), data.dtype);
  if (data.rows == 0) {
    throw InvalidArgument(
        fmt::format("{} files cannot say the dimension of 0 rows; write npy or fbin instead", format));
  }
  if (data.dim > INT32_MAX) {
    throw InvalidArgument(
        fmt::format("{} files hold dimensions up to {}, the data have {}", format, INT32_MAX, data.dim));
  }
  const auto dim = static_cast<std::int32_t>(data.dim);
  const std::size_t row_bytes = static_cast<std::size_t>(data.dim) * size_of(dtype);
  for (std::int64_t i = 0; i < data.rows; ++i) {
    out.write(&dim, sizeof dim);
    out.write(data.row(i), row_bytes);
  }
}

}  // namespace

FileInfo inspect_fvecs(const Source& source) {
  return info(source, 4, "f32", "fvecs");
}
FileInfo inspect_bvecs(const Source& source) {
  return info(source, 1, "u8", "bvecs");
}
FileInfo inspect_ivecs(const Source& source) {
  return info(source, 4, "i32", "ivecs");
}
Dataset read_fvecs(const Source& source, const ReadOptions& options) {
  return read(source, options, Dtype::f32, "fvecs");
}
Dataset read_bvecs(const Source& source, const ReadOptions& options) {
  return read(source, options, Dtype::u8, "bvecs");
}
void write_fvecs(AtomicFile& out, const DatasetView& data) {
  write(out, data, Dtype::f32, "fvecs");
}
void write_bvecs(AtomicFile& out, const DatasetView& data) {
  write(out, data, Dtype::u8, "bvecs");
}

Neighbors read_neighbors_ivecs(const Source& source) {
  const Layout shape = layout(source, 4, "ivecs");
  check_rows(source, shape, {0, shape.rows});
  Neighbors result = empty_neighbors(shape.rows, shape.dim);
  auto to = result.indices.begin();
  FrontToBack pass(source);
  for (std::int64_t i = 0; i < shape.rows; ++i) {
    const std::byte* row = source.bytes.data() + static_cast<std::uint64_t>(i) * shape.row_bytes + 4;
    pass.reached(row);
    for (std::int64_t j = 0; j < shape.dim; ++j) *to++ = load<std::int32_t>(row + 4 * j);
  }
  return result;
}

void write_neighbors_ivecs(AtomicFile& out, const Neighbors& neighbors) {
  if (neighbors.queries == 0 || neighbors.k == 0 || neighbors.k > INT32_MAX) {
    throw InvalidArgument(
        fmt::format("ivecs files hold at least one row of 1 to {} indices, the result is {} x {}; write npy "
                    "instead",
                    INT32_MAX, neighbors.queries, neighbors.k));
  }
  const auto k = static_cast<std::int32_t>(neighbors.k);
  for (std::int64_t q = 0; q < neighbors.queries; ++q) {
    out.write(&k, sizeof k);
    for (const std::int64_t index : neighbors.indices_of(q)) {
      if (index > INT32_MAX || index < INT32_MIN) {
        throw InvalidArgument(
            fmt::format("ivecs files hold indices up to {}, query {} has {}; write npy, which holds int64",
                        INT32_MAX, q, index));
      }
      const auto narrow = static_cast<std::int32_t>(index);
      out.write(&narrow, sizeof narrow);
    }
  }
}

}  // namespace kith::io
