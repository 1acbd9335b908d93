// Checks and estimates before a tree is built.
#include "point_tree/build.hpp"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "core/search_checks.hpp"
#include "cuda/caller_stream.hpp"
#include "cuda/device_choice.hpp"
#include "cuda/devices.hpp"
#include "kith/error.hpp"
#include "kith/point_tree.hpp"
#include "point_tree/backend.hpp"
#include "point_tree/tuning.hpp"

namespace kith::point_tree {
namespace {

void check_space(const DatasetView& rows, const Execution& execution, std::string_view index) {
  if (rows.space != MemorySpace::cuda) return;
  const Device& device = execution.devices.front();
  if (device.kind == Device::Kind::cpu) {
    throw InvalidArgument(
        fmt::format("the rows lie in the memory of cuda:{}, the index {} is built on the CPU; copy them "
                    "to the host",
                    rows.device, index));
  }
  if (device.ordinal != rows.device) {
    throw InvalidArgument(
        fmt::format("the rows lie in the memory of cuda:{}, the index {} is built on {}; build it where they "
                    "are, or copy them there",
                    rows.device, index, name(device)));
  }
}

}  // namespace

void check_devices(const Execution& execution) {
  if (cuda::kind_of_devices(execution) == Device::Kind::cpu) return;
  const auto known = cuda::devices();
  for (const Device& device : execution.devices) {
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const DeviceInfo& info) { return info.device == device; });
    if (found == known.end()) {
      throw DeviceError(
          fmt::format("{} is not there: {}; use the device cpu", name(device), cuda::absence()));
    }
    if (!found->usable) {
      throw DeviceError(fmt::format("{} cannot be used: {}; use the device cpu", name(device), found->note));
    }
  }
}

TreeMemory memory_of(const TreeType& type, const DatasetView& rows, std::int64_t leaf_size) {
  return tree_memory(rows, leaf_size > 0 ? leaf_size : type.default_leaf_size, type.bytes_a_point(rows));
}

std::shared_ptr<const Tree> build_checked(const TreeType& type, Metric metric, std::int64_t asked_leaf_size,
                                          const DatasetView& rows, const Execution& asked) {
  validate(rows, "dataset");
  check_devices(asked);
  Execution execution = asked;
  const DeviceBackend* backend = backend_of(execution);
  if (!is_tree_metric(metric)) {
    throw InvalidArgument(
        fmt::format("the metric {} has no bounding boxes, which the index {} needs; use "
                    "brute_force, or sqeuclidean, euclidean or manhattan",
                    name(metric), type.index));
  }
  if (asked_leaf_size < 0 || asked_leaf_size > tuning::largest_leaf) {
    throw InvalidArgument(fmt::format("a leaf size of {}; use 1 to {}, or 0 for the default", asked_leaf_size,
                                      tuning::largest_leaf));
  }
  check_space(rows, execution, type.index);
  const std::int64_t leaf_size = asked_leaf_size > 0
                                     ? asked_leaf_size
                                     : (backend == nullptr ? type.default_leaf_size : tuning::cuda_leaf_size);
  // A device counts as it goes.
  const std::uint64_t need = backend == nullptr ? memory_of(type, rows, leaf_size).building : 0;
  if (execution.memory_limit > 0 && need > execution.memory_limit) {
    throw OutOfMemory(
        fmt::format("the index {} of {} rows takes about {} bytes while it is built, the limit is {}; raise "
                    "the limit, or use fewer rows",
                    type.index, rows.rows, need, execution.memory_limit));
  }
  cuda::follow_elsewhere(execution, {cuda::place_of(rows.space, rows.device)});
  try {
    auto tree =
        std::make_shared<Tree>(backend == nullptr ? type.build(rows, leaf_size, execution)
                                                  : backend->build(rows, leaf_size, type.cubes, execution));
    tree->type = &type;
    tree->index = type.index;
    tree->metric = metric;
    tree->leaf_size = leaf_size;
    return tree;
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(
        fmt::format("the machine has no memory left for the index {} of {} rows, about {} bytes; use fewer "
                    "rows",
                    type.index, rows.rows, need));
  }
}

}  // namespace kith::point_tree
