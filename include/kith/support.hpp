/// @file
/// The one list of what is supported: it drives dispatch, the conformance tests and the docs' table.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "kith/dtype.hpp"
#include "kith/execution.hpp"
#include "kith/metric.hpp"

namespace kith {

inline constexpr std::array all_dtypes = {Dtype::f32, Dtype::f16, Dtype::bf16,
                                          Dtype::i8,  Dtype::u8,  Dtype::f64};
inline constexpr std::array all_metrics = {Metric::sqeuclidean, Metric::euclidean, Metric::inner_product,
                                           Metric::cosine, Metric::manhattan};

/// One supported combination.
struct Support {
  std::string_view index;
  Dtype dtype;
  Metric metric;
  Device::Kind backend;
};

/// Metrics that bound distances by boxes: those of the trees.
inline constexpr std::array tree_metrics = {Metric::sqeuclidean, Metric::euclidean, Metric::manhattan};

constexpr bool is_tree_metric(Metric metric) {
  for (const Metric known : tree_metrics) {
    if (known == metric) return true;
  }
  return false;
}

/// Whether an index type takes rows of a dimension.
constexpr bool supports_dim(std::string_view index, std::int64_t dim) {
  return dim >= 1 && (index != "octree" || dim == 2 || dim == 3);
}

namespace detail {
constexpr auto make_support() {
  constexpr std::array backends = {Device::Kind::cpu, Device::Kind::cuda};
  constexpr std::array trees = {std::string_view("kd_tree"), std::string_view("octree")};
  constexpr std::size_t a_backend =
      all_dtypes.size() * (all_metrics.size() + trees.size() * tree_metrics.size());
  std::array<Support, backends.size() * a_backend> list{};
  std::size_t at = 0;
  for (Device::Kind backend : backends) {
    for (Dtype dtype : all_dtypes) {
      for (Metric metric : all_metrics) list[at++] = Support{"brute_force", dtype, metric, backend};
    }
  }
  for (std::string_view tree : trees) {
    for (Device::Kind backend : backends) {
      for (Dtype dtype : all_dtypes) {
        for (Metric metric : tree_metrics) list[at++] = Support{tree, dtype, metric, backend};
      }
    }
  }
  return list;
}
}  // namespace detail

/// Every supported (index, dtype, metric, backend).
inline constexpr auto supported = detail::make_support();

constexpr bool is_supported(std::string_view index, Dtype dtype, Metric metric, Device::Kind backend) {
  for (const Support& entry : supported) {
    if (entry.index == index && entry.dtype == dtype && entry.metric == metric && entry.backend == backend) {
      return true;
    }
  }
  return false;
}

}  // namespace kith
