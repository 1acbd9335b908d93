/// @file
/// Exact nearest neighbours of clouds that do not fit in memory: points in tiles on disk, searched tile by
/// tile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/index_type.hpp"
#include "kith/io.hpp"
#include "kith/metric.hpp"
#include "kith/neighbors.hpp"
#include "kith/point_tree.hpp"

namespace kith {

namespace point_tiles {
class Folder;
}

struct PointTilesParameters {
  /// About how many points a tile has; no tile has more than twice as many. 0: a million, fewer where the
  /// memory limit is small.
  std::int64_t tile_points = 0;
  /// The format of each file, whatever its name says. Empty, or none for one: told by its name and first
  /// bytes.
  std::vector<std::optional<FileFormat>> formats = {};
  /// Where files are copies that do not stay, as of what was unpacked: what each was made of, which the tiles
  /// remember in its place. Empty: the files themselves.
  std::vector<std::filesystem::path> sources = {};
};

/// How tiles are searched. None of it changes an answer but the metric, the radius and include_self.
struct TileSearchOptions {
  Metric metric = Metric::sqeuclidean;  ///< sqeuclidean, euclidean or manhattan
  /// What is built in a tile while it is searched: "kd_tree", "octree" or "brute_force".
  std::string inside = "kd_tree";
  bool include_self = false;  ///< all_knn: a row counts among its own neighbours
  double radius =
      std::numeric_limits<double>::infinity();  ///< no row farther than this, in units of the metric
};

/// Where the answers of rows stand in a file.
enum class AnswerOrder : std::uint8_t {
  input,  ///< that of row i is the i-th
  tiles,  ///< as tiles come, with the rows' numbers beside; spares a pass over the answers
};

/// How row numbers are written.
enum class IndexWidth : std::uint8_t {
  i64,  ///< int64, -1 for none
  u32,  ///< uint32, 2^32 - 1 for none; for fewer than 2^32 - 1 rows
};

/// How normals are written.
enum class ValueWidth : std::uint8_t {
  f64,  ///< as they were found
  f32,  ///< rounded to nearest: half the bytes
};

struct TileAnswerOptions {
  AnswerOrder order = AnswerOrder::input;
  IndexWidth index_width = IndexWidth::i64;
  ValueWidth values = ValueWidth::f64;
  bool named_as_given = false;  ///< normals and counts: no .npy is appended to the file's name
};

/// What a search of tiles did.
struct TileStatistics {
  std::int64_t queries = 0;
  std::int64_t nan_rows = 0;          ///< rows with a NaN: never found, and without neighbours
  std::int64_t nan_queries = 0;       ///< queries with a NaN: answered by -1 and +inf
  std::int64_t tiles = 0;             ///< there are
  std::uint64_t tile_bytes = 0;       ///< of all tiles
  std::uint64_t bytes_read = 0;       ///< of tiles, each time that one was read
  std::uint64_t bytes_direct = 0;     ///< of them, those that came past the page cache, through io_uring
  std::int64_t tiles_read_again = 0;  ///< reads of a tile after its first
  std::int64_t crossed = 0;           ///< queries that needed another tile than their own
  std::int64_t visits = 0;            ///< searches of a query in another tile
  std::int64_t postponed = 0;         ///< queries that waited for the last sweep
  std::int64_t resumed_tiles = 0;     ///< tiles that an interrupted run had done before this one
  std::string reader = "pread";       ///< what reads tiles: "io_uring" or "pread"
  double read_seconds = 0;            ///< that it was at work in this run, a search beside it or not
  double waited_seconds = 0;          ///< in which the search waited for it, and for what devices do with it
  std::string device = "cpu";         ///< what has searched: "cuda:0", or several with commas between
  double device_seconds = 0;          ///< of GPUs: in which a call was under way on one, copies included
  double seconds = 0;
};

/// The files of an answer and what it took.
struct TileAnswer {
  std::vector<std::filesystem::path> files;
  TileStatistics statistics;
  std::int64_t neighbors = 0;  ///< radius_search: of all queries together
};

/// Where the outliers of a cloud go; what has no name is not written.
struct TileOutlierFiles {
  std::filesystem::path outlier;        ///< npy of bool, [rows]
  std::filesystem::path mean_distance;  ///< npy of f64, [rows]: NaN without neighbours
  std::filesystem::path kept;           ///< npy of the rows that are none, in their order
};

/// See Outliers.
struct TileOutliers {
  std::vector<std::filesystem::path> files;
  TileStatistics statistics;
  std::int64_t outliers = 0;
  std::int64_t alone = 0;  ///< of them, those without neighbours or with a NaN
  double mean = 0;
  double deviation = 0;
  double threshold = 0;
};

/// A cloud in tiles: a folder that is built in one read and one write of the cloud and searched within a
/// limit on memory. Answers are the bits that a KdTree of the same rows in memory gives.
///
/// Every call keeps to Execution::memory_limit (without one, to half of the machine's free memory), and
/// refuses at the start a limit that two tiles and the answers of one do not fit into. Tiles are made on the
/// CPU and searched where Execution::devices says: of several GPUs each takes its share of the tiles, and of
/// its memory no more than Execution::device_memory_limit. Thread-safe; copies share the open folder.
///
/// Whatever goes to files is done in a folder "<answer>.kith-work" beside the answer. A process that is
/// killed there, or finds the disk full, leaves it, with a journal of what is done: the same call goes on
/// from it and gives the same bytes. Another call with the same answer refuses it by name. A call that is
/// cancelled leaves nothing. Without Execution::memory_limit answers that GPUs find may wait in memory for
/// the first minute of the search, within the same half: a process that is killed then, or finds the disk
/// full, begins the search anew.
class PointTiles {
 public:
  using Parameters = PointTilesParameters;
  static constexpr std::string_view type_name = "point_tiles";
  static constexpr std::string_view summary = "a folder of tiles, of clouds larger than memory; exact";

