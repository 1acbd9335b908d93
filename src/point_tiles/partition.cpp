// A sample gives splitters; every row goes to the buffer of its tile, and a full buffer to the end of a
// segment. Tiles that came out more than twice too large go through the same once or twice more; what is
// still too large then (equal points) is cut by row number, between extents, which moves nothing.
#include "point_tiles/partition.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "core/atomic_file.hpp"
#include "core/memory_budget.hpp"
#include "core/parallel.hpp"
#include "core/plural.hpp"
#include "core/visit_dtype.hpp"
#include "kith/error.hpp"
#include "point_tiles/hilbert.hpp"
#include "point_tiles/splitters.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {
namespace {

namespace fs = std::filesystem;

// The box of some rows while it grows.
struct Bounds {
  std::vector<double> lower, upper;

  void include(const double* point, std::size_t dim) {
    if (lower.empty()) {
      lower.assign(point, point + dim);
      upper = lower;
      return;
    }
    for (std::size_t j = 0; j < dim; ++j) {
      lower[j] = std::min(lower[j], point[j]);
      upper[j] = std::max(upper[j], point[j]);
    }
  }
  void include(const Bounds& other) {
    if (other.lower.empty()) return;
    include(other.lower.data(), other.lower.size());
    include(other.upper.data(), other.upper.size());
  }
};

// A tile that is being made: its extents and the box of each.
struct Growing {
  std::int64_t rows = 0;
  std::vector<Extent> extents;
  std::vector<Bounds> bounds;
};

// Records in memory until they are an extent.
struct Buffer {
  std::vector<std::byte> coordinates;
  std::vector<std::int64_t> rows;
  Bounds bounds;
};

// Rows to divide among tiles, from a cloud or from a tile.
class Records {
 public:
  Records() = default;
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;
  virtual ~Records() = default;
  virtual std::int64_t rows() const = 0;
  /// `count` rows from `first` on; from one end to the other, or some of them for a sample.
  virtual void read(std::int64_t first, std::int64_t count, std::byte* coordinates,
                    std::int64_t* numbers) = 0;
};

class CloudRecords final : public Records {
 public:
  explicit CloudRecords(io::PointStream& cloud) : cloud_(cloud) {}
  std::int64_t rows() const override { return cloud_.rows(); }
  void read(std::int64_t first, std::int64_t count, std::byte* coordinates, std::int64_t* numbers) override {
    cloud_.seek(first);
    cloud_.read(coordinates, count);
    for (std::int64_t i = 0; i < count; ++i) numbers[i] = first + i;
  }

 private:
  io::PointStream& cloud_;
};

// A tile in a finished segment.
class TileRecords final : public Records {
 public:
  TileRecords(const std::vector<InputFile>& segments, const Growing& tile, std::uint64_t row_bytes)
      : segments_(segments), tile_(tile), row_bytes_(row_bytes) {
    for (const Extent& extent : tile.extents)
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + extent.rows);
  }
  std::int64_t rows() const override { return tile_.rows; }
  void read(std::int64_t first, std::int64_t count, std::byte* coordinates, std::int64_t* numbers) override {
    while (count > 0) {
      const auto at = static_cast<std::size_t>(std::ranges::upper_bound(ends_, first) - ends_.begin());
      const Extent& extent = tile_.extents[at];
      const auto from = static_cast<std::uint64_t>(first - (ends_[at] - extent.rows));
      const std::int64_t here = std::min(count, ends_[at] - first);
      const auto bytes = static_cast<std::size_t>(here) * row_bytes_;
      const InputFile& file = segments_[static_cast<std::size_t>(extent.segment)];
      file.read(extent.offset + from * row_bytes_, coordinates, bytes);
      file.read(
          extent.offset + static_cast<std::uint64_t>(extent.rows) * row_bytes_ + from * sizeof(std::int64_t),
          numbers, static_cast<std::size_t>(here) * sizeof(std::int64_t));
      coordinates += bytes;
      numbers += here;
      first += here;
      count -= here;
    }
  }

 private:
  const std::vector<InputFile>& segments_;
  const Growing& tile_;
  std::uint64_t row_bytes_;
  std::vector<std::int64_t> ends_;
};

