// PointTiles::verify: every tile against its checksum, its box and the row numbers.
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "core/visit_dtype.hpp"
#include "kith/point_tiles.hpp"
#include "point_tiles/checks.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/resident.hpp"

namespace kith {

using point_tiles::Manifest;

void PointTiles::verify(const Execution& given) const {
  const Execution execution = point_tiles::checked_on_cpu(given, "point tiles are checked");
  const Manifest& manifest = folder_->manifest();
  ProgressCounter progress(execution, "verify", manifest.rows);
  std::vector<bool> seen(static_cast<std::size_t>(manifest.rows));
  const auto fail = [&](std::size_t tile, const std::string& what) {
    return IoError(fmt::format("'{}' is corrupt: tile {} {}; build the tiles again",
                               (folder_->path() / point_tiles::manifest_name).string(), tile, what));
  };
  for (std::size_t t = 0; t < manifest.tiles.size(); ++t) {
    const point_tiles::Tile& tile = manifest.tiles[t];
    const point_tiles::TileData data = point_tiles::read_tile(*folder_, static_cast<std::int64_t>(t));
    for (std::int64_t i = 0; i < data.rows.size(); ++i) {
      const std::int64_t row = data.rows[i];
      if (row < 0 || row >= manifest.rows || (i > 0 && row <= data.rows[i - 1]) ||
          seen[static_cast<std::size_t>(row)]) {
        throw fail(t, fmt::format("has the row {} out of place", row));
      }
      seen[static_cast<std::size_t>(row)] = true;
    }
    visit_dtype(manifest.dtype, [&]<class T>(T) {
      for (std::int64_t i = 0; i < tile.rows; ++i) {
        const T* values = static_cast<const T*>(data.coordinates.view().row(i));
        bool finite = true;
        for (std::int64_t j = 0; j < manifest.dim; ++j) {
          const double value = to_double(values[j]);
          finite = finite && std::isfinite(value);
          if (tile.has_box() && !(value >= tile.lower[static_cast<std::size_t>(j)] &&
                                  value <= tile.upper[static_cast<std::size_t>(j)])) {
            throw fail(t, fmt::format("has the row {} outside of its box", data.rows[i]));
          }
        }
        if (finite != tile.has_box()) throw fail(t, "has no box though its rows are finite");
      }
    });
    progress.advance(tile.rows);
  }
  progress.finish();
}

}  // namespace kith
