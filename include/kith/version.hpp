/// @file
/// The version of the public interface and of the file formats.
#pragma once

#define KITH_VERSION_MAJOR 0
#define KITH_VERSION_MINOR 1
#define KITH_VERSION_PATCH 0
#define KITH_VERSION_STRING "0.1.0"

namespace kith {

/// Version of the library that is linked, "major.minor.patch". Compare with KITH_VERSION_STRING,
/// the version of the headers that were compiled against.
const char* version() noexcept;

/// The newest index-file version this library writes. Older versions stay readable for ever.
inline constexpr unsigned index_file_version = 1;

}  // namespace kith
