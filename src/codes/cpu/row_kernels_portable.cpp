// Row kernels, plain C++.
#include "codes/cpu/row_kernels.hpp"

#include "codes/form.hpp"

#include "kith/dtype.hpp"

namespace kith::codes {
namespace {

inline double widen(float16 x) {
  return to_float(x);
}
inline double widen(bfloat16 x) {
  return to_float(x);
}

template <class T, int columns>
struct PanelOf {
  T v[columns];
};
using Panel = PanelOf<double, panel_columns>;
using NarrowPanel = PanelOf<float, narrow_panel_columns>;

template <class T, int columns>
PanelOf<T, columns> loaded(const T* p) {
  PanelOf<T, columns> x;
  for (int i = 0; i < columns; ++i) x.v[i] = p[i];
  return x;
}
template <class T, int columns>
PanelOf<T, columns> add_product(PanelOf<T, columns> sum, const PanelOf<T, columns>& x, T y) {
  for (int i = 0; i < columns; ++i) sum.v[i] += x.v[i] * y;
  return sum;
}

inline Panel zero_panel() {
  return {};
}
inline Panel load_panel(const double* p) {
  return loaded<double, panel_columns>(p);
}
inline Panel add_rounded_product(const Panel& sum, const Panel& x, double y) {
  return add_product(sum, x, y);
}
inline void store_panel(double* p, const Panel& x) {
  for (int i = 0; i < panel_columns; ++i) p[i] = x.v[i];
}

inline NarrowPanel zero_narrow_panel() {
  return {};
}
inline NarrowPanel load_narrow_panel(const float* p) {
  return loaded<float, narrow_panel_columns>(p);
}
inline void add_narrow_panel(double* p, const NarrowPanel& x) {
  for (int i = 0; i < narrow_panel_columns; ++i) p[i] += x.v[i];
}

#include "codes/cpu/row_kernels_body.inc"

}  // namespace

extern constinit const RowKernels row_kernels_portable = make_row_kernels();

}  // namespace kith::codes
