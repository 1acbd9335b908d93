/// @file
/// What share of the nearest rows an approximate index finds, as measured.
#pragma once

#include <cstdint>
#include <vector>

namespace kith {

/// A share of found neighbours, any as near as the k-th nearest, measured on a sample of queries.
struct RecallEstimate {
  double recall = 0;  ///< of the sample
  double lower = 0;   ///< between this
  double upper = 1;   ///< and this with 99 % confidence (two-sided), for queries of the same kind
};

/// Recall of a sample of queries, each of which found some share of its k nearest rows. The interval is
/// Wilson's (1927), for as many independent draws as the spread among queries says the sample
/// is worth (design effect, Kish 1965): neighbours of one query are found or missed together.
/// @param shares one a query, in [0, 1]
/// @param k neighbours a query
RecallEstimate estimate_recall(const std::vector<double>& shares, std::int64_t k);

/// One point of a curve.
struct RecallPoint {
  std::int64_t k = 0;
  std::int64_t list_size = 0;
  RecallEstimate recall;
  double hops = 0;       ///< mean a query
  double distances = 0;  ///< estimates evaluated, mean a query
};

/// Recall over list sizes for some k, ascending by (k, list size).
struct RecallCurve {
  std::int64_t queries = 0;  ///< size of the sample
  std::vector<RecallPoint> points;

  /// The first point whose lower bound reaches `recall`, of the smallest k measured that is at least `k`: for
  /// fewer neighbours a list finds no smaller share. nullptr where there is none.
  const RecallPoint* reaching(double recall, std::int64_t k) const;
};

}  // namespace kith
