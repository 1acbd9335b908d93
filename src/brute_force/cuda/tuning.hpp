// Numbers that depend on the chip, in one place.
#pragma once

#include <cstdint>

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

/// What a search is made of, in seconds (measured on an H200; see docs/gpu.md): a stage's launches, a query's
/// share of re-ranking it, a candidate that a filter keeps, a row that the open first stage keeps, and an
/// exact evaluation, a fixed part and a part a byte of the row.
inline constexpr double stage_seconds = 15e-6;
inline constexpr double rerank_seconds = 18e-9;
inline constexpr double rerank_candidate_seconds = 40e-9;  // in one block
inline constexpr double kept_int8_seconds = 0.45e-9;
inline constexpr double kept_float_seconds = 0.1e-9;
inline constexpr double open_seconds = 18e-12;
inline constexpr double evaluated_seconds = 0.15e-9;
inline constexpr double evaluated_byte_seconds = 0.6e-12;
inline constexpr int most_stages = 8;

/// One look at every pair instead of stages: up to this k, and so many pairs a query of its batch (each costs
/// more than in a stage, but nine launches less are about 0.08 ms).
inline constexpr std::int64_t largest_one_pass_k = 32;
inline constexpr std::int64_t most_one_pass_pairs = std::int64_t{1} << 28;
inline constexpr std::int64_t least_one_pass_rows = 4096;
/// The same over a sample gives the first bound where rows are short: rows of the sample, and what a pair
/// costs, for int8 and for float32 a fixed part and a part a value.
inline constexpr std::int64_t least_look = 4096;
inline constexpr std::int64_t most_look = 65536;
inline constexpr double look_int8_seconds = 0.36e-12;
inline constexpr double look_float_seconds = 0.25e-12;
inline constexpr double look_value_seconds = 0.1e-12;
/// Rows up to which short rows are worth int8 codes, which are longer than the rows, and the surplus.
inline constexpr std::int64_t most_short_coded_rows = std::int64_t{1} << 18;
inline constexpr double most_short_surplus = 8;

/// Queries that keep more than there was room for are searched again, with so many times the room, until all
/// rows fit.
inline constexpr std::int64_t room_growth = 16;

/// Whether int8 codes keep too much is measured by searching for some rows of the sample, where there are
/// rows and queries enough to repay it.
inline constexpr std::int64_t measured_queries = 64;
inline constexpr double most_surplus = 1000;
inline constexpr std::int64_t usual_queries = 10000;
inline constexpr double usual_evaluations = 150;
inline constexpr std::int64_t measured_k = 10;
inline constexpr std::int64_t least_rows_to_measure = 131072;
inline constexpr std::int64_t least_queries_to_measure = 256;

/// Queries of one batch, and memory for its candidates.
inline constexpr std::int64_t most_queries = 16384;
inline constexpr std::uint64_t candidate_bytes = std::uint64_t{2} << 30U;

/// Longest Euclidean rows for which the float32 kernel is considered by itself.
inline constexpr std::int64_t low_dimension = 16;

/// Rows of the sample from which the step of the codes and the filter are chosen.
inline constexpr std::int64_t sample_rows = 512;

}  // namespace kith::brute_force::tuning
