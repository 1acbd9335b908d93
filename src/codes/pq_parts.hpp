// The parts of a product quantizer, for rooms above that read and write other libraries' files.
#pragma once

#include <cstdint>
#include <vector>

#include "codes/coding.hpp"
#include "codes/rotation.hpp"
#include "kith/codes.hpp"

namespace kith::codes {

struct PqParts {
  Rows rows;
  Metric metric = Metric::sqeuclidean;
  std::vector<double> mean{};
  std::vector<std::int64_t> starts{};  ///< where parts begin, and the last one ends
  std::int64_t count = 0;              ///< centroids a part, up to 256
  std::vector<float> centroids{};      ///< of part after part [count, its dimensions]
  std::vector<float> matrix{};         ///< [dim, dim]: rows less the mean, times it, are encoded; empty: none
  const Rotation* rotation =
      nullptr;  ///< of a quantizer that Kith has trained with one; not taken by assemble

  /// @throws InvalidArgument for another kind
  static PqParts of(const Quantizer& quantizer);
  /// Values are finite already. @throws InvalidArgument for parts or a metric that cannot be
  Quantizer assemble() &&;
};

}  // namespace kith::codes
