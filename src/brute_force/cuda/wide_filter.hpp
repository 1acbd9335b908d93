// The filter of codes for compute capability 9.0a and many queries of short codes (filter_codes_wide.cu).
#pragma once

#include <cstddef>
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

/// Queries in the order of their thresholds: with that the filter compares sixteen products together with the
/// least of their thresholds, and only where that is reached each with its own.
struct QueryOrder {
  std::uint32_t* order = nullptr;  ///< [queries], as CodeFilter::query_order
  std::uint8_t* codes = nullptr;   ///< the image of the queries' codes in that order
};
/// What sorting them needs, one number a query each.
struct QuerySort {
  std::uint32_t* unsorted_keys = nullptr;
  std::uint32_t* unsorted = nullptr;
  std::uint32_t* keys = nullptr;
  std::uint32_t* sorted = nullptr;
};
/// Puts them in that order. Returns the bytes of scratch that this takes; without scratch it does no more.
std::size_t order_by_thresholds(const CodeFilter& filter, const QueryOrder& out, const QuerySort& sort,
                                void* scratch, std::size_t scratch_bytes, cudaStream_t stream);

/// As run_look; false: not here, nothing was done.
bool run_wide_look(const CodeFilter& filter, int device, cudaStream_t stream);

}  // namespace kith::brute_force::cuda
