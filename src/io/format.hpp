// The one internal table of file formats, and what every reader and writer shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/atomic_file.hpp"
#include "core/mapped_file.hpp"
#include "io/point_stream.hpp"
#include "kith/dataset.hpp"
#include "kith/error.hpp"
#include "kith/io.hpp"
#include "kith/neighbors.hpp"

namespace kith::io {

/// The bytes of one file. Readers take this, not a path, so that tests and fuzzers can hand them any bytes.
struct Source {
  std::span<const std::byte> bytes;
  std::string name;                        ///< for messages
  std::shared_ptr<const void> keep_alive;  ///< holds `bytes`; a mapped dataset shares it
  std::filesystem::path path;              ///< empty when the bytes are not a file
  const MappedFile* map = nullptr;         ///< of `bytes`; null when they are not a file's
  std::function<bool()> cancelled;         ///< polled where there is much to read; may be empty

  std::uint64_t size() const noexcept { return bytes.size(); }
  std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  bool starts_with(std::string_view magic) const noexcept { return text().starts_with(magic); }
};

/// Maps a file. @throws IoError when missing, a folder or unreadable
Source open_source(const std::filesystem::path& path, std::function<bool()> cancelled = {});

/// Reading a source from front to back. What has been read leaves the memory: its rows are in an array by
/// then, and would be held twice.
class FrontToBack {
 public:
  explicit FrontToBack(const Source& source) : source_(source), left_(source.bytes.data()) {}

  /// Nothing before `at` is read again in this pass. @throws Cancelled
  void reached(const void* at) {
    if (static_cast<const std::byte*>(at) - left_ >= step) leave(static_cast<const std::byte*>(at));
  }
  /// The pass came to `end`, and goes on at `to`, which may lie before it.
  void jump(const std::byte* end, const std::byte* to);

