// kith evaluate: recall and distance ratio of a result against the truth, with their confidence intervals.
#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "stream.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

struct Options {
  Source result;
  Source truth;
  std::string input_format;
  std::int64_t k = 0;
};

nlohmann::json to_json(const Interval& interval) {
  return {interval.lower, interval.upper};
}

// A figure and where it lies with 95 % confidence, as far as that is known.
std::string figure(double value, const Interval& interval) {
  if (std::isnan(value)) return "unknown (a file has no distances)";
  const std::string number = fmt::format("{:.6f}", value);
  if (std::isnan(interval.lower)) return number;
  return fmt::format("{}  ({:.6f} to {:.6f})", number, interval.lower, interval.upper);
}

void run(const Common& common, Options& options) {
  if (options.k < 0) throw InvalidArgument(fmt::format("-k {}: use 1 or more", options.k));
  open_inputs(common, {&options.result, &options.truth}, options.input_format);
  const Neighbors result = read_neighbors(options.result.path, options.result.format, must_stop);
  const Neighbors truth = read_neighbors(options.truth.path, options.truth.format, must_stop);
  const Evaluation figures = evaluate(result, truth, options.k);
  if (common.json) {
    print_json(nlohmann::json{{"queries", figures.queries},
                              {"k", figures.k},
                              {"recall", figures.recall},
                              {"recall_interval", to_json(figures.recall_interval)},
                              {"recall_with_ties", figures.recall_with_ties},
                              {"recall_with_ties_interval", to_json(figures.recall_with_ties_interval)},
                              {"distance_ratio", figures.distance_ratio},
                              {"distance_ratio_interval", to_json(figures.distance_ratio_interval)},
                              {"exact_queries", figures.exact_queries},
                              {"exact_share_interval", to_json(figures.exact_share_interval)}});
    return;
  }
  const Interval& exact = figures.exact_share_interval;
  const double share = figures.queries > 0 ? 100.0 * static_cast<double>(figures.exact_queries) /
                                                 static_cast<double>(figures.queries)
                                           : 100.0;
  const auto line = [](const std::string& what, const std::string& value) {
    print(fmt::format("{:<18}{}\n", what, value));
  };
  line("queries", format_count(figures.queries));
  line(fmt::format("recall@{}", figures.k), figure(figures.recall, figures.recall_interval));
  line("recall with ties", figure(figures.recall_with_ties, figures.recall_with_ties_interval));
  line("distance ratio", figure(figures.distance_ratio, figures.distance_ratio_interval));
  line("exact queries",
       fmt::format("{} ({:.4g} %)  ({:.4g} to {:.4g} %)", format_count(figures.exact_queries), share,
                   100 * exact.lower, 100 * exact.upper));
}

}  // namespace

void add_evaluate(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  CLI::App& command =
      add_command(app, common, "evaluate", "Compare a result with the truth: recall and distance ratio",
                  [options, &common] { run(common, *options); });
  add_file_argument(command, common, "RESULT", options->result.path,
                    "An answer of kith knn or of another program");
  add_file_argument(command, common, "TRUTH", options->truth.path, "The true neighbours of the same queries");
  command
      .add_option("-k,--neighbors", options->k,
                  "Compare the first K neighbours only [default: as many as both have]")
      ->type_name("K")
      ->group("Comparison");
  auto formats = result_formats();
  for (auto& [format, meaning] : formats) meaning.clear();
  add_input_format_option(command, common, options->input_format, {"RESULT", "TRUTH"}, formats);
  About& about = common.about(command);
  about.details = {
      "Reads npy pairs (name them without .indices.npy), ivecs, ibin and big-ann ground truth, HDF5, JSON "
      "and "
      "tables."};
  about.paragraphs = {
      {"Recall@k", "the share of the true K rows that the result contains."},
      {"Recall with ties", "also counts any row as near as the true K-th; needs distances in both files."},
      {"Distance ratio", "the mean of found distance / true distance, rank by rank; 1 is exact."},
      {"Exact queries", "those whose list of rows equals the truth, in the same order."},
      {"Intervals",
       "in brackets, where each figure lies with 95 % confidence for queries of the same kind. The "
       "neighbours of one query are found or missed together, so it is the spread among queries that "
       "counts (design effect, Kish 1965), with Wilson's interval (1927) for shares."}};
  about.examples = {{"kith evaluate answer truth.ivecs", "Compares answer.indices.npy with truth.ivecs."},
                    {"kith evaluate answer truth.hdf5 -k 1 --json", "Only the nearest row, for a program."}};
}

}  // namespace kith::cli
