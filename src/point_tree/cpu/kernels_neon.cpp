// Tree kernels, NEON: 8 boxes or points at a time.
#include "point_tree/cpu/kernels.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace kith::point_tree {
namespace {

#include "point_tree/cpu/registers_neon.inc"

template <int K>
class PackedList;  // as in plain C++ there are none
template <int K>
class DoubleList;
class NearestOne;
constexpr bool has_packed_lists = false;

#include "point_tree/cpu/kernels_body.inc"

}  // namespace

const TreeKernels tree_kernels_neon = kernels_here;

}  // namespace kith::point_tree
#endif
