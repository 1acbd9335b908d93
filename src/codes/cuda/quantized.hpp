// RaBitQ and product quantization on a device: what the space of codes is made of there, and queries as the
// workers of codes/rabitq.hpp and codes/pq.hpp have them, with their bits. Squared distances alone.
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
/// Values of scratch a query; 0: it is in shared memory.
std::int64_t scratch_values(const RabitqShape& shape);

/// Tables of squared distances, [count, subspaces, table_entries].
void prepare(const PqView& space, const QuantizedQueries& queries, float* tables, cudaStream_t stream);

}  // namespace kith::codes::cuda
