// From double to a float, or double, on one side of it.
#pragma once

#include <cmath>
#include <limits>

namespace kith {

/// The largest T that is not above x.
template <class T>
T round_down(double x) {
  const auto value = static_cast<T>(x);
  return static_cast<double>(value) > x ? std::nextafter(value, -std::numeric_limits<T>::infinity()) : value;
}

/// The least T that is not below x.
template <class T>
T round_up(double x) {
  const auto value = static_cast<T>(x);
  return static_cast<double>(value) < x ? std::nextafter(value, std::numeric_limits<T>::infinity()) : value;
}

}  // namespace kith
