// The filter of codes for compute capability 9.0a and many queries of short codes (filter_codes_wide.cu).
#pragma once

#include <cstdint>

#include "brute_force/cuda/kernels.hpp"

namespace kith::brute_force::cuda {

/// Queries of a tile of their codes, where it does them; of one chunk a tile of 128 is as good.
inline constexpr int wide_query_tile = 256;

/// Whether it does so many queries of codes of this shape.
bool wide_filter_pays(const CodeShape& shape, std::int64_t queries, int device);

/// Whether it does this one.
bool wide_filter_takes(const CodeFilter& filter, int device);
/// False: not here, nothing was done.
bool run_wide_filter(const CodeFilter& filter, int device, cudaStream_t stream);

/// Rows of a run in `run_wide_look`.
inline constexpr int wide_look_rows = 16;
/// One look at the tiles of a stage: of every 16 rows the nearest by its score is a candidate, in the run's
/// place. The bounds of the queries have no say. Only where wide_filter_pays, for tiles of wide_query_tile
/// queries.
void run_wide_look(const CodeFilter& filter, int device, cudaStream_t stream);

}  // namespace kith::brute_force::cuda
