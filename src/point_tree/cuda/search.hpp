// How a tree is searched on a device.
#pragma once

#include <cstdint>

#include "point_tree/cuda/functions.hpp"

namespace kith::point_tree {

/// How a search runs.
enum class Regime : std::uint8_t {
  warps,         ///< a query a warp, in the order they come in
  sorted_warps,  ///< the same along a curve through space
  groups,        ///< 32 neighbouring queries a warp
};

/// The one place that chooses: what is searched, by how many queries, for how many neighbours; whether they
/// are the tree's own rows.
Regime choose_regime(const Tree& tree, std::int64_t queries, std::int64_t k, bool own);
const char* name(Regime regime);

}  // namespace kith::point_tree
