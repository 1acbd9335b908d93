#include "point_tiles/devices.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/plural.hpp"
#include "cuda/device_choice.hpp"
#include "cuda/device_memory.hpp"
#include "kith/any_index.hpp"
#include "kith/error.hpp"
#include "point_tiles/tuning.hpp"
#include "point_tree/build.hpp"

namespace kith::point_tiles {
namespace {

constexpr std::int64_t row_number = sizeof(std::int64_t);

}  // namespace

SearchDevices search_devices(const Execution& execution) {
  SearchDevices found;
  if (cuda::kind_of_devices(execution) == Device::Kind::cpu) {
    if (cpu_as_device) return {execution.devices, std::int64_t{1} << 40U, false};
    return found;
  }
  point_tree::check_devices(execution);
  found.devices = execution.devices;
  found.limited = execution.device_memory_limit > 0;
  std::uint64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Device& device : found.devices) {
    least = std::min(least,
                     found.limited ? execution.device_memory_limit : cuda::available_bytes(device.ordinal));
  }
  found.memory = static_cast<std::int64_t>(least);
  return found;
}

DeviceTileMemory::DeviceTileMemory(const Manifest& manifest, const Question& question)
    : dim(manifest.dim),
      element(manifest.dtype == Dtype::f64 ? 8 : 4),
      row_bytes(static_cast<std::int64_t>(manifest.row_bytes())),
      k(question.kind == Kind::nearest ? question.k + 1 : 0),
      tree(question.inside != BruteForce::index_type.name),
      reduced(question.reduction != Reduction::none && tree) {}

// A node has the boxes of 16 children and its links, and at the least half of 16 half full leaves of 32.
std::int64_t DeviceTileMemory::resident(std::int64_t rows) const {
  constexpr std::int64_t width = 16;
  const std::int64_t node = 2 * dim * width * element + 2 * (width + 1) * row_number;
  // Brute force keeps the rows, and codes of up to four bytes a value.
  const std::int64_t index = tree ? dim * element + 4 + node / 64 : row_bytes + dim * 4 + 32;
  return rows * index + 4096;
}

// The rows, keys and places twice while they are sorted, and what becomes of nodes; points that share all of
// their code go through it once more while the others are there.
std::int64_t DeviceTileMemory::build(std::int64_t rows) const {
  const std::int64_t converted = row_bytes < dim * element ? dim * element : 0;
  const std::int64_t taken = tree ? rows * (row_bytes + converted + dim * element + 80) : 2 * resident(rows);
  return resident(rows) + taken;
}

// What groups of queries walk, and of reductions their results, the rows' numbers and coordinates.
std::int64_t DeviceTileMemory::beside_lists(std::int64_t rows) const {
  const std::int64_t results = reduced ? (2 * (dim + 1) + 3) * 8 + row_number + 4 * element : 0;
  return rows * (40 + results);
}

std::int64_t DeviceTileMemory::work(std::int64_t rows) const {
  const std::int64_t lists = rows * k * (row_number + element + (reduced ? 4 + row_number + element : 0));
  return std::max(build(rows), beside_lists(rows) + lists) + tuning::device_working_bytes;
}

std::int64_t DeviceTileMemory::least_work(std::int64_t rows) const {
  const std::int64_t batch = std::min(rows, tuning::least_block);
  const std::int64_t lists = 2 * batch * (k + 1) * (row_number + element + dim * element);
  return std::max(build(rows), beside_lists(rows) + lists) + tuning::device_working_bytes / 8;
}

DeviceShares::DeviceShares(const DeviceTileMemory& memory, const SearchDevices& devices, std::int64_t rows) {
  const std::int64_t two = 2 * memory.resident(rows);
  const std::int64_t least = two + memory.least_work(rows);
  if (least > devices.memory) {
    throw OutOfMemory(fmt::format(
        "searching two tiles of {} on a GPU takes about {} bytes of its memory, {} {}; raise the limit on "
        "GPU "
        "memory, or build the tiles again with fewer points in each (--tile-points)",
        plural(rows, "point"), least, devices.limited ? "the limit is" : "free are", devices.memory));
  }
  work = std::min({std::max(devices.memory / 4, memory.least_work(rows)),
                   std::max(memory.work(rows), memory.least_work(rows)), devices.memory - two});
  // Half of the memory is for tiles that stay, at the least.
  const std::int64_t of_one = memory.resident(rows) + work;
  ahead = std::clamp<std::int64_t>((devices.memory / 2 - work) / of_one, 0, tuning::ahead_a_device);
  resident = devices.memory - work - ahead * of_one;
}

Execution execution_on(const Device& device, std::int64_t work_bytes, const Execution& execution) {
  Execution one = execution;
  one.devices = {device};
  one.memory_limit = 0;  // what calls take of the host's has been counted
  one.progress = nullptr;
  one.stream = nullptr;
  one.follow_stream = false;  // nothing of the caller's lies there
  one.device_memory_limit = device.kind == Device::Kind::cuda ? static_cast<std::uint64_t>(work_bytes) : 0;
  return one;
}

}  // namespace kith::point_tiles