  /// Divides the rows of files among tiles; several files are one cloud, whose row numbers run through them
  /// in the order given. Files are read in blocks; only HDF5 and compressed PCD files are held whole, one at
  /// a time. The folder appears whole or not at all; an older one of point tiles is replaced.
  /// @throws InvalidArgument, IoError, OutOfMemory, Cancelled
  static PointTiles build(const std::filesystem::path& folder, std::span<const std::filesystem::path> clouds,
                          const PointTilesParameters& parameters = {}, const Execution& execution = {});

  /// The same of rows in host memory.
  static PointTiles build(const std::filesystem::path& folder, const DatasetView& rows,
                          const PointTilesParameters& parameters = {}, const Execution& execution = {});

  /// Opens a folder; no tile is read.
  /// @throws IoError when it is missing, truncated, corrupt or foreign
  static PointTiles open(const std::filesystem::path& folder);

  /// Whether there are tiles at `folder`, of these files as they are now, with these parameters (0: whatever
  /// tile size).
  static bool is_built_from(const std::filesystem::path& folder,
                            std::span<const std::filesystem::path> clouds,
                            const PointTilesParameters& parameters = {});

  /// Reads every tile and checks it against its checksum, its box and the row numbers.
  /// @throws IoError naming the file, Cancelled
  void verify(const Execution& execution = {}) const;

  /// The k nearest other rows of every row, written to files: "r" (or r.npy) gives r.indices.npy and
  /// r.distances.npy, [rows, k], and with AnswerOrder::tiles r.rows.npy, the rows they are of. All files
  /// appear, or none.
  /// @throws InvalidArgument, IoError, OutOfMemory, DeviceError, Cancelled
  TileAnswer all_knn(const std::filesystem::path& output, std::int64_t k,
                     const TileSearchOptions& options = {}, const TileAnswerOptions& answer = {},
                     const Execution& execution = {}) const;

  /// The same of the rows of some tiles, `first` to `last - 1` along the curve, in memory: a part of the work
  /// that depends on no other. Parts that cover all tiles together give every row's answer once, the bits of
  /// all_knn().
  /// @return the answers, tile by tile, and the rows they are of
  /// @throws InvalidArgument for tiles that there are not; as all_knn()
  std::pair<Neighbors, std::vector<std::int64_t>> all_knn_of_tiles(std::int64_t first, std::int64_t last,
                                                                   std::int64_t k,
                                                                   const TileSearchOptions& options = {},
                                                                   const Execution& execution = {}) const;

