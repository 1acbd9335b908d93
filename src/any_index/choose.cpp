// Which index answers soonest.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/calibration.hpp"
#include "core/plural.hpp"
#include "cuda/gpu_calibration.hpp"
#include "kith/any_index.hpp"
#include "recall/calibrate.hpp"
#include "vamana/tuning.hpp"

namespace kith {
namespace {

// Costs in nanoseconds; only their ratios matter.
struct Costs {
  std::string_view machine;
  // Brute force.
  double scan;             // a search
  double scan_query;       // a query
  double scan_a_neighbor;  // offers to the list, for each of k log(n / k)
  double scan_a_pair;      // many queries: rows are encoded first, then compared in blocks
  double scan_code_a_row;  // encoding, once
  double scan_a_pair_few;  // few queries: no codes, every pair is evaluated
  double scan_few;         // up to here
  // A tree.
  double tree;                // its launches
  double tree_build_a_point;  // for each of log(n) levels
  double tree_query;          // at d = 2
  double tree_query_a_neighbor;
  double tree_a_list_place;     // for each of k log(k)
  double growth_a_dimension;    // of a query, from d = 2 on
  double tree_beyond_packed;    // of a query where another kernel runs: above packed_dim
  double tree_a_value_at_most;  // a query that visits all leaves, for each of n d values
  double tree_queries_at_once;  // one query takes as long as so many that share the machine
  // More dimensions than trees are for.
  double scan_a_value;      // a pair, for each value of the rows
  double scan_few_a_value;  // a pair where no codes are made
  // A graph, of a million rows of 128 values.
  double graph;              // its launches, and what is measured of it
  double graph_build_a_row;  // half of it for each 128 values
  double graph_query;        // for 10 neighbours, to a recall of 0.9
  double graph_queries_at_once;
};

// Two cores with AVX-512: fitted to the times of benchmarks/trees/crossover.cpp on uniform data by
// benchmarks/trees/fit.py. Uniform data are the worst for a tree. More dimensions and graphs by hand, to what
// benchmarks/vamana/crossover.py and benchmarks.vamana measured (docs/benchmarks.md).
constexpr Costs on_cpu = {.machine = "two cores",
                          .scan = 0,
                          .scan_query = 1130,
                          .scan_a_neighbor = 89,
                          .scan_a_pair = 0.3,
                          .scan_code_a_row = 170,
                          .scan_a_pair_few = 38,
                          .scan_few = 4,
                          .tree = 0,
                          .tree_build_a_point = 10.9,
                          .tree_query = 240,
                          .tree_query_a_neighbor = 21,
                          .tree_a_list_place = 15,
                          .growth_a_dimension = 1.54,
                          .tree_beyond_packed = 1,
                          .tree_a_value_at_most = 0.2,
                          .tree_queries_at_once = 0,
                          .scan_a_value = 5e-4,
                          .scan_few_a_value = 0.4,
                          .graph = 20e6,
                          .graph_build_a_row = 100e3,
                          .graph_query = 10e3,
                          .graph_queries_at_once = 0};

// One H200, rows and answers in its memory: fitted by hand to one-shot searches of uniform rows, 10,000 to
// 1,000,000 of them in 2 to 12 dimensions (docs/which-index.md). Launches are most of what little work takes.
constexpr Costs on_gpu = {.machine = "one H200",
                          .scan = 300e3,
                          .scan_query = 40,
                          .scan_a_neighbor = 0.33,
                          .scan_a_pair = 3.6e-4,
                          .scan_code_a_row = 0.05,
                          .scan_a_pair_few = 5e-3,
                          .scan_few = 16,
                          .tree = 280e3,
                          .tree_build_a_point = 0.0085,
                          .tree_query = 0.6,
                          .tree_query_a_neighbor = 0.15,
                          .tree_a_list_place = 0.005,
                          .growth_a_dimension = 1.6,
                          .tree_beyond_packed = 2,
                          .tree_a_value_at_most = 1.5e-3,
                          .tree_queries_at_once = 8000,
                          .scan_a_value = 1.9e-6,
                          .scan_few_a_value = 2.5e-4,
                          .graph = 60e6,
                          .graph_build_a_row = 700,
                          .graph_query = 150,
                          .graph_queries_at_once = 1200};

// What a calibration measured on those two cores. Costs elsewhere are these times the ratio of what is
// measured there.
constexpr WorkTimes times_on_cpu = {.scan_few = 13.2,
                                    .scan = 9700,
                                    .scan_values = 24e3,
                                    .tree_build = 17.7,
                                    .tree_search = 350,
                                    .graph_build = 112e3,
                                    .graph_search = 16.5e3};

constexpr double packed_dim = 3;
constexpr std::int64_t largest_tree_dim = 16;

// @param fewer how many times fewer threads work than were measured
Costs calibrated(const WorkTimes& here, double fewer) {
  Costs c = on_cpu;
  const CostScale scale(c, here, times_on_cpu, fewer);
  scale(&WorkTimes::scan_few, &Costs::scan_a_pair_few, &Costs::scan_few_a_value);
  scale(&WorkTimes::scan, &Costs::scan, &Costs::scan_query, &Costs::scan_a_neighbor, &Costs::scan_a_pair,
        &Costs::scan_code_a_row);
  scale(&WorkTimes::scan_values, &Costs::scan_a_value);
  scale(&WorkTimes::tree_build, &Costs::tree_build_a_point);
  scale(&WorkTimes::tree_search, &Costs::tree, &Costs::tree_query, &Costs::tree_query_a_neighbor,
        &Costs::tree_a_list_place, &Costs::tree_a_value_at_most);
  scale(&WorkTimes::graph_build, &Costs::graph, &Costs::graph_build_a_row);
  scale(&WorkTimes::graph_search, &Costs::graph_query);
  c.machine = "calibrated";
  return c;
}

Costs calibrated_gpu(const WorkTimes& here) {
  Costs c = on_gpu;
  const CostScale scale(c, here, times_of_h200);
  scale(&WorkTimes::launch, &Costs::scan, &Costs::tree, &Costs::graph);
  scale(&WorkTimes::scan_few, &Costs::scan_a_pair_few, &Costs::scan_few_a_value);
  scale(&WorkTimes::scan, &Costs::scan_query, &Costs::scan_a_neighbor, &Costs::scan_a_pair,
        &Costs::scan_code_a_row);
  scale(&WorkTimes::int8, &Costs::scan_a_value);
  scale(&WorkTimes::tree_build, &Costs::tree_build_a_point);
  scale(&WorkTimes::tree_search, &Costs::tree_query, &Costs::tree_query_a_neighbor, &Costs::tree_a_list_place,
        &Costs::tree_a_value_at_most);
  scale(&WorkTimes::graph_build, &Costs::graph_build_a_row);
  scale(&WorkTimes::graph_search, &Costs::graph_query);
  c.machine = "calibrated";
  return c;
}

// Of the machine that is to do the work.
Costs costs_of(const Execution& execution, bool gpu) {
  if (gpu) {
    const auto known = cuda::calibration_of(execution.devices.front().ordinal);
    return known ? calibrated_gpu(known->times) : on_gpu;
  }
  const int threads = resolve_threads(execution);
  const auto known = cpu_calibration(threads);
  return known ? calibrated(known->times, static_cast<double>(known->threads) / threads) : on_cpu;
}

double brute_force_cost(const Costs& c, double rows, double dim, double queries, double k) {
  const double offers = k * std::log2(rows / k + 2);
  const bool few = queries <= c.scan_few;
  const double more = std::max(0.0, dim - largest_tree_dim);
  const double a_row = few ? queries * (c.scan_a_pair_few + more * c.scan_few_a_value)
                           : c.scan_code_a_row + queries * (c.scan_a_pair + more * c.scan_a_value);
  return c.scan + queries * (c.scan_query + c.scan_a_neighbor * offers) + rows * a_row;
}

double tree_cost(const Costs& c, double rows, double dim, double queries, double k) {
  double harder = std::pow(c.growth_a_dimension, std::max(0.0, dim - 2));
  if (dim > packed_dim) harder *= c.tree_beyond_packed;
  const double visits =
      std::min((c.tree_query + c.tree_query_a_neighbor * k) * harder, c.tree_a_value_at_most * rows * dim);
  return c.tree + rows * std::log2(rows + 1) * c.tree_build_a_point +
         (queries + c.tree_queries_at_once) * (visits + c.tree_a_list_place * k * std::log2(k + 1));
}

// Lists grow with k, and as fewer neighbours may be missed.
double graph_cost(const Costs& c, double rows, double dim, double queries, double k, double recall) {
  const double list = std::pow(std::max(k, 10.0) / 10, 0.8) * std::sqrt(0.1 / std::max(1e-3, 1 - recall));
  const double size = std::log2(rows + 2) / 20 * (0.5 + dim / 256);
  const bool long_lists =
      vamana::tuning::build_list_of(static_cast<std::int64_t>(rows), static_cast<std::int64_t>(dim)) >
      vamana::tuning::usual_build_list;
  const double longer = long_lists ? 1.5 : 1;
  return c.graph + rows * c.graph_build_a_row * longer * (0.5 + dim / 256) +
         (queries + c.graph_queries_at_once) * c.graph_query * list * size;
}

// An estimate to read: two digits are more than it is worth.
std::string duration(double nanoseconds) {
  if (nanoseconds < 10e6) return fmt::format("{:.1f} ms", nanoseconds / 1e6);
  if (nanoseconds < 1e9) return fmt::format("{:.0f} ms", nanoseconds / 1e6);
  return fmt::format("{:.0f} s", std::ceil(nanoseconds / 1e9));
}

// The quicker of two, and what the other would take.
std::string compared(double chosen, double other, const Costs& costs) {
  return fmt::format("about {} against {}, {}", duration(chosen), duration(other), costs.machine);
}

std::string task(std::int64_t rows, double queries) {
  return fmt::format("{} of {}", plural(static_cast<std::int64_t>(queries), "query", "queries"),
                     plural(rows, "row"));
}

}  // namespace

IndexChoice choose_index(std::int64_t rows, std::int64_t dim, std::int64_t queries, std::int64_t k,
                         Metric metric, const Execution& execution, double recall) {
  const auto n = static_cast<double>(rows);
  const auto d = static_cast<double>(dim);
  const double q = queries > 0 ? static_cast<double>(queries) : n;
  const double neighbors =
      static_cast<double>(std::clamp<std::int64_t>(k, 1, std::max<std::int64_t>(rows, 1)));
  const bool gpu = !execution.devices.empty() && execution.devices.front().kind == Device::Kind::cuda;
  const Costs costs = costs_of(execution, gpu);
  // Brute force shares its work out among devices, and so do walks; what is built is built on the first.
  const double shared = gpu ? static_cast<double>(execution.devices.size()) : 1;
  const double brute_force = brute_force_cost(costs, n, d, q / shared, neighbors);
  const bool may_be_tree = is_tree_metric(metric) && dim <= largest_tree_dim;
  const double tree =
      may_be_tree ? tree_cost(costs, n, d, q, neighbors) : std::numeric_limits<double>::infinity();
  // For more neighbours no graph states a recall, and the exact engine answers in its place.
  const bool stated = k <= recall::usual_ks.back();
  if (recall < 1 && stated && Vamana::index_type.takes(metric) && Vamana::index_type.takes_dim(dim)) {
    const double exact = std::min(brute_force, tree);
    const double graph = graph_cost(costs, n, d, q / shared, neighbors, recall);
    if (graph < exact) {
      return {std::string(Vamana::index_type.name),
              fmt::format("a graph answers {} sooner than an exact search ({})", task(rows, q),
                          compared(graph, exact, costs))};
    }
    const IndexType& type = brute_force <= tree ? BruteForce::index_type : KdTree::index_type;
    return {std::string(type.name), fmt::format("exact search answers {} sooner than a graph ({})",
                                                task(rows, q), compared(exact, graph, costs))};
  }
  if (!is_tree_metric(metric)) {
    return {std::string(BruteForce::index_type.name), fmt::format("no tree supports {}", name(metric))};
  }
  if (!may_be_tree) {
    return {std::string(BruteForce::index_type.name),
            fmt::format("dimension {} is above {}, where trees stop saving work", dim, largest_tree_dim)};
  }
  if (brute_force <= tree) {
    return {std::string(BruteForce::index_type.name),
            fmt::format("a tree over {} does not pay off for {} ({})", plural(rows, "row"),
                        plural(static_cast<std::int64_t>(q), "query", "queries"),
                        compared(brute_force, tree, costs))};
  }
  return {std::string(KdTree::index_type.name), fmt::format("{} of dimension {} ({})", plural(rows, "row"),
                                                            dim, compared(tree, brute_force, costs))};
}

}  // namespace kith
