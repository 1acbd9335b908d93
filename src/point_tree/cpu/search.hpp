// Running the tree kernels over many queries: order, threads, and the rows no tree holds.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/memory_budget.hpp"
#include "kith/execution.hpp"
#include "kith/neighbors.hpp"
#include "kith/point_tree.hpp"
#include "point_tree/cpu/kernels.hpp"
#include "point_tree/tree.hpp"

namespace kith::point_tree {

/// Results of some queries: those of queries[i] are rows [i * k, (i + 1) * k) (nearest) or
/// [ends[i - 1], ends[i]) (within a radius).
template <class T>
struct Part {
  std::int64_t count = 0;
  const std::int64_t* queries = nullptr;  ///< numbers of the queries
  std::int64_t k = 0;
  const std::int64_t* rows = nullptr;  ///< padded with -1
  const T* distances = nullptr;
  Entry<T>* entries = nullptr;  ///< scratch memory: the one who takes them may sort them there
  const std::int64_t* ends = nullptr;
  const std::int64_t* counts = nullptr;
};

/// The kernels of the active instruction set.
const TreeKernels& tree_kernels();

/// Runs the kernel over all queries but those with a NaN, and calls `take` for each part, from any thread.
/// `stage` names the work in progress reports. What is within a radius is collected in memory of `budget`,
/// where one is given; of a query's neighbours and a few more at a time.
/// @throws Cancelled, OverBudget
template <class T>
SearchStatistics run(const Tree& tree, const Asked& asked, Kind kind, std::int64_t k, double radius,
                     const Execution& execution, const char* stage,
                     const std::function<void(const Part<T>&)>& take, MemoryBudget* budget = nullptr);

/// Whether most queries fall into the same node of leaves as the one before them, by a sample: those of a
/// scan do. Sorting them would cost more than it saves.
bool follow_each_other(const Tree& tree, const DatasetView& queries);

/// The contract's order of answers: by distance, equal ones by row.
template <class T>
bool before(const Entry<T>& a, const Entry<T>& b) {
  return a.distance < b.distance || (a.distance == b.distance && a.row < b.row);
}

/// Copies every point in the tree to to[row * dim].
template <class T>
void copy_points(const Tree& tree, T* to, const Execution& execution);
/// Whether rows[row * dim] are the points of the tree, by some of its leaves.
template <class T>
bool are_points_of(const Tree& tree, const T* rows);

}  // namespace kith::point_tree
