// Which index answers soonest.
#include <cmath>

#include <fmt/format.h>

#include "kith/any_index.hpp"

namespace kith {
namespace {

// Nanoseconds on one core with AVX-512; only their ratios matter.
constexpr double tree_build_a_point = 160;    // at d = 3
constexpr double tree_query = 250;            // at d = 3, k = 1
constexpr double tree_query_a_neighbor = 40;  // at d = 3
constexpr double growth_a_dimension = 1.6;    // of a query, from d = 3 on
constexpr double scan_start = 20'000;         // codes, sample, threads
constexpr double scan_a_pair = 0.12;          // many queries, at low dimension
constexpr double scan_a_pair_few = 0.6;       // few queries: the rows are read once for each

constexpr std::int64_t largest_tree_dim = 16;

double brute_force_cost(double rows, double dim, double queries) {
  const double pair = queries >= 64 ? scan_a_pair : scan_a_pair_few;
  return scan_start + rows * queries * pair * std::max(1.0, dim / 8);
}

double tree_cost(double rows, double dim, double queries, double k) {
  const double harder = std::pow(growth_a_dimension, std::max(0.0, dim - 3));
  const double query = (tree_query + tree_query_a_neighbor * k) * harder;
  return rows * tree_build_a_point * std::max(1.0, dim / 3) + queries * std::min(query, rows * dim);
}

}  // namespace

IndexChoice choose_index(std::int64_t rows, std::int64_t dim, std::int64_t queries, std::int64_t k, Metric metric,
                         const Execution& execution) {
  if (metric == Metric::inner_product || metric == Metric::cosine) {
    return {"brute_force", fmt::format("no tree knows {}", name(metric))};
  }
  for (const Device& device : execution.devices) {
    if (device.kind == Device::Kind::cuda) return {"brute_force", "trees run on the CPU"};
  }
  if (dim > largest_tree_dim) {
    return {"brute_force", fmt::format("dimension {} is above {}, where trees stop saving work", dim,
                                       largest_tree_dim)};
  }
  const auto n = static_cast<double>(rows);
  const auto d = static_cast<double>(dim);
  const double q = queries > 0 ? static_cast<double>(queries) : n;
  const double brute_force = brute_force_cost(n, d, q);
  const double tree = tree_cost(n, d, q, static_cast<double>(k));
  const auto estimates = fmt::format("about {:.2g} ms against {:.2g} ms, one core", std::min(tree, brute_force) / 1e6,
                                     std::max(tree, brute_force) / 1e6);
  if (brute_force <= tree) {
    return {"brute_force", fmt::format("{} queries do not repay a tree over {} rows ({})", q, rows, estimates)};
  }
  return {"kd_tree", fmt::format("{} rows of dimension {} ({})", rows, dim, estimates)};
}

}  // namespace kith
