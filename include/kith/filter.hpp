/// @file
/// What brute force compares rows by before it evaluates exact distances.
#pragma once

#include <cstdint>
#include <string_view>

namespace kith {

/// The cheap first look. None changes the answer, only the time and the memory.
enum class Filter : std::uint8_t {
  automatic,  ///< the cheapest by the surplus measured on a sample of the data
  int8,       ///< 1 byte a value; lossless for i8 and u8 data
  fp16,       ///< 2 bytes a value
  fp32,       ///< 4 bytes a value; difference form in low dimension
  none,       ///< no codes: the float64 distance of every pair
};

/// "auto", "int8", "fp16", "fp32", "none".
std::string_view name(Filter filter) noexcept;
/// @throws InvalidArgument
Filter parse_filter(std::string_view text);

}  // namespace kith
