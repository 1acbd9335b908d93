#include "point_tiles/resident.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "point_tiles/devices.hpp"
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
  if (on_device)
    return rows * ((points || !tree ? kept : 0) + static_cast<std::int64_t>(sizeof(std::int64_t)));
  // Coordinates and places, nodes of half full leaves; brute force keeps the rows and a code of a byte or two
  // a value.
  const std::int64_t index =
      tree ? dim * element + 4 + (dim * element) / 2 + 8 + (points ? kept : 0) : kept + dim * element + 32;
  return rows * (index + static_cast<std::int64_t>(sizeof(std::int64_t)));
}

std::int64_t TileMemory::build(std::int64_t rows) const {
  if (on_device) return resident(rows);
  const std::int64_t element = doubles ? 8 : 4;
  // Two records of coordinates and place, or keys of as many bytes.
  return resident(rows) + rows * std::max<std::int64_t>(2 * (dim * element + 8) + 1, 48);
}

std::shared_ptr<const Resident> make_resident(const Question& question, TileData data,
                                              const Execution& execution) {
  const IndexParameters parameters = Indexes::parameters(question.inside, question.metric);
  AnyIndex index = AnyIndex::build(data.coordinates, parameters, execution);
  const bool keeps = question.points || index.point_tree() == nullptr;
  const DatasetView& view = data.coordinates.view();
  auto made = std::make_shared<Resident>(
      Resident{data.tile, std::move(index), std::move(data.rows), {}, execution.devices.front(), 0});
  if (keeps) made->beside = view.rows * view.dim * static_cast<std::int64_t>(size_of(view.dtype));
  if (question.points) made->coordinates = std::move(data.coordinates);
  return made;
}

ResidentTiles::ResidentTiles(const Folder& folder, const Question& question, const TileMemory& memory,
                             std::int64_t budget, std::int64_t ahead, std::vector<Device> devices,
                             std::int64_t device_budget)
    : folder_(folder),
      question_(question),
      reader_(folder, ahead),
      memory_(memory),
      budget_(budget),
      devices_(std::move(devices)),
      device_budget_(device_budget),
      was_read_(folder.manifest().tiles.size()),
      last_neighbor_(last_neighbors(folder.manifest())) {}

Device ResidentTiles::device_of(std::int64_t tile) const {
  return devices_.empty() ? Device{} : devices_[static_cast<std::size_t>(tile) % devices_.size()];
}

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

// Of those that where(resident) takes.
template <class Where>
void ResidentTiles::drop(const Where& where) {
  const auto passed = [&](const auto& held) {
    return where(*held) && last_neighbor_[static_cast<std::size_t>(held->tile)] < reached_;
  };
  auto victim = std::find_if(tiles_.rbegin(), tiles_.rend(), passed);
  if (victim == tiles_.rend()) {
    victim = std::find_if(tiles_.rbegin(), tiles_.rend(), [&](const auto& held) { return where(*held); });
  }
  held_ -= (*victim)->bytes();
  held_on_[(*victim)->device.ordinal] -= (*victim)->device_bytes();
  tiles_.erase(std::next(victim).base());
}

void ResidentTiles::make_room(std::int64_t bytes, const Device& device, std::int64_t device_bytes) {
  while (!tiles_.empty() && held_ + bytes > budget_) drop([](const Resident&) { return true; });
  if (device.kind == Device::Kind::cpu) return;
  std::int64_t& held = held_on_[device.ordinal];
  while (held > 0 && held + device_bytes > device_budget_) {
    drop([&](const Resident& other) { return other.device == device && other.device_bytes() > 0; });
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

std::shared_ptr<const Resident> ResidentTiles::add(TileData data, const Execution& execution) {
  const std::int64_t rows = data.rows.size();
  const Device& device = execution.devices.front();
  const DeviceTileMemory there(folder_.manifest(), question_);
  make_room(memory_.resident(rows), device, there.resident(rows));
  auto made = make_resident(question_, std::move(data), execution);
  add(made);
  return made;
}

void ResidentTiles::add(std::shared_ptr<const Resident> made) {
  make_room(made->bytes(), made->device, made->device_bytes());
  held_ += made->bytes();
  held_on_[made->device.ordinal] += made->device_bytes();
  tiles_.push_front(std::move(made));
}

}  // namespace kith::point_tiles
