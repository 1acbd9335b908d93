// The space of a graph's codes: as many bits and values as its parameters say, or as suit the rows.
#pragma once

#include "codes/scalar.hpp"
#include "kith/vamana.hpp"

namespace kith::vamana {

/// What `parameters` ask for, of rows of a dimension; 8 bits where they leave those to the data.
codes::ScalarShape shape_of(const VamanaParameters& parameters, std::int64_t dim);

/// @param parameters says afterwards how many bits were taken, where that was left to the data
/// @throws Cancelled
codes::ScalarSpace make_code_space(const DatasetView& rows, VamanaParameters& parameters,
                                   const Execution& execution);

}  // namespace kith::vamana
