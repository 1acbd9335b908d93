// Builds graphs and measures how much of the nearest rows they find.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kith/execution.hpp"
#include "kith/recall.hpp"
#include "recall/calibrate.hpp"
#include "vamana/backend.hpp"
#include "vamana/file.hpp"

namespace kith::vamana {

/// The graph of `contents` over all of its rows, from `old`, which has those before `first_row`, and the
/// curve of its recall. Some of the new rows stay out of the graph until they have been searched for: queries
/// like the rows that are none of its nodes. Those that `old` has count by a sample of their own, since new
/// rows may be of another kind. Sets the hash and rerank_factor, too.
/// @param old 0 nodes where there is none
/// @throws OutOfMemory, Cancelled
RecallCurve build_and_measure(Contents& contents, const Graph& old, std::int64_t first_row,
                              const Backend& backend, const Execution& execution);

/// The curve of a graph that has all rows already; sets rerank_factor, too. A row of the sample is no answer
/// to itself and its walk does not enter its own node. But the graph was built with that node as a junction:
/// for queries that are no rows the curve errs on the low side.
/// @param first_rows the sample is of so many rows
/// @param rerank_factor what other queries have asked for: the deeper of both is taken
/// @return no points where the rows are too few to say anything by
/// @throws OutOfMemory, Cancelled
RecallCurve measure_by_own_rows(Contents& contents, std::int64_t first_rows,
                                std::optional<std::int64_t> rerank_factor, const Execution& execution);

/// A curve by queries and their nearest rows, as many as the largest of `ks`. Walks are the CPU's.
/// @throws OutOfMemory, Cancelled
recall::Measured measure(const Contents& contents, const DatasetView& queries, const Neighbors& exact,
                         std::span<const std::int64_t> ks, const Execution& execution);

}  // namespace kith::vamana
