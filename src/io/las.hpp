// The header of LAS files, ASPRS LAS 1.0 to 1.4.
#pragma once

#include <array>
#include <cstdint>

#include "io/format.hpp"

namespace kith::io::las {

// Bytes of the point data record formats 0 to 10 without extra bytes.
inline constexpr std::array<std::uint64_t, 11> record_sizes = {20, 28, 26, 34, 57, 63, 30, 36, 38, 59, 67};
inline constexpr std::uint64_t header_bytes_1_2 = 227;
inline constexpr std::uint64_t header_bytes_1_4 = 375;

struct Header {
  std::uint64_t bytes = 0;
  unsigned major = 0;
  unsigned minor = 0;
  unsigned point_format = 0;
  std::uint64_t record_bytes = 0;
  std::uint64_t points = 0;
  std::uint64_t offset = 0;  // of the points
  std::array<double, 3> scale{};
  std::array<double, 3> shift{};
};

/// @throws IoError where it is none, compressed, truncated or corrupt
Header parse_header(const Source& source);

}  // namespace kith::io::las
