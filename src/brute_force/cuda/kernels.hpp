// What the GPU engine launches. One .cu a family; everything is ordered on the stream given.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "codes/cuda/codes.hpp"

namespace kith::cuda {

/// A (distance, row) pair; select_k/cuda/key.cuh.
template <class R>
struct Key;
template <class R>
inline constexpr std::int64_t key_bytes = 2 * sizeof(R);
/// Largest number of rows that one part of a dataset may have: a row and one more bit fill 32 bits.
inline constexpr std::int64_t most_part_rows = (std::int64_t{1} << 31) - 2;

/// A query's threshold in parts: a tile's residual E and norm X make it whole (int8), or it is one float.
///   triangle:  floor(c0 - (c1 + E)^2 / 2)
///   cauchy:    floor(c0 - c1 X - c2 E)
///   float32:   c0
struct QueryBound {
  double c0, c1, c2;
};

/// The tiles of one stage. Position j of all tiles is tile (j * multiplier) % tiles: any range of positions
/// is spread over all rows.
struct Stage {
  std::int64_t tiles = 0;
  std::int64_t multiplier = 1;
  std::int64_t first = 0;
  std::int64_t count = 0;

  KITH_HOST_DEVICE std::int64_t tile(std::int64_t position) const {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(first + position) *
                                     static_cast<std::uint64_t>(multiplier) %
                                     static_cast<std::uint64_t>(tiles));
  }
};

/// Where a filter puts what it keeps: `room` row numbers a query. A count above `room` says how many there
/// were.
struct Candidates {
  std::uint32_t* rows = nullptr;
  std::uint32_t* counts = nullptr;
  std::uint32_t room = 0;
};

/// int8 filter on the tensor cores: `codes` and `queries` as encode.cu leaves them.
struct Int8Filter {
  RowCodes rows;
  std::int64_t part_rows;
  const std::uint8_t* query_codes;
  const QueryBound* bounds;
  std::int64_t queries;
  int query_tile;  ///< 16, 64 or 128
  CodeShape shape;
  bool triangle;
  Stage stage;
  Candidates out;
};
/// Queries of a tile for so many queries of this shape. @throws DeviceError when shared memory is too small
int choose_query_tile(const CodeShape& shape, std::int64_t queries, int device);
void run_int8_filter(const Int8Filter& filter, int device, cudaStream_t stream);

/// float32 filter on the CUDA cores.
struct FloatFilter {
  const float* rows;
  std::int64_t row_stride;
  std::int64_t part_rows;
  const float* queries;
  std::int64_t query_stride;
  const QueryBound* bounds;
  std::int64_t query_count;
  std::int64_t dim;
  bool squared;
  Stage stage;  ///< tiles of tuning::float_tile_rows
  Candidates out;
};
/// Values of a coded query, padded as the kernel for this dimension wants it.
std::int64_t float_query_stride(std::int64_t dim);
void run_float_filter(const FloatFilter& filter, int device, cudaStream_t stream);

/// A batch of queries and their lists. Lists hold `k` keys each, ascending, Key::none() behind the last.
template <class R>
struct Batch {
  const void* data;  ///< the part's rows, readable from the device
  std::int64_t stride;
  std::int64_t part_rows;
  Space space;
  const double* queries;  ///< [count, padded]
  std::int64_t padded;
  const QueryScalars* scalars;
  std::int64_t count;
  const float* largest_residual;  ///< or null
  Candidates candidates;
  R* distances;  ///< [count, room], beside candidates.rows
  Key<R>* lists;
  R* best;  ///< a query: no answer is farther than this, +inf while unknown
  std::int64_t k;
  Key<R>* scratch;  ///< k + room keys a query, where k is above tuning::largest_block_k
  QueryBound* bounds;
  std::uint8_t* overflow;        ///< a query: kept more than there was room for in this pass
  unsigned long long* counters;  ///< [0] candidates, [1] queries that overflowed in this pass
};

/// Which of a batch's queries take part: all of them, or `count` of them listed in `ids`.
struct Subset {
  const std::uint32_t* ids = nullptr;
  std::int64_t count = 0;
};

/// Lists empty, counts zero, bounds from what is known (`best`, or null: open), closed for all but regular
/// queries.
template <class R>
void start_lists(const Batch<R>& batch, const R* best, cudaStream_t stream);

/// Candidates of every query: rows first, first + step, ... `count` of them, or the rows listed.
void fill_candidates(const Candidates& candidates, const Subset& subset, const std::uint32_t* listed,
                     std::int64_t first, double step, std::int64_t count, cudaStream_t stream);

/// Canonical distances of all candidates; `expected` a query decides how the work is cut.
template <class R>
void evaluate_candidates(const Batch<R>& batch, const Subset& subset, std::int64_t expected, int device,
                         cudaStream_t stream);

/// Merges the candidates into the lists, forgets them, and tightens the bounds. With `bound_only` the lists
/// are left empty: the candidates were a sample whose rows come again.
template <class R>
void merge_candidates(const Batch<R>& batch, const Subset& subset, bool bound_only, cudaStream_t stream);

/// Before another pass: queries that overflowed start their list again from the bound they have reached, the
/// others are closed.
template <class R>
void restart_overflown(const Batch<R>& batch, cudaStream_t stream);

/// Lists all queries that overflowed or that no filter speaks for; counts[0] says how many.
template <class R>
void list_exact_queries(const Batch<R>& batch, bool filtered, std::uint32_t* ids, std::uint32_t* counts,
                        cudaStream_t stream);
/// Empties the lists of a subset.
template <class R>
void clear_lists(const Batch<R>& batch, const Subset& subset, cudaStream_t stream);

/// Lists to answers: row + base, or -1 and +inf.
template <class R>
void write_lists(const Key<R>* lists, std::int64_t queries, std::int64_t list_k, std::int64_t k,
                 std::int64_t base, std::int64_t* indices, R* distances, cudaStream_t stream);

/// Merges answers of several parts, each [queries, k] as write_lists leaves them, into one.
template <class R>
void merge_answers(const std::int64_t* const* indices, const R* const* distances, int parts,
                   std::int64_t queries, std::int64_t k, std::int64_t* out_indices, R* out_distances,
                   cudaStream_t stream);

}  // namespace kith::cuda
