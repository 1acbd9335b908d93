// Which index answers soonest.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kith/any_index.hpp"
#include "kith/support.hpp"

namespace kith {
namespace {

// Nanoseconds on two cores with AVX-512, fitted to the times of benchmarks/trees/crossover.cpp on uniform
// data by benchmarks/trees/fit.py; only their ratios matter. Uniform data are the worst for a tree.
constexpr double scan_query = 1130;          // a query
constexpr double scan_a_neighbor = 89;       // offers to the list, for each of k log(n / k)
constexpr double scan_a_pair = 0.3;          // many queries: rows are coded first, then compared in blocks
constexpr double scan_code_a_row = 170;      // coding, once
constexpr double scan_a_pair_few = 38;       // few queries: no codes, every pair is evaluated
constexpr double scan_few = 4;               // up to here
constexpr double tree_build_a_point = 10.9;  // for each of log(n) levels
constexpr double tree_query = 240;           // at d = 2
constexpr double tree_query_a_neighbor = 21;
constexpr double tree_a_list_place = 15;      // for each of k log(k)
constexpr double growth_a_dimension = 1.54;   // of a query, from d = 2 on
constexpr double tree_a_value_at_most = 0.2;  // a query that visits all leaves, for each of n d values

constexpr std::int64_t largest_tree_dim = 16;

double brute_force_cost(double rows, double queries, double k) {
  const double offers = k * std::log2(rows / k + 2);
  const bool few = queries <= scan_few;
  const double a_row = few ? queries * scan_a_pair_few : scan_code_a_row + queries * scan_a_pair;
  return queries * (scan_query + scan_a_neighbor * offers) + rows * a_row;
}

double tree_cost(double rows, double dim, double queries, double k) {
  const double harder = std::pow(growth_a_dimension, std::max(0.0, dim - 2));
  const double visits =
      std::min((tree_query + tree_query_a_neighbor * k) * harder, tree_a_value_at_most * rows * dim);
  return rows * std::log2(rows + 1) * tree_build_a_point +
         queries * (visits + tree_a_list_place * k * std::log2(k + 1));
}

// An estimate to read: two digits are more than it is worth.
std::string duration(double nanoseconds) {
  if (nanoseconds < 10e6) return fmt::format("{:.1f} ms", nanoseconds / 1e6);
  if (nanoseconds < 1e9) return fmt::format("{:.0f} ms", nanoseconds / 1e6);
  return fmt::format("{:.0f} s", std::ceil(nanoseconds / 1e9));
}

}  // namespace

IndexChoice choose_index(std::int64_t rows, std::int64_t dim, std::int64_t queries, std::int64_t k,
                         Metric metric, const Execution& execution) {
  if (!is_tree_metric(metric)) {
    return {"brute_force", fmt::format("no tree knows {}", name(metric))};
  }
  for (const Device& device : execution.devices) {
    if (device.kind == Device::Kind::cuda) return {"brute_force", "trees run on the CPU"};
  }
  if (dim > largest_tree_dim) {
    return {"brute_force",
            fmt::format("dimension {} is above {}, where trees stop saving work", dim, largest_tree_dim)};
  }
  const auto n = static_cast<double>(rows);
  const auto d = static_cast<double>(dim);
  const double q = queries > 0 ? static_cast<double>(queries) : n;
  const double places = static_cast<double>(std::clamp<std::int64_t>(k, 1, std::max<std::int64_t>(rows, 1)));
  const double brute_force = brute_force_cost(n, q, places);
  const double tree = tree_cost(n, d, q, places);
  const auto estimates = fmt::format("about {} against {}, two cores", duration(std::min(tree, brute_force)),
                                     duration(std::max(tree, brute_force)));
  if (brute_force <= tree) {
    return {"brute_force",
            fmt::format("{} queries do not repay a tree over {} rows ({})", q, rows, estimates)};
  }
  return {"kd_tree", fmt::format("{} rows of dimension {} ({})", rows, dim, estimates)};
}

}  // namespace kith
