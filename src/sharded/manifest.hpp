// Shards on disk: a folder with a manifest and saved indexes.
//
//   manifest.json   {"format":"kith shards","version":2,"xxh3":...,"content":{...}} (io/manifest_text.hpp):
//                   the type of the indexes, element type, dimension, metric, rows; of each shard its file,
//                   the row that its row 0 is, its rows, its bytes, its rows with a NaN, a checksum and, in
//                   few dimensions, a box; where it holds rows of a part of space, its file of row numbers
//   shard-N.kith    an index file (io/index_file.hpp)
//   shard-N.rows    the rows of all that its rows are, ascending, less those before its group: unsigned
//                   integers of 4 or 8 bytes, little-endian
//
// Shards of parts of space that were built together are a group: they share a base, and their rows are all
// from there to the base of what follows. Folders without such shards have version 1.
//
// The checksum is the XXH3-64 of the index file up to the end of its header, which holds the checksums of all
// that follows: it is the file's, and costs no reading of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/manifest_text.hpp"
#include "kith/dtype.hpp"
#include "kith/metric.hpp"

namespace kith::sharded {

inline constexpr std::int64_t most_shards = 65536;

extern const io::ManifestKind manifest_kind;

/// A file of row numbers.
struct NumbersFile {
  std::string file{};       ///< in the folder: a plain name
  std::uint64_t bytes = 0;  ///< 0: there is none, the rows follow each other
  std::uint64_t hash = 0;   ///< XXH3-64 of all bytes

  friend bool operator==(const NumbersFile&, const NumbersFile&) = default;
};

struct Shard {
  std::string file;       ///< in the folder: a plain name
  std::int64_t base = 0;  ///< its row 0 is this row of all; with row numbers, what is added to each
  std::int64_t rows = 0;
  std::int64_t nan_rows = 0;
  std::uint64_t bytes = 0;  ///< of the file
  std::uint64_t hash = 0;
  /// The box of its finite rows, exactly; empty: it has none (visits.hpp).
  std::vector<double> lower{}, upper{};
  NumbersFile numbers{};
  std::int64_t span = 0;  ///< row numbers are below; of its group, as the manifest says: not written

  std::uint64_t files_bytes() const noexcept { return bytes + numbers.bytes; }
  friend bool operator==(const Shard&, const Shard&) = default;
};

struct Manifest {
  std::string index;
  Dtype dtype = Dtype::f32;
  Metric metric = Metric::sqeuclidean;
  std::int64_t dim = 0;
  std::int64_t rows = 0;
  std::vector<Shard> shards;
};

std::string to_text(const Manifest& manifest);

/// @param file names it in messages
/// @throws IoError for text that is truncated, corrupt, foreign or newer
Manifest parse_manifest(std::string_view text, const std::string& file);

/// The files of a shard that Kith writes, and whether a name could be one.
std::string shard_file(std::int64_t number);
std::string numbers_file(std::int64_t number);
bool is_shard_file(std::string_view name);

}  // namespace kith::sharded
