// What searches on a device share on the host: which kernel runs, and trees and curves as kernels read them.
#include "point_tree/cuda/search.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "cuda/host_device.hpp"
#include "cuda/runtime.hpp"
#include "point_tree/cuda/device_tree.hpp"
#include "point_tree/cuda/search_kernels.hpp"
#include "point_tree/cuda/tuning.hpp"

namespace kith::point_tree {

namespace {

#include "point_tree/limit.inc"

}  // namespace

int device_of(const Execution& execution) {
  return execution.devices.front().ordinal;
}

template <class T>
cuda::AnyTree<T> any_tree(const Tree& tree, const DeviceTree& there) {
  return {tree.points, tree.dim, tree.nodes, node_bytes<T>(tree.dim), there.nodes.data(),
          reinterpret_cast<const T*>(there.coordinates.data()), there.rows.data(), tree.wide_rows,
          // A leaf of equal points is marked by -2 - count.
          sizeof(T) == 4 && !tree.wide_rows && tree.rows <= 0xffffffffLL &&
              tree.points < cuda::most_packed_points - 1};
}
template cuda::AnyTree<float> any_tree<float>(const Tree&, const DeviceTree&);
template cuda::AnyTree<double> any_tree<double>(const Tree&, const DeviceTree&);

cuda::CurveBox curve_of(const Tree& tree) {
  cuda::CurveBox box{};
  box.axes = static_cast<int>(std::min<std::int64_t>(tree.dim, cuda::CurveBox::most_axes));
  box.bits = 30 / box.axes;
  std::vector<int> widest(static_cast<std::size_t>(tree.dim));
  std::iota(widest.begin(), widest.end(), 0);
  const auto extent = [&](int j) {
    const auto at = static_cast<std::size_t>(j);
    return tree.upper.empty() ? 0 : tree.upper[at] - tree.lower[at];
  };
  std::stable_sort(widest.begin(), widest.end(), [&](int a, int b) { return extent(a) > extent(b); });
  for (int a = 0; a < box.axes; ++a) {
    const int j = widest[static_cast<std::size_t>(a)];
    box.axis[a] = j;
    box.lower[a] = tree.lower.empty() ? 0 : tree.lower[static_cast<std::size_t>(j)];
    // Cells are cubes, so that a run of neighbours is as compact as can be.
    const double wide = extent(widest.front());
    box.scale[a] = wide > 0 && std::isfinite(wide) ? static_cast<double>(1 << box.bits) / wide : 0;
  }
  return box;
}

const char* name(Regime regime) {
  switch (regime) {
    case Regime::warps: return "warps";
    case Regime::sorted_warps: return "sorted warps";
    case Regime::groups: return "groups";
  }
  return "";
}

Regime choose_regime(const Tree& tree, std::int64_t queries, std::int64_t k, bool own,
                     const cuda::Policy& policy) {
  const std::int64_t least =
      own ? policy.least_own_groups
          : static_cast<std::int64_t>(policy.least_groups * std::sqrt(static_cast<double>(tree.points)));
  bool groups = queries >= least && queries < most_sorted && !tree.is_double() && !tree.wide_rows &&
                tree.dim <= 3 && tree.points > 0 && tree.points < cuda::most_packed_points &&
                k <= cuda::largest_group_k && cuda::group_stack(tree.levels) > 0;
  for (std::size_t j = 0; j < tree.lower.size(); ++j) {
    groups = groups && std::fabs(tree.lower[j]) <= plain_limit && std::fabs(tree.upper[j]) <= plain_limit;
  }
  if (groups) return Regime::groups;
  return own || (queries >= policy.least_sorted && queries < most_sorted) ? Regime::sorted_warps
                                                                          : Regime::warps;
}

std::uint64_t PackedArrays::bytes(const Tree& tree) {
  return static_cast<std::uint64_t>(tree.points) * sizeof(float4) +
         static_cast<std::uint64_t>(tree.nodes * node_width) * sizeof(cuda::PackedChild);
}

PackedArrays::PackedArrays(const Tree& tree, const DeviceTree& there, cudaStream_t stream)
    : points(tree.points, stream), nodes(tree.nodes * node_width, stream) {
  cuda::pack_tree(there.view<float, std::uint32_t>(tree), points.data(), nodes.data(), stream);
}

cuda::GroupSearch group_search(const Tree& tree, const PackedArrays& packed, float radius) {
  cuda::GroupSearch search{};
  search.tree = {packed.points.data(), packed.nodes.data(), tree.points};
  search.manhattan = tree.metric == Metric::manhattan;
  search.rooted = tree.metric == Metric::euclidean;
  search.radius = radius;
  search.limit = Limit<float>(search.rooted, tree.dim).of(radius);
  search.stack = cuda::group_stack(tree.levels);
  return search;
}

}  // namespace kith::point_tree
