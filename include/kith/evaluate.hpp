/// @file
/// Quality figures of an approximate answer against the truth.
#pragma once

#include <cstdint>
#include <functional>

#include "kith/neighbors.hpp"

namespace kith {

/// Where a figure of all queries of this kind lies with 95 % confidence, by the spread among those that were
/// measured (two-sided); NaN where it is not known.
struct Interval {
  double lower = 0;
  double upper = 1;
};

struct Evaluation {
  std::int64_t queries = 0;
  std::int64_t k = 0;
  double recall = 0;  ///< share of the true k indices found, a query's result cut to k
  Interval recall_interval;
  double recall_with_ties =
      0;  ///< counts any row as near as the true k-th (ann-benchmarks); NaN without distances
  Interval recall_with_ties_interval;
  double distance_ratio = 0;  ///< mean of found / true distance over ranks; NaN without distances
  Interval distance_ratio_interval;
  std::int64_t exact_queries = 0;  ///< queries whose index list equals the truth
  Interval exact_share_interval;   ///< of the share that exact_queries are
};

/// recall@k and distance ratio of `result` against `truth`, both cut to the first k columns. Takes
/// O(k log k) a query.
///
/// Neighbours of one query are found or missed together, so the intervals count queries, not neighbours:
/// those of shares are Wilson's score interval (1927) for as many independent draws as the spread among
/// queries says they are worth (design effect, Kish 1965); that of the ratio is normal, by the same spread.
/// @param k 0: the smaller of the two
/// @param cancelled polled; true stops with Cancelled
/// @throws InvalidArgument when the query counts differ or k is above either
Evaluation evaluate(const Neighbors& result, const Neighbors& truth, std::int64_t k = 0,
                    const std::function<bool()>& cancelled = {});

}  // namespace kith
