/// @file
/// Explicit conversion between element types. Nothing is ever converted silently.
#pragma once

#include <cstdint>

#include "kith/dataset.hpp"

namespace kith {

/// What a conversion may do to a value.
enum class Rounding : std::uint8_t {
  exact,    ///< nothing: a value the new type cannot hold exactly is refused
  nearest,  ///< round to nearest, ties to even; out of range is still refused, and NaN in integers
};

/// A contiguous copy of the rows as another element type.
/// @throws InvalidArgument naming the first row, column and value that does not fit, and the remedy;
///         OutOfMemory
Dataset convert(const DatasetView& view, Dtype dtype, Rounding rounding = Rounding::exact);

/// The narrower of f32 and f64 that holds every value of both types exactly; the type itself when equal.
constexpr Dtype common_dtype(Dtype a, Dtype b) noexcept {
  if (a == b) return a;
  return a == Dtype::f64 || b == Dtype::f64 ? Dtype::f64 : Dtype::f32;
}

}  // namespace kith
