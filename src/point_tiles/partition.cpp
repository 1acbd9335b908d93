// A sample gives splitters; every row goes to the buffer of its tile, and a full buffer to the end of a
// segment (dealer.hpp). Tiles that came out more than twice too large go through the same once or twice more;
// what is still too large then (equal points) is cut by row number, between extents, which moves nothing.
#include "point_tiles/partition.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/beside.hpp"
#include "core/memory_budget.hpp"
#include "core/plural.hpp"
#include "kith/error.hpp"
#include "point_tiles/dealer.hpp"
#include "point_tiles/hilbert.hpp"
#include "point_tiles/journal.hpp"
#include "point_tiles/records.hpp"
#include "point_tiles/tuning.hpp"
#include "point_tiles/work_folder.hpp"

namespace kith::point_tiles {
namespace {

namespace fs = std::filesystem;

// What the integers of a cloud stand for; nothing where it is none of integers.
std::optional<io::IntegerScale> integers_of(io::PointStream& cloud) {
  const io::IntegerPoints* integers = CloudRecords::integers_of(cloud);
  return integers == nullptr ? std::nullopt : std::optional(*integers->integer_scale());
}

class Partition {
 public:
  Partition(io::PointStream& cloud, std::int64_t tile_points, Undone& undone, const Execution& execution)
      : cloud_(cloud),
        undone_(undone),
        folder_(work_.file("tiles")),
        dim_(cloud.dim()),
        dtype_(cloud.dtype()),
        integers_(integers_of(cloud)),
        tile_points_(tile_points),
        dealer_(dim_, dtype_, integers_, cloud.rows(), tile_points, undone, execution) {
    std::error_code ignored;
    fs::create_directory(folder_, ignored);  // or it is there from a run before
  }

  Manifest run() {
    Manifest manifest;
    manifest.dtype = dtype_;
    manifest.dim = dim_;
    manifest.rows = cloud_.rows();
    manifest.tile_points = tile_points_;
    manifest.integers = integers_;
    if (cloud_.rows() > 0) {
      std::vector<Growing> tiles;
      {
        OpenSegment& segment = open_segment();
        CloudRecords cloud(cloud_);
        tiles = dealer_.divide(cloud, segment, true);
        close_segment(segment);
      }
      for (int level = 1; level <= tuning::further_levels; ++level) divide_again(tiles);
      finish_tiles(tiles, manifest);
    }
    manifest.nan_rows = dealer_.nan_rows();
    manifest.segments = drop_unused(manifest);
    dealer_.finish();
    return manifest;
  }

 private:
  bool is_large(const Growing& tile) const { return tile.rows > 2 * tile_points_; }

  OpenSegment& open_segment() {
    const auto number = static_cast<std::int64_t>(segments_.size());
    const std::string file = fmt::format("segment-{}.bin", number);
    segments_.push_back({file, 0});
    return undone_.segments.emplace_back(OutputFile::lasting(work_.file("tiles/" + file)), number, 0);
  }
  void close_segment(const OpenSegment& segment) {
    segments_.back().bytes = segment.end;
    readable_.emplace_back(segment.file.path());
  }

  // Those that came out too large; where no plane divides one it stays.
  void divide_again(std::vector<Growing>& tiles) {
    if (std::ranges::none_of(tiles, [&](const Growing& tile) { return is_large(tile); })) return;
    std::vector<Growing> finished;
    std::vector<Growing> large;
    for (Growing& tile : tiles) (is_large(tile) ? large : finished).push_back(std::move(tile));
    OpenSegment& segment = open_segment();
    for (Growing& tile : large) {
      TileRecords records(readable_, tile, dealer_.row_bytes());
      std::vector<Growing> parts = dealer_.divide(records, segment, false);
      if (parts.empty()) parts.push_back(std::move(tile));
      std::move(parts.begin(), parts.end(), std::back_inserter(finished));
    }
    close_segment(segment);
    tiles = std::move(finished);
  }

