// tree_crossover: one search by brute force beside building a k-d tree and searching it, over rows,
// dimension, queries and k. What choose_index (src/any_index/choose.cpp) knows comes from here.
//
// Uniform data: the worst for a tree, whose cells then help the least in high dimension. A run that takes
// longer than --cap seconds is given up.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "kith/kith.hpp"

namespace {

using nlohmann::json;

double timed(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Options {
  std::vector<std::int64_t> rows = {1'000, 10'000, 100'000, 1'000'000};
  std::vector<std::int64_t> dims = {2, 3, 4, 6, 8, 10, 12, 16};
  std::vector<std::int64_t> k = {1, 10, 100};
  int threads = 0;
  int repeats = 3;
  double cap = 10;
  std::string output;
};

/// The shortest of a few: what the work takes when nothing else runs. One is enough where it takes long; none
/// where it takes longer than the cap.
std::optional<double> best_of(const Options& options, kith::Execution execution,
                              const std::function<void(const kith::Execution&)>& work) {
  std::optional<double> best;
  for (int i = 0; i < options.repeats && (i == 0 || *best < 0.5); ++i) {
    const auto start = std::chrono::steady_clock::now();
    execution.cancelled = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > options.cap;
    };
    try {
      const double seconds = timed([&] { work(execution); });
      best = best ? std::min(*best, seconds) : seconds;
    } catch (const kith::Cancelled&) {
      return best;
    }
  }
  return best;
}

kith::Dataset uniform(std::int64_t rows, std::int64_t dim, std::int64_t first) {
  kith::GenerateParameters parameters;
  parameters.rows = rows;
  parameters.dim = dim;
  parameters.first_row = first;
  return kith::generate(parameters);
}

json run(const Options& options) {
  kith::Execution execution;
  execution.threads = options.threads;
  json points = json::array();
  for (const std::int64_t dim : options.dims) {
    for (const std::int64_t rows : options.rows) {
      const kith::Dataset data = uniform(rows, dim, 0);
      const double build = best_of(options, execution, [&](const kith::Execution& how) {
                             kith::KdTree::build(data.view(), {}, how);
                           }).value_or(options.cap);
      for (const std::int64_t k : options.k) {
        double brute_force_a_query = 0;
        for (const std::int64_t queries : {std::int64_t{1}, std::int64_t{100}, rows}) {
          const kith::Dataset asked = uniform(queries, dim, rows);
          std::optional<double> brute_force;
          if (brute_force_a_query * static_cast<double>(queries) < options.cap) {
            brute_force = best_of(options, execution, [&](const kith::Execution& how) {
              kith::knn(data.view(), asked.view(), k, {}, how);
            });
          }
          // A tree's time for 100 queries says little of its time for a million: it is tried.
          const std::optional<double> tree = best_of(options, execution, [&](const kith::Execution& how) {
            kith::KdTree::build(data.view(), {}, how).search(asked.view(), k, how);
          });
          if (brute_force && queries > 1) {
            brute_force_a_query = 0.5 * *brute_force / static_cast<double>(queries);
          }
          const auto choice = kith::choose_index(rows, dim, queries, k, kith::Metric::sqeuclidean, execution);
          points.push_back({{"rows", rows},
                            {"dim", dim},
                            {"queries", queries},
                            {"k", k},
                            {"brute_force", brute_force ? json(*brute_force) : json()},
                            {"kd_tree", tree ? json(*tree) : json()},
                            {"build", build},
                            {"chosen", choice.index}});
          std::fprintf(stderr,
                       "d %2lld  n %8lld  q %8lld  k %3lld  brute force %9.3f ms  kd_tree %9.3f ms  %s\n",
                       static_cast<long long>(dim), static_cast<long long>(rows),
                       static_cast<long long>(queries), static_cast<long long>(k),
                       brute_force.value_or(-1e-3) * 1e3, tree.value_or(-1e-3) * 1e3, choice.index.c_str());
        }
      }
    }
  }
  const kith::DeviceInfo cpu = kith::devices().front();
  return {{"machine",
           {{"cpu", cpu.description}, {"cores", cpu.cores}, {"instruction_sets", cpu.instruction_sets}}},
          {"threads", kith::resolve_threads(execution)},
          {"cap_seconds", options.cap},
          {"points", points}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Times one search by brute force beside building a k-d tree and searching it, on uniform data.");
  Options options;
  app.add_option("--rows", options.rows)->delimiter(',');
  app.add_option("--dims", options.dims)->delimiter(',');
  app.add_option("-k", options.k)->delimiter(',');
  app.add_option("--threads", options.threads, "0: one per core");
  app.add_option("--repeats", options.repeats, "The shortest of so many counts")->check(CLI::PositiveNumber);
  app.add_option("--cap", options.cap, "Give up what takes longer, in seconds");
  app.add_option("-o,--output", options.output, "The result, JSON (default: standard output)");
  CLI11_PARSE(app, argc, argv);
  try {
    const json result = run(options);
    if (options.output.empty()) {
      std::printf("%s\n", result.dump(1).c_str());
    } else {
      std::ofstream(options.output) << result.dump(1) << '\n';
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
