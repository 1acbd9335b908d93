// The seam between trees and the machines they run on: one table of functions a backend. A build without a
// backend leaves no trace of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kith/execution.hpp"
#include "kith/neighbors.hpp"
#include "kith/point_tree.hpp"
#include "point_tree/tree.hpp"

namespace kith::point_tree {

/// Of the neighbours of each row, in host memory; null where it is not asked for.
struct NeighborDistances {
  double* mean = nullptr;          ///< NaN without neighbours
  double* farthest = nullptr;      ///< NaN without neighbours
  std::int64_t* counts = nullptr;  ///< how many; -1 for rows with a NaN
};

/// What a device does with trees. Arguments are checked already; `execution` names CUDA devices, the first of
/// which does the work. All throw OutOfMemory, DeviceError, Cancelled.
struct DeviceBackend {
  /// Builds a tree over rows in host or device memory, whose arrays stay on the device. `cubes`: cells are
  /// cubes, as an octree's are; else they are halved across their longest side.
  Tree (*build)(const DatasetView& rows, std::int64_t leaf_size, bool cubes, const Execution& execution);
  /// The k nearest of each query into host memory or the device's; every cell is written. `left` takes the
  /// queries whose answer rows or values with infinities have a part in: the CPU's walk answers those.
  SearchStatistics (*nearest)(const Tree& tree, const Asked& asked, double radius, const NeighborsView& out,
                              const Execution& execution, const char* stage, std::vector<std::int64_t>& left);
  /// All within the radius, on the host.
  RadiusNeighbors (*within)(const Tree& tree, const DatasetView& queries, double radius, bool sorted,
                            const Execution& execution);
  /// counts[i]: how many are within the radius of query i; host memory.
  void (*count)(const Tree& tree, const DatasetView& queries, double radius, std::int64_t* counts,
                const Execution& execution);
  /// PointTree::normals_into where k is given; every cell is written. `viewpoint` may be null.
  void (*normals)(const Tree& tree, const Neighborhood& neighborhood, const double* viewpoint,
                  const NormalsView& out, const Execution& execution);
  /// Distances of each row to its neighbours, itself excluded, where k is given.
  void (*distances)(const Tree& tree, const Neighborhood& neighborhood, const char* stage,
                    const NeighborDistances& out, const Execution& execution);
};

const DeviceBackend& cuda_backend();  // defined in builds with CUDA

/// The backend `execution` names; null for the CPU. @throws InvalidArgument, DeviceError
const DeviceBackend* backend_of(const Execution& execution);

}  // namespace kith::point_tree
