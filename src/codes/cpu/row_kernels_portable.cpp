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

struct Panel {
  double v[panel_columns];
};

inline Panel zero_panel() {
  return {};
}
inline Panel load_panel(const double* p) {
  Panel x;
  for (int i = 0; i < panel_columns; ++i) x.v[i] = p[i];
  return x;
}
inline Panel add_product(Panel sum, const Panel& x, double y) {
  for (int i = 0; i < panel_columns; ++i) sum.v[i] += x.v[i] * y;
  return sum;
}
inline Panel add_rounded_product(const Panel& sum, const Panel& x, double y) {
  return add_product(sum, x, y);
}
inline void store_panel(double* p, const Panel& x) {
  for (int i = 0; i < panel_columns; ++i) p[i] = x.v[i];
}

struct NarrowPanel {
  float v[narrow_panel_columns];
};

inline NarrowPanel zero_narrow_panel() {
  return {};
}
inline NarrowPanel load_narrow_panel(const float* p) {
  NarrowPanel x;
  for (int i = 0; i < narrow_panel_columns; ++i) x.v[i] = p[i];
  return x;
}
inline NarrowPanel add_product(NarrowPanel sum, const NarrowPanel& x, float y) {
  for (int i = 0; i < narrow_panel_columns; ++i) sum.v[i] += x.v[i] * y;
  return sum;
}
inline void add_narrow_panel(double* p, const NarrowPanel& x) {
  for (int i = 0; i < narrow_panel_columns; ++i) p[i] += x.v[i];
}

#include "codes/cpu/row_kernels_body.inc"

}  // namespace

extern constinit const RowKernels row_kernels_portable = make_row_kernels();

}  // namespace kith::codes
