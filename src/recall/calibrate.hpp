// Measures the recall of an approximate index against exact answers.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/neighbors.hpp"
#include "kith/recall.hpp"
#include "kith/row_set.hpp"

namespace kith::recall {

/// Longest list that is measured, and the longest that is for a graph of any size.
inline constexpr std::int64_t longest_list = 4096;
inline constexpr std::int64_t longest_always = 256;
/// Neighbours that a curve is measured for where nothing is asked.
inline constexpr std::array<std::int64_t, 3> usual_ks = {1, 10, 100};

/// Some rows in the place of queries, spread over all of them.
struct HeldOut {
  std::vector<std::int64_t> rows;  ///< ascending; none where all rows are too few to say anything by
  RowSet others;                   ///< all other rows, which may be found
};

/// Up to 1,000 of the rows from `first` on: one in fifty of all, of fewer than 12,500 rows 250 or one in
/// sixteen.
/// @param eligible says of a row whether it may be taken
HeldOut hold_out(std::int64_t rows, std::int64_t first, const std::function<bool(std::int64_t)>& eligible);

/// Rows that serve as queries where none is held out: up to 1,000, at most one in sixteen, no fewer than 50.
std::vector<std::int64_t> own_queries(std::int64_t rows);

/// A curve, and how long it took to make.
struct Measured {
  RecallCurve curve;
  std::vector<double> queries_per_second;  ///< of each of the curve's points
};

/// k nearest rows of every query by a list of that size, with statistics.
using Search = std::function<Neighbors(std::int64_t list_size, std::int64_t k)>;

/// The curve for queries of which `share` are of the kind that `some` was measured by, the rest of the
/// others'. Both lower bounds hold, or this one may not: it is sure by 99 % where each is by 99.5.
RecallCurve pooled(const RecallCurve& some, double share, const RecallCurve& others);

/// The lists that are measured where all of a graph's nodes are so many: 8, 12, 16, 24, 32, ...
std::vector<std::int64_t> list_sizes(std::int64_t nodes);

/// Searches with growing lists, up to `nodes` and longest_list, until everything is found, or a recall of
/// 0.9999 is certain.
/// @param most_distances the first list of longest_always nodes or more whose walks take more of them a query
/// is the last
/// @param exact the nearest rows of the queries, as many as the largest of `ks`
/// @param ks ascending
/// @throws what `search` throws
Measured measure(const Neighbors& exact, std::span<const std::int64_t> ks, std::int64_t nodes,
                 const Search& search, double most_distances = std::numeric_limits<double>::infinity());

}  // namespace kith::recall
