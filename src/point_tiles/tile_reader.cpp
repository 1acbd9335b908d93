#include "point_tiles/tile_reader.hpp"

#include <chrono>
#include <system_error>
#include <utility>

namespace kith::point_tiles {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TileData make_room(const Folder& folder, std::int64_t tile) {
  const Manifest& manifest = folder.manifest();
  const std::int64_t rows = manifest.tiles[static_cast<std::size_t>(tile)].rows;
  TileData data;
  data.tile = tile;
  data.coordinates = Dataset::allocate(manifest.dtype, rows, manifest.dim);
  data.rows = AlignedBuffer<std::int64_t>(rows);
  return data;
}

}  // namespace

TileData read_tile(const Folder& folder, std::int64_t tile) {
  TileData data = make_room(folder, tile);
  folder.read_tile(tile, data.coordinates.mutable_data(), data.rows.data());
  return data;
}

TileBatch read_tiles(const Folder& folder, PieceReader& reader, std::int64_t first, std::int64_t last) {
  const Clock::time_point start = Clock::now();
  TileBatch batch;
  std::vector<Piece> pieces;
  for (std::int64_t tile = first; tile < last; ++tile) {
    TileData& data = batch.tiles.emplace_back(make_room(folder, tile));
    folder.add_pieces(tile, data.coordinates.mutable_data(), data.rows.data(), pieces);
  }
  const std::uint64_t before = reader.direct_bytes();
  reader.read(pieces);
  batch.direct_bytes = reader.direct_bytes() - before;
  for (TileData& data : batch.tiles) {
    folder.check_tile(data.tile, data.coordinates.mutable_data(), data.rows.data());
  }
  batch.seconds = since(start);
  return batch;
}

TileReader::TileReader(const Folder& folder, std::int64_t ahead)
    : folder_(folder), ahead_(ahead), reader_(make_piece_reader()), ahead_reader_(make_piece_reader()) {}

std::int64_t TileReader::bytes(std::int64_t tile) const {
  const Manifest& manifest = folder_.manifest();
  return manifest.tiles[static_cast<std::size_t>(tile)].rows *
         static_cast<std::int64_t>(manifest.row_bytes() + sizeof(std::int64_t));
}

void TileReader::begin(std::int64_t first, std::int64_t last) {
  if (pending_.valid()) return;
  pending_first_ = first;
  pending_last_ = last;
  try {
    pending_ = std::async(std::launch::async,
                          [this, first, last] { return read_tiles(folder_, *ahead_reader_, first, last); });
  } catch (const std::system_error&) {
    pending_ = {};  // no thread to be had: take() reads by itself
  }
}

void TileReader::expect(std::int64_t tile) {
  if (!ready_.empty()) tile = ready_.back().tile + 1;
  const auto tiles = static_cast<std::int64_t>(folder_.manifest().tiles.size());
  if (pending_.valid() || tile >= tiles) return;
  std::int64_t last = tile + 1;
  for (std::int64_t held = bytes(tile); last < tiles && held + bytes(last) <= ahead_; ++last) {
    held += bytes(last);
  }
  begin(tile, last);
}

TileData TileReader::take(std::int64_t tile) {
  while (!ready_.empty() && ready_.front().tile < tile) ready_.pop_front();  // nobody has asked for it
  if (ready_.empty()) {
    const Clock::time_point start = Clock::now();
    const bool under_way = pending_.valid() && tile >= pending_first_ && tile < pending_last_;
    TileBatch batch = under_way ? pending_.get() : read_tiles(folder_, *reader_, tile, tile + 1);
    waited_ += since(start);
    seconds_ += batch.seconds;
    direct_bytes_ += batch.direct_bytes;
    ready_ = std::move(batch.tiles);
    while (ready_.front().tile < tile) ready_.pop_front();
  }
  TileData data = std::move(ready_.front());
  ready_.pop_front();
  return data;
}

ReadStatistics TileReader::statistics() const {
  return {reader_->name(), direct_bytes_, seconds_, waited_};
}

}  // namespace kith::point_tiles
