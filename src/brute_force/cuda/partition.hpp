// Rows of a shard in lists around centres, as on the CPU (brute_force/partition.hpp): tiles of codes hold
// rows of few lists, queries that are nearest to one list go together, and a block of them looks only at the
// tiles whose lists none of its queries can leave out (docs/exact-contract.md, step 12).
#pragma once

#include <cstdint>

#include "brute_force/cuda/kernels.hpp"
#include "cuda/runtime.hpp"

namespace kith::brute_force::cuda {

/// Centres and radii of lists, in the shard's code space; device memory.
struct ListBalls {
  std::int64_t count = 0;
  std::int64_t stride = 0;                    ///< values of a centre, padded by zeros: see ball_stride
  const float* centres = nullptr;             ///< [count, stride]
  const float* radii = nullptr;               ///< no row's real distance to its centre is larger
  const std::uint32_t* first = nullptr;       ///< where a list begins in the sequence of rows, [count + 1]
  const std::uint32_t* tile_lists = nullptr;  ///< [tiles, 2]: the first and the last list with rows in a tile
};
std::int64_t ball_stride(std::int64_t dim);
/// Magnitudes of values of centres.
inline constexpr float largest_centre_entry = 0x1p12F;

/// Rows or queries as float32 in code space, [count, ball_stride], and how far that is off, rounded up: +inf
/// where there is a NaN or an infinity. `off` may be null.
void place_in_space(const void* data, std::int64_t stride, std::int64_t count, const CodeSpace& space,
                    float* points, float* off, cudaStream_t stream);

/// The nearest list of each point, in the low half of a word, [count].
/// @param least if not null: how near rows of each list can be at least, [count, lists], may be negative
void compare_with_centres(const float* points, const float* off, std::int64_t count, const ListBalls& balls,
                          std::uint64_t* nearest, float* least, cudaStream_t stream);

/// Numbers 0, 1, ... by the list that `nearest` has of them, ascending in each; into `keys` the lists. Four
/// arrays of `count`;
/// @return bytes of `scratch` that it takes, and nothing else where `scratch` is null
std::size_t order_by_list(const std::uint64_t* nearest, std::int64_t count, std::int64_t lists,
                          std::uint32_t* unsorted_keys, std::uint32_t* unsorted, std::uint32_t* keys,
                          std::uint32_t* sorted, void* scratch, std::size_t scratch_bytes,
                          cudaStream_t stream);

/// Where lists begin in sorted keys, [lists + 1].
void begins_of_lists(const std::uint32_t* keys, std::int64_t count, std::int64_t lists, std::uint32_t* first,
                     cudaStream_t stream);
/// The row in each place of the tiles, [tiles, code_tile_rows] by row_of, and the lists of a tile.
void fill_tiles(const std::uint32_t* sequence, const std::uint32_t* keys, std::int64_t rows,
                std::int64_t tiles, std::uint32_t* order, std::uint32_t* tile_lists, cudaStream_t stream);
/// Radii of lists, zero before: the largest distance of a row to its list's centre.
void measure_radii(const void* data, std::int64_t stride, std::int64_t rows, const CodeSpace& space,
                   const std::uint64_t* nearest, const ListBalls& balls, float* radii, cudaStream_t stream);

/// Queries of a batch in the order of their lists, and what is known of them.
struct ListedQueries {
  const std::uint32_t* ids = nullptr;    ///< of each its row in `least`
  const std::uint32_t* lists = nullptr;  ///< its nearest list
  const float* least = nullptr;          ///< [all queries, lists]
};

/// Candidates of every query: `count` rows, spread over its nearest list, or around it where that has fewer.
void fill_from_own_list(const Candidates& candidates, const ListedQueries& queries, std::int64_t query_count,
                        const ListBalls& balls, const std::uint32_t* order, std::int64_t rows,
                        std::int64_t tiles, std::int64_t count, cudaStream_t stream);

/// Which tiles of a stage each block of `block_queries` looks at, by the bounds so far; tiles [blocks,
/// stage.count] and counts. Adds up the pairs of codes that are compared.
template <class R>
void choose_visits(const Batch<R>& batch, const ListedQueries& queries, const ListBalls& balls,
                   const Stage& stage, int block_queries, std::uint32_t* tiles, std::uint32_t* counts,
                   unsigned long long* pairs, cudaStream_t stream);

/// Adds up the rows that each query alone could not leave out.
template <class R>
void count_visited(const Batch<R>& batch, const ListedQueries& queries, const ListBalls& balls,
                   unsigned long long* sum, cudaStream_t stream);

}  // namespace kith::brute_force::cuda
