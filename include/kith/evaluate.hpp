/// @file
/// Quality figures of an approximate answer against the truth.
#pragma once

#include <functional>

#include "kith/neighbors.hpp"

namespace kith {

struct Evaluation {
  std::int64_t queries = 0;
  std::int64_t k = 0;
  double recall = 0;  ///< share of the true k indices found, a query's result cut to k
  double recall_with_ties =
      0;  ///< counts any row as near as the true k-th (ann-benchmarks); NaN without distances
  double distance_ratio = 0;       ///< mean of found / true distance over ranks; NaN without distances
  std::int64_t exact_queries = 0;  ///< queries whose index list equals the truth
};

/// recall@k and distance ratio of `result` against `truth`, both cut to the first k columns.
/// @param k 0: the smaller of the two
/// @param cancelled polled; true stops with Cancelled
/// @throws InvalidArgument when the query counts differ or k is above either
Evaluation evaluate(const Neighbors& result, const Neighbors& truth, std::int64_t k = 0,
                    const std::function<bool()>& cancelled = {});

}  // namespace kith
