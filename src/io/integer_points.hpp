// Points that their file keeps as integers, as LAS does: what identifies them exactly in half the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace kith::io {

/// What the integers of an axis stand for: integer * scale + offset, in two roundings.
struct IntegerScale {
  std::array<double, 3> scale{};
  std::array<double, 3> offset{};

  double value(std::int32_t integer, std::size_t axis) const {
    return static_cast<double>(integer) * scale[axis] + offset[axis];
  }
  bool operator==(const IntegerScale&) const = default;
};

/// What a stream of points may be beside a PointStream.
class IntegerPoints {
 public:
  IntegerPoints() = default;
  IntegerPoints(const IntegerPoints&) = delete;
  IntegerPoints& operator=(const IntegerPoints&) = delete;
  virtual ~IntegerPoints() = default;

  /// Null where the points are no such integers, or not all by the same scale.
  virtual const IntegerScale* integer_scale() const = 0;
  /// The next `count` points as three int32 each, in the place of what read() gives.
  virtual void read_integers(void* out, std::int64_t count) = 0;
};

}  // namespace kith::io
