// What building any tree begins and ends with.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "point_tree/memory.hpp"
#include "point_tree/tree.hpp"

namespace kith::point_tree {

/// What the trees of one index type have in common.
struct TreeType {
  std::string_view index;              ///< "kd_tree", "octree"
  std::int64_t default_leaf_size = 0;  ///< on the CPU
  bool cubes = false;                  ///< on a GPU: whether cells are cubes, as an octree's
  /// Bytes a point that building takes on the CPU beyond the tree.
  std::uint64_t (*bytes_a_point)(const DatasetView& rows) = nullptr;
  /// On the CPU.
  Tree (*build)(const DatasetView& rows, std::int64_t leaf_size, const Execution& execution) = nullptr;
};

/// What a tree over such rows takes on the CPU.
/// @param rows only their shape is looked at
/// @param leaf_size 0: the default
TreeMemory memory_of(const TreeType& type, const DatasetView& rows, std::int64_t leaf_size);

/// Checks the arguments and the memory it will take, then builds: on the CPU, or on the first CUDA device
/// that `execution` names.
/// @param type of static storage
/// @param leaf_size 0: the default
/// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
std::shared_ptr<const Tree> build_checked(const TreeType& type, Metric metric, std::int64_t leaf_size,
                                          const DatasetView& rows, const Execution& execution);

/// @throws InvalidArgument without a device, DeviceError for one that is not there or cannot be used
void check_devices(const Execution& execution);

}  // namespace kith::point_tree
