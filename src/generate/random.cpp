// The normal quantile: Wichura, "Algorithm AS 241: the percentage points of the normal distribution",
// Applied Statistics 37 (1988). Relative error about 1e-16.
#include "generate/random.hpp"

#include <cmath>
#include <cstddef>

namespace kith::generators {
namespace {

// Highest power first; the constants are the paper's.
using Polynomial = std::array<double, 8>;
constexpr Polynomial centre_above = {
    2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4, 4.5921953931549871457e+4,
    1.3731693765509461125e+4, 1.9715909503065514427e+3, 1.3314166789178437745e+2, 3.3871328727963666080e+0};
constexpr Polynomial centre_below = {
    5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
    5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0};
constexpr Polynomial tail_above = {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                                   2.41780725177450611770e-1, 1.27045825245236838258e+0,
                                   3.64784832476320460504e+0, 5.76949722146069140550e+0,
                                   4.63033784615654529590e+0, 1.42343711074968357734e+0};
constexpr Polynomial tail_below = {1.05075007164441684324e-9, 5.47593808499534494600e-4,
                                   1.51986665636164571966e-2, 1.48103976427480074590e-1,
                                   6.89767334985100004550e-1, 1.67638483018380384940e+0,
                                   2.05319162663775882187e+0, 1.0};
constexpr Polynomial far_above = {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                                  1.24266094738807843860e-3, 2.65321895265761230930e-2,
                                  2.96560571828504891230e-1, 1.78482653991729133580e+0,
                                  5.46378491116411436990e+0, 6.65790464350110377720e+0};
constexpr Polynomial far_below = {2.04426310338993978564e-15, 1.42151175831644588870e-7,
                                  1.84631831751005468180e-5,  7.86869131145613259100e-4,
                                  1.48753612908506148525e-2,  1.36929880922735805310e-1,
                                  5.99832206555887937690e-1,  1.0};

double evaluate(const Polynomial& coefficients, double x) {
  double sum = coefficients[0];
  for (std::size_t i = 1; i < coefficients.size(); ++i) sum = sum * x + coefficients[i];
  return sum;
}

// Natural logarithm in basic operations, because libraries differ in the last bit:
// x = m 2^e with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)).
double portable_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0x1.6a09e667f3bcdp-1) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;  // at most 0.0295: eleven terms reach 1e-18
  double sum = 0;
  for (int term = 21; term >= 1; term -= 2) sum = sum * square + 1.0 / term;
  return 2 * s * sum + exponent * 0x1.62e42fefa39efp-1;
}

}  // namespace

double normal_quantile(double p) noexcept {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * evaluate(centre_above, r) / evaluate(centre_below, r);
  }
  const double r = std::sqrt(-portable_log(q <= 0 ? p : 1 - p));
  const double x = r <= 5 ? evaluate(tail_above, r - 1.6) / evaluate(tail_below, r - 1.6)
                          : evaluate(far_above, r - 5) / evaluate(far_below, r - 5);
  return q < 0 ? -x : x;
}

}  // namespace kith::generators
