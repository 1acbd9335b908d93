// Searches of a tree where `execution` says: on the CPU, or on the first CUDA device it names. Arguments are
// checked already.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/search_checks.hpp"
#include "kith/execution.hpp"
#include "kith/neighbors.hpp"
#include "kith/point_tree.hpp"
#include "point_tree/tree.hpp"

namespace kith::point_tree {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The k nearest of each query. `stage` names the work in progress reports.
/// @throws OutOfMemory, DeviceError, Cancelled
Neighbors nearest(const Tree& tree, const Asked& asked, std::int64_t k, double radius,
                  const Execution& execution, const char* stage);

/// The same into memory of the caller's, on the host or the device that does the work.
SearchStatistics nearest_into(const Tree& tree, const Asked& asked, double radius, const NeighborsView& out,
                              const Execution& execution, const char* stage);

/// The k nearest of the allowed rows.
Neighbors nearest_allowed(const Tree& tree, const DatasetView& queries, std::int64_t k, double radius,
                          const RowSet& allowed, const Execution& execution);

/// All within the radius.
RadiusNeighbors within(const Tree& tree, const DatasetView& queries, double radius,
                       const RadiusOptions& options, const Execution& execution);

/// How many are within the radius of each query.
std::vector<std::int64_t> count(const Tree& tree, const DatasetView& queries, double radius,
                                const Execution& execution);

/// What is computed from the neighbourhood of every row: see PointTree.
Normals normals(const Tree& tree, const Neighborhood& neighborhood, const double* viewpoint,
                const Execution& execution);
void normals_into(const Tree& tree, const Neighborhood& neighborhood, const double* viewpoint,
                  const NormalsView& out, const Execution& execution, const DatasetView& built_from);
Outliers outliers(const Tree& tree, const Neighborhood& neighborhood, double ratio,
                  const Execution& execution);
std::vector<double> density(const Tree& tree, const Neighborhood& neighborhood, const Execution& execution);

/// Coordinates by the caller's row; NaN for rows with a NaN.
template <class T>
std::vector<T> by_row(const Tree& tree, const Execution& execution);

/// Bytes of a neighbour in an answer: its row and its distance.
std::size_t cell_bytes(const Tree& tree);

/// `values` of `bytes_each` for `what`, against the limit.
void check_memory(int128 values, std::size_t bytes_each, const char* what, std::int64_t queries,
                  const Execution& execution);

/// A failed allocation becomes an error that says what was asked for.
template <class Work>
auto neighbors_or_out_of_memory(std::int64_t queries, Work&& work) {
  return or_out_of_memory(
      [&] {
        return "the neighbours of " + std::to_string(queries) +
               " queries; ask for fewer neighbours, or search the queries in parts";
      },
      work);
}

/// Calls f.operator()<T>() with the type of the tree's distances.
template <class F>
decltype(auto) visit_distances(const Tree& tree, F&& f) {
  if (tree.is_double()) return f.template operator()<double>();
  return f.template operator()<float>();
}

}  // namespace kith::point_tree
