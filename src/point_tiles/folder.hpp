// Point tiles on disk: a folder with a manifest and packed segments.
//
//   manifest.json   {"format": "kith point tiles", "version": 1 or 2, "xxh3": hash of the content, "content":
//   {...}}: element type,
//                   dimension, rows, parameters, sources, segments, and of each tile its rows, the first
//                   row's number (not in the oldest folders), box and extents
//   segment-N.bin   extents one after the other: the coordinates of some rows of one tile as the input has
//   them, then their
//                   row numbers (int64); an XXH3-64 each, in the manifest
//
// Tiles are listed along a Hilbert curve. Rows of a tile ascend, through its extents too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/piece_reader.hpp"
#include "core/positioned_file.hpp"
#include "io/integer_points.hpp"
#include "io/manifest_text.hpp"
#include "kith/dtype.hpp"
#include "kith/execution.hpp"
#include "kith/io.hpp"

namespace kith::point_tiles {

/// 2 where the tiles keep the integers of their files, which older programs do not know.
inline constexpr int folder_version = 2;
using io::manifest_name;

/// A piece of a tile: `rows` records from `offset` on.
struct Extent {
  std::int64_t segment = 0;
  std::uint64_t offset = 0;
  std::int64_t rows = 0;
  std::uint64_t hash = 0;
};

struct Tile {
  std::int64_t rows = 0;
  /// The box of its rows, exactly. Empty: they have a NaN or an infinity, and no box.
  std::vector<double> lower, upper;
  std::vector<Extent> extents;
  std::int64_t first_row = 0;  ///< the least row number; 0 where the folder does not say

  bool has_box() const noexcept { return !lower.empty(); }
};

struct Segment {
  std::string file;
  std::uint64_t bytes = 0;
};

struct SourceCloud {
  std::string name;
  std::int64_t rows = 0;
  std::uint64_t bytes = 0;                ///< of the file
  std::int64_t modified = 0;              ///< nanoseconds since 1970; 0: no file that another run finds
  std::optional<FileFormat> format = {};  ///< that was named; none: its name and first bytes tell it

  bool operator==(const SourceCloud&) const = default;
};

struct Manifest {
  Dtype dtype = Dtype::f32;
  std::int64_t dim = 0;
  std::int64_t rows = 0;
  std::int64_t nan_rows = 0;
  std::int64_t tile_points = 0;
  /// Where the tiles keep integers (three int32 a row): what they stand for. `dtype` is that of the values.
  std::optional<io::IntegerScale> integers;
  std::vector<SourceCloud> sources;
  std::vector<Segment> segments;
  std::vector<Tile> tiles;

  std::uint64_t row_bytes() const noexcept { return static_cast<std::uint64_t>(dim) * size_of(dtype); }
  /// The coordinates of a row on the disk.
  std::uint64_t stored_bytes() const noexcept { return integers ? 3 * sizeof(std::int32_t) : row_bytes(); }
  /// A row and its number on the disk.
  std::uint64_t record_bytes() const noexcept { return stored_bytes() + sizeof(std::int64_t); }
  std::int64_t largest_tile() const noexcept;
};

/// The bytes of manifest.json.
std::string to_text(const Manifest& manifest);
/// @param name of the file, for messages
/// @throws IoError
Manifest parse_manifest(std::string_view text, const std::string& name);

/// Whether there is a folder at `path` that point tiles were made in.
bool is_folder_of_tiles(const std::filesystem::path& path);

/// A folder to read, by any number of threads.
class Folder {
 public:
  /// Checks the manifest and the sizes of the segments.
  /// @throws IoError
  explicit Folder(std::filesystem::path path);
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  /// Waits for what becomes().
  ~Folder() { wait(); }

  /// Somebody makes it safe on the disk and gives it another name, which path() is from now on, while it is
  /// read.
  void becomes(std::filesystem::path path, std::future<void> safe);
  /// It is safe, and has its name. @throws what came of it
  void settle() const {
    if (safe_.valid()) safe_.get();
  }
  /// The same, whatever came of it.
  void wait() const noexcept {
    if (safe_.valid()) safe_.wait();
  }

  const Manifest& manifest() const noexcept { return manifest_; }
  const std::filesystem::path& path() const noexcept { return path_; }

  /// Coordinates (row_bytes a row) and row numbers of a tile, checked against their checksums.
  /// @throws IoError
  void read_tile(std::int64_t tile, void* coordinates, std::int64_t* rows) const;
  /// The same by somebody else: where its bytes lie and go, and the check when they are there,
  /// which makes values of integers.
  void add_pieces(std::int64_t tile, void* coordinates, std::int64_t* rows, std::vector<Piece>& pieces) const;
  void check_tile(std::int64_t tile, void* coordinates, const std::int64_t* rows) const;
  /// Coordinates of `count` rows of a tile that has been read before: extents are not checked again.
  void read_points(std::int64_t tile, std::int64_t first, std::int64_t count, void* coordinates) const;

  /// A checksum of the manifest, and so of all checksums in it: what tells one build from another.
  const std::string& fingerprint() const noexcept { return fingerprint_; }

  /// Bytes of all tiles.
  std::uint64_t bytes() const noexcept {
    return static_cast<std::uint64_t>(manifest_.rows) * manifest_.record_bytes();
  }

 private:
  std::filesystem::path path_;
  Manifest manifest_;
  std::string fingerprint_;
  std::vector<InputFile> segments_;
  std::shared_future<void> safe_;
};

/// The checksum of an extent.
std::uint64_t extent_hash(const void* coordinates, std::size_t coordinate_bytes, const std::int64_t* rows,
                          std::size_t count);

/// The values of `count` rows of integers at the end of a place for these values, in that place.
void expand_integers(const io::IntegerScale& scale, std::size_t count, std::byte* values);

}  // namespace kith::point_tiles
