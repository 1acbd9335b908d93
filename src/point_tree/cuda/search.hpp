// How a tree is searched on a device.
#pragma once

#include <cstdint>

#include "cuda/runtime.hpp"
#include "point_tree/cuda/device_tree.hpp"
#include "point_tree/cuda/functions.hpp"
#include "point_tree/cuda/search_kernels.hpp"
#include "point_tree/cuda/tuning.hpp"

namespace kith::point_tree {

/// How a search runs.
enum class Regime : std::uint8_t {
  warps,         ///< a query a warp, in the order they come in
  sorted_warps,  ///< the same along a curve through space
  groups,        ///< 32 neighbouring queries a warp
};

/// The one place that chooses: what is searched, by how many queries, for how many neighbours; whether they
/// are the tree's own rows; on what GPU.
Regime choose_regime(const Tree& tree, std::int64_t queries, std::int64_t k, bool own,
                     const cuda::Policy& policy);
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

/// Sums of three squares of differences stay finite in float.
inline constexpr double plain_limit = 0x1p60;
inline constexpr std::int64_t most_sorted = std::int64_t{1} << 31;

/// The device that a search runs on.
int device_of(const Execution& execution);

/// A tree as warps read it.
template <class T>
cuda::AnyTree<T> any_tree(const Tree& tree, const DeviceTree& there);

/// The axes of a Morton curve through the tree's box: the widest, as many as 30 bits serve well.
cuda::CurveBox curve_of(const Tree& tree);

}  // namespace kith::point_tree
