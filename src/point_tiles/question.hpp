// What is asked of tiles: of every query the same.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kith/metric.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {

enum class Kind : std::uint8_t {
  nearest,  ///< the k nearest within the radius
  within,   ///< all within the radius
  count,    ///< how many those are
};

/// What is made of the lists of a tile's own rows, on a device by itself, so that those need not leave it.
enum class Reduction : std::uint8_t {
  none,
  planes,  ///< the normal and the curvature
  mean,    ///< the mean distance
};

struct Question {
  Kind kind = Kind::nearest;
  std::int64_t k = 0;  ///< of nearest
  double radius = std::numeric_limits<double>::infinity();
  Metric metric = Metric::sqeuclidean;
  std::string inside = "kd_tree";
  bool include_self = false;  ///< where queries are rows: one is among its own neighbours
  bool points = false;        ///< whoever takes the lists needs the coordinates of the neighbours
  /// Bytes of what is made of a list, while a block of them is written.
  std::int64_t result_bytes = 0;
  Reduction reduction = Reduction::none;
  std::optional<std::vector<double>> viewpoint = {};  ///< that normals are turned towards

  /// Doubles that a reduction leaves of a row of this dimension.
  std::int64_t reduced_values(std::int64_t dim) const { return reduction == Reduction::planes ? dim + 1 : 1; }
  /// Entries of a list at the most.
  std::int64_t most() const { return kind == Kind::nearest ? k : std::numeric_limits<std::int64_t>::max(); }
  /// The same where memory is shared out: of lists without a known length as many as usual.
  std::int64_t most_entries() const {
    return kind == Kind::nearest ? k : kind == Kind::within ? tuning::usual_list : 0;
  }
};

}  // namespace kith::point_tiles
