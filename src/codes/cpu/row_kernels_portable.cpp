// Row kernels, plain C++.
#include "codes/cpu/row_kernels.hpp"

#include "kith/dtype.hpp"

namespace kith::codes {
namespace {

inline double widen(float16 x) {
  return to_float(x);
}
inline double widen(bfloat16 x) {
  return to_float(x);
}

#include "codes/cpu/row_kernels_body.inc"

}  // namespace

extern constinit const RowKernels row_kernels_portable = make_row_kernels();

}  // namespace kith::codes