  // Cuts what is still too large by row number, orders the tiles, and lists them.
  void finish_tiles(std::vector<Growing>& grown, Manifest& manifest) const {
    std::vector<Tile> tiles;
    for (Growing& tile : grown) {
      Tile part;
      Bounds bounds;
      const auto close = [&] {
        if (part.rows == 0) return;
        part.lower = std::move(bounds.lower);
        part.upper = std::move(bounds.upper);
        tiles.push_back(std::exchange(part, {}));
        bounds = {};
      };
      const bool cut = is_large(tile);
      for (std::size_t e = 0; e < tile.extents.size(); ++e) {
        if (cut && part.rows > 0 && part.rows + tile.extents[e].rows > tile_points_) close();
        part.rows += tile.extents[e].rows;
        part.extents.push_back(tile.extents[e]);
        bounds.include(tile.bounds[e]);
      }
      close();
    }
    // Those without a box last.
    std::vector<double> centres;
    std::vector<std::size_t> boxed;
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      if (!tiles[t].has_box()) continue;
      boxed.push_back(t);
      for (std::size_t j = 0; j < static_cast<std::size_t>(dim_); ++j) {
        centres.push_back(tiles[t].lower[j] / 2 + tiles[t].upper[j] / 2);
      }
    }
    for (const std::int64_t i : hilbert_order(centres, static_cast<std::int64_t>(boxed.size()), dim_)) {
      manifest.tiles.push_back(std::move(tiles[boxed[static_cast<std::size_t>(i)]]));
    }
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      if (tiles[t].rows > 0 && !std::ranges::binary_search(boxed, t))
        manifest.tiles.push_back(std::move(tiles[t]));
    }
    // Behind the coordinates of an extent stand its row numbers, and they ascend.
    for (Tile& tile : manifest.tiles) {
      const Extent& first = tile.extents.front();
      readable_[static_cast<std::size_t>(first.segment)].read(
          first.offset + static_cast<std::uint64_t>(first.rows) * dealer_.row_bytes(), &tile.first_row,
          sizeof tile.first_row);
    }
  }

  // Segments all of whose tiles were divided again are nobody's.
  std::vector<Segment> drop_unused(Manifest& manifest) const {
    std::vector<std::int64_t> number(segments_.size(), -1);
    for (const Tile& tile : manifest.tiles) {
      for (const Extent& extent : tile.extents) number[static_cast<std::size_t>(extent.segment)] = 0;
    }
    if (std::ranges::count(number, -1) > 0) {
      undone_.records.push_back({{"divided", true}});
      undone_.note();
    }
    std::vector<Segment> used;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      if (number[s] < 0) {
        fs::remove(folder_ / segments_[s].file);
      } else {
        work_.check_file("tiles/" + segments_[s].file, segments_[s].bytes);
        number[s] = static_cast<std::int64_t>(used.size());
        used.push_back(segments_[s]);
      }
    }
    for (Tile& tile : manifest.tiles) {
      for (Extent& extent : tile.extents) extent.segment = number[static_cast<std::size_t>(extent.segment)];
    }
    return used;
  }

  io::PointStream& cloud_;
  Undone& undone_;
  WorkFolder& work_ = undone_.work;
  fs::path folder_;
  std::int64_t dim_;
  Dtype dtype_;
  std::optional<io::IntegerScale> integers_;
  std::int64_t tile_points_;
  Dealer dealer_;
  std::vector<Segment> segments_;
  std::vector<InputFile> readable_;
};

// Where a folder is to be: nothing, an empty folder, or older tiles.
void check_place(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return;
  if (!fs::is_directory(folder, ignored)) {
    throw IoError(fmt::format("cannot write '{}': it is a file, and point tiles are a folder; name another",
                              folder.string()));
  }
  if (fs::is_empty(folder, ignored)) return;
  if (is_folder_of_tiles(folder)) {
    // It will be replaced, with all that is in it.
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name == manifest_name || name.starts_with("segment-")) continue;
      throw IoError(fmt::format(
          "cannot write '{}': beside point tiles it holds '{}', which would be lost; move that away, or name "
          "another folder",
          folder.string(), name));
    }
    return;
  }
  throw IoError(fmt::format(
      "cannot write '{}': the folder is not empty, and holds no point tiles; name another", folder.string()));
}

// Of a size that was asked for. The default is what memory leaves.
void check_number(std::int64_t rows, std::int64_t tile_points) {
  if (tile_points == 0) return;
  if (tile_points > most_bytes) {
    throw InvalidArgument(
        fmt::format("tiles of {} points; use at most {} (--tile-points)", tile_points, most_bytes));
  }
  const std::int64_t tiles = rows / tile_points + (rows % tile_points == 0 ? 0 : 1);
  if (tiles <= tuning::most_tiles) return;
  throw InvalidArgument(fmt::format(
      "{} in tiles of {} would be {} tiles, and more than {} take too long to tell apart; use tiles of {} "
      "points or more (--tile-points)",
      plural(rows, "row"), plural(tile_points, "point"), tiles, tuning::most_tiles,
      (rows + tuning::most_tiles - 1) / tuning::most_tiles));
}

// All that the tiles depend on.
nlohmann::json task_of(io::PointStream& cloud, const std::vector<SourceCloud>& sources,
                       std::int64_t tile_points) {
  nlohmann::json list = nlohmann::json::array();
  for (const SourceCloud& source : sources) {
    list.push_back({source.name, source.rows, source.bytes, source.modified});
    if (source.format) list.back().push_back(name(*source.format));
  }
  nlohmann::json task = {{"call", "build"},
                         {"sources", list},
                         {"rows", cloud.rows()},
                         {"dim", cloud.dim()},
                         {"dtype", name(cloud.dtype())},
                         {"tile_points", tile_points}};
  if (const auto integers = integers_of(cloud)) {
    task["integers"] = {{"scale", integers->scale}, {"offset", integers->offset}};
  }
  return task;
}

}  // namespace

