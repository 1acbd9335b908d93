// RaBitQ and product quantization on a device: what the space of codes is made of there, and queries and
// codes as the workers of codes/rabitq.hpp and codes/pq.hpp make them, with their bits. Squared distances
// alone.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "codes/rabitq_estimate.hpp"

namespace kith::codes::cuda {

/// Values of a query's block and bytes that it takes: with room behind it, so that threads that read the same
/// place of several blocks read from several banks of shared memory.
inline constexpr int block_values = 32;
inline constexpr int block_bytes = 80;
/// Entries of a table a part.
inline constexpr int table_entries = 256;

/// What a walk needs to know of RaBitQ codes.
struct RabitqShape {
  int bits = 0;
  int blocks = 0;  ///< of 32 values: D / 32
  double deviations = 0;
};

/// Values of scratch that a rotated row takes; 0: it is in shared memory.
constexpr std::int64_t scratch_values(const RabitqShape& shape) {
  constexpr std::int64_t longest_shared = 2048;
  const std::int64_t dim = std::int64_t{shape.blocks} * block_values;
  return dim <= longest_shared ? 0 : 2 * dim;
}

/// RabitqSpace on a device.
struct RabitqView {
  RabitqShape shape;
  std::int64_t dim = 0;    ///< values of a row
  std::int64_t width = 0;  ///< of the transforms
  double scale = 1;        ///< of these
  int rounds = 0;
  const double* mean = nullptr;
  const std::uint32_t* from = nullptr;  ///< [rounds, D]
  const double* sign = nullptr;         ///< [rounds, D]
};

/// PqSpace on a device.
struct PqView {
  std::int64_t dim = 0;  ///< values of a row
  std::int64_t subspaces = 0;
  std::int64_t count = 0;         ///< centroids a part
  std::int64_t padded_count = 0;  ///< that lie side by side
  const double* mean = nullptr;
  const float* centroids = nullptr;      ///< [values of a row, padded_count]
  const std::int64_t* starts = nullptr;  ///< [subspaces + 1]
};

/// Queries as rows of u8, which the codes are of.
struct QuantizedQueries {
  const unsigned char* rows;
  std::int64_t stride;          ///< in bytes
  const unsigned char* usable;  ///< a flag a query; others are left as they are
  std::int64_t count;
};

/// Queries in 16 bits, their values in blocks of block_bytes.
/// @param scratch [count, 2, D] where scratch_values() is not 0
void prepare(const RabitqView& space, const QuantizedQueries& queries, double* scratch,
             unsigned char* rounded, RabitqQuery* scalars, cudaStream_t stream);
/// Codes of rows of u8 [count, stride], as the workers make them.
struct RowsToEncode {
  const unsigned char* rows;
  std::int64_t stride;  ///< in bytes
  std::int64_t count;
};
/// @param scratch [count, scratch_values()] @param codes [count, code_bytes], 12 bytes and the planes
void encode(const RabitqView& space, const RowsToEncode& rows, double* scratch, std::uint32_t* codes,
            cudaStream_t stream);
/// @param scratch [values of a row, count] @param codes [count, subspaces]
void encode(const PqView& space, const RowsToEncode& rows, float* scratch, unsigned char* codes,
            cudaStream_t stream);

/// Tables of squared distances, [count, subspaces, table_entries].
void prepare(const PqView& space, const QuantizedQueries& queries, float* tables, cudaStream_t stream);

}  // namespace kith::codes::cuda
