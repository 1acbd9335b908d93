// Numbers that depend on the machine or were found by measuring, in one place.
#pragma once

#include <cstdint>

namespace kith::vamana::tuning {

/// Queries a task of a search takes, and rows a task of a build.
inline constexpr std::int64_t queries_a_task = 32;
inline constexpr std::int64_t rows_a_task = 32;
inline constexpr std::int64_t targets_a_task = 64;

/// Walks that a thread takes forward in turns, and cache lines of codes that one asks for at a time.
inline constexpr std::int64_t walks_side_by_side = 4;
inline constexpr std::int64_t lines_on_their_way = 64;

/// Rounds of such walks between two questions whether the caller wants to stop: some milliseconds.
inline constexpr std::int64_t rounds_between_polls = 256;

/// Visited rows that a walk remembers: entries of 4 bytes, in the first-level cache. What it
/// forgets it evaluates again, with the same outcome.
inline constexpr std::int64_t smallest_table = 1024;
inline constexpr std::int64_t largest_table = 8192;
inline constexpr std::int64_t table_a_list_place = 32;

/// A list among allowed rows may become so many times as long as it would be where they are spread evenly.
inline constexpr std::int64_t longest_among_allowed = 4;

/// Times k, and so many more: nodes of a list that are evaluated exactly. The least that finds all but a
/// thousandth of what the whole list would, for k = 10 and a list of so many nodes.
inline constexpr std::int64_t rerank_factors[] = {2, 4, 8};
inline constexpr std::int64_t reranked_more = 10;
inline constexpr double rerank_loss = 0.001;
inline constexpr std::int64_t rerank_k = 10;
inline constexpr std::int64_t rerank_list = 256;
constexpr std::int64_t rerank_depth(std::int64_t factor, std::int64_t k) {
  return factor * k + reranked_more;
}

/// Nanoseconds, of which only the ratios matter: a walk's estimate of a code that is anywhere in memory, and
/// a row that the exact engine passes for one of many queries.
constexpr double cost_of_estimate(double code_bytes) {
  return 12 + 0.1 * code_bytes;
}
constexpr double cost_of_row(double dim) {
  return 0.25 + 0.003 * dim;
}
/// Recall is measured for walks that take as long as so many exact searches of the query, and no longer.
inline constexpr double most_exact_searches = 4;

/// The list of a build that is told no length. Where many rows have many values, a graph by shorter ones
/// needs longer walks for a recall of 0.99 than the build saves. docs/vamana.md has the table.
inline constexpr std::int64_t usual_build_list = 128;
constexpr std::int64_t build_list_of(std::int64_t rows, std::int64_t dim) {
  return rows >= 400'000 && dim >= 384 ? 256 : usual_build_list;
}

/// Codes may have 4 bits a value from so many values and rows on. Measured, queries a second at recall 0.90
/// to 0.99 by those of 8: 384 values (sentences) 1.24 to 1.35 times, 480 and 512 0.96 to 1.19, 256 and 192
/// 0.69 to 1.11, 64 0.70 to 0.87. docs/vamana.md has the table.
inline constexpr std::int64_t fewest_halved = 384;
inline constexpr std::int64_t fewest_rows_halved = 4096;
/// They do where, of so many sampled rows, at least this share of the nearest stand so early in the order of
/// the codes of their neighbourhood. Of 20,000 gaussian rows, the nearest hardly nearer than others, 0.96 do.
inline constexpr std::int64_t order_sample = 128;
inline constexpr std::int64_t neighborhood = 256;
inline constexpr std::int64_t nearest_of_sample = 10;
inline constexpr std::int64_t early_places = 24;
inline constexpr double share_early = 0.95;

/// Walks at once to nodes that nothing leads to: at first, and at most.
inline constexpr std::size_t first_connected = 16;
inline constexpr std::size_t most_connected = 4096;

/// RaBitQ's bound rules a candidate out with this confidence.
inline constexpr double rerank_confidence = 0.99;

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
