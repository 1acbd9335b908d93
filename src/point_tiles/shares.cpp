#include "point_tiles/shares.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "core/plural.hpp"
#include "kith/any_index.hpp"
#include "kith/error.hpp"
#include "point_tiles/partition.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {
namespace {

// A list of one query in a block: its row and distance, k + 1 of them where the query is taken out itself,
// what a search takes for a query beside it, and what is made of it.
std::int64_t list_bytes(const Question& question, bool doubles) {
  constexpr std::int64_t a_query = 64;
  const std::int64_t one_more = question.kind == Kind::nearest ? 1 : 0;
  return (question.most_entries() + one_more) * (8 + (doubles ? 8 : 4)) + a_query + question.result_bytes;
}

// What of a row is known when its tile is ready: the list, or what was made of it and the k-th neighbour.
std::int64_t own_bytes(const Question& question, std::int64_t dim, bool doubles, bool on_device) {
  const std::int64_t distance = doubles ? 8 : 4;
  if (question.kind != Kind::nearest) return 0;
  if (question.reduction == Reduction::none) return (question.k + 1) * (8 + distance);
  const std::int64_t times = on_device ? 2 : 1;  // some of it twice, while it is put together
  return times * question.reduced_values(dim) * 8 + 8 + distance;
}

std::int64_t staging_of(const TileMemory& memory, std::int64_t rows) {
  return std::min(tuning::staging_bytes, 4 * memory.data(rows));
}

std::string lists_of(const Question& question) {
  if (question.kind == Kind::nearest) return fmt::format(" for k = {}", question.k);
  return fmt::format(" within {}", question.radius);
}

}  // namespace

MemoryShares::MemoryShares(const Manifest& manifest, const Question& question, const Execution& execution,
                           std::int64_t held)
    : devices(search_devices(execution)) {
  const bool there = !devices.devices.empty();
  const TileMemory memory = memory_of_tiles(manifest, question, there);
  const std::int64_t limit = memory_of(execution);
  const bool limited = execution.memory_limit > 0;
  const std::int64_t rows = manifest.largest_tile();
  if (there) on_device = DeviceShares(DeviceTileMemory(manifest, question), devices, rows);
  const std::int64_t staging = there ? staging_of(memory, rows) : 0;
  const std::int64_t a_list = list_bytes(question, memory.doubles);
  const std::int64_t building = memory.build(rows) - memory.resident(rows);
  const std::int64_t least_block = std::min(rows, tuning::least_block);
  const std::int64_t own = rows * own_bytes(question, manifest.dim, memory.doubles, there);
  // What is made of lists alone, on the CPU: nobody keeps them, and it is written while the next tree is
  // built.
  const bool reduced =
      !there && question.kind == Kind::nearest && question.reduction != Reduction::none && memory.tree;
  const std::int64_t least_lists = reduced ? building + own : std::max(building, least_block * a_list);
  // The tile that is searched, and the one that is read meanwhile.
  const std::int64_t data = 2 * memory.data(rows);
  // A query on a visit: its list so far, that of the tile it visits, and both merged.
  const std::int64_t a_visit =
      3 * a_list +
      (question.points ? 2 * question.most_entries() * static_cast<std::int64_t>(memory.row_bytes) : 0);
  const std::int64_t least = data + 2 * memory.resident(rows) + least_lists +
                             tuning::least_visiting * a_visit + tuning::least_waiting + held + staging;
  if (least > limit) {
    throw OutOfMemory(
        fmt::format("searching two tiles of {} and the lists of {}{} takes about {} bytes{}, {} {}; "
                    "raise the limit, or build the "
                    "tiles again with fewer points in each (--tile-points)",
                    plural(rows, "point"), plural(least_block, "row"), lists_of(question), least,
                    held > 0 ? fmt::format(", {} of them for queries and answers", held) : "",
                    limited ? "the limit is" : "half of the free memory is", limit));
  }
  const std::int64_t spare = limit - least;
  const std::int64_t wanted = question.kind == Kind::within ? spare : rows * a_list;
  lists = least_lists;
  if (!reduced) lists = std::max(lists, std::min({wanted, spare / 3, tuning::largest_block_bytes}));
  const std::int64_t most = std::max(least_block, tuning::largest_block_bytes / a_list);
  block_rows = std::clamp<std::int64_t>(std::min(lists / a_list, most), 1, std::max<std::int64_t>(rows, 1));
  visiting_rows =
      std::clamp<std::int64_t>(spare / 32 / a_visit, tuning::least_visiting, tuning::visiting_block);
  waiting = tuning::least_waiting + spare / 6;
  // Small tiles are read several at a time: those that are under way, and those that were.
  ahead = std::min(tuning::ahead_bytes, spare / 16);
  if (ahead < memory.data(rows)) ahead = 0;
  const std::int64_t reading = ahead > 0 ? memory.data(rows) + 2 * ahead : data;
  resident = limit - held - reading - lists - visiting_rows * a_visit - waiting - staging;
  if (on_device.ahead == 0) return;
  // One that is ready: as it was read, what is known of its rows, and what that came through.
  const std::int64_t a_tile = memory.data(rows) + memory.resident(rows) + own + staging;
  ready = std::min(on_device.ahead * static_cast<std::int64_t>(devices.devices.size()), spare / 2 / a_tile);
  // What was made of the tile before is put meanwhile.
  const std::int64_t behind = ready > 0 && question.reduction != Reduction::none ? own : 0;
  resident = std::max(resident - ready * a_tile - behind, 2 * memory.resident(rows));
}

TileMemory memory_of_tiles(const Manifest& manifest, const Question& question, bool on_device) {
  return {manifest.row_bytes(),
          manifest.dim,
          manifest.dtype == Dtype::f64,
          question.inside != BruteForce::index_type.name,
          question.points,
          on_device};
}

}  // namespace kith::point_tiles
