// Turns a runtime dtype into a type once: visit_dtype(dtype, []<class T>(T) { ... }).
#pragma once

#include <utility>

#include "kith/dtype.hpp"
#include "kith/error.hpp"

namespace kith {

template <class Function>
decltype(auto) visit_dtype(Dtype dtype, Function&& function) {
  switch (dtype) {
    case Dtype::f32: return std::forward<Function>(function)(float{});
    case Dtype::f16: return std::forward<Function>(function)(float16{});
    case Dtype::bf16: return std::forward<Function>(function)(bfloat16{});
    case Dtype::i8: return std::forward<Function>(function)(std::int8_t{});
    case Dtype::u8: return std::forward<Function>(function)(std::uint8_t{});
    case Dtype::f64: return std::forward<Function>(function)(double{});
  }
  throw InvalidArgument("element type out of range");
}

/// Exact widening of any element.
inline double to_double(float value) noexcept {
  return value;
}
inline double to_double(double value) noexcept {
  return value;
}
inline double to_double(float16 value) noexcept {
  return to_float(value);
}
inline double to_double(bfloat16 value) noexcept {
  return to_float(value);
}
inline double to_double(std::int8_t value) noexcept {
  return value;
}
inline double to_double(std::uint8_t value) noexcept {
  return value;
}

}  // namespace kith
