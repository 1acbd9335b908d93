// Canonical distance in plain C++: for CPUs without AVX2, and the path the others are tested against.
#include "distance/cpu/canonical_sets.hpp"

namespace kith {
namespace {

struct Lanes {
  double v[8];
};

inline Lanes zero() {
  return {};
}
inline double widen(double x) {
  return x;
}
inline double widen(float x) {
  return x;
}
inline double widen(float16 x) {
  return to_float(x);
}
inline double widen(bfloat16 x) {
  return to_float(x);
}
inline double widen(std::int8_t x) {
  return x;
}
inline double widen(std::uint8_t x) {
  return x;
}
template <class T>
inline Lanes load(const T* p) {
  Lanes r;
  for (int l = 0; l < 8; ++l) r.v[l] = widen(p[l]);
  return r;
}
inline Lanes add(Lanes a, Lanes b) {
  for (int l = 0; l < 8; ++l) a.v[l] += b.v[l];
  return a;
}
inline Lanes sub(Lanes a, Lanes b) {
  for (int l = 0; l < 8; ++l) a.v[l] -= b.v[l];
  return a;
}
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  for (int l = 0; l < 8; ++l) c.v[l] = __builtin_fma(a.v[l], b.v[l], c.v[l]);
  return c;
}
inline Lanes absolute(Lanes a) {
  for (int l = 0; l < 8; ++l) a.v[l] = __builtin_fabs(a.v[l]);
  return a;
}
inline void store(double* p, Lanes v) {
  for (int l = 0; l < 8; ++l) p[l] = v.v[l];
}

#include "distance/cpu/canonical_body.inc"

}  // namespace

CanonicalFunction canonical_portable(Dtype dtype, Metric metric) {
  return select(dtype, metric);
}

}  // namespace kith
