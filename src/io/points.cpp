// Records of point-cloud files to [n, 3] matrices.
#include "io/points.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/plural.hpp"
#include "io/bytes.hpp"
#include "io/source_stream.hpp"

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

void gather_points(const std::byte* records, std::uint64_t record_bytes, std::int64_t count,
                   const std::array<Column, 3>& xyz, bool swap, std::byte* to) {
  const auto gather = [&]<class T>(auto&& number) {
    for (std::int64_t i = 0; i < count; ++i, records += record_bytes) {
      for (const Column& column : xyz) {
        const T value = number(column);
        std::memcpy(to, &value, sizeof value);
        to += sizeof value;
      }
    }
  };
  if (dtype_of(xyz) == Dtype::f32) {
    gather.operator()<float>(
        [&](const Column& column) { return load<float>(records + column.offset, swap); });
  } else {
    gather.operator()<double>(
        [&](const Column& column) { return load_number(records + column.offset, column, swap); });
  }
}

std::unique_ptr<PointStream> stream_records(const Source& source, std::int64_t rows, std::uint64_t offset,
                                            std::uint64_t record_bytes, const std::array<Column, 3>& xyz,
                                            bool swap) {
  class Points final : public RecordStream {
   public:
    Points(const Source& from, std::int64_t count, std::uint64_t first, std::uint64_t bytes,
           const std::array<Column, 3>& columns, bool other_order)
        : RecordStream(from, count, dtype_of(columns), first, bytes), xyz_(columns), swap_(other_order) {}

   private:
    void convert(const std::byte* records, std::int64_t count, std::byte* to) const override {
      gather_points(records, record_bytes(), count, xyz_, swap_, to);
    }
    std::array<Column, 3> xyz_;
    bool swap_;
  };
  return std::make_unique<Points>(source, rows, offset, record_bytes, xyz, swap);
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
  check_column_names(columns.names);
}

void check_column_names(const std::vector<std::string>& names) {
  for (auto name = names.begin(); name != names.end(); ++name) {
    const bool plain = !name->empty() &&
                       std::all_of(name->begin(), name->end(), [](char c) { return c > ' ' && c < '\x7f'; });
    const bool taken =
        *name == "x" || *name == "y" || *name == "z" || std::find(names.begin(), name, *name) != name;
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
