// How far boxes are, in the canonical distance: a bound that needs no margin.
//
// The distance of a point q to a box is taken as the canonical distance of q and the box's nearest point c,
// with the very operations of distance/canonical_steps.inc, rounded to the type of the answers. Let x be a
// point in the box. In every dimension |q - c| <= |q - x|, and rounding is monotone: so is each subtraction,
// product, fused sum, root and the last rounding, since no operand is negative. Hence the bound is at most
// the canonical distance of q and x, to the bit, and a query whose k-th distance is smaller than the bound
// needs no point of the box; one whose k-th distance equals it may, for a tie. The same holds for two boxes,
// whose gap in a dimension is at most that of any two points of them.
#pragma once

#include <cstdint>

#include "kith/metric.hpp"

namespace kith::point_tiles {

/// Boxes as tiles have them.
struct BoxView {
  const double* lower = nullptr;
  const double* upper = nullptr;
};

/// T: the type of the answer's distances. Finite points only.
template <class T>
T distance_to_box(Metric metric, std::int64_t dim, const double* point, const BoxView& box);

template <class T>
T distance_of_boxes(Metric metric, std::int64_t dim, const BoxView& a, const BoxView& b);

}  // namespace kith::point_tiles
