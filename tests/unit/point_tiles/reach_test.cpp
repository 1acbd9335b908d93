// Rows that need no other tile, told by their gaps alone, beside the test by distances.
#include "point_tiles/reach.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <type_traits>
#include <vector>

#include "core/visit_dtype.hpp"
#include "kith/dataset.hpp"

namespace kith::point_tiles {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class T, class Value>
void compare(Metric metric, double radius, double size) {
  SCOPED_TRACE(testing::Message() << name(metric) << ", radius " << radius << ", a tile of " << size);
  std::mt19937_64 random(17);
  const std::int64_t rows = 4000, dim = 3;
  std::vector<Value> points;
  std::uniform_real_distribution<double> anywhere(0, size);
  for (std::int64_t i = 0; i < rows * dim; ++i) points.push_back(static_cast<Value>(anywhere(random)));
  if constexpr (std::is_floating_point_v<Value>) {
    points[0] = std::numeric_limits<Value>::quiet_NaN();
    points[4] = std::numeric_limits<Value>::infinity();
    points[8] = static_cast<Value>(-size);
    points[9] = 0;
    points[12] = std::numeric_limits<Value>::denorm_min();
  }
  Manifest manifest;
  manifest.dtype = dtype_of<Value>;
  manifest.dim = dim;
  manifest.tiles.resize(1);
  manifest.tiles[0].rows = rows;
  manifest.tiles[0].lower.assign(dim, 0);
  manifest.tiles[0].upper.assign(dim, size);
  const Reach<T> reach(manifest, metric, radius);
  const DatasetView view(points.data(), rows, dim);
  // Where lists end: far away, at the side, and some roundings from it.
  std::vector<T> kth;
  std::vector<T> sides;
  Point point;
  for (std::int64_t i = 0; i < rows; ++i) {
    reach.load(static_cast<const std::byte*>(view.row(i)), point);
    sides.push_back(reach.distance_to_side(point, 0));
    T end = sides.back();
    switch (i % 5) {
      case 0: end *= static_cast<T>(0.5); break;
      case 1: end = std::nextafter(end, T{0}); break;
      case 2: break;
      case 3: end = std::numeric_limits<T>::infinity(); break;
      default: end = 0;
    }
    kth.push_back(end);
  }
  const auto sure = std::make_unique<bool[]>(static_cast<std::size_t>(rows));
  reach.find_sure(view, 0, kth.data(), sure.get());
  std::int64_t found = 0, could = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (i < 5 && std::is_floating_point_v<Value>) EXPECT_FALSE(sure[at]) << i;
    const bool needed = reach.needs(kth[at], sides[at]);
    if (sure[at]) EXPECT_FALSE(needed) << i << ": " << kth[at] << ", " << sides[at];
    found += sure[at] ? 1 : 0;
    could += needed ? 0 : 1;
  }
  if (size < 1e-10) return;  // nothing is sure, where gaps are rounded to nothing
  EXPECT_GT(could, rows / 3);
  EXPECT_GT(found, could / 2);
}

TEST(Reach, RowsThatSurelyNeedNoOtherTile) {
  for (const Metric metric : {Metric::sqeuclidean, Metric::euclidean, Metric::manhattan}) {
    for (const double radius : {infinity, 0.1, 0.0}) {
      for (const double size : {1.0, 1e6, 1e-20, 1e-160}) {
        compare<float, float>(metric, radius, size);
        compare<double, double>(metric, radius, size);
      }
      compare<float, std::uint8_t>(metric, radius, 200);
    }
  }
}

}  // namespace
}  // namespace kith::point_tiles
