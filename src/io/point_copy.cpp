#include "io/point_copy.hpp"

#include <algorithm>
#include <cstring>

#include "core/plural.hpp"
#include "io/bytes.hpp"
#include "io/points.hpp"

namespace kith::io {
namespace {

constexpr std::int64_t block_rows = 1 << 14;

}  // namespace

void check_changes(std::string_view format, const PointChanges& changes, std::int64_t rows) {
  if (changes.names.empty()) return;
  const PointStream& values = *changes.values;
  if (values.dim() != static_cast<std::int64_t>(changes.names.size()) ||
      values.rows() - changes.first_value < rows) {
    throw InvalidArgument(fmt::format("{} and {} need as many rows and columns, there are {} x {}",
                                      plural(rows, "point"),
                                      plural(static_cast<std::int64_t>(changes.names.size()), "name"),
                                      values.rows() - changes.first_value, values.dim()));
  }
  for (const Dtype type : {values.dtype(), changes.type}) {
    if (type != Dtype::f32 && type != Dtype::f64) refuse_dtype(format, "columns of f32 and f64", type);
  }
  check_column_names(changes.names);
}

ChangesByRow::ChangesByRow(const PointChanges& changes, std::int64_t rows, bool swap)
    : changes_(changes), rows_(rows), swap_(swap), row_bytes_(changes.names.size() * size_of(changes.type)) {}

bool ChangesByRow::dropped(std::int64_t row) {
  if (!changes_.dropped) return false;
  if (row >= first_flag_ + static_cast<std::int64_t>(flags_.size())) fill_flags(row);
  return flags_[static_cast<std::size_t>(row - first_flag_)] != 0;
}

void ChangesByRow::fill_flags(std::int64_t row) {
  first_flag_ = row;
  flags_.assign(static_cast<std::size_t>(std::min(block_rows, rows_ - row)), 0);
  changes_.dropped(row, flags_);
}

std::span<const std::byte> ChangesByRow::values(std::int64_t row) {
  if (row_bytes_ == 0) return {};
  if (row >= first_value_ + held_values_) fill_values(row);
  return {values_.data() + static_cast<std::size_t>(row - first_value_) * row_bytes_, row_bytes_};
}

void ChangesByRow::fill_values(std::int64_t row) {
  PointStream& from = *changes_.values;
  first_value_ = row;
  held_values_ = std::min(block_rows, rows_ - row);
  const auto count = static_cast<std::size_t>(held_values_) * changes_.names.size();
  values_.resize(count * std::max(size_of(from.dtype()), size_of(changes_.type)));
  from.seek(changes_.first_value + row);
  if (from.dtype() == changes_.type) {
    from.read(values_.data(), held_values_);
  } else if (changes_.type == Dtype::f32) {
    std::vector<double> wide(count);
    from.read(wide.data(), held_values_);
    for (std::size_t i = 0; i < count; ++i) {
      const auto narrow = static_cast<float>(wide[i]);
      std::memcpy(values_.data() + i * sizeof narrow, &narrow, sizeof narrow);
    }
  } else {
    std::vector<float> narrow(count);
    from.read(narrow.data(), held_values_);
    for (std::size_t i = 0; i < count; ++i) {
      const double wide = narrow[i];
      std::memcpy(values_.data() + i * sizeof wide, &wide, sizeof wide);
    }
  }
  if (swap_) swap_elements(values_.data(), count, size_of(changes_.type));
}

std::int64_t count_kept(const PointChanges& changes, std::int64_t rows) {
  if (!changes.dropped) return rows;
  ChangesByRow by_row(changes, rows);
  std::int64_t kept = 0;
  for (std::int64_t row = 0; row < rows; ++row) kept += by_row.dropped(row) ? 0 : 1;
  return kept;
}

void add_piece(std::vector<Piece>& pieces, Piece piece) {
  if (piece.bytes == 0) return;
  if (!pieces.empty() && pieces.back().offset + pieces.back().bytes == piece.offset) {
    pieces.back().bytes += piece.bytes;
  } else {
    pieces.push_back(piece);
  }
}

void copy_range(AtomicFile& out, const Source& source, std::uint64_t from, std::uint64_t to) {
  constexpr std::uint64_t step = 1 << 20;
  FrontToBack pass(source);
  for (; from < to; from += step) {
    pass.reached(source.bytes.data() + from);
    out.write(source.bytes.data() + from, std::min(step, to - from));
  }
}

void write_coordinates(AtomicFile& out, FileFormat format, PointStream& points, const PointChanges& changes) {
  const std::string_view called = name(format);
  check_points(called,
               DatasetView(static_cast<const void*>(nullptr), points.dtype(), 0, points.dim(), points.dim()));
  check_changes(called, changes, points.rows());
  const std::int64_t kept = count_kept(changes, points.rows());
  const bool text = format == FileFormat::xyz;
  if (!text) {
    out.write((format == FileFormat::ply ? ply_header : pcd_header)(kept, points.dtype(), changes.names,
                                                                    changes.type));
  } else if (kept == 0) {
    out.write(xyz_without_points);
  }
  ChangesByRow by_row(changes, points.rows());
  const std::size_t row_bytes = 3 * size_of(points.dtype());
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(block_rows, points.rows())) * row_bytes);
  points.seek(0);
  for (std::int64_t first = 0; first < points.rows(); first += block_rows) {
    const std::int64_t count = std::min(block_rows, points.rows() - first);
    points.read(block.data(), count);
    for (std::int64_t i = 0; i < count; ++i) {
      if (by_row.dropped(first + i)) continue;
      const std::byte* point = block.data() + static_cast<std::size_t>(i) * row_bytes;
      if (text) {
        write_xyz_lines(out, DatasetView(point, points.dtype(), 1, 3, 3));
        continue;
      }
      out.write(point, row_bytes);
      const auto values = by_row.values(first + i);
      out.write(values.data(), values.size());
    }
  }
}

}  // namespace kith::io
