// Records of point-cloud files to [n, 3] matrices.
#include "io/points.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/plural.hpp"
#include "io/bytes.hpp"

namespace kith::io {
namespace {

double load_number(const std::byte* at, const Column& column, bool swap) {
  switch (column.kind) {
    case 'f': return column.bytes == 4 ? load<float>(at, swap) : load<double>(at, swap);
    case 'i':
      if (column.bytes == 1) return load<std::int8_t>(at);
      return column.bytes == 2 ? load<std::int16_t>(at, swap) : load<std::int32_t>(at, swap);
    default:
      if (column.bytes == 1) return load<std::uint8_t>(at);
      return column.bytes == 2 ? load<std::uint16_t>(at, swap) : load<std::uint32_t>(at, swap);
  }
}

}  // namespace

void add_trailing(FileInfo& info, const Source& source, std::uint64_t end) {
  if (end >= source.size()) return;
  info.details.emplace_back(
      contradiction,
      fmt::format("{} after its last point", plural(static_cast<std::int64_t>(source.size() - end), "byte")));
}

Dtype dtype_of(const std::array<Column, 3>& xyz) noexcept {
  for (const Column& column : xyz) {
    if (column.kind != 'f' || column.bytes != 4) return Dtype::f64;
  }
  return Dtype::f32;
}

Dataset gather_points(const Source& source, std::uint64_t offset, std::uint64_t record_bytes, RowRange range,
                      const std::array<Column, 3>& xyz, bool swap) {
  const Dtype dtype = dtype_of(xyz);
  Dataset result = Dataset::allocate(dtype, range.count, 3);  // gives writable memory: no null below
  const auto count = static_cast<std::uint64_t>(range.count);
  const std::byte* record =
      source.bytes.data() + offset + static_cast<std::uint64_t>(range.first) * record_bytes;
  FrontToBack pass(source);
  if (dtype == Dtype::f32) {
    auto* to = static_cast<float*>(result.mutable_data());
    for (std::uint64_t i = 0; i < count; ++i, record += record_bytes) {
      // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
      for (const Column& column : xyz) *to++ = load<float>(record + column.offset, swap);
      pass.reached(record);
    }
  } else {
    auto* to = static_cast<double*>(result.mutable_data());
    for (std::uint64_t i = 0; i < count; ++i, record += record_bytes) {
      // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
      for (const Column& column : xyz) *to++ = load_number(record + column.offset, column, swap);
      pass.reached(record);
    }
  }
  return result;
}

void check_points(std::string_view format, const DatasetView& data) {
  if (data.dim != 3) {
    throw InvalidArgument(fmt::format(
        "{} files hold points of dimension 3, the data have {}; write npy or hdf5", format, data.dim));
  }
  if (data.dtype != Dtype::f32 && data.dtype != Dtype::f64) refuse_dtype(format, "f32 and f64", data.dtype);
}

void check_columns(std::string_view format, const DatasetView& points, const PointColumns& columns) {
  if (columns.names.empty()) return;
  const DatasetView& values = columns.values;
  if (values.rows != points.rows || values.dim != static_cast<std::int64_t>(columns.names.size())) {
    throw InvalidArgument(
        fmt::format("{} points and {} names need as many rows and columns, there are {} x {}", points.rows,
                    columns.names.size(), values.rows, values.dim));
  }
  if (values.dtype != Dtype::f32 && values.dtype != Dtype::f64)
    refuse_dtype(format, "f32 and f64", values.dtype);
  for (auto name = columns.names.begin(); name != columns.names.end(); ++name) {
    const bool plain = !name->empty() &&
                       std::all_of(name->begin(), name->end(), [](char c) { return c > ' ' && c < '\x7f'; });
    const bool taken =
        *name == "x" || *name == "y" || *name == "z" || std::find(columns.names.begin(), name, *name) != name;
    if (!plain || taken) {
      throw InvalidArgument(
          fmt::format("a column cannot be named '{}'; use a word of its own, without blanks", *name));
    }
  }
}

void write_records(AtomicFile& out, const DatasetView& points, const PointColumns& columns) {
  if (columns.names.empty()) {
    write_rows(out, points);
    return;
  }
  const auto point_bytes = static_cast<std::size_t>(points.dim) * size_of(points.dtype);
  const auto column_bytes = columns.names.size() * size_of(columns.values.dtype);
  std::vector<std::byte> record(point_bytes + column_bytes);
  for (std::int64_t i = 0; i < points.rows; ++i) {
    std::memcpy(record.data(), points.row(i), point_bytes);
    std::memcpy(record.data() + point_bytes, columns.values.row(i), column_bytes);
    out.write(record.data(), record.size());
  }
}

}  // namespace kith::io
