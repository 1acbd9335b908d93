// Planes between tiles, and the curve through them.
#include "point_tiles/splitters.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "conformance/problem.hpp"
#include "point_tiles/hilbert.hpp"

namespace kith::point_tiles {
namespace {

std::vector<std::int64_t> sizes(const Splitters& splitters, const std::vector<double>& points,
                                std::int64_t dim) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(splitters.tiles()));
  for (std::size_t i = 0; i < points.size(); i += static_cast<std::size_t>(dim)) {
    const std::int64_t tile = splitters.tile_of(points.data() + i);
    EXPECT_GE(tile, 0);
    ++counts.at(static_cast<std::size_t>(tile));
  }
  return counts;
}

TEST(Splitters, ShareThePointsOut) {
  conformance::Random random(1);
  std::vector<double> points;
  for (int i = 0; i < 9000; ++i) points.push_back(static_cast<double>(random.below(1 << 30)));
  for (const std::int64_t tiles : {1, 2, 3, 7, 64, 1000}) {
    const Splitters splitters(points, 3000, 3, tiles);
    ASSERT_EQ(splitters.tiles(), tiles);
    const auto counts = sizes(splitters, points, 3);
    EXPECT_LE(*std::max_element(counts.begin(), counts.end()), 3000 / tiles + 3000 / tiles / 2 + 2) << tiles;
    EXPECT_GE(*std::min_element(counts.begin(), counts.end()), 1) << tiles;
  }
}

TEST(Splitters, EqualPointsAreOneTile) {
  const std::vector<double> points(3000, 4.5);
  EXPECT_EQ(Splitters(points, 1000, 3, 50).tiles(), 1);
  EXPECT_EQ(Splitters({}, 0, 3, 50).tiles(), 1);
  EXPECT_EQ(Splitters().tile_of(points.data()), 0);
}

TEST(Splitters, AFloodOfEqualPointsStaysTogetherAndTheRestIsDivided) {
  std::vector<double> points;
  for (int i = 0; i < 1000; ++i) points.push_back(i < 900 ? 7.0 : i);
  const Splitters splitters(points, 1000, 1, 20);
  EXPECT_GE(splitters.tiles(), 3);
  const auto counts = sizes(splitters, points, 1);
  EXPECT_GE(*std::max_element(counts.begin(), counts.end()), 900);
  EXPECT_GE(*std::min_element(counts.begin(), counts.end()), 1);
}

// Neighbours on the curve are neighbours in space, and every cell comes once: what makes it a Hilbert curve.
TEST(Hilbert, StepsFromCellToCell) {
  for (const std::size_t dim : {2U, 3U, 4U}) {
    const int bits = dim == 2 ? 4 : 2;
    const std::uint32_t side = 1U << static_cast<unsigned>(bits);
    std::vector<std::pair<std::string, std::vector<std::uint32_t>>> cells;
    std::vector<std::uint32_t> cell(dim, 0);
    for (bool more = true; more;) {
      std::vector<std::uint32_t> changed = cell;
      cells.emplace_back(hilbert_key(changed, bits), cell);
      std::size_t j = 0;
      while (j < dim && ++cell[j] == side) cell[j++] = 0;
      more = j < dim;
    }
    std::sort(cells.begin(), cells.end());
    for (std::size_t i = 1; i < cells.size(); ++i) {
      ASSERT_NE(cells[i].first, cells[i - 1].first);
      std::uint32_t steps = 0;
      for (std::size_t j = 0; j < dim; ++j) {
        const auto a = cells[i].second[j];
        const auto b = cells[i - 1].second[j];
        steps += a > b ? a - b : b - a;
      }
      ASSERT_EQ(steps, 1U) << dim << " dimensions, cell " << i;
    }
  }
}

TEST(Hilbert, OrdersAnyPoints) {
  const std::vector<double> corners = {-1.7e308, 1.7e308, 0, 5, 0, 5};
  EXPECT_EQ(hilbert_order(corners, 6, 1), (std::vector<std::int64_t>{0, 2, 3, 4, 5, 1}));
  const std::vector<double> same(8, 3.0);
  EXPECT_EQ(hilbert_order(same, 4, 2), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(hilbert_order({}, 0, 3).empty());
}

}  // namespace
}  // namespace kith::point_tiles
