// Numbers that depend on the machine or were found by measuring, in one place.
#pragma once

#include <cstdint>

namespace kith::vamana::tuning {

/// Queries a task of a search takes, and rows a task of a build.
inline constexpr std::int64_t queries_a_task = 32;
inline constexpr std::int64_t rows_a_task = 32;
inline constexpr std::int64_t targets_a_task = 64;

/// Steps of a walk between two questions whether the caller wants to stop: some milliseconds.
inline constexpr std::int64_t steps_between_polls = 256;

/// Visited rows that a walk remembers: entries of 4 bytes, in the first-level cache. What it
/// forgets it evaluates again, with the same outcome.
inline constexpr std::int64_t smallest_table = 1024;
inline constexpr std::int64_t largest_table = 8192;
inline constexpr std::int64_t table_a_list_place = 32;

/// Walks begin at the medoid and at so many nodes more: one for every so many nodes, within bounds.
inline constexpr std::int64_t nodes_an_entry = 4096;
inline constexpr std::int64_t fewest_entries = 16;
inline constexpr std::int64_t most_entries = 256;

/// A batch of a build is at most this share of the nodes (ParlayANN, Dobson et al. 2023, has 2 %).
inline constexpr double batch_share = 0.02;
/// A node takes so many neighbours beyond max_degree before it is pruned: most prunes are saved, and what
/// comes in between is judged together.
inline constexpr double slack = 1.3;
/// Nearest nodes of a walk that a prune chooses from.
inline constexpr std::int64_t most_candidates = 750;

}  // namespace kith::vamana::tuning
