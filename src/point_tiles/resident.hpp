// Tiles in memory: read once, searched by an index of this library, kept while there is room.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "kith/any_index.hpp"
#include "kith/dataset.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/question.hpp"
#include "point_tiles/tile_reader.hpp"

namespace kith::point_tiles {

/// A tile that can be searched. Its index answers with places in the tile, whose order is that of `rows`, so
/// that ties come out as among row numbers.
struct Resident {
  std::int64_t tile = -1;
  AnyIndex index;
  AlignedBuffer<std::int64_t> rows;
  Dataset coordinates;      ///< as on disk, where neighbours' are asked for
  Device device;            ///< that the index lies on, and is searched on
  std::int64_t beside = 0;  ///< bytes of coordinates that it keeps alive, and the index does not count

  /// In the machine's memory.
  std::int64_t bytes() const {
    const std::uint64_t here = device.kind == Device::Kind::cpu ? index.memory_bytes() : 0;
    return static_cast<std::int64_t>(here + rows.bytes()) + beside;
  }
  std::int64_t device_bytes() const {
    return device.kind == Device::Kind::cpu ? 0 : static_cast<std::int64_t>(index.memory_bytes());
  }
};

/// Builds the index of a tile, on the device that the execution names.
std::shared_ptr<const Resident> make_resident(const Question& question, TileData data,
                                              const Execution& execution);

/// Bytes by a tile's rows, before there are any.
struct TileMemory {
  std::uint64_t row_bytes = 0;
  std::int64_t dim = 0;
  bool doubles = false;
  bool tree = true;
  bool points = false;     ///< the coordinates stay beside the index
  bool on_device = false;  ///< the index takes nothing here

  /// As it was read.
  std::int64_t data(std::int64_t rows) const;
  /// As a Resident.
  std::int64_t resident(std::int64_t rows) const;
  /// The most that building one takes, beside its data.
  std::int64_t build(std::int64_t rows) const;
};

/// For each tile the last one along the curve whose box lies at its side: what comes later has little to ask
/// of it.
std::vector<std::int64_t> last_neighbors(const Manifest& manifest);

/// Tiles in memory, within a budget. Those leave first that no tile to come lies beside, then the least
/// recently used ones.
class ResidentTiles {
 public:
  /// @param ahead see TileReader
  /// @param devices that tiles are dealt out to in turn; none: the CPU, and no budget for them
  ResidentTiles(const Folder& folder, const Question& question, const TileMemory& memory, std::int64_t budget,
                std::int64_t ahead, std::vector<Device> devices, std::int64_t device_budget);

  /// The sweep has come to a tile.
  void reach(std::int64_t tile) { reached_ = tile; }

  /// Reads a tile and builds its index, unless it is there. Others leave before, so that it fits into the
  /// budget beside them.
  std::shared_ptr<const Resident> get(std::int64_t tile, const Execution& execution);
  /// The same of a tile that was read already.
  std::shared_ptr<const Resident> add(TileData data, const Execution& execution);
  /// Takes one that somebody else has made.
  void add(std::shared_ptr<const Resident> made);

  /// Where a tile is searched.
  Device device_of(std::int64_t tile) const;

  /// Null where it is not in memory.
  std::shared_ptr<const Resident> find(std::int64_t tile) const;
  /// Those in memory, the most recent first.
  std::vector<std::int64_t> tiles() const;

  /// A tile for add(); reading those that follow it goes on meanwhile.
  TileData read(std::int64_t tile);
  /// get() will be called for this one.
  void expect(std::int64_t tile);
  /// Counts one that somebody else has read.
  void count_read(std::int64_t tile);

  std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  std::int64_t reads_again() const noexcept { return reads_again_; }
  ReadStatistics read_statistics() const { return reader_.statistics(); }
  /// Counts what a run before has read: the tiles before `tile`, and so many bytes and reads.
  void resume(std::int64_t tile, std::uint64_t bytes_read, std::int64_t reads_again);

 private:
  /// Drops some until there is room for so many bytes more, here and on a device.
  void make_room(std::int64_t bytes, const Device& device, std::int64_t device_bytes);
  template <class Where>
  void drop(const Where& where);

  const Folder& folder_;
  Question question_;
  TileReader reader_;
  TileMemory memory_;
  std::int64_t budget_;
  std::vector<Device> devices_;
  std::int64_t device_budget_;
  std::int64_t held_ = 0;
  std::map<int, std::int64_t> held_on_;  // by the ordinal of the device
  std::uint64_t bytes_read_ = 0;
  std::int64_t reads_again_ = 0;
  std::vector<bool> was_read_;
  std::vector<std::int64_t> last_neighbor_;
  std::int64_t reached_ = 0;
  std::list<std::shared_ptr<const Resident>> tiles_;
};

}  // namespace kith::point_tiles
