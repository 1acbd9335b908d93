// The bound by a box, against the canonical distance itself: never above it, to the last bit.
#include "point_tiles/box.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "conformance/problem.hpp"
#include "kith/brute_force.hpp"
#include "kith/point_tree.hpp"

namespace kith::point_tiles {
namespace {

template <class T>
void compare(Metric metric, std::int64_t dim, double scale, std::uint64_t seed) {
  conformance::Random random(seed);
  const auto number = [&] {
    return static_cast<T>((static_cast<double>(random.below(1 << 30)) - (1 << 29)) * scale);
  };
  for (int round = 0; round < 60; ++round) {
    std::vector<T> points;
    for (std::int64_t i = 0; i < 20 * dim; ++i) points.push_back(number());
    std::vector<double> lower(points.begin(), points.begin() + dim);
    std::vector<double> upper = lower;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const std::size_t j = i % static_cast<std::size_t>(dim);
      lower[j] = std::min(lower[j], static_cast<double>(points[i]));
      upper[j] = std::max(upper[j], static_cast<double>(points[i]));
    }
    const BoxView box{lower.data(), upper.data()};
    std::vector<T> query;
    std::vector<double> wide;
    for (std::int64_t j = 0; j < dim; ++j) {
      // On some axes beside the box, on some within it, on some just at its side.
      const auto at = static_cast<std::size_t>(j);
      const auto where = random.below(4);
      const double width = upper[at] - lower[at];
      query.push_back(where == 0   ? static_cast<T>(upper[at] + width * 0x1p-20)
                      : where == 1 ? static_cast<T>(lower[at] - 3 * width)
                      : where == 2 ? static_cast<T>(upper[at])
                                   : number());
      wide.push_back(static_cast<double>(query.back()));
    }
    const T bound = distance_to_box<T>(metric, dim, wide.data(), box);
    const Neighbors all = knn(DatasetView(points.data(), 20, dim), DatasetView(query.data(), 1, dim), 20,
                              {metric, Filter::none});
    const T nearest = all.distances_as<T>()[0];
    ASSERT_LE(bound, nearest);
    // A box of one point is as far as the point.
    std::vector<double> point(points.begin(), points.begin() + dim);
    const Neighbors one =
        knn(DatasetView(points.data(), 1, dim), DatasetView(query.data(), 1, dim), 1, {metric, Filter::none});
    ASSERT_EQ(distance_to_box<T>(metric, dim, wide.data(), {point.data(), point.data()}),
              one.distances_as<T>()[0]);
    // Boxes are no farther from each other than what is in them.
    const BoxView other{wide.data(), wide.data()};
    ASSERT_EQ(distance_of_boxes<T>(metric, dim, other, box), bound);
    ASSERT_EQ(distance_of_boxes<T>(metric, dim, box, other), bound);
    std::vector<double> wider = wide;
    for (double& value : wider) value += std::abs(value) * 0.5;
    const BoxView around{wide.data(), wider.data()};
    ASSERT_LE(distance_of_boxes<T>(metric, dim, around, box), bound);
  }
}

TEST(Box, IsNeverFartherThanAPointInIt) {
  for (const Metric metric : tree_metrics) {
    for (const std::int64_t dim : {1, 2, 3, 8, 9, 17}) {
      for (const double scale : {1.0, 1e-3, 1e-30, 1e20}) {
        SCOPED_TRACE(testing::Message() << name(metric) << " " << dim << " " << scale);
        compare<float>(metric, dim, scale, 5);
        compare<double>(metric, dim, scale * scale * scale, 6);
      }
    }
  }
}

TEST(Box, HoldsWhatIsInside) {
  const double lower[] = {0, -1};
  const double upper[] = {2, 5};
  const double inside[] = {1, 5};
  EXPECT_EQ(distance_to_box<double>(Metric::euclidean, 2, inside, {lower, upper}), 0);
  EXPECT_EQ(distance_of_boxes<float>(Metric::manhattan, 2, {lower, upper}, {inside, inside}), 0);
  const double beside[] = {5, 9};
  EXPECT_EQ(distance_to_box<double>(Metric::euclidean, 2, beside, {lower, upper}), 5);
  EXPECT_EQ(distance_to_box<double>(Metric::sqeuclidean, 2, beside, {lower, upper}), 25);
  EXPECT_EQ(distance_to_box<double>(Metric::manhattan, 2, beside, {lower, upper}), 7);
}

}  // namespace
}  // namespace kith::point_tiles
