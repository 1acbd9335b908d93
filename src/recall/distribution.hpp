// Whether two samples are of one distribution.
#pragma once

#include <vector>

namespace kith::recall {

struct Difference {
  double largest = 0;  ///< of the two distribution functions
  double p_value = 1;  ///< of one as large between samples of one distribution
};

/// The test of Kolmogorov and Smirnov (1948) for two samples, with Stephens's (1970) correction for small
/// ones. Numbers without NaN; ties make it careful.
Difference compare(std::vector<double> a, std::vector<double> b);

/// The middle one; NaN of none.
double median(std::vector<double> values);

}  // namespace kith::recall
