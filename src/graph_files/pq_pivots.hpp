// DiskANN's files of a product quantizer, as bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "io/format.hpp"

namespace kith::graph_files {

/// What P_pq_pivots.bin holds.
struct PqPivots {
  std::int64_t dim = 0;
  std::int64_t count = 0;            ///< centroids a part
  std::vector<float> pivots;         ///< [count, dim]
  std::vector<float> mean;           ///< [dim]
  std::vector<std::int64_t> starts;  ///< where parts begin, and the last one ends
};

bool looks_like_pq_pivots(const io::Source& source);
/// @throws IoError, OutOfMemory
PqPivots read_pq_pivots(const io::Source& source);
/// [dim, dim]. @throws IoError, OutOfMemory
std::vector<float> read_rotation(const io::Source& source, std::int64_t dim);

}  // namespace kith::graph_files
