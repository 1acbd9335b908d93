// Numbers that depend on the chip, in one place: first those that kernels are compiled with and that bound
// what is tried, the same on every GPU, then the costs that decide what runs, a set a kind of GPU.
#pragma once

#include <cstdint>

#include "brute_force/tuning.hpp"  // IWYU pragma: export

namespace kith {
struct WorkTimes;
}

namespace kith::brute_force::tuning {

/// Rows of a block of the float32 kernels.
inline constexpr int float_tile_rows = 1024;

/// Rows of the sample that gives the first bound.
inline constexpr std::int64_t least_float_sample = 512;
inline constexpr std::int64_t least_int8_sample = 1024;
inline constexpr std::int64_t most_sample = 16384;

/// Candidates a query may keep in one stage, at least and at most (what is over it is searched again).
inline constexpr std::int64_t least_room = 4096;
inline constexpr std::int64_t most_room = std::int64_t{1} << 22;

/// Largest k whose lists are merged in shared memory.
inline constexpr std::int64_t largest_block_k = 1024;

/// Lists of up to so many neighbours take a block of a few threads little time to sort.
inline constexpr std::int64_t longest_short_list = 128;

/// One look at every pair instead of stages: up to this k, and so many rows.
inline constexpr std::int64_t largest_one_pass_k = 32;
inline constexpr std::int64_t least_one_pass_rows = 4096;
/// Rows that no filter speaks for, where few queries look at them all.
inline constexpr std::int64_t most_special_in_one_pass = 1024;
/// Rows of a sample whose runs leave their nearest, at most, for short lists that do not ask for more.
inline constexpr std::int64_t most_in_runs = 16384;
/// Some queries keep far more than others: room for so many times more, where an eighth of the memory for
/// candidates holds it...
inline constexpr std::int64_t uneven_room = 4;
/// ... or half of that memory, where the filter keeps so many times too many.
inline constexpr double uneven_surplus = 2;
inline constexpr int most_stages = 8;
inline constexpr double most_short_surplus = 8;

/// Queries that keep more than there was room for are searched again, with so many times the room, until all
/// rows fit.
inline constexpr std::int64_t room_growth = 16;

/// Whether int8 codes keep too much is measured by searching for some rows of the sample, where there are
/// rows, or values of long rows, and queries enough to repay it.
inline constexpr std::int64_t measured_queries = 64;
inline constexpr double most_surplus = 1000;
inline constexpr std::int64_t usual_queries = 10000;
inline constexpr double usual_evaluations = 150;
inline constexpr std::int64_t measured_k = 10;
inline constexpr std::int64_t least_rows_to_measure = 131072;
inline constexpr std::int64_t least_long_rows_to_measure = 16384;
inline constexpr std::int64_t least_values_to_measure = std::int64_t{1} << 25;
inline constexpr std::int64_t least_queries_to_measure = 256;

/// Directions and the rest fill whole steps of codes.
inline constexpr std::int64_t step_of_directions = 32;
/// int8 codes along leading directions: as many as fill whole steps of codes. The first try is the least
/// number that holds `first_share` of the variance. They are taken where a search is expected to take at most
/// `most_time_along` of its time. Where nobody asked for them it is `most_time_unasked`, from so many values
/// on: a search of fewer takes about as long either way. On an H200 1,000 queries of 200,000 x 384 take 0.28
/// in place of 0.33 ms, 10,000 1.7 of 2.7; of 80,000 x 1536 1,000 take 0.31 of 0.48, for half a second more
/// of building.
inline constexpr double first_share = 0.95;
inline constexpr double most_time_along = 0.9;
inline constexpr double most_time_unasked = 0.75;
inline constexpr std::int64_t least_values_unasked = std::int64_t{1} << 26;
inline constexpr int most_tries = 6;
/// A sample does not tell of the few rows that lie beyond the range of its codes, and that every query
/// evaluates: where there are more, the step is longer by so much, some times.
inline constexpr std::int64_t most_beyond_range = 256;
inline constexpr double widened_by = 1.15;
inline constexpr int most_widened = 3;
/// Codes along fewer directions for few queries: where a look at all rows reads so many bytes less, some
/// queries are timed, and it takes at most this share of the time.
inline constexpr std::int64_t least_bytes_spared = std::int64_t{1} << 26;
inline constexpr std::int64_t timed_queries = 16;
inline constexpr double most_time_by_short_codes = 0.9;
/// A query is shared by blocks where it keeps so many candidates, and so many times what is expected, up to
/// some k: each block evaluates k before it can rule out any.
inline constexpr std::int64_t least_heavy = 512;
inline constexpr std::int64_t heavy_factor = 4;
inline constexpr std::int64_t largest_heavy_k = 256;
/// Queries from which on candidates are tried by fine codes.
inline constexpr std::int64_t least_refined = 32;
/// Rows of the sample that they are found from.
inline constexpr std::int64_t direction_rows = 4096;
/// Seconds that finding them takes, times d^3, and encoding a value of a row along one of them.
inline constexpr double find_seconds = 3e-10;
inline constexpr double project_seconds = 1e-13;
/// Memory for the coordinates of rows that are encoded at once.
inline constexpr std::uint64_t coordinate_bytes = std::uint64_t{32} << 20U;

/// Rows in lists: where they lie in clusters, from so many dimensions on; lists are kept where a query visits
/// at most `most_visited` of the rows, and where they save it more than twice what they take:
/// `least_listed_seconds`, and `listed_value_seconds` a value of a centre.
inline constexpr std::int64_t fewest_listed_dim = 17;
inline constexpr std::int64_t most_usual_lists = 2048;
inline constexpr std::int64_t most_lists = 1 << 16;
inline constexpr double most_visited = 0.25;
inline constexpr double least_listed_seconds = 4e-8;
inline constexpr double listed_value_seconds = 1e-13;
/// Rows of a query's own list that give the first bound.
inline constexpr std::int64_t least_of_own_list = 64;
inline constexpr std::int64_t most_of_own_list = 2048;
/// Memory for how near lists are to queries.
inline constexpr std::uint64_t list_distance_bytes = std::uint64_t{256} << 20U;
/// Seconds that making lists takes: k-means on the host, a value of the sample and centre compared with, on
/// one of 16 cores, and rows that are compared with centres on the device.
inline constexpr double k_means_seconds = 2e-11;
inline constexpr double divide_seconds = 1e-13;

/// Where queries are put in the order of their thresholds before a stage: sixteen neighbours must be much
/// alike, and the stage take longer than sorting them.
inline constexpr std::int64_t least_ordered_queries = 4096;
inline constexpr std::int64_t least_ordered_pairs = 1'000'000'000;

/// Queries of one batch, and memory for its candidates.
inline constexpr std::int64_t most_queries = 16384;
inline constexpr std::uint64_t candidate_bytes = std::uint64_t{2} << 30U;

/// Longest Euclidean rows for which the float32 kernel is considered by itself.
inline constexpr std::int64_t low_dimension = 16;

/// Rows of the sample from which the step of the codes and the filter are chosen.
inline constexpr std::int64_t code_sample_rows = 512;

/// What a search is made of, by which the filter, the stages and the one pass are chosen. Times in seconds.
struct Policy {
  // The look at all rows, 10^9 pairs, 32 values of a code being a step.
  double int8_step_seconds;   ///< a step
  double int8_least_seconds;  ///< and never less
  double int8_kept_seconds;   ///< more for 100 candidates a neighbour
  double fp16_step_seconds;   ///< a step of half as many values
  double fp16_least_seconds;
  double fp32_value_seconds;  ///< a subtraction or a multiply-add

