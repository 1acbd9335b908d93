// The header of an npy file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/format.hpp"

namespace kith::io {

inline constexpr std::string_view npy_magic = "\x93NUMPY";

struct NpyHeader {
  std::string descr;  // "<f4"
  char kind = '?';    // 'f', 'i', 'u', 'V'
  std::uint64_t element = 0;
  bool swap = false;
  bool fortran = false;
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;
  unsigned version = 1;
};

/// @param flags whether elements may be bool @throws IoError
NpyHeader parse_npy_header(const Source& source, bool flags);

/// Of an array of two dimensions, all of which is in the file. @throws IoError
NpyHeader parse_npy_rows(const Source& source);

/// As Kith names element types, and also "i32", "u64", ...
std::string npy_element_type(const NpyHeader& header);

}  // namespace kith::io
