// Points on a grid of whole numbers.
#include "grid.hpp"

#include <cmath>
#include <string>

#include "kith/error.hpp"
#include "kith/generate.hpp"

namespace kith::ladder {

std::int64_t largest_coordinate(std::int64_t dim) {
  constexpr std::int64_t exact = std::int64_t{1} << 24;  // float32 counts to here
  std::int64_t largest = 4095;
  while (largest > 0 && dim * largest * largest > exact) largest /= 2;
  return largest;
}

Dataset grid(std::int64_t rows, std::int64_t dim, std::int64_t largest, std::uint64_t seed,
             const Execution& execution) {
  const std::int64_t most = largest_coordinate(dim);
  if (largest < 1 || largest > most) {
    throw InvalidArgument("coordinates to " + std::to_string(largest) + " in " + std::to_string(dim) +
                          " dimensions: float32 sums of their squares are exact for 1 to " +
                          std::to_string(most));
  }
  GenerateParameters parameters;
  parameters.rows = rows;
  parameters.dim = dim;
  parameters.seed = seed;
  Dataset points = generate(parameters, execution);
  const auto cells = static_cast<float>(largest + 1);
  for (float& value : points.mutable_values<float>()) value = std::floor(value * cells);  // in [0, 1) before
  return points;
}

}  // namespace kith::ladder
