// The points of the ladder: whole numbers, on which float32 makes no mistake.
#pragma once

#include <cstdint>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"

namespace kith::ladder {

/// The largest value m = 2^b - 1 with dim * m^2 <= 2^24: no sum of squared differences of coordinates 0..m
/// then leaves the whole numbers that float32 holds, whatever the order of summation, fused or not.
std::int64_t largest_coordinate(std::int64_t dim);

/// Rows of coordinates 0..largest, uniform; `first_row` as in GenerateParameters.
/// @throws InvalidArgument where largest is less than 1, or above largest_coordinate(dim)
Dataset grid(std::int64_t rows, std::int64_t dim, std::int64_t largest, std::uint64_t seed,
             const Execution& execution = {});

}  // namespace kith::ladder
