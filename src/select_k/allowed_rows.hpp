// Searches that may find only some rows, by searches that know nothing of it. Exact where those are: the k'
// nearest of all rows hold the k nearest allowed ones as soon as k of them are allowed.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/neighbors.hpp"
#include "kith/row_set.hpp"

namespace kith {

/// @throws InvalidArgument for a set over another number of rows than `what` has: "dataset", "index octree"
void check_allowed(const RowSet& allowed, std::int64_t rows, std::string_view what);

/// The allowed rows, side by side in host memory.
struct GatheredRows {
  Dataset rows;
  std::vector<std::int64_t> numbers;  ///< ascending: which rows they are

  /// Their own numbers become those of the rows they are.
  void renumber(Neighbors& found) const;
  /// @param found in host memory
  void renumber(const NeighborsView& found) const;
};

/// @param rows in host or device memory @throws OutOfMemory, DeviceError, Cancelled
GatheredRows gather(const DatasetView& rows, const RowSet& allowed, const Execution& execution);

/// The rows of these numbers, side by side. @param rows in host memory @throws OutOfMemory
Dataset pick_rows(const DatasetView& rows, std::span<const std::int64_t> numbers);

/// The rows where they are, or a copy in host memory. @throws OutOfMemory, DeviceError
Dataset on_host(const DatasetView& rows);

/// What a search takes for a query, in nanoseconds; only the ratios to each other and to copying rows matter.
struct SearchCosts {
  double list_place = 50;  ///< of a longer list: what the filter lets through, and its order
  double row = 0;          ///< that the query is compared with; 0: a search does not look at every row
};

/// Two ways to search; each answers in the contract's order, padded with -1 and +inf, on the host.
struct WaysToSearch {
  SearchCosts costs = {};
  /// Whether there is memory for a copy of the allowed rows.
  bool copy_fits = true;
  /// Over all rows.
  std::function<Neighbors(const DatasetView& queries, std::int64_t k)> all;
  /// Over the allowed rows alone, which it gathers when it is first called.
  std::function<Neighbors(const DatasetView& queries, std::int64_t k)> allowed;
};

/// The k nearest allowed rows of each query, by whichever way is cheaper.
/// @param distances f32 or f64 @throws what the searches throw, OutOfMemory
Neighbors search_allowed(const RowSet& allowed, const DatasetView& queries, std::int64_t k, Dtype distances,
                         const Execution& execution, const WaysToSearch& ways);

/// An answer on the host into the caller's memory, there or on a device.
void deliver(const Neighbors& answer, const NeighborsView& out);

/// Counters of one search after another.
void add(SearchStatistics& sum, const SearchStatistics& more);

}  // namespace kith
