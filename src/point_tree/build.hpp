// What building any tree begins and ends with.
#pragma once

#include <cstdint>
#include <memory>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "point_tree/tree.hpp"

namespace kith::point_tree {

struct BuildParameters {
  const char* index;
  Metric metric;
  std::int64_t leaf_size;          ///< 0: the default
  std::int64_t default_leaf_size;  ///< of the index
};

using BytesAPoint = std::uint64_t (*)(const DatasetView& rows);
using BuildFunction = Tree (*)(const DatasetView& rows, std::int64_t leaf_size, const Execution& execution);

/// Checks the arguments and the memory it will take, then builds.
/// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
std::shared_ptr<const Tree> build_checked(const BuildParameters& parameters, const DatasetView& rows,
                                          const Execution& execution, BytesAPoint bytes_a_point,
                                          BuildFunction build);

/// @throws InvalidArgument without a device, DeviceError for one that trees do not run on
void check_devices(const char* index, const Execution& execution);

}  // namespace kith::point_tree
