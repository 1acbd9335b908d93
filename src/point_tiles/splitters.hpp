// Planes that divide space among tiles, chosen from a sample of the points: a k-d tree over the sample
// (Bentley 1975).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace kith::point_tiles {

class Splitters {
 public:
  /// Everything is one tile.
  Splitters() = default;

  /// At most `tiles` tiles of about the same share of the sample each, cut across the longest side of a
  /// tile's sample. Fewer where the sample's points are equal. The recursion is as deep as the tiles are
  /// halved, whatever the points.
  /// @param sample `count` rows of `dim` finite values; reordered
  Splitters(std::vector<double> sample, std::int64_t count, std::int64_t dim, std::int64_t tiles);

  /// Children are nodes, or -1 - tile.
  struct Node {
    std::int64_t axis = 0;
    double value = 0;
    std::int64_t below = 0;
    std::int64_t above = 0;
  };
  /// As nodes() and tiles() were of others.
  Splitters(std::vector<Node> nodes, std::int64_t tiles)
      : tiles_(tiles), root_(nodes.empty() ? -1 : 0), nodes_(std::move(nodes)) {}
  const std::vector<Node>& nodes() const noexcept { return nodes_; }

  std::int64_t tiles() const noexcept { return tiles_; }

  /// The tile of a point.
  std::int64_t tile_of(const double* point) const noexcept {
    std::int64_t at = root_;
    while (at >= 0) {
      const Node& node = nodes_[static_cast<std::size_t>(at)];
      at = point[node.axis] < node.value ? node.below : node.above;
    }
    return -1 - at;
  }

 private:
  std::int64_t divide(std::int64_t* first, std::int64_t* last, std::int64_t tiles, const double* sample,
                      std::int64_t dim);
  std::int64_t tiles_ = 1;
  std::int64_t root_ = -1;
  std::vector<Node> nodes_;
};

}  // namespace kith::point_tiles
