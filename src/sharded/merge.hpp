// Lists of neighbours of one shard joined to those of the shards before.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kith/execution.hpp"
#include "kith/neighbors.hpp"

namespace kith::sharded {

/// An answer without a neighbour: rows -1, distances +inf. @throws OutOfMemory
Neighbors no_neighbors(std::int64_t queries, std::int64_t k, Dtype distances);

/// Each query's k smallest pairs (distance, row) of both; O(k) a query. In `more` rows are numbered from
/// `base` on, and there may be fewer places a query.
/// @param queries which queries of `found` those of `more` are; nothing: all of them
/// @throws Cancelled
void merge(Neighbors& found, const Neighbors& more, std::int64_t base,
           const std::optional<std::vector<std::int64_t>>& queries, const Execution& execution);

/// The same of lists of any length, cut to `most` where that is not 0. `sorted`: both ascend, and so does
/// what comes out; else one list follows the other.
/// @throws OutOfMemory, Cancelled
void merge(RadiusNeighbors& found, const RadiusNeighbors& more, std::int64_t base, bool sorted,
           std::int64_t most, const Execution& execution);

}  // namespace kith::sharded
