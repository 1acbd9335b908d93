#include "point_tiles/box.hpp"

#include <algorithm>

#include "cuda/host_device.hpp"
#include "kith/error.hpp"

namespace kith::point_tiles {
namespace {

#include "distance/canonical_steps.inc"

// gap(j) is not negative.
template <Metric metric, class T, class Gap>
T distance_of_gaps(std::int64_t dim, const Gap& gap) {
  constexpr std::int64_t lanes = 8;
  double lane[lanes] = {};
  for (std::int64_t j = 0; j < dim; ++j) {
    lane[j % lanes] = canonical_add<metric == Metric::manhattan>(lane[j % lanes], gap(j));
  }
  return static_cast<T>(canonical_finish<metric>(canonical_sum(lane), 0, 0));
}

template <class T, class Gap>
T with_metric(Metric metric, std::int64_t dim, const Gap& gap) {
  switch (metric) {
    case Metric::sqeuclidean: return distance_of_gaps<Metric::sqeuclidean, T>(dim, gap);
    case Metric::euclidean: return distance_of_gaps<Metric::euclidean, T>(dim, gap);
    case Metric::manhattan: return distance_of_gaps<Metric::manhattan, T>(dim, gap);
    default: throw InvalidArgument("the metric has no bounding boxes");
  }
}

}  // namespace

template <class T>
T distance_to_box(Metric metric, std::int64_t dim, const double* point, const BoxView& box) {
  return with_metric<T>(metric, dim, [&](std::int64_t j) {
    return std::max(0.0, std::max(sub(box.lower[j], point[j]), sub(point[j], box.upper[j])));
  });
}

template <class T>
T distance_of_boxes(Metric metric, std::int64_t dim, const BoxView& a, const BoxView& b) {
  return with_metric<T>(metric, dim, [&](std::int64_t j) {
    return std::max(0.0, std::max(sub(a.lower[j], b.upper[j]), sub(b.lower[j], a.upper[j])));
  });
}

template float distance_to_box(Metric, std::int64_t, const double*, const BoxView&);
template double distance_to_box(Metric, std::int64_t, const double*, const BoxView&);
template float distance_of_boxes(Metric, std::int64_t, const BoxView&, const BoxView&);
template double distance_of_boxes(Metric, std::int64_t, const BoxView&, const BoxView&);

}  // namespace kith::point_tiles
