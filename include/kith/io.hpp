/// @file
/// Reading and writing of vectors, point clouds and search results. docs/formats.md lists the formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/neighbors.hpp"
#include "kith/row_set.hpp"

namespace kith {

/// A file format. Formats with one element type (fvecs) fix the dtype; the others carry it.
enum class FileFormat : std::uint8_t {
  fvecs,  ///< TEXMEX float32: int32 dim before each row
  bvecs,  ///< TEXMEX uint8
  ivecs,  ///< TEXMEX int32 (indices)
  fbin,   ///< big-ann float32: 8-byte header of two uint32, or 16-byte header of two uint64
  u8bin,
  i8bin,
  ibin,  ///< big-ann int32 (indices), or a ground-truth file (indices then float32 distances)
  npy,
  hdf5,  ///< ann-benchmarks: train, test, neighbors, distances
  pcd,
  ply,
  las,
  xyz,    ///< text, one point a line
  json,   ///< results only
  table,  ///< results only: text columns
  index,  ///< a saved Kith index
};

/// "fvecs", "npy", ...
std::string_view name(FileFormat format) noexcept;

/// By extension and, where the file exists, by its first bytes.
/// @throws IoError when the file's content is foreign, InvalidArgument when the extension says nothing
FileFormat guess_format(const std::filesystem::path& path);

struct ReadOptions {
  std::optional<FileFormat> format;  ///< default: guess_format
  std::string member;                ///< HDF5 dataset; default "train"; refused for other formats
  std::int64_t first_row = 0;        ///< skip this many rows; at most as many as there are
  std::int64_t max_rows = -1;        ///< read at most this many; -1: all
  std::function<bool()> cancelled;   ///< polled; true stops with Cancelled
};

/// Vectors or points of a file. Files whose rows lie as Kith needs them are memory-mapped, others read.
/// Point-cloud formats give [n, 3]: f32 or f64 as stored; LAS gives f64 (scale and offset applied).
/// @throws IoError when missing, truncated, corrupt or foreign; InvalidArgument; OutOfMemory
Dataset read_dataset(const std::filesystem::path& path, const ReadOptions& options = {});

struct WriteOptions {
  std::optional<FileFormat> format;  ///< default: by extension
  std::function<bool()> cancelled;   ///< polled; true stops with Cancelled, and no file appears
};

/// Writes the whole file or nothing (temporary file, fsync, rename). Devices, pipes and descriptors of this
/// process (/dev/stdout, /dev/fd/3) are written as they are, from where they stand. A dtype the format cannot
/// hold is refused, never converted silently.
/// @throws IoError, InvalidArgument
void write_dataset(const std::filesystem::path& path, const DatasetView& data,
                   const WriteOptions& options = {});

/// Numbers that belong to points, a column a name: normals, a curvature.
struct PointColumns {
  std::vector<std::string> names;  ///< words without blanks, none of them x, y or z
  DatasetView values;              ///< [points, names], f32 or f64
};

/// Points and further columns after x, y and z, as PLY or PCD (binary little-endian). Points and columns keep
/// their own element types.
/// @throws IoError, InvalidArgument
void write_points(const std::filesystem::path& path, const DatasetView& points, const PointColumns& columns,
                  const WriteOptions& options = {});

/// A LAS or PLY file once more, by blocks, with further columns, with some of its points, or both. All that
/// the file has stays as it is: version, encoding, comments, records of the header, every attribute of a
/// point, what follows the points. In LAS the columns become extra bytes, which a record describes (names of
/// up to 32 characters); in PLY properties of the vertices. A column of the file that is called the same
/// gives way. Counts and bounds are made anew where points go; so do elements beside the vertices of a PLY
/// then, which refer to points by number. The two may be one file.
/// @param columns of all points of `from`; none where they have no names
/// @param kept of the points of `from`; null: all
/// @throws IoError, InvalidArgument
void copy_points(const std::filesystem::path& path, const std::filesystem::path& from,
                 const PointColumns& columns, const RowSet* kept = nullptr, const WriteOptions& options = {});

/// Some rows of a LAS file as a LAS file of the same version: scale, offset, further records of the header
/// and every attribute of a point stay as they are; counts and bounds are made anew. The two may be one file.
/// @param rows ascending
/// @throws IoError, InvalidArgument
void write_las_rows(const std::filesystem::path& path, const std::filesystem::path& from,
                    std::span<const std::int64_t> rows, const WriteOptions& options = {});

/// One number a row, as an npy of one dimension: int64, or bool.
/// @throws IoError, InvalidArgument
void write_array(const std::filesystem::path& path, std::span<const std::int64_t> values,
                 const WriteOptions& options = {});
void write_array(const std::filesystem::path& path, const std::vector<bool>& values,
                 const WriteOptions& options = {});

/// "r" (or r.npy) writes r.offsets.npy (int64 [queries + 1]), r.indices.npy (int64) and r.distances.npy:
/// those of query i are [offsets[i], offsets[i + 1]). All three appear, or none.
/// @return the files written
/// @throws IoError, InvalidArgument
std::vector<std::filesystem::path> write_radius_neighbors(const std::filesystem::path& path,
                                                          const RadiusNeighbors& neighbors,
                                                          const WriteOptions& options = {});

/// Results: "r" (no extension, or .npy) writes r.indices.npy and r.distances.npy; .ivecs writes indices (and
/// a .fvecs of the same stem with the distances); .ibin or .bin a big-ann ground-truth file; .json; .txt a
/// table; .h5/.hdf5 the ann-benchmarks members neighbors and distances.
/// @return the files written
std::vector<std::filesystem::path> write_neighbors(const std::filesystem::path& path,
                                                   const Neighbors& neighbors,
                                                   const WriteOptions& options = {});

/// Reads any of those, and ground-truth files of other tools (ivecs, ibin, HDF5, npy of int32 or int64).
/// Distances are NaN-filled float where the file has none.
/// @param format default: guess_format
/// @param cancelled polled; true stops with Cancelled
Neighbors read_neighbors(const std::filesystem::path& path, std::optional<FileFormat> format = {},
                         const std::function<bool()>& cancelled = {});

/// A set of some of `rows` rows: an npy of one dimension, bool with a flag for each row, or integers, the
/// numbers of the rows; or text, a row number a line, `#` starts a comment.
/// @param cancelled polled; true stops with Cancelled
/// @throws IoError when missing, truncated, corrupt or foreign, or for a row that is not below `rows`
RowSet read_row_set(const std::filesystem::path& path, std::int64_t rows,
                    const std::function<bool()>& cancelled = {});

/// What a file holds, from its header.
struct FileInfo {
  FileFormat format = FileFormat::npy;
  std::string element_type;  ///< "f32", "i32", ...
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::uint64_t bytes = 0;  ///< size of the file
  /// More that the header says, in order ("version", "1.2"), ("scale", "0.01 0.01 0.01"), ...; last, under
  /// "contradiction", what the file says of itself and is not, where it can be read all the same.
  std::vector<std::pair<std::string, std::string>> details;
};

/// @param format default: guess_format
/// @throws IoError
FileInfo inspect(const std::filesystem::path& path, std::optional<FileFormat> format = {});

}  // namespace kith
