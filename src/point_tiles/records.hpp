// Rows on their way into tiles: where they come from, and what a tile is until it is one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/positioned_file.hpp"
#include "io/integer_points.hpp"
#include "io/point_stream.hpp"
#include "point_tiles/folder.hpp"

namespace kith::point_tiles {

/// The box of some rows while it grows.
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

/// A tile that is being made: its extents and the box of each.
struct Growing {
  std::int64_t rows = 0;
  std::vector<Extent> extents;
  std::vector<Bounds> bounds;
};

/// Rows to divide among tiles, from a cloud or from a tile.
class Records {
 public:
  Records() = default;
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;
  virtual ~Records() = default;
  virtual std::int64_t rows() const = 0;
  /// These will be read soon. Only a hint.
  virtual void expect(std::int64_t /*first*/, std::int64_t /*count*/) {}
  /// `count` rows from `first` on; from one end to the other, or some of them for a sample.
  virtual void read(std::int64_t first, std::int64_t count, std::byte* coordinates,
                    std::int64_t* numbers) = 0;
};

class CloudRecords final : public Records {
 public:
  explicit CloudRecords(io::PointStream& cloud) : cloud_(cloud), integers_(integers_of(cloud)) {}

  /// The same cloud as integers, where all of it is such, by one scale; else null.
  static io::IntegerPoints* integers_of(io::PointStream& cloud) {
    auto* integers = dynamic_cast<io::IntegerPoints*>(&cloud);
    return integers != nullptr && integers->integer_scale() != nullptr ? integers : nullptr;
  }
  std::int64_t rows() const override { return cloud_.rows(); }
  void expect(std::int64_t first, std::int64_t count) override { cloud_.expect(first, count); }
  void read(std::int64_t first, std::int64_t count, std::byte* coordinates, std::int64_t* numbers) override {
    cloud_.seek(first);
    if (integers_ != nullptr) {
      integers_->read_integers(coordinates, count);
    } else {
      cloud_.read(coordinates, count);
    }
    for (std::int64_t i = 0; i < count; ++i) numbers[i] = first + i;
  }

 private:
  io::PointStream& cloud_;
  io::IntegerPoints* integers_;
};

/// A tile in a finished segment.
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

}  // namespace kith::point_tiles
