// Points of a file on their way into another one: some are left out, all get further columns, and everything
// else the file has stays as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/format.hpp"

namespace kith::io {

/// What is to change.
struct PointChanges {
  /// Columns that every point gets, after those it has. One of the input that is called the same gives way.
  std::vector<std::string> names;
  Dtype type = Dtype::f32;        ///< that they are written as, f32 or f64; doubles are rounded to nearest
  PointStream* values = nullptr;  ///< [rows, names], f32 or f64; null where there are no names
  std::int64_t first_value = 0;   ///< the row of `values` that belongs to the first point
  /// Sets the flags of the points from `first` on: not 0 leaves one out. Empty: all stay. Asked from front to
  /// back, twice.
  std::function<void(std::int64_t first, std::span<std::uint8_t> flags)> dropped;
};

/// @throws InvalidArgument unless every name has a column, and is a word that no other has
void check_changes(std::string_view format, const PointChanges& changes, std::int64_t rows);

/// What each point gets, asked from front to back.
class ChangesByRow {
 public:
  /// @param swap values in big-endian order
  ChangesByRow(const PointChanges& changes, std::int64_t rows, bool swap = false);

  bool dropped(std::int64_t row);
  /// The bytes of its values, as they are to be written.
  std::span<const std::byte> values(std::int64_t row);

 private:
  void fill_flags(std::int64_t row);
  void fill_values(std::int64_t row);
  const PointChanges& changes_;
  std::int64_t rows_;
  bool swap_;
  std::size_t row_bytes_;
  std::vector<std::uint8_t> flags_;
  std::int64_t first_flag_ = 0;
  std::vector<std::byte> values_;
  std::int64_t first_value_ = 0;
  std::int64_t held_values_ = 0;
};

/// Rows that stay.
std::int64_t count_kept(const PointChanges& changes, std::int64_t rows);

/// Some bytes of a record.
struct Piece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
/// Adds one; the last grows where they meet.
void add_piece(std::vector<Piece>& pieces, Piece piece);

/// Bytes as they are.
void copy_range(AtomicFile& out, const Source& source, std::uint64_t from, std::uint64_t to);

/// A LAS file of the same version: header, records and attributes stay; columns become extra bytes, and are
/// described as such. Counts and bounds are made anew where points are left out.
void copy_las(AtomicFile& out, const Source& source, const PointChanges& changes);

/// A PLY file of the same encoding: comments, properties and elements stay. Where points are left out, so are
/// elements beside them, which refer to points by number.
void copy_ply(AtomicFile& out, const Source& source, const PointChanges& changes);

/// Elements of a PLY file that copy_ply() leaves out where points are: "face, edge"; empty for none.
std::string elements_beside_points(const Source& source);

/// x, y and z alone, as f32 or f64, and the columns: PLY or PCD, binary little-endian; or xyz, without
/// columns.
void write_coordinates(AtomicFile& out, FileFormat format, PointStream& points, const PointChanges& changes);

}  // namespace kith::io
