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
inline void store_panel(double* p, const Panel& x) {
  for (int i = 0; i < panel_columns; ++i) p[i] = x.v[i];
}

#include "codes/cpu/row_kernels_body.inc"

}  // namespace

extern constinit const RowKernels row_kernels_portable = make_row_kernels();

}  // namespace kith::codes
