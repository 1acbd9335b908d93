// Rows for tests of the graph.
#pragma once

#include <cstdint>

#include "kith/generate.hpp"

namespace kith::test {

/// Their variance sits in few of their directions.
inline Dataset with_few_directions(std::int64_t rows, std::int64_t first = 0, Dtype dtype = Dtype::f32) {
  return generate({.generator = Generator::low_intrinsic_dimension,
                   .rows = rows,
                   .dim = 128,
                   .dtype = dtype,
                   .seed = 5,
                   .first_row = first});
}

inline Dataset in_clusters(std::int64_t rows, std::int64_t first = 0, Dtype dtype = Dtype::f32,
                           std::int64_t dim = 24) {
  return generate({.generator = Generator::clusters,
                   .rows = rows,
                   .dim = dim,
                   .dtype = dtype,
                   .seed = 11,
                   .first_row = first,
                   .clusters = 40});
}

}  // namespace kith::test
