/// @file
/// One set of rows in several saved indexes: a folder of shards, searched as one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kith/any_index.hpp"
#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/index_type.hpp"
#include "kith/metric.hpp"
#include "kith/neighbors.hpp"
#include "kith/point_tree.hpp"

namespace kith {

namespace sharded {
class Folder;
}

/// How rows are divided among shards.
enum class Partition : std::uint8_t {
  automatic,  ///< space for trees, else rows
  /// Rows that follow each other; the counts of shards differ by at most one.
  rows,
  /// Rows that lie in one part of space, about equally many: a query then needs few shards. In up to 16
  /// dimensions, by sqeuclidean, euclidean and manhattan. Where rows cannot be divided so that each shard
  /// has one, `automatic` takes `rows` and this is refused.
  space,
};

/// "auto", "rows", "space".
std::string_view name(Partition partition) noexcept;
/// @throws InvalidArgument
Partition parse_partition(std::string_view text);

struct ShardedParameters {
  /// The type of every shard, and what it is built with.
  IndexParameters index = {};
  /// How many shards, 1 to 65536 and no more than rows.
  std::int64_t shards = 0;
  Partition partition = Partition::automatic;
};

/// Rows in several saved indexes of one type: a folder with a manifest. What is searched need not fit in
/// memory, and is built with no more than one shard's rows in it.
///
/// A search asks every shard and keeps, of all that they found, the k nearest: smaller distance first, then
/// lower row. Shards of an exact type give the bits of one index over all rows. Approximate ones find at
/// least the share that each of them would: a row that is among the k nearest of all rows is among those of
/// its shard, and once found is never displaced (docs/shards.md).
///
/// In up to 16 dimensions, by sqeuclidean, euclidean and manhattan, a query asks only those shards whose box
/// of rows its list, or its radius, does not rule out: few where the partition is by space.
///
/// Shards are opened when they are first asked, memory-mapped, and stay open while there is room: for
/// the limit on memory of the call that opened them (without one, half of the machine's memory; on GPUs half
/// of theirs) an open shard counts with its file and with what was made anew for it. The others are opened
/// for each search and closed again. At least one is always open while it is searched. Thread-safe: any
/// number of threads may search one folder. Copies share its open shards.
class Sharded {
 public:
  using Parameters = ShardedParameters;
  static constexpr std::string_view type_name = "sharded";
  static constexpr std::string_view summary = "a folder of saved indexes that are searched as one";

  /// Divides the rows of files among shards; several files are one dataset, whose row numbers run through
  /// them in the order given. Files are read in blocks, a shard's rows at a time; by space, as many shards'
  /// rows as a quarter of the memory limit holds (without one, of the machine's memory), once for those.
  /// Only HDF5 and compressed PCD files are held whole. The folder appears whole or not at all; an older one
  /// of shards is replaced. A process that is killed leaves a folder "<folder>.kith-work", from which the
  /// same call goes on; another call refuses it by name.
  /// @throws InvalidArgument, IoError, OutOfMemory, DeviceError, Cancelled
  static Sharded build(const std::filesystem::path& folder, std::span<const std::filesystem::path> files,
                       const ShardedParameters& parameters, const Execution& execution = {});

  /// The same of rows in host memory, which are not copied but by space.
  static Sharded build(const std::filesystem::path& folder, const DatasetView& rows,
                       const ShardedParameters& parameters, const Execution& execution = {});

  /// Makes one folder of several, whose rows follow each other in the order given: shards that were built
  /// apart, by several processes or machines. Index files are linked where the file system can, else copied;
  /// a folder of parts by rows has the bytes that one build of all rows into the same shards gives; parts by
  /// space stay a group of shards each. It appears whole or not
  /// at all; an older one of shards is replaced, and the parts stay.
  /// @throws InvalidArgument for no folder, or shards of different index, metric, dimension or element type;
  /// IoError as open(), and where the folder cannot be written
  static Sharded join(const std::filesystem::path& folder, std::span<const std::filesystem::path> parts,
                      const Execution& execution = {});

