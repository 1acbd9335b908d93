// Outputs that are written as they are: descriptors of this process (/dev/stdout, /dev/fd/3), pipes, devices.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>

namespace kith {

/// The descriptor of this process that a path names, through links too: 1 for /dev/stdout and
/// /proc/self/fd/1. Opening such a path would open the file behind it anew, at its beginning and without
/// O_APPEND; what it names is the descriptor.
std::optional<int> descriptor_of(const std::filesystem::path& path);

/// True when a file cannot take the path's place: it names a descriptor, or a pipe, a socket or a device.
bool is_stream(const std::filesystem::path& path);

/// A descriptor to write to, of the caller's own. Waits for a pipe's reader, polling `cancelled`.
/// @throws IoError, Cancelled
int open_stream(const std::filesystem::path& path, const std::function<bool()>& cancelled);

/// Waits until a write would get on, at most a tenth of a second; false when it would not, or a signal came.
bool wait_writable(int descriptor) noexcept;

}  // namespace kith
