// Devices that tiles are searched on: which, and what of their memory there is.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "kith/execution.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/question.hpp"

namespace kith::point_tiles {

/// Tests do on the CPU what is done on devices: tiles are made ready ahead, and their rows' neighbours
/// reduced.
inline std::atomic<bool> cpu_as_device{false};

/// Of one call. Empty: the CPU searches.
struct SearchDevices {
  std::vector<Device> devices;
  std::int64_t memory = 0;  ///< of each
  bool limited = false;     ///< by the caller
};
/// @throws InvalidArgument, DeviceError
SearchDevices search_devices(const Execution& execution);

/// Bytes of a device's memory by a tile's rows, before there are any.
struct DeviceTileMemory {
  std::int64_t dim = 0;
  std::int64_t element = 4;    ///< bytes of a coordinate there
  std::int64_t row_bytes = 0;  ///< of the rows as they come
  std::int64_t k = 0;          ///< entries of a list
  bool tree = true;
  bool reduced = false;

  DeviceTileMemory(const Manifest& manifest, const Question& question);
  /// While other tiles are searched.
  std::int64_t resident(std::int64_t rows) const;
  /// The most that one call takes beside that: building it, or searching for all of its rows.
  std::int64_t work(std::int64_t rows) const;
  /// The same where searches go by batches of rows.
  std::int64_t least_work(std::int64_t rows) const;

 private:
  std::int64_t build(std::int64_t rows) const;
  std::int64_t beside_lists(std::int64_t rows) const;
};

/// How the memory of each device is shared out.
struct DeviceShares {
  std::int64_t resident = 0;  ///< bytes of the tiles that stay
  std::int64_t work = 0;      ///< bytes that one call may take
  std::int64_t ahead = 0;     ///< tiles that are made ready meanwhile, each with a call of its own

  DeviceShares() = default;
  /// @throws OutOfMemory where two of the largest tiles do not fit
  DeviceShares(const DeviceTileMemory& memory, const SearchDevices& devices, std::int64_t rows);
};

/// What a call on a device runs by, or one on the CPU: nothing of the caller's is counted or reported by it.
Execution execution_on(const Device& device, std::int64_t work_bytes, const Execution& execution);

}  // namespace kith::point_tiles