 private:
  static constexpr std::ptrdiff_t step = std::ptrdiff_t{4} << 20U;
  void leave(const std::byte* at);
  const Source& source_;
  const std::byte* left_;
};

/// "'<file>' <what is wrong>" as an IoError.
template <class... Args>
IoError bad_file(const Source& source, fmt::format_string<Args...> what, Args&&... args) {
  return IoError(fmt::format("'{}' {}", source.name, fmt::format(what, std::forward<Args>(args)...)));
}

/// One line of the table. A null function: the format has no such thing.
struct Format {
  FileFormat format;
  std::string_view name;
  std::string_view extensions;         ///< separated by spaces, with dots
  bool (*recognises)(const Source&);   ///< by its first bytes; null: the format has no magic
  FileInfo (*inspect)(const Source&);  ///< format and bytes are filled in by the caller
  Dataset (*read)(const Source&, const ReadOptions&);
  void (*write)(AtomicFile&, const DatasetView&);
  Neighbors (*read_neighbors)(const Source&);  ///< distances NaN where the file has none
  /// The rows that `read` gives, by blocks; it may hold at most as many bytes (0: any number).
  std::unique_ptr<PointStream> (*stream)(const Source&, std::uint64_t) = nullptr;
  /// `read` maps the rows that it is asked for where they lie.
  bool mapped = false;
};

/// All formats.
std::span<const Format> formats() noexcept;
const Format& format_of(FileFormat format);

/// Its entry by extension, or null.
const Format* format_by_extension(const std::filesystem::path& path);
/// Its entry by the first bytes, or null.
const Format* format_by_content(const Source& source);
/// ".las" of "a.LAS".
std::string lower_extension(const std::filesystem::path& path);

/// guess_format for a file that is open. Messages say to name the format only where the caller
/// `takes_format`.
/// @throws IoError, InvalidArgument
FileFormat guess_format(const Source& source, const std::filesystem::path& path, bool takes_format);

/// The rows of a source by blocks; see open_point_stream.
std::unique_ptr<PointStream> stream_source(const Source& source, const Format& format,
                                           std::uint64_t memory_limit);

/// Which rows a caller asked for, of `rows` there are.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
/// @throws InvalidArgument when first_row is beyond the end
RowRange wanted_rows(const Source& source, const ReadOptions& options, std::int64_t rows);

/// True when `rows` rows of `row_bytes` fit into `available` bytes; no overflow for any argument.
bool fits(std::uint64_t rows, std::uint64_t row_bytes, std::uint64_t available) noexcept;
/// rows * row_bytes, or nothing when it is 2^63 or more.
std::optional<std::uint64_t> total_bytes(std::uint64_t rows, std::uint64_t row_bytes) noexcept;

/// Dimension and rows of a header as they are used from here on. @throws IoError when absurd
void check_shape(const Source& source, std::uint64_t rows, std::uint64_t dim);

/// Rows that lie in the file as Kith needs them: shares the map, or copies when they are not aligned.
/// The caller has checked that they are inside the file.
Dataset view_rows(const Source& source, std::uint64_t offset, Dtype dtype, RowRange range, std::int64_t dim,
                  std::int64_t row_stride);

/// Appends all rows, without the gaps of strided views.
void write_rows(AtomicFile& out, const DatasetView& data);

/// @throws InvalidArgument naming the formats that do hold `data`'s dtype
[[noreturn]] void refuse_dtype(std::string_view format, std::string_view holds, Dtype dtype);

/// Neighbors with NaN distances. @throws OutOfMemory
Neighbors empty_neighbors(std::int64_t queries, std::int64_t k);

/// The files that results of a format consist of, the first that of the indices.
std::vector<std::filesystem::path> neighbor_files(const std::filesystem::path& path, FileFormat format);
/// Those of rows within a radius.
std::vector<std::filesystem::path> radius_files(const std::filesystem::path& path);
/// The rows that answers in the order of tiles are of, beside the first file of these: "r.npy" and
/// "r.indices.npy" give r.rows.npy.
std::filesystem::path rows_file(const std::filesystem::path& first);

// One set of functions a format; each lives in the file named after it.
FileInfo inspect_fvecs(const Source&);
FileInfo inspect_bvecs(const Source&);
FileInfo inspect_ivecs(const Source&);
Dataset read_fvecs(const Source&, const ReadOptions&);
Dataset read_bvecs(const Source&, const ReadOptions&);
void write_fvecs(AtomicFile&, const DatasetView&);
void write_bvecs(AtomicFile&, const DatasetView&);
Neighbors read_neighbors_ivecs(const Source&);
void write_neighbors_ivecs(AtomicFile&, const Neighbors&);

FileInfo inspect_fbin(const Source&);
FileInfo inspect_u8bin(const Source&);
FileInfo inspect_i8bin(const Source&);
FileInfo inspect_ibin(const Source&);
Dataset read_fbin(const Source&, const ReadOptions&);
Dataset read_u8bin(const Source&, const ReadOptions&);
Dataset read_i8bin(const Source&, const ReadOptions&);
void write_fbin(AtomicFile&, const DatasetView&);
void write_u8bin(AtomicFile&, const DatasetView&);
void write_i8bin(AtomicFile&, const DatasetView&);
Neighbors read_neighbors_ibin(const Source&);
void write_neighbors_ibin(AtomicFile&, const Neighbors&);

bool is_npy(const Source&);
FileInfo inspect_npy(const Source&);
Dataset read_npy(const Source&, const ReadOptions&);
void write_npy(AtomicFile&, const DatasetView&);
Neighbors read_neighbors_npy(const Source&);
/// The index matrix, as int64.
void write_indices_npy(AtomicFile&, const Neighbors&);
/// The header of an array of one dimension; its elements follow.
void write_npy_header(AtomicFile&, std::string_view descr, std::int64_t count);
/// How npy names an element type.
std::string_view npy_descr(Dtype dtype);
/// The header of an array of any shape, "(3, 2)".
std::string npy_header(std::string_view descr, const std::string& shape);

/// Where the rows of an npy lie.
struct NpyRows {
  std::uint64_t offset = 0;  ///< of the first
  Dtype dtype = Dtype::f32;
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  bool swap = false;           ///< big-endian
  bool columns_first = false;  ///< not one row after the other
};
/// @throws IoError where it holds something else
NpyRows npy_rows(const Source&);
std::unique_ptr<PointStream> stream_npy(const Source&, std::uint64_t memory_limit);

/// Sets of some of `rows` rows; see kith/io.hpp.
RowSet read_row_set(const Source&, std::int64_t rows);
RowSet read_row_set_npy(const Source&, std::int64_t rows);
/// @throws IoError for a number that is no row
RowSet row_set_of(const Source&, std::int64_t rows, const std::vector<std::int64_t>& numbers);

bool is_hdf5(const Source&);
FileInfo inspect_hdf5(const Source&);
Dataset read_hdf5(const Source&, const ReadOptions&);
void write_hdf5(AtomicFile&, const DatasetView&);
Neighbors read_neighbors_hdf5(const Source&);
void write_neighbors_hdf5(AtomicFile&, const Neighbors&);

bool is_pcd(const Source&);
FileInfo inspect_pcd(const Source&);
std::unique_ptr<PointStream> stream_pcd(const Source&, std::uint64_t memory_limit);
Dataset read_pcd(const Source&, const ReadOptions&);
void write_pcd(AtomicFile&, const DatasetView&);
void write_pcd_columns(AtomicFile&, const DatasetView&, const PointColumns&);

bool is_ply(const Source&);
FileInfo inspect_ply(const Source&);
std::unique_ptr<PointStream> stream_ply(const Source&, std::uint64_t memory_limit);
Dataset read_ply(const Source&, const ReadOptions&);
void write_ply(AtomicFile&, const DatasetView&);
void write_ply_columns(AtomicFile&, const DatasetView&, const PointColumns&);

bool is_las(const Source&);
FileInfo inspect_las(const Source&);
std::unique_ptr<PointStream> stream_las(const Source&, std::uint64_t memory_limit);
Dataset read_las(const Source&, const ReadOptions&);
void write_las(AtomicFile&, const DatasetView&);
void write_las_rows(AtomicFile&, const Source&, std::span<const std::int64_t> rows);

FileInfo inspect_xyz(const Source&);
std::unique_ptr<PointStream> stream_xyz(const Source&, std::uint64_t memory_limit);
Dataset read_xyz(const Source&, const ReadOptions&);
void write_xyz(AtomicFile&, const DatasetView&);

bool is_json(const Source&);
FileInfo inspect_json(const Source&);
Neighbors read_neighbors_json(const Source&);
void write_neighbors_json(AtomicFile&, const Neighbors&);

bool is_table(const Source&);
FileInfo inspect_table(const Source&);
Neighbors read_neighbors_table(const Source&);
void write_neighbors_table(AtomicFile&, const Neighbors&);

bool is_index(const Source&);
FileInfo inspect_index(const Source&);

}  // namespace kith::io
