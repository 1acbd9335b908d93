#include "point_tiles/reach.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>

#include "core/visit_dtype.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {

template <class T>
void Reach<T>::load(const std::byte* from, Point& to) const {
  to.values.resize(static_cast<std::size_t>(manifest_.dim));
  to.finite = true;
  to.nan = false;
  visit_dtype(manifest_.dtype, [&]<class Value>(Value) {
    for (double& value : to.values) {
      Value held;
      std::memcpy(&held, from, sizeof(Value));
      from += sizeof(Value);
      value = to_double(held);
      to.finite = to.finite && std::isfinite(value);
      to.nan = to.nan || std::isnan(value);
    }
  });
}

template <class T>
T Reach<T>::distance(const Point& point, std::int64_t number) const {
  if (!point.finite || !tile(number).has_box()) return std::numeric_limits<T>::infinity();
  return distance_to_box<T>(metric_, manifest_.dim, point.values.data(), box(number));
}

template <class T>
auto Reach<T>::around(std::int64_t number) const -> std::vector<Far> {
  return around(number, tile(number).lower, tile(number).upper);
}

template <class T>
auto Reach<T>::around(std::int64_t number, const DatasetView& queries) const -> std::vector<Far> {
  std::vector<double> lower, upper;
  Point point;
  for (std::int64_t i = 0; i < queries.rows; ++i) {
    load(static_cast<const std::byte*>(queries.row(i)), point);
    if (!point.finite) continue;
    if (lower.empty()) lower = upper = point.values;
    for (std::size_t j = 0; j < lower.size(); ++j) {
      lower[j] = std::min(lower[j], point.values[j]);
      upper[j] = std::max(upper[j], point.values[j]);
    }
  }
  return around(number, lower, upper);
}

template <class T>
auto Reach<T>::around(std::int64_t number, const std::vector<double>& lower,
                      const std::vector<double>& upper) const -> std::vector<Far> {
  std::vector<Far> others;
  for (std::int64_t other = 0; other < static_cast<std::int64_t>(manifest_.tiles.size()); ++other) {
    if (other == number) continue;
    T far = std::numeric_limits<T>::infinity();
    if (!lower.empty() && tile(other).has_box()) {
      far = distance_of_boxes<T>(metric_, manifest_.dim, {lower.data(), upper.data()}, box(other));
    }
    others.push_back({far, static_cast<std::int32_t>(other)});
  }
  const auto nearer = [](const Far& a, const Far& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.tile < b.tile;
  };
  const auto sorted = others.begin() + std::min<std::ptrdiff_t>(tuning::sorted_tiles, std::ssize(others));
  if (sorted != others.end()) std::nth_element(others.begin(), sorted, others.end(), nearer);
  std::sort(others.begin(), sorted, nearer);
  return others;
}

template <class T>
bool Reach<T>::stands_apart(std::int64_t number) const {
  const Tile& own = tile(number);
  if (!own.has_box()) return false;
  for (std::int64_t other = 0; other < static_cast<std::int64_t>(manifest_.tiles.size()); ++other) {
    const Tile& its = tile(other);
    if (other == number || !its.has_box()) continue;
    bool apart = false;
    for (std::size_t j = 0; j < own.lower.size(); ++j) {
      apart = apart || its.lower[j] >= own.upper[j] || its.upper[j] <= own.lower[j];
    }
    if (!apart) return false;
  }
  return true;
}

template <class T>
T Reach<T>::distance_to_side(const Point& point, std::int64_t number) const {
  double gap = std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < point.values.size(); ++j) {
    gap = std::min(
        gap, std::min(point.values[j] - tile(number).lower[j], tile(number).upper[j] - point.values[j]));
  }
  constexpr double origin = 0;
  return distance_to_box<T>(metric_, 1, &gap, {&origin, &origin});
}

// distance_to_side() is the gap, or its square (sqeuclidean), rounded to T: at most a millionth less, as long
// as nothing underflows. A row with a NaN or an infinity is outside of every box.
template <class T>
void Reach<T>::find_sure(const DatasetView& rows, std::int64_t number, const T* kth, bool* sure) const {
  constexpr double least_gap = 1e-15, rounding = 1 - 1e-6;
  const Tile& own = tile(number);
  const bool squared = metric_ == Metric::sqeuclidean;
  visit_dtype(manifest_.dtype, [&]<class Value>(Value) {
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      const auto* row = static_cast<const Value*>(rows.row(i));
      double gap = std::numeric_limits<double>::infinity();
      bool inside = true;
      for (std::int64_t j = 0; j < rows.dim; ++j) {
        const double value = to_double(row[j]);
        const auto axis = static_cast<std::size_t>(j);
        const double below = value - own.lower[axis], above = own.upper[axis] - value;
        inside = inside && below >= 0 && above >= 0;
        gap = std::min(gap, std::min(below, above));
      }
      const double distance = (squared ? gap * gap : gap) * rounding;
      sure[i] = inside && gap >= least_gap && distance > std::min(static_cast<double>(kth[i]), radius_);
    }
  });
}

template <class T>
void Reach<T>::find(const Point& point, const End& end, std::span<const Far> tiles,
                    std::vector<std::int32_t>& needed) const {
  std::int64_t sorted = tuning::sorted_tiles;
  for (const Far& other : tiles) {
    --sorted;
    if (point.finite && !needs(end.distance, other.distance)) {
      if (sorted >= 0) break;  // the rest is farther
      continue;
    }
    // The tile is no nearer to the point than to all of them.
    if (point.finite && !needs(end, other.distance, other.tile)) continue;
    if (needs(end, distance(point, other.tile), other.tile)) needed.push_back(other.tile);
  }
  std::sort(needed.begin(), needed.end());
}

template class Reach<float>;
template class Reach<double>;

}  // namespace kith::point_tiles
