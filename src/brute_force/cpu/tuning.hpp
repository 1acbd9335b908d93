// Numbers that depend on the machine, in one place.
#pragma once

#include <cstdint>

#include "brute_force/tuning.hpp"  // IWYU pragma: export
#include "kith/calibration.hpp"

namespace kith::brute_force::tuning {

/// Queries whose codes stay in the second-level cache while the rows stream past.
inline constexpr std::int64_t query_cache_bytes = 256 << 10;
inline constexpr std::int64_t largest_chunk = 252;  // a multiple of every kernel's group
inline constexpr std::int64_t query_group = 6;

/// Tasks a thread, so that the last one to finish does not keep the others waiting.
inline constexpr std::int64_t tasks_a_thread = 3;
inline constexpr std::int64_t splits_a_thread = 4;
inline constexpr std::int64_t smallest_split_tiles = 64;

/// Rows are visited in blocks, every `sample_stride`-th first: they give a bound before the bulk comes.
inline constexpr std::int64_t block_bytes = 128 << 10;
inline constexpr std::int64_t sample_stride = 64;

/// Candidates that wait before they are evaluated.
inline constexpr std::int64_t largest_wait = 128;

/// Of rows that fine codes speak of so many times k wait before what they tell is used; longer lists do
/// without.
inline constexpr std::int64_t fine_wait = 4;
inline constexpr std::int64_t most_k_of_fine_codes = 512;
/// Nor are they looked at where what waits leaves a task fewer queries than this.
inline constexpr std::int64_t fewest_queries_of_fine_codes = 60;

/// A query leaves the filter when it keeps more than one row in `fallback_share` after this many rows.
inline constexpr std::int64_t fallback_after_rows = 32768;
inline constexpr std::int64_t fallback_share = 4;

/// Memory for the k-lists of all running tasks.
inline constexpr std::uint64_t list_bytes = std::uint64_t{96} << 20U;
inline constexpr std::uint64_t limited_list_bytes = std::uint64_t{16} << 20U;  // under a memory limit

/// Values of rows a task evaluates between two questions whether the caller wants to stop: some milliseconds.
inline constexpr std::int64_t values_between_polls = 1 << 20;

/// Automatic choice: rows and queries of the sample, and the cost of a multiply-add of each filter (int8 on
/// AVX-512 = 1) and of an exact evaluation, per dimension. Up to difference_dim dimensions four-byte
/// differences are the quickest: 200,000 rows, uniform, gaussian or in clusters, k of 1 to 100 (Zen 4); in 16
/// dimensions they take 2.0 times as long as int8 on AVX-512, 1.5 on AVX2. Portable code was measured on an
/// AMD EPYC, 200,000 rows of 128 values.
struct Costs {
  double int8, narrow, fp16, fp32;
  std::int64_t difference_dim;
};
inline constexpr Costs costs_avx512 = {1, 1, 5, 4, 4};
inline constexpr Costs costs_avx_vnni = {2, 2, 8, 8.5, 6};
inline constexpr Costs costs_avx2 = {8, 3, 8, 8.5, 7};
inline constexpr Costs costs_portable = {5.3, 5.3, 26, 4, 16};
/// Not measured but counted: instructions a multiply-add, beside those of an exact evaluation.
inline constexpr Costs costs_neon_i8mm = {1, 1, 5, 4, 6};
inline constexpr Costs costs_neon = {2, 2, 5, 4, 6};
/// Searches of fewer queries do not repay codes that take longer to make than differences.
inline constexpr std::int64_t queries_for_other_codes = 512;
inline constexpr std::int64_t sample_rows = 4096;
inline constexpr std::int64_t sample_queries = 16;
inline constexpr double cost_exact = 120;
inline constexpr double cost_exact_rows = 2000;  // a scattered row, whatever its length

/// What a calibration measured where these costs were fitted, two cores of an Intel Xeon with AVX-512
/// VNNI: costs elsewhere are these times the ratio of what is measured there.
inline constexpr WorkTimes times_avx512 = {.int8 = 0.0021,
                                           .int7 = 0.0021,
                                           .fp16 = 0.0092,
                                           .fp32 = 0.0081,
                                           .exact_value = 0.15,
                                           .exact_row = 1.45,
                                           .directions = 0.6,
                                           .projection = 0.042};

/// Codes along leading directions are looked for from so many rows a dimension on. Those that hold less than
/// `least_share` of the variance keep too many rows. They are taken where a search for `typical_k_along`
/// rows, between the usual 10 and 100, is expected to take at most `worthwhile_along` of its time. Of 25,000
/// rows of 96 values it was expected to take 0.83 to 0.86, and took 0.6 (k = 10) to 0.8 (32, 100).
inline constexpr std::int64_t reduced_rows_a_dim = 8;
inline constexpr double least_share = 0.8;
inline constexpr std::int64_t sample_queries_along = 64;
inline constexpr double typical_k_along = 32;
inline constexpr double worthwhile_along = 0.9;
/// In multiply-adds of int8: finding directions takes this times d^3, and measuring what some of them keep; a
/// row's coordinates take this a value and direction.
inline constexpr double cost_of_directions = 500;
inline constexpr double cost_of_a_look = 2e10;
inline constexpr double cost_of_projection = 15;

/// Fine codes are made where an exact distance takes so many times what looking at one does, in the time of a
/// scattered row; and where the bound that they give keeps at most so many times the rows that a true one
/// does.
inline constexpr double least_saved_by_fine_codes = 16;
inline constexpr double most_kept_by_fine_codes = 2;

/// Lists are looked for from so many dimensions and rows on, where rows lie in clusters (clusters.cpp), and
/// taken where searches look at so few that they take `worthwhile_lists` of the time.
inline constexpr std::int64_t fewest_listed_dim = 16;
inline constexpr std::int64_t fewest_listed_rows = 1 << 14;
inline constexpr double worthwhile_lists = 0.5;
/// So many queries go through lists together: the more, the more look at one list while a cache holds it.
inline constexpr std::int64_t queries_through_lists = 120;
/// In multiply-adds of int8: what a query takes for each list it looks at, a value, its code and the first
/// look at the list's own (200,000 rows in clusters of 32 to 768 values: 1.6 to 5 microseconds a list); a row
/// of a list, beside one of all rows; and to make lists, a value of a row besides what it is compared with,
/// and k-means.
inline constexpr double cost_of_query_code = 2000;
inline constexpr double cost_of_list_row = 4000;
inline constexpr double cost_of_k_means = 5e10;
inline constexpr double cost_of_listed_row = 1.2;

/// One-shot searches with at most this many queries build no codes: encoding costs about as many scans.
inline constexpr std::int64_t queries_without_codes = 4;

}  // namespace kith::brute_force::tuning
