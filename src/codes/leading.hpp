// The leading principal directions of rows: where variance sits in few directions, codes of those alone order
// pairs nearly as codes of all values do, in a fraction of the bytes (LeanVec: Tepper et al. 2024).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kith/execution.hpp"

namespace kith::codes {

/// Directions come in so many: a register of codes.
inline constexpr std::int64_t leading_step = 32;

/// An orthonormal map onto some directions, rotated among themselves at random, so that each holds about as
/// much variance as the others and one step suits all.
struct LeadingDirections {
  std::int64_t count = 0;  ///< a multiple of leading_step; 0: none
  /// Of the variance, the share that they hold.
  double share = 0;
  std::vector<float> map;  ///< [dim, count]
};

/// How many directions to find.
struct LeadingPlan {
  std::int64_t count = 0;  ///< so many; 0: as few as hold `share` of the variance
  double share = 1;
  std::int64_t most = 0;  ///< none where `share` takes more

  bool none() const { return count == 0 && most == 0; }
};

/// Directions as they were found: orthonormal, and those that nothing is left for are zero.
struct PrincipalDirections {
  std::int64_t dim = 0;
  std::vector<std::vector<double>> directions;
  std::vector<double> shares;  ///< what each holds of the variance; about falling

  std::int64_t count() const { return static_cast<std::int64_t>(directions.size()); }
};

/// The leading eigenvectors of the rows' covariance, by orthogonal iteration (Golub and Van Loan, section
/// 7.3.2) on float64 sums in one written order: the same bits from any number of threads and every
/// instruction set. None where nothing varies.
/// @param rows [any number, dim], the mean taken off; those with a value that is not finite are left out
/// @param most at most dim
/// @param iterations each multiplies a direction's error by the ratio of the first eigenvalue left out to its
/// own
/// @throws Cancelled
PrincipalDirections principal_directions(std::span<const double> rows, std::int64_t dim, std::int64_t most,
                                         const Execution& execution, int iterations = 6);

/// The first `count` of them as a map [dim, count], rotated among themselves.
std::vector<double> rotated_map(const PrincipalDirections& found, std::int64_t count);

/// As many of them as the plan asks for, rotated among themselves.
/// @throws Cancelled
LeadingDirections leading_directions(std::span<const double> rows, std::int64_t dim, const LeadingPlan& plan,
                                     const Execution& execution);

/// Bytes that it takes at its peak, the rows not counted.
std::uint64_t leading_bytes(std::int64_t dim, std::int64_t most);

}  // namespace kith::codes
