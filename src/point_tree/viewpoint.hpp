// The viewpoint that normals are turned towards, as trees and tiles take it.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/plural.hpp"
#include "kith/error.hpp"

namespace kith::point_tree {

/// @throws InvalidArgument: a coordinate too many or too few, or one that is no number
inline void check_viewpoint(const std::optional<std::vector<double>>& viewpoint, std::int64_t dim) {
  if (!viewpoint) return;
  if (static_cast<std::int64_t>(viewpoint->size()) != dim) {
    throw InvalidArgument(fmt::format("the viewpoint has {}, the points have {}; they must be the same",
                                      plural(static_cast<std::int64_t>(viewpoint->size()), "coordinate"),
                                      dim));
  }
  for (std::size_t i = 0; i < viewpoint->size(); ++i) {
    if (!std::isfinite((*viewpoint)[i])) {
      throw InvalidArgument(
          fmt::format("coordinate {} of the viewpoint is {}; use a number", i, (*viewpoint)[i]));
    }
  }
}

}  // namespace kith::point_tree