class Partition {
 public:
  Partition(io::PointStream& cloud, const fs::path& folder, std::int64_t tile_points,
            const Execution& execution)
      : cloud_(cloud),
        folder_(folder),
        dim_(cloud.dim()),
        dtype_(cloud.dtype()),
        row_bytes_(static_cast<std::size_t>(dim_) * size_of(dtype_)),
        tile_points_(tile_points),
        memory_(memory_of(execution)),
        execution_(execution),
        progress_(execution, "partition", cloud.rows()) {
    const auto record = static_cast<std::int64_t>(row_bytes_ + sizeof(std::int64_t));
    // An extent is no larger than a tile, so that one that is cut between extents ends in parts of its size.
    const std::int64_t usual = std::clamp<std::int64_t>(tuning::extent_bytes / record, 1, tile_points_);
    most_buffers_ = std::max<std::int64_t>(tuning::fewest_buffers, memory_ / 2 / (usual * record));
    buffer_rows_ = usual;
    block_rows_ =
        std::max<std::int64_t>(1, std::min<std::int64_t>(tuning::block_bytes, memory_ / 16) / record);
    const std::int64_t least = tuning::fewest_buffers * buffer_rows_ * record + block_rows_ * 2 * record;
    if (least > memory_) {
      throw OutOfMemory(
          fmt::format("dividing {} of {} bytes among tiles takes {} bytes at the least, the limit is {}; "
                      "raise the limit, or make "
                      "smaller tiles",
                      plural(cloud.rows(), "row"), row_bytes_, least, memory_));
    }
  }

  Manifest run() {
    Manifest manifest;
    manifest.dtype = dtype_;
    manifest.dim = dim_;
    manifest.rows = cloud_.rows();
    manifest.tile_points = tile_points_;
    if (cloud_.rows() > 0) {
      CloudRecords cloud(cloud_);
      std::vector<Growing> tiles = divide_level(cloud);
      for (int level = 1; level <= tuning::further_levels; ++level) {
        std::vector<Growing> finished;
        std::vector<Growing> large;
        for (Growing& tile : tiles) (is_large(tile) ? large : finished).push_back(std::move(tile));
        if (large.empty()) {
          tiles = std::move(finished);
          break;
        }
        open_segment();
        for (Growing& tile : large) {
          TileRecords records(readable_, tile, row_bytes_);
          std::vector<Growing> parts = divide(records, &tile);
          std::move(parts.begin(), parts.end(), std::back_inserter(finished));
        }
        close_segment();
        tiles = std::move(finished);
      }
      finish_tiles(tiles, manifest);
    }
    manifest.nan_rows = nan_rows_;
    manifest.segments = drop_unused(manifest);
    progress_.finish();
    return manifest;
  }

 private:
  bool is_large(const Growing& tile) const { return tile.rows > 2 * tile_points_; }

  void open_segment() {
    const std::string file = fmt::format("segment-{}.bin", segments_.size());
    segments_.push_back({file, 0});
    notes_.emplace_back(folder_ / file);
    out_ = std::make_unique<AtomicFile>(folder_ / file, execution_.cancelled);
  }
  void close_segment() {
    out_->commit();
    segments_.back().bytes = out_->size();
    out_.reset();
    readable_.emplace_back(folder_ / segments_.back().file);
  }

  std::vector<Growing> divide_level(Records& records) {
    open_segment();
    std::vector<Growing> tiles = divide(records, nullptr);
    close_segment();
    return tiles;
  }

  // A row as doubles. @return whether all are finite; `nan` whether one is none
  bool load(const std::byte* from, double* to, bool& nan) const {
    bool finite = true;
    nan = false;
    visit_dtype(dtype_, [&]<class T>(T) {
      for (std::int64_t j = 0; j < dim_; ++j) {
        T value;
        std::memcpy(&value, from + static_cast<std::size_t>(j) * sizeof(T), sizeof(T));
        to[j] = to_double(value);
        finite = finite && std::isfinite(to[j]);
        nan = nan || std::isnan(to[j]);
      }
    });
    return finite;
  }

