// Measures the recall of an approximate index against exact answers, on rows of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/metric.hpp"
#include "kith/neighbors.hpp"
#include "kith/recall.hpp"

namespace kith::recall {

/// Rows that serve as queries, and their nearest other rows.
struct Sample {
  std::vector<std::int64_t> rows;  ///< ascending
  Dataset queries;                 ///< the same rows
  std::int64_t k = 0;              ///< neighbours known of each; 0: there is no sample
  Neighbors exact;                 ///< k + 1 of each, itself most often among them

  std::int64_t size() const { return static_cast<std::int64_t>(rows.size()); }
};

/// A sample of the rows, answered by the exact engine. None where the rows are too few to say anything by.
/// @throws OutOfMemory, Cancelled
Sample take_sample(const DatasetView& rows, Metric metric, const Execution& execution);

/// k nearest rows of each query of the sample, which should not find itself, by a list of that size.
using SearchSample = std::function<Neighbors(std::int64_t list_size, std::int64_t k)>;

/// Searches with growing lists, up to `longest_list`, until everything is found.
/// @throws what `search` throws
RecallCurve measure(const Sample& sample, std::int64_t longest_list, const SearchSample& search);

}  // namespace kith::recall
