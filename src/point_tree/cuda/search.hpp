// How a tree is searched on a device.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "cuda/runtime.hpp"
#include "point_tree/cuda/device_tree.hpp"
#include "point_tree/cuda/functions.hpp"
#include "point_tree/cuda/search_kernels.hpp"

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

/// A float tree as groups of queries read it.
struct PackedArrays {
  PackedArrays() = default;
  PackedArrays(const Tree& tree, const DeviceTree& there, cudaStream_t stream);
  static std::uint64_t bytes(const Tree& tree);

  cuda::Buffer<float4> points;
  cuda::Buffer<cuda::PackedChild> nodes;
};

/// What a search by groups asks of a tree, whatever its queries and its answer. `radius`: of
/// kith::round_down().
cuda::GroupSearch group_search(const Tree& tree, const PackedArrays& packed, float radius);

}  // namespace kith::point_tree
