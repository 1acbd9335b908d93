// Vamana::tune: what the graph finds for the caller's own queries, and whether they are like its rows.
#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "core/sample.hpp"
#include "core/search_checks.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "kith/vamana.hpp"
#include "recall/distribution.hpp"
#include "select_k/allowed_rows.hpp"
#include "vamana/calibrate.hpp"
#include "vamana/checks.hpp"

namespace kith {
namespace {

using vamana::Contents;

// Rows that queries are compared with, and the fewest rows of an index for it.
constexpr std::int64_t most_compared = 1000;
constexpr std::int64_t fewest_rows = 100;

std::vector<std::int64_t> checked(std::vector<std::int64_t> ks, std::int64_t rows) {
  std::ranges::sort(ks);
  ks.erase(std::unique(ks.begin(), ks.end()), ks.end());
  if (ks.empty()) throw InvalidArgument("no number of neighbours to measure for; give one or more");
  const std::int64_t most = std::min(rows, recall::longest_list);
  if (ks.front() < 1 || ks.back() > most) {
    throw InvalidArgument(
        fmt::format("a k of {}; recall is measured for 1 to {} neighbours here, more are searched exactly",
                    ks.front() < 1 ? ks.front() : ks.back(), most));
  }
  return ks;
}

// Distances to the nearest row, of each query that has any; row `own[q]` is not counted.
std::vector<double> nearest(const Neighbors& found, const std::vector<std::int64_t>* own) {
  std::vector<double> distances;
  for (std::int64_t q = 0; q < found.queries; ++q) {
    for (std::int64_t j = 0; j < found.k; ++j) {
      const std::int64_t row = found.indices_of(q)[static_cast<std::size_t>(j)];
      if (row < 0) break;
      if (own != nullptr && row == (*own)[static_cast<std::size_t>(q)]) continue;
      distances.push_back(found.distance(q, j));
      break;
    }
  }
  return distances;
}

QueryDistribution compare(const Contents& contents, const Neighbors& exact, const Execution& execution) {
  QueryDistribution out;
  const DatasetView& rows = contents.dataset.view();
  const std::vector<double> its = nearest(exact, nullptr);
  out.queries_median = recall::median(its);
  if (rows.rows < fewest_rows) return out;
  const std::vector<std::int64_t> sample = sample_rows(rows.rows, most_compared);
  const Neighbors found =
      knn(rows, pick_rows(rows, sample), 2, {contents.parameters.metric, Filter::automatic}, execution);
  const std::vector<double> usual = nearest(found, &sample);
  const recall::Difference difference = recall::compare(its, usual);
  out.rows = static_cast<std::int64_t>(usual.size());
  out.difference = difference.largest;
  out.p_value = difference.p_value;
  out.rows_median = recall::median(usual);
  return out;
}

}  // namespace

Tuning Vamana::tune(const DatasetView& queries, const std::vector<std::int64_t>& asked,
                    const Execution& execution) const {
  const Contents& contents = *state_->contents;
  const DatasetView& rows = contents.dataset.view();
  const std::vector<std::int64_t> ks = checked(asked, rows.rows);
  vamana::check_search(rows, queries, ks.back(), execution);
  if (queries.rows == 0) throw InvalidArgument("no queries to tune for; give some hundreds");
  return or_out_of_memory(
      [&] { return fmt::format("{} queries with k = {}; tune for fewer", queries.rows, ks.back()); },
      [&] {
        const Neighbors exact =
            knn(rows, queries, ks.back(), {contents.parameters.metric, Filter::automatic}, execution);
        recall::Measured measured = vamana::measure(contents, queries, exact, ks, execution);
        return Tuning{graph_hash(), std::move(measured.curve), std::move(measured.queries_per_second),
                      compare(contents, exact, without_progress(execution))};
      });
}

Vamana Vamana::tuned(const Tuning& tuning) const {
  if (tuning.graph_hash != graph_hash()) {
    throw InvalidArgument(
        fmt::format("the tuning is for a graph of hash {:016x}, the index has {:016x}; tune this index, or "
                    "search the one it was made for",
                    tuning.graph_hash, graph_hash()));
  }
  return Vamana(std::make_shared<State>(state_->contents, tuning.curve));
}

}  // namespace kith
