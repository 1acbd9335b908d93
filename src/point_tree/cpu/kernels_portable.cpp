// Tree kernels in plain C++: for CPUs without AVX2, and the path the others are tested against.
#include "point_tree/cpu/kernels.hpp"

namespace kith::point_tree {
namespace {

constexpr int floats = 8;
constexpr int doubles = 4;
struct Floats {
  float v[floats];
};
struct Doubles {
  double v[doubles];
};

template <class T>
struct Shape;
template <>
struct Shape<float> {
  using Type = Floats;
  static constexpr int width = floats;
};
template <>
struct Shape<double> {
  using Type = Doubles;
  static constexpr int width = doubles;
};

// Calls f(i) for every lane.
template <class R, class F>
inline R each(F f) {
  R r;
  for (int i = 0; i < static_cast<int>(sizeof(r.v) / sizeof(r.v[0])); ++i) r.v[i] = f(i);
  return r;
}

template <class T>
inline typename Shape<T>::Type load(const T* p) {
  return each<typename Shape<T>::Type>([&](int i) { return p[i]; });
}
template <class T>
inline typename Shape<T>::Type spread(T value) {
  return each<typename Shape<T>::Type>([&](int) { return value; });
}
template <class R>
inline R sub(R a, R b) {
  return each<R>([&](int i) { return a.v[i] - b.v[i]; });
}
template <class R>
inline R add(R a, R b) {
  return each<R>([&](int i) { return a.v[i] + b.v[i]; });
}
template <class R>
inline R mul(R a, R b) {
  return each<R>([&](int i) { return a.v[i] * b.v[i]; });
}
// The filter's sum of floats may round twice (`limit` allows for it); the canonical sum may not.
inline Floats fma(Floats a, Floats b, Floats c) {
  return each<Floats>([&](int i) { return c.v[i] + a.v[i] * b.v[i]; });
}
inline Doubles fma(Doubles a, Doubles b, Doubles c) {
  return each<Doubles>([&](int i) { return __builtin_fma(a.v[i], b.v[i], c.v[i]); });
}
template <class R>
inline R larger(R a, R b) {
  return each<R>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Floats absolute(Floats a) {
  return each<Floats>([&](int i) { return __builtin_fabsf(a.v[i]); });
}
inline Doubles absolute(Doubles a) {
  return each<Doubles>([&](int i) { return __builtin_fabs(a.v[i]); });
}
inline Doubles root(Doubles a) {
  return each<Doubles>([&](int i) { return __builtin_sqrt(a.v[i]); });
}
inline Doubles low_half(Floats a) {
  return each<Doubles>([&](int i) { return static_cast<double>(a.v[i]); });
}
inline Doubles high_half(Floats a) {
  return each<Doubles>([&](int i) { return static_cast<double>(a.v[i + doubles]); });
}
template <class T, class R>
inline void store(T* p, R v) {
  for (int i = 0; i < Shape<T>::width; ++i) p[i] = v.v[i];
}
inline void store_narrow(float* p, Doubles v) {
  for (int i = 0; i < doubles; ++i) p[i] = static_cast<float>(v.v[i]);
}
template <class R>
inline unsigned at_most(R a, R b) {
  unsigned mask = 0;
  for (int i = 0; i < static_cast<int>(sizeof(a.v) / sizeof(a.v[0])); ++i) {
    mask |= a.v[i] <= b.v[i] ? 1U << i : 0U;
  }
  return mask;
}

template <int K>
class PackedList;  // plain C++ has none
template <int K>
class DoubleList;
class NearestOne;
constexpr bool has_packed_lists = false;

#include "point_tree/cpu/kernels_body.inc"

}  // namespace

const TreeKernels tree_kernels_portable = kernels_here;

}  // namespace kith::point_tree
