// The functions of cuda_backend()'s table.
#pragma once

#include <cstdint>
#include <vector>

#include "point_tree/backend.hpp"

namespace kith::point_tree {

void normals_on_device(const Tree& tree, const Neighborhood& neighborhood, const double* viewpoint,
                       const NormalsView& out, const Execution& execution);
void distances_on_device(const Tree& tree, const Neighborhood& neighborhood, const char* stage,
                         const NeighborDistances& out, const Execution& execution);

Tree build_on_device(const DatasetView& rows, std::int64_t leaf_size, bool cubes, const Execution& execution);
SearchStatistics nearest_on_device(const Tree& tree, const Asked& asked, double radius,
                                   const NeighborsView& out, const Execution& execution, const char* stage,
                                   std::vector<std::int64_t>& left);
RadiusNeighbors within_on_device(const Tree& tree, const DatasetView& queries, double radius, bool sorted,
                                 const Execution& execution);
void count_on_device(const Tree& tree, const DatasetView& queries, double radius, std::int64_t* counts,
                     const Execution& execution);

}  // namespace kith::point_tree
