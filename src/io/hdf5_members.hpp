// Members of an HDF5 file: found, checked, read. For the child process of hdf5.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/format.hpp"
#include "io/hdf5_library.hpp"

namespace kith::io {

/// A dataset of two dimensions.
struct Member {
  std::string name;
  Handle dataset;
  std::uint64_t rows = 0;
  std::uint64_t dim = 0;
  std::string element;  // "f32", "i32", ..., "other"
  bool integer = false;
};

// Claimed sizes are believed only up to what the stored bytes can hold: deflate, the strongest filter in use,
// packs at most 1032:1.
constexpr std::uint64_t largest_ratio = 1100;

/// @throws IoError where it is no HDF5 file
Handle open_file(const Source& source);

/// The member of a name, which may be a path with groups; none where it is not there.
/// @throws IoError where it is no dataset of two dimensions
std::optional<Member> open_member(const Source& source, hid_t file, const std::string& name);

/// The same of a member that must be there.
Member require_member(const Source& source, hid_t file, const std::string& name);

/// @throws IoError where the stored bytes cannot hold the rows claimed, of elements of at least `element`
/// bytes
void check_storage(const Source& source, const Member& member, std::uint64_t element);

/// Reads rows of `member` as elements of `type` into `to`. @throws IoError
void read_rows(const Source& source, const Member& member, hid_t type, RowRange range, void* to);

/// Rows a frame: about 8 MiB, whole chunks where there are any, so that none is unpacked twice.
std::int64_t rows_per_frame(const Member& member, std::int64_t row_bytes);

/// Names on the first level.
std::vector<std::string> member_names(hid_t file);

/// "a, b, c", or "none".
std::string listed(const std::vector<std::string>& names);

/// The root attribute "distance" ("euclidean", "angular", ...), empty where there is none.
std::string distance_attribute(hid_t file);

}  // namespace kith::io
