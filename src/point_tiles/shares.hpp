// How a limit on memory is shared out.
#pragma once

#include <cstdint>

#include "kith/execution.hpp"
#include "point_tiles/devices.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/question.hpp"
#include "point_tiles/resident.hpp"

namespace kith::point_tiles {

/// What is held at once: the tile that was read, what its index takes while it is built or, after that, the
/// lists of a block of its queries; the tiles in memory; queries that wait.
struct MemoryShares {
  std::int64_t block_rows = 0;     ///< queries that are answered together
  std::int64_t lists = 0;          ///< bytes of their lists
  std::int64_t ahead = 0;          ///< bytes of tiles that are read before they are searched, beyond one
  std::int64_t resident = 0;       ///< bytes of tiles in memory, the one that is searched included
  std::int64_t visiting_rows = 0;  ///< queries that visit other tiles together
  std::int64_t waiting = 0;  ///< bytes of queries that wait, in mailboxes and for the last sweep together
  SearchDevices devices;     ///< none: the CPU
  DeviceShares on_device;    ///< of each of them
  std::int64_t ready = 0;    ///< tiles that are made ready on devices before it is their turn

  /// @param execution its limit on memory, and devices
  /// @param held bytes of the limit that are the caller's: queries and their answers
  /// @throws OutOfMemory where two of the largest tiles do not fit beside them
  MemoryShares(const Manifest& manifest, const Question& question, const Execution& execution,
               std::int64_t held = 0);
};

/// What a tile of these takes for this question.
/// @param on_device whether it is searched there
TileMemory memory_of_tiles(const Manifest& manifest, const Question& question, bool on_device);

}  // namespace kith::point_tiles
