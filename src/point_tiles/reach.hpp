// Which tiles a query has to visit: those that its list, as it is, does not rule out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/metric.hpp"
#include "point_tiles/box.hpp"
#include "point_tiles/folder.hpp"

namespace kith::point_tiles {

/// A query's coordinates as doubles.
struct Point {
  std::vector<double> values;
  bool finite = true;
  bool nan = false;
};

/// T: the type of distances. Any thread may ask.
template <class T>
class Reach {
 public:
  /// Another tile, and how far it is at the least.
  struct Far {
    T distance;
    std::int32_t tile;
  };

  /// How a list ends: with the k-th neighbour's distance and row, as they are where it may grow.
  struct End {
    T distance = std::numeric_limits<T>::infinity();
    std::int64_t row = std::numeric_limits<std::int64_t>::max();
  };

  Reach(const Manifest& manifest, Metric metric, double radius)
      : manifest_(manifest), metric_(metric), radius_(radius) {}

  /// @param from its coordinates as the tiles have them
  void load(const std::byte* from, Point& to) const;

  /// Of a point with an infinity every tile is infinitely far.
  T distance(const Point& point, std::int64_t tile) const;

  /// Whether a list that ends at `kth`, +inf where it may grow, needs what is at that distance. Smaller, not
  /// equal: a row at just the k-th distance could have the lower number.
  bool needs(T kth, T distance) const {
    return !(kth < distance) && !(static_cast<double>(distance) > radius_);
  }

  /// The same of a tile, in which no row may have a number that is low enough.
  bool needs(const End& end, T distance, std::int64_t number) const {
    return needs(end.distance, distance) && (distance < end.distance || tile(number).first_row < end.row);
  }

  std::int64_t first_row(std::int64_t number) const { return tile(number).first_row; }

  /// The other tiles by their distance from a tile's rows, or from some queries: the nearest
  /// tuning::sorted_tiles in order, and then the rest.
  std::vector<Far> around(std::int64_t tile) const;
  std::vector<Far> around(std::int64_t tile, const DatasetView& queries) const;

  /// Whether along some axis each other box begins where this one has ended, or ends where it begins. It is
  /// so where planes divide tiles, and is not where a tile of equal points was cut by row number.
  bool stands_apart(std::int64_t tile) const;
  /// The distance of a point in a tile's box to its nearest side. A box that stands apart is no nearer: its
  /// gap is at least that in one dimension, and what other dimensions add is not negative.
  T distance_to_side(const Point& point, std::int64_t tile) const;

  /// Rows of a tile that stands apart which surely need no other, told from their gaps to its sides alone;
  /// the others have to be looked at. @param kth of each row @param[out] sure of each row
  void find_sure(const DatasetView& rows, std::int64_t tile, const T* kth, bool* sure) const;

  /// Adds those of `tiles` that the query needs, ascending. @param tiles as around() gives them
  void find(const Point& point, const End& end, std::span<const Far> tiles,
            std::vector<std::int32_t>& needed) const;

 private:
  const Tile& tile(std::int64_t number) const { return manifest_.tiles[static_cast<std::size_t>(number)]; }
  BoxView box(std::int64_t number) const { return {tile(number).lower.data(), tile(number).upper.data()}; }
  std::vector<Far> around(std::int64_t number, const std::vector<double>& lower,
                          const std::vector<double>& upper) const;

  const Manifest& manifest_;
  Metric metric_;
  double radius_;
};

}  // namespace kith::point_tiles