  // Stages.
  double stage_seconds;             ///< a stage's launches
  double rerank_seconds;            ///< a query's share of re-ranking it
  double rerank_candidate_seconds;  ///< a candidate, in one block
  double kept_int8_seconds;         ///< a candidate that a filter keeps
  double kept_float_seconds;
  double open_seconds;            ///< a row that the open first stage keeps
  double evaluated_seconds;       ///< an exact evaluation, a fixed part
  double evaluated_byte_seconds;  ///< and a part a byte of the row

  /// One look at every pair instead of stages, up to so many pairs: each costs more than in a stage, but nine
  /// launches less are about 0.08 ms.
  std::int64_t most_one_pass_pairs;

  // The same over a sample gives the first bound where rows are short.
  std::int64_t least_look;  ///< rows of the sample
  std::int64_t most_look;
  double look_int8_seconds;   ///< a pair of int8 codes
  double look_float_seconds;  ///< a pair of float32 rows, a fixed part
  double look_value_seconds;  ///< and a part a value
  double look_run_seconds;    ///< a pair of codes of many queries, where each run leaves its nearest

  /// Rows up to which short rows are worth int8 codes, which are longer than the rows: they stay in the
  /// cache.
  std::int64_t most_short_coded_rows;
};

/// GPUs with wgmma: measured on an H200 (docs/gpu.md), every number.
inline constexpr Policy with_wgmma{
    .int8_step_seconds = 0.06e-3,
    .int8_least_seconds = 0.15e-3,
    .int8_kept_seconds = 0.3e-3,
    .fp16_step_seconds = 0.06e-3,
    .fp16_least_seconds = 0.1e-3,
    .fp32_value_seconds = 0.035e-3,
    .stage_seconds = 15e-6,
    .rerank_seconds = 12e-9,
    .rerank_candidate_seconds = 40e-9,
    .kept_int8_seconds = 0.25e-9,
    .kept_float_seconds = 0.1e-9,
    .open_seconds = 18e-12,
    .evaluated_seconds = 0.1e-9,
    .evaluated_byte_seconds = 0.28e-12,
    .most_one_pass_pairs = std::int64_t{1} << 28,
    .least_look = 4096,
    .most_look = 65536,
    .look_int8_seconds = 0.36e-12,
    .look_float_seconds = 0.25e-12,
    .look_value_seconds = 0.1e-12,
    .look_run_seconds = 2.5e-12,
    .most_short_coded_rows = std::int64_t{1} << 18,
};

/// GPUs without wgmma (compute capability 8.0 to 8.9, and 10.0 and up). None of these numbers was measured on
/// one: they are the H200's until somebody does. They decide what runs, never what is found.
inline constexpr Policy without_wgmma = with_wgmma;

/// What is built in for a GPU, or that with what its work takes by a calibration of it. For an index at its
/// beginning: files are looked at. @throws IoError when KITH_CALIBRATION names a file that cannot be read
Policy policy_of(int device);

/// A policy of which each cost is multiplied by the time of its kind of work here over that on the H200.
Policy scaled(const Policy& built_in, const WorkTimes& here);

}  // namespace kith::brute_force::tuning
