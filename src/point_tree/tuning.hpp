// Numbers that depend on the machine, in one place.
#pragma once

#include <cstdint>

namespace kith::point_tree::tuning {

/// Points a leaf, by default. An octree's cells fill their leaves less evenly, and its nodes take more of the
/// memory.
inline constexpr std::int64_t kd_tree_leaf_size = 32;
inline constexpr std::int64_t octree_leaf_size = 48;
inline constexpr std::int64_t cuda_leaf_size = 32;  ///< of both, built on a GPU: a point a lane
inline constexpr std::int64_t largest_leaf = 4096;

/// Leaves' worth of points that a node of leaves takes on a GPU; leaves are two thirds full.
inline constexpr std::int64_t filling_leaves = 8;

/// Bits of a code on a GPU beyond those that number the points: fewer leave more points for another round,
/// eight more are another pass of the sort.
inline constexpr int spare_code_bits = 14;
inline constexpr int refining_code_bits = 48;

/// Queries a task: one progress report and one cancel poll each.
inline constexpr std::int64_t queries_a_task = 1024;
inline constexpr std::int64_t easy_dim = 6;  ///< above it a query may take milliseconds
inline constexpr std::int64_t hard_queries_a_task = 32;

/// Queries that share the upper part of their walks, about.
inline constexpr std::int64_t queries_a_group = 16;

/// Neighbours a task finds: fewer are not worth a thread, more would take too much memory.
inline constexpr std::int64_t smallest_task = 2048;
inline constexpr std::int64_t largest_task = 1 << 17;

/// Neighbours within a radius that a task collects before they are taken from it: no more than what stays in
/// cache, and those of one query.
inline constexpr std::int64_t collected_together = 1 << 16;

/// Coordinates that a walk reads between two questions whether the caller wants to stop: below a
/// millisecond.
inline constexpr std::int64_t values_between_polls = 1 << 18;

/// Lists of a task that are handed over between two such questions: they go to places far from each other,
/// and each may be the first in its page, which the system clears, 2 MiB at a time.
inline constexpr std::int64_t answers_between_polls = 128;

/// Points that a build moves between two such questions.
inline constexpr std::int64_t points_between_polls = 1 << 20;

/// Points that are worth more than one thread in a build.
inline constexpr std::int64_t parallel_build = 1 << 14;

/// Above this many points a node of a k-d tree is split at medians of a sample of `sample` of them, or a
/// quarter as many below 16 times that.
inline constexpr std::int64_t split_by_sample = 1024;
inline constexpr std::int64_t sample = 1024;

/// Points a task of a build; larger nodes are split by all threads together.
inline constexpr std::int64_t smallest_shared_node = 1 << 16;

/// Fewer queries than this are searched in the order they come in.
inline constexpr std::int64_t unsorted_queries = 64;

/// Runs of queries that are sampled before they are sorted, and how long these are; in a smaller tree any
/// query is near any other.
inline constexpr std::int64_t sampled_runs = 32;
inline constexpr std::int64_t sampled_run = 16;
inline constexpr std::int64_t nodes_to_sort_for = 64;

}  // namespace kith::point_tree::tuning