  /// Opens a folder: its manifest is checked, and that every shard is there and as long as it says.
  /// @throws IoError when it is missing, truncated, corrupt, foreign or newer
  static Sharded open(const std::filesystem::path& folder);

  /// Whether there are shards at `path`.
  static bool is_at(const std::filesystem::path& path);

  /// The k nearest rows of each query.
  /// @param queries [q, dim] of the rows' dtype
  /// @param k at least 1; where there are fewer rows, -1 and +inf
  /// @param options as the shards' type takes them, for each shard. `allowed` is a set over all rows; shards
  /// without an allowed row are not opened.
  /// @return the statistics are sums over the shards; `list_size` is the longest, `recall` the least of them,
  /// `filter` and `instruction_set` "mixed" where they differ
  /// @throws InvalidArgument, IoError, OutOfMemory, DeviceError, Cancelled
  Neighbors search(const DatasetView& queries, std::int64_t k, const Execution& execution = {},
                   const SearchOptions& options = {}) const;

  /// The same into memory of the caller's, on the host or on a GPU; complete when the call returns. The
  /// answer is made on the host first.
  /// @param out [queries.rows, k]; its k is the k of the search
  SearchStatistics search_into(const DatasetView& queries, const NeighborsView& out,
                               const Execution& execution = {}, const SearchOptions& options = {}) const;

  /// All rows within `radius` (inclusive) of each query; shards of trees.
  /// @throws InvalidArgument also for shards of another type
  RadiusNeighbors radius_search(const DatasetView& queries, double radius, const RadiusOptions& options = {},
                                const Execution& execution = {}) const;

  /// How many rows are within `radius` (inclusive) of each query; shards of trees.
  std::vector<std::int64_t> count_within(const DatasetView& queries, double radius,
                                         const Execution& execution = {}) const;

  /// The row numbers, among all rows, of a shard's rows; ascending.
  /// @throws InvalidArgument for a shard that there is not; IoError where its file is not what the manifest
  /// says; OutOfMemory
  std::vector<std::int64_t> row_numbers(std::int64_t number, const Execution& execution = {}) const;

  /// One shard as an index of its own, whose rows are numbered from 0 (see row_numbers()). It counts among
  /// the open ones.
  /// @throws InvalidArgument for a shard that there is not; IoError where the file is not what the manifest
  /// says
  AnyIndex shard(std::int64_t number, const Execution& execution = {}) const;

  /// Reads every shard and checks it against its own checksums and the manifest.
  /// @throws IoError naming the file, Cancelled
  void verify(const Execution& execution = {}) const;

  /// Lets go of the shards that are open; the next search opens them again.
  void close() const;

  const IndexType& index_type() const noexcept;
  std::int64_t rows() const noexcept;
  std::int64_t dim() const noexcept;
  Dtype dtype() const noexcept;
  Metric metric() const noexcept;
  std::int64_t shards() const noexcept;
  /// How its rows are divided: `space` where one shard or more has the rows of a part of it.
  Partition partition() const noexcept;
  /// Rows of each shard, in their order.
  std::vector<std::int64_t> shard_rows() const;
  /// Shards that are open now.
  std::int64_t open_shards() const;
  /// Bytes that open shards hold beyond their files; a tree lies in its file and holds none.
  std::uint64_t memory_bytes() const;
  /// Bytes of all shards on disk.
  std::uint64_t bytes() const noexcept;
  /// Of the largest shard.
  std::uint64_t largest_shard_bytes() const noexcept;
  const std::filesystem::path& folder() const noexcept;

 private:
  explicit Sharded(std::shared_ptr<const sharded::Folder> folder) : folder_(std::move(folder)) {}
  std::shared_ptr<const sharded::Folder> folder_;
};

}  // namespace kith
