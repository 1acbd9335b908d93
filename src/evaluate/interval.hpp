// Confidence intervals of figures that are measured on a sample of queries.
#pragma once

#include "kith/evaluate.hpp"

namespace kith {

/// So many standard deviations about the mean hold 95 % of a normal distribution, or 99 %.
inline constexpr double z_95 = 1.959963984540054;
inline constexpr double z_99 = 2.5758293035489004;

/// Sums over queries of how much there was and of how much of it there might have been: found and expected
/// neighbours, or ratios and their number. What is needed of the spread among queries, in one pass.
class QuerySpread {
 public:
  void add(double part, double whole) {
    if (!(whole > 0)) return;
    ++queries_;
    parts_ += part;
    wholes_ += whole;
    squares_ += part * part;
    mixed_ += part * whole;
    whole_squares_ += whole * whole;
  }

  double queries() const { return queries_; }
  /// The ratio of the sums; NaN without any.
  double mean() const { return parts_ / wholes_; }
  /// Variance of mean() as an estimate (a ratio's, Cochran 1977, by which a query has the weight of its
  /// whole), 0 for fewer than two queries.
  double variance() const;
  /// Of a mean that is a share of what was expected: Wilson's (1927), for as many draws as would spread it as
  /// much (Kish 1965), at least one a query and at most one of all that was expected.
  Interval of_share(double z = z_95) const;
  /// Of any mean: normal; NaN for fewer than two queries.
  Interval of_mean() const;

 private:
  double queries_ = 0, parts_ = 0, wholes_ = 0;
  double squares_ = 0, mixed_ = 0, whole_squares_ = 0;
};

/// Wilson's interval of a share p of `draws` independent draws.
Interval wilson(double p, double draws, double z = z_95);

}  // namespace kith
