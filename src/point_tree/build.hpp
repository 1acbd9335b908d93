// What building any tree begins and ends with.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "point_tree/tree.hpp"

namespace kith::point_tree {

struct BuildParameters {
  std::string_view index;
  Metric metric;
  std::int64_t leaf_size;          ///< 0: the default
  std::int64_t default_leaf_size;  ///< of the index on the CPU
  bool cubes;                      ///< on a GPU: whether cells are cubes, as an octree's
};

using BytesAPoint = std::uint64_t (*)(const DatasetView& rows);
using BuildFunction = Tree (*)(const DatasetView& rows, std::int64_t leaf_size, const Execution& execution);

/// Checks the arguments and the memory it will take, then builds: on the CPU by `build`, or on the first CUDA
/// device that `execution` names.
/// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
std::shared_ptr<const Tree> build_checked(const BuildParameters& parameters, const DatasetView& rows,
                                          const Execution& execution, BytesAPoint bytes_a_point,
                                          BuildFunction build);

/// @throws InvalidArgument without a device, DeviceError for one that is not there or cannot be used
void check_devices(const Execution& execution);

}  // namespace kith::point_tree
