// Lists of neighbours of one shard joined to those of the shards before.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kith/execution.hpp"
#include "kith/neighbors.hpp"
#include "sharded/row_numbers.hpp"

namespace kith::sharded {

/// An answer without a neighbour: rows -1, distances +inf. @throws OutOfMemory, Cancelled
Neighbors no_neighbors(std::int64_t queries, std::int64_t k, Dtype distances, const Execution& execution);

/// Each query's k smallest pairs (distance, row) of both; O(k) a query. There may be fewer places a
/// query in `more`, whose rows are those of `numbers`.
/// @param queries which queries of `found` those of `more` are; nothing: all of them
/// @throws Cancelled
void merge(Neighbors& found, const Neighbors& more, const RowNumbers& numbers,
           const std::optional<std::vector<std::int64_t>>& queries, const Execution& execution);

/// The same of lists of any length, cut to `most` where that is not 0. `sorted`: both ascend, and so does
/// what comes out; else one list follows the other.
/// @throws OutOfMemory, Cancelled
void merge(RadiusNeighbors& found, const RadiusNeighbors& more, const RowNumbers& numbers, bool sorted,
           std::int64_t most, const Execution& execution);

/// An answer without a row within the radius. @throws OutOfMemory
RadiusNeighbors no_rows(std::int64_t queries, Dtype distances);

/// The rows of a shard become rows of all.
void renumber(RadiusNeighbors& found, const RowNumbers& numbers);

/// An answer to some of `queries` queries becomes one to all of them: nothing is found for the others.
/// @param which ascending
void spread(RadiusNeighbors& some, const std::vector<std::int64_t>& which, std::int64_t queries);

}  // namespace kith::sharded