  /// The k nearest rows of each query, in memory.
  /// @param queries [q, dim] of the rows' dtype, in host memory
  Neighbors search(const DatasetView& queries, std::int64_t k, const TileSearchOptions& options = {},
                   const Execution& execution = {}) const;
  /// The same, with what it did.
  std::pair<Neighbors, TileStatistics> search_with_statistics(const DatasetView& queries, std::int64_t k,
                                                              const TileSearchOptions& options = {},
                                                              const Execution& execution = {}) const;

  /// The same of any number of queries, which were divided among tiles of their own, into files: "r" gives
  /// r.indices.npy and r.distances.npy, [queries, k], and with AnswerOrder::tiles r.rows.npy. All files
  /// appear, or none.
  TileAnswer search_tiles(const std::filesystem::path& output, const PointTiles& queries, std::int64_t k,
                          const TileSearchOptions& options = {}, const TileAnswerOptions& answer = {},
                          const Execution& execution = {}) const;

  /// The normal and the curvature of every row, as PointTree::normals() finds them, in a file: "r" or "r.npy"
  /// gives r.npy, f64 [rows, dim + 1] (ValueWidth), the curvature last, and with AnswerOrder::tiles
  /// r.rows.npy. Of the options the metric and what is inside count; the radius is the neighbourhood's.
  TileAnswer normals(const std::filesystem::path& output, const Neighborhood& neighborhood,
                     const std::optional<std::vector<double>>& viewpoint = {},
                     const TileSearchOptions& options = {}, const TileAnswerOptions& answer = {},
                     const Execution& execution = {}) const;

  /// The rows that are far from their neighbours, as PointTree::outliers() finds them, in files.
  TileOutliers outliers(const TileOutlierFiles& files, const Neighborhood& neighborhood, double ratio = 2,
                        const TileSearchOptions& options = {}, const Execution& execution = {}) const;

  /// All rows within `radius` (inclusive) of each query, in memory.
  /// @param queries [q, dim] of the rows' dtype, in host memory
  RadiusNeighbors radius_search(const DatasetView& queries, double radius, const RadiusOptions& how_many = {},
                                const TileSearchOptions& options = {}, const Execution& execution = {}) const;
  /// The same of queries in tiles, the rows themselves among them (copies of this object: every row then
  /// finds itself), into r.offsets.npy, r.indices.npy and r.distances.npy; all files appear, or none. One
  /// list must fit in memory.
  TileAnswer radius_search(const std::filesystem::path& output, const PointTiles& queries, double radius,
                           const RadiusOptions& how_many = {}, const TileSearchOptions& options = {},
                           const TileAnswerOptions& answer = {}, const Execution& execution = {}) const;

  /// How many rows are within `radius` (inclusive) of each query.
  std::vector<std::int64_t> count_within(const DatasetView& queries, double radius,
                                         const TileSearchOptions& options = {},
                                         const Execution& execution = {}) const;
  /// The same into a file: "r" or "r.npy" gives r.npy, int64 [queries], and with AnswerOrder::tiles
  /// r.rows.npy.
  TileAnswer count_within(const std::filesystem::path& output, const PointTiles& queries, double radius,
                          const TileSearchOptions& options = {}, const TileAnswerOptions& answer = {},
                          const Execution& execution = {}) const;

  std::int64_t rows() const noexcept;
  std::int64_t dim() const noexcept;
  Dtype dtype() const noexcept;
  std::int64_t tiles() const noexcept;
  std::int64_t tile_points() const noexcept;
  std::int64_t nan_rows() const noexcept;
  /// Points of each tile, in the order of the curve.
  std::vector<std::int64_t> tile_sizes() const;
  /// [lower, upper] of the box around all finite rows, dim values each; empty where there are none.
  std::vector<double> bounds() const;
  /// Bytes of all tiles on disk.
  std::uint64_t bytes() const noexcept;
  const std::filesystem::path& folder() const noexcept;

  /// Whether point tiles were built at `path`.
  static bool is_at(const std::filesystem::path& path);

 protected:
  explicit PointTiles(std::shared_ptr<const point_tiles::Folder> folder) : folder_(std::move(folder)) {}
  std::shared_ptr<const point_tiles::Folder> folder_;
};

}  // namespace kith