std::int64_t memory_of(const Execution& execution) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  if (execution.memory_limit == 0) return available_memory() / 2;
  return execution.memory_limit > static_cast<std::uint64_t>(most)
             ? most
             : static_cast<std::int64_t>(execution.memory_limit);
}

std::int64_t default_tile_points(std::int64_t memory, std::uint64_t record_bytes) {
  std::int64_t points = tuning::tile_points;
  const auto record = static_cast<std::int64_t>(record_bytes);
  while (points > tuning::least_default_tile &&
         points > memory / tuning::tiles_in_memory / (tuning::bytes_a_record * record)) {
    points /= 2;
  }
  return points;
}

namespace {

// What fails asks whether something was noted: when nobody is about to.
class AtRest {
 public:
  explicit AtRest(Undone& undone) : undone_(undone) {}
  AtRest(const AtRest&) = delete;
  AtRest& operator=(const AtRest&) = delete;
  ~AtRest() {
    if (std::uncaught_exceptions() > before_) undone_.saver.rest();
  }

 private:
  Undone& undone_;
  int before_ = std::uncaught_exceptions();
};

// Tiles that are in the work folder, whole, and not safe on the disk yet.
struct Divided {
  std::unique_ptr<Undone> undone;
  WorkFolder::Moves moves;
  OutputFile manifest;  // none: a run before has put them in place

  fs::path folder() const { return undone->work.path() / moves.front().first; }

  // Makes them safe, and gives them their name.
  void finish() {
    resumably(undone->work, [&] {
      const AtRest at_rest(*undone);
      undone->note();
      manifest.sync();
      sync_folder(folder());
      undone->segments.clear();
      undone->work.finish(moves);
    });
  }
};

// @return nothing where a run before has come to the end
std::optional<Divided> divide(io::PointStream& cloud, std::vector<SourceCloud> sources,
                              const fs::path& folder, std::int64_t tile_points, const Execution& execution) {
  check_place(folder);
  check_number(cloud.rows(), tile_points);
  const bool resumable =
      std::ranges::none_of(sources, [](const SourceCloud& source) { return source.modified == 0; });
  Divided made;
  made.undone = std::make_unique<Undone>(folder, task_of(cloud, sources, tile_points), resumable);
  WorkFolder& work = made.undone->work;
  fs::path place = folder;
  if (!place.has_filename()) place = place.parent_path();
  made.moves = {{"tiles", place}};
  const bool unfinished = resumably(work, [&] {
    const AtRest at_rest(*made.undone);
    nlohmann::json nothing;
    if (work.was_finished(made.moves, nothing)) return false;
    // The default depends on the limit, which may be another in the run that goes on.
    std::int64_t points = tile_points;
    if (const nlohmann::json* before = work.last("tile_points")) {
      points = whole(*before, "tile_points", 1, most_bytes);
    } else if (points == 0) {
      const std::uint64_t row_bytes = static_cast<std::uint64_t>(cloud.dim()) * size_of(cloud.dtype());
      points = default_tile_points(memory_of(execution), row_bytes + sizeof(std::int64_t));
    }
    Manifest manifest = Partition(cloud, points, *made.undone, execution).run();
    manifest.sources = std::move(sources);
    made.manifest = OutputFile::lasting(work.file(fmt::format("tiles/{}", manifest_name)));
    const std::string text = to_text(manifest);
    made.manifest.truncate(0);
    made.manifest.write(0, text.data(), text.size());
    return true;
  });
  return unfinished ? std::optional(std::move(made)) : std::nullopt;
}

}  // namespace

void partition(io::PointStream& cloud, std::vector<SourceCloud> sources, const fs::path& folder,
               std::int64_t tile_points, const Execution& execution) {
  std::optional<Divided> made = divide(cloud, std::move(sources), folder, tile_points, execution);
  if (made) made->finish();
}

std::shared_ptr<const Folder> partition_behind(io::PointStream& cloud, std::vector<SourceCloud> sources,
                                               const fs::path& folder, std::int64_t tile_points,
                                               const Execution& execution) {
  std::optional<Divided> divided = divide(cloud, std::move(sources), folder, tile_points, execution);
  if (!divided) return std::make_shared<const Folder>(folder);
  const auto made = std::make_shared<Divided>(*std::move(divided));
  auto opened = resumably(made->undone->work, [&] {
    const AtRest at_rest(*made->undone);
    return std::make_shared<Folder>(made->folder());
  });
  opened->becomes(made->moves.front().second, beside([made] {
                    made->finish();
                    made->undone.reset();  // whoever comes next may have a folder of that name
                  }));
  return opened;
}

}  // namespace kith::point_tiles
