// Queries from outside, in memory: each begins in the tile whose box is nearest.
#pragma once

#include <cstdint>

#include "core/parallel.hpp"
#include "kith/dataset.hpp"
#include "point_tiles/sweep.hpp"

namespace kith::point_tiles {

/// Asks for the queries, whose answers have the places from `place` on; tiles in order.
/// @param block_rows queries that are asked together
/// @return how many have a NaN
template <class T>
std::int64_t ask(Sweep<T>& sweep, Answers<T>& answers, const Manifest& manifest, const Question& question,
                 const DatasetView& queries, std::int64_t place, std::int64_t block_rows,
                 ProgressCounter& progress, const Execution& execution);

}  // namespace kith::point_tiles
