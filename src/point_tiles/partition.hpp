// Makes a folder of point tiles from a cloud of any size: one read, one write, and once more what came out
// too large.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "io/point_stream.hpp"
#include "kith/execution.hpp"
#include "kith/point_tiles.hpp"
#include "point_tiles/folder.hpp"

namespace kith::point_tiles {

/// Memory that partition() may take, of an execution's limit; where there is none, half of what nobody uses.
std::int64_t memory_of(const Execution& execution);

/// The tile size that is taken where none is asked for.
std::int64_t default_tile_points(std::int64_t memory, std::uint64_t record_bytes);

/// The folder appears whole or not at all, also where the process is killed and runs again, in the place of
/// an older one of point tiles.
/// @param tile_points about how many a tile has; at most twice as many, but for what no plane tells apart. 0:
/// default_tile_points()
/// @throws IoError, OutOfMemory, Cancelled
void partition(io::PointStream& cloud, std::vector<SourceCloud> sources, const std::filesystem::path& folder,
               std::int64_t tile_points, const Execution& execution);

/// The same for tiles that are searched at once: they can be read when it returns, and reach the disk and
/// their name meanwhile. Folder::settle() waits for that.
std::shared_ptr<const Folder> partition_behind(io::PointStream& cloud, std::vector<SourceCloud> sources,
                                               const std::filesystem::path& folder, std::int64_t tile_points,
                                               const Execution& execution);

/// PointTiles::build() likewise.
PointTiles build_behind(const std::filesystem::path& folder, std::span<const std::filesystem::path> clouds,
                        const PointTilesParameters& parameters, const Execution& execution);

}  // namespace kith::point_tiles
