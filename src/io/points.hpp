// What the point-cloud formats share: x, y, z inside binary records, and the check of what may be written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/format.hpp"

namespace kith::io {

/// One number inside a record.
struct Column {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  char kind = 'f';  ///< 'f' float, 'i' signed, 'u' unsigned
};

/// The key of FileInfo::details under which a file contradicts itself.
inline constexpr const char* contradiction = "contradiction";

/// Says so in `info` when `end`, where the data end, is not the end of the file.
void add_trailing(FileInfo& info, const Source& source, std::uint64_t end);

/// f32 when all three columns are 4-byte floats, f64 otherwise (every other type is exact in f64).
Dtype dtype_of(const std::array<Column, 3>& xyz) noexcept;

/// Points of `count` records of `record_bytes` each, in the given byte order, one after the other into `to`.
void gather_points(const std::byte* records, std::uint64_t record_bytes, std::int64_t count,
                   const std::array<Column, 3>& xyz, bool swap, std::byte* to);

/// Such points of a file, from byte `offset` on. The caller has checked that all of them are there.
std::unique_ptr<PointStream> stream_records(const Source& source, std::int64_t rows, std::uint64_t offset,
                                            std::uint64_t record_bytes, const std::array<Column, 3>& xyz,
                                            bool swap);

/// @throws InvalidArgument unless data are f32 or f64 of dimension 3
void check_points(std::string_view format, const DatasetView& data);

/// @throws InvalidArgument unless there is a named column of f32 or f64 for each of the points
void check_columns(std::string_view format, const DatasetView& points, const PointColumns& columns);

/// @throws InvalidArgument unless they are words of their own
void check_column_names(const std::vector<std::string>& names);

/// The headers of such files: points of `dtype`, then columns of `column_type`.
std::string ply_header(std::int64_t rows, Dtype dtype, const std::vector<std::string>& names,
                       Dtype column_type);
std::string pcd_header(std::int64_t rows, Dtype dtype, const std::vector<std::string>& names,
                       Dtype column_type);

/// Points as text, a line each.
void write_xyz_lines(AtomicFile& out, const DatasetView& points);
/// The only line of a file of none.
inline constexpr std::string_view xyz_without_points = "0\n";

/// Binary records: x, y, z and the columns of each point.
void write_records(AtomicFile& out, const DatasetView& points, const PointColumns& columns);

}  // namespace kith::io