  // About a million points, in short runs from one end to the other.
  Splitters choose_splitters(Records& records) {
    const std::int64_t n = records.rows();
    const std::int64_t wanted = (n + tile_points_ - 1) / tile_points_;
    // Too many for the buffers there is memory for: first into fewer, and each of them once more.
    const std::int64_t tiles = wanted <= most_buffers_
                                   ? wanted
                                   : (wanted + (wanted + most_buffers_ - 1) / most_buffers_ - 1) /
                                         ((wanted + most_buffers_ - 1) / most_buffers_);
    if (tiles < 2) return {};
    const std::int64_t most =
        std::clamp<std::int64_t>(memory_ / 4 / ((dim_ + 2) * 8), 1024, tuning::sample_points);
    constexpr std::int64_t run = tuning::sample_run;
    const std::int64_t runs = n <= most ? (n + run - 1) / run : most / run;
    std::vector<double> sample;
    sample.reserve(static_cast<std::size_t>(std::min(n, most) * dim_));
    std::vector<std::byte> coordinates(static_cast<std::size_t>(run) * row_bytes_);
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(run));
    std::vector<double> point(static_cast<std::size_t>(dim_));
    std::int64_t count = 0;
    for (std::int64_t r = 0; r < runs; ++r) {
      const std::int64_t first =
          n <= most ? r * run
                    : static_cast<std::int64_t>(static_cast<double>(n - run) * static_cast<double>(r) /
                                                static_cast<double>(runs));
      const std::int64_t here = std::min(run, n - first);
      records.read(first, here, coordinates.data(), numbers.data());
      for (std::int64_t i = 0; i < here; ++i) {
        bool nan = false;
        if (!load(coordinates.data() + static_cast<std::size_t>(i) * row_bytes_, point.data(), nan)) continue;
        sample.insert(sample.end(), point.begin(), point.end());
        ++count;
      }
      if (r % 64 == 0) progress_.check();
    }
    return Splitters(std::move(sample), count, dim_, tiles);
  }

  // The tiles that the records come to. `whole`: the tile that they are, which it stays where no plane
  // divides it; null: all of them.
  std::vector<Growing> divide(Records& records, Growing* whole) {
    const bool first_level = whole == nullptr;
    const Splitters splitters = choose_splitters(records);
    if (!first_level && splitters.tiles() < 2) {
      std::vector<Growing> same;
      same.push_back(std::move(*whole));
      return same;
    }
    // The last one takes rows that no box holds.
    const std::int64_t boxless = splitters.tiles();
    std::vector<Growing> tiles(static_cast<std::size_t>(boxless + 1));
    std::vector<Buffer> buffers(tiles.size());
    const auto capacity = static_cast<std::size_t>(std::clamp<std::int64_t>(
        memory_ / 2 / (boxless + 1) / static_cast<std::int64_t>(row_bytes_ + sizeof(std::int64_t)),
        buffer_rows_, std::max(buffer_rows_, std::min(tile_points_, tuning::largest_extent_rows))));

    const std::int64_t n = records.rows();
    std::vector<std::byte> coordinates(static_cast<std::size_t>(std::min(n, block_rows_)) * row_bytes_);
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(std::min(n, block_rows_)));
    std::vector<std::int32_t> tile_of(numbers.size());
    std::vector<double> points(numbers.size() * static_cast<std::size_t>(dim_));
    std::atomic<std::int64_t> nans{0};
    for (std::int64_t first = 0; first < n; first += block_rows_) {
      const std::int64_t count = std::min(block_rows_, n - first);
      records.read(first, count, coordinates.data(), numbers.data());
      constexpr std::int64_t part = 1 << 13;
      parallel_for(execution_, (count + part - 1) / part, [&](std::int64_t p) {
        for (std::int64_t i = p * part; i < std::min(count, (p + 1) * part); ++i) {
          bool nan = false;
          double* point = points.data() + i * dim_;
          const bool finite = load(coordinates.data() + static_cast<std::size_t>(i) * row_bytes_, point, nan);
          tile_of[static_cast<std::size_t>(i)] =
              static_cast<std::int32_t>(finite ? splitters.tile_of(point) : boxless);
          if (nan) nans.fetch_add(1, std::memory_order_relaxed);
        }
      });
      for (std::int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(tile_of[static_cast<std::size_t>(i)]);
        Buffer& buffer = buffers[at];
        const std::byte* row = coordinates.data() + static_cast<std::size_t>(i) * row_bytes_;
        if (buffer.rows.capacity() == 0) {
          buffer.rows.reserve(capacity);
          buffer.coordinates.reserve(capacity * row_bytes_);
        }
        buffer.coordinates.insert(buffer.coordinates.end(), row, row + row_bytes_);
        buffer.rows.push_back(numbers[static_cast<std::size_t>(i)]);
        if (static_cast<std::int64_t>(at) != boxless) {
          buffer.bounds.include(points.data() + i * dim_, static_cast<std::size_t>(dim_));
        }
        if (buffer.rows.size() == capacity) flush(buffer, tiles[at]);
      }
      if (first_level) progress_.advance(count);
      progress_.check();
    }
    for (std::size_t t = 0; t < tiles.size(); ++t) flush(buffers[t], tiles[t]);
    if (first_level) nan_rows_ = nans.load();
    std::erase_if(tiles, [](const Growing& tile) { return tile.rows == 0; });
    return tiles;
  }

  void flush(Buffer& buffer, Growing& tile) {
    if (buffer.rows.empty()) return;
    Extent extent;
    extent.segment = static_cast<std::int64_t>(segments_.size()) - 1;
    extent.offset = out_->size();
    extent.rows = static_cast<std::int64_t>(buffer.rows.size());
    extent.hash = extent_hash(buffer.coordinates.data(), buffer.coordinates.size(), buffer.rows.data(),
                              buffer.rows.size());
    out_->write(buffer.coordinates.data(), buffer.coordinates.size());
    out_->write(buffer.rows.data(), buffer.rows.size() * sizeof(std::int64_t));
    tile.rows += extent.rows;
    tile.extents.push_back(extent);
    tile.bounds.push_back(std::move(buffer.bounds));
    buffer.bounds = {};
    buffer.coordinates.clear();
    buffer.rows.clear();
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
  }

  // Segments all of whose tiles were divided again are nobody's.
  std::vector<Segment> drop_unused(Manifest& manifest) const {
    std::vector<std::int64_t> number(segments_.size(), -1);
    for (const Tile& tile : manifest.tiles) {
      for (const Extent& extent : tile.extents) number[static_cast<std::size_t>(extent.segment)] = 0;
    }
    std::vector<Segment> used;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      if (number[s] < 0) {
        fs::remove(folder_ / segments_[s].file);
      } else {
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
  const fs::path& folder_;
  std::int64_t dim_;
  Dtype dtype_;
  std::size_t row_bytes_;
  std::int64_t tile_points_;
  std::int64_t memory_;
  const Execution& execution_;
  ProgressCounter progress_;
  std::int64_t most_buffers_ = 0;
  std::int64_t buffer_rows_ = 0;
  std::int64_t block_rows_ = 0;
  std::int64_t nan_rows_ = 0;
  std::vector<Segment> segments_;
  std::vector<InputFile> readable_;
  std::vector<TemporaryFileNote> notes_;
  std::unique_ptr<AtomicFile> out_;
};

// Where a folder is to be: nothing, an empty folder, or older tiles.
bool check_place(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return false;
  if (!fs::is_directory(folder, ignored)) {
    throw IoError(fmt::format("cannot write '{}': it is a file, and point tiles are a folder; name another",
                              folder.string()));
  }
  if (fs::is_empty(folder, ignored)) return false;
  if (is_folder_of_tiles(folder)) return true;
  throw IoError(fmt::format(
      "cannot write '{}': the folder is not empty, and holds no point tiles; name another", folder.string()));
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

void partition(io::PointStream& cloud, std::vector<SourceCloud> sources, const fs::path& folder,
               std::int64_t tile_points, const Execution& execution) {
  const bool replace = check_place(folder);
  AtomicFolder made(folder);
  Partition work(cloud, made.temporary(), tile_points, execution);
  Manifest manifest = work.run();
  manifest.sources = std::move(sources);
  {
    AtomicFile file(made.temporary() / manifest_name, execution.cancelled);
    file.write(to_text(manifest));
    file.commit();
  }
  made.commit(replace);
}

}  // namespace kith::point_tiles
