#include "point_tiles/resident.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "point_tiles/shares.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {

std::vector<std::int64_t> last_neighbors(const Manifest& manifest) {
  const auto count = static_cast<std::int64_t>(manifest.tiles.size());
  std::vector<std::int64_t> last(manifest.tiles.size(), count);
  if (count > tuning::compared_tiles) return last;
  for (std::int64_t t = 0; t < count; ++t) {
    const Tile& tile = manifest.tiles[static_cast<std::size_t>(t)];
    if (!tile.has_box()) continue;
    double side = 0;
    for (std::size_t j = 0; j < tile.lower.size(); ++j) side = std::max(side, tile.upper[j] - tile.lower[j]);
    const auto beside = [&](const Tile& other) {
      for (std::size_t j = 0; j < tile.lower.size(); ++j) {
        const double gap = std::max(other.lower[j] - tile.upper[j], tile.lower[j] - other.upper[j]);
        if (gap > tuning::near_side * side) return false;
      }
      return true;
    };
    std::int64_t other = count - 1;
    while (other > t && !(manifest.tiles[static_cast<std::size_t>(other)].has_box() &&
                          beside(manifest.tiles[static_cast<std::size_t>(other)]))) {
      --other;
    }
    last[static_cast<std::size_t>(t)] = other;
  }
  return last;
}

std::int64_t TileMemory::data(std::int64_t rows) const {
  return rows * static_cast<std::int64_t>(row_bytes + sizeof(std::int64_t));
}

std::int64_t TileMemory::resident(std::int64_t rows) const {
  const std::int64_t element = doubles ? 8 : 4;
  const auto kept = static_cast<std::int64_t>(row_bytes);
  // Coordinates and places, nodes of half full leaves; brute force keeps the rows and a code of a byte or two
  // a value.
  const std::int64_t index =
      tree ? dim * element + 4 + (dim * element) / 2 + 8 + (points ? kept : 0) : kept + dim * element + 32;
  return rows * (index + static_cast<std::int64_t>(sizeof(std::int64_t)));
}

std::int64_t TileMemory::build(std::int64_t rows) const {
  const std::int64_t element = doubles ? 8 : 4;
  // Two records of coordinates and place, or keys of as many bytes.
  return resident(rows) + rows * std::max<std::int64_t>(2 * (dim * element + 8) + 1, 48);
}

ResidentTiles::ResidentTiles(const Folder& folder, const Question& question, std::int64_t budget,
                             std::int64_t ahead)
    : folder_(folder),
      question_(question),
      reader_(folder, ahead),
      memory_(memory_of_tiles(folder.manifest(), question)),
      budget_(budget),
      was_read_(folder.manifest().tiles.size()),
      last_neighbor_(last_neighbors(folder.manifest())) {}

std::shared_ptr<const Resident> ResidentTiles::find(std::int64_t tile) const {
  for (const auto& held : tiles_) {
    if (held->tile == tile) return held;
  }
  return nullptr;
}

std::vector<std::int64_t> ResidentTiles::tiles() const {
  std::vector<std::int64_t> numbers;
  for (const auto& held : tiles_) numbers.push_back(held->tile);
  return numbers;
}

void ResidentTiles::shrink_to(std::int64_t bytes) {
  while (!tiles_.empty() && held_ > bytes) {
    auto victim = std::find_if(tiles_.rbegin(), tiles_.rend(), [&](const auto& held) {
      return last_neighbor_[static_cast<std::size_t>(held->tile)] < reached_;
    });
    if (victim == tiles_.rend()) victim = tiles_.rbegin();
    held_ -= (*victim)->bytes();
    tiles_.erase(std::next(victim).base());
  }
}

void ResidentTiles::count_read(std::int64_t tile) {
  if (was_read_[static_cast<std::size_t>(tile)]) ++reads_again_;
  was_read_[static_cast<std::size_t>(tile)] = true;
  bytes_read_ += static_cast<std::uint64_t>(folder_.manifest().tiles[static_cast<std::size_t>(tile)].rows) *
                 folder_.manifest().record_bytes();
}

void ResidentTiles::resume(std::int64_t tile, std::uint64_t bytes_read, std::int64_t reads_again) {
  std::fill_n(was_read_.begin(), tile, true);
  bytes_read_ = bytes_read;
  reads_again_ = reads_again;
}

std::shared_ptr<const Resident> ResidentTiles::get(std::int64_t tile, const Execution& execution) {
  const auto at = std::ranges::find_if(tiles_, [&](const auto& held) { return held->tile == tile; });
  if (at != tiles_.end()) {
    tiles_.splice(tiles_.begin(), tiles_, at);
    return tiles_.front();
  }
  count_read(tile);
  return add(reader_.take(tile), execution);
}

TileData ResidentTiles::read(std::int64_t tile) {
  count_read(tile);
  TileData data = reader_.take(tile);
  reader_.expect(tile + 1);
  return data;
}

void ResidentTiles::expect(std::int64_t tile) {
  if (find(tile) == nullptr) reader_.expect_one(tile);
}

std::shared_ptr<const Resident> ResidentTiles::add(const TileData& data, const Execution& execution) {
  const auto fit = [&](std::int64_t bytes) { shrink_to(std::max<std::int64_t>(0, budget_ - bytes)); };
  fit(memory_.resident(static_cast<std::int64_t>(data.rows.size())));
  const IndexParameters parameters = Indexes::parameters(question_.inside, question_.metric);
  AnyIndex index = AnyIndex::build(data.coordinates, parameters, execution);
  auto made = std::make_shared<Resident>(Resident{data.tile, std::move(index), data.rows, {}});
  if (question_.points) made->coordinates = data.coordinates;
  if (question_.points || made->index.point_tree() == nullptr) {
    made->beside = static_cast<std::int64_t>(data.rows.size() * folder_.manifest().row_bytes());
  }
  fit(made->bytes());
  held_ += made->bytes();
  tiles_.push_front(made);
  return made;
}

}  // namespace kith::point_tiles
