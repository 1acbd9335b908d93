// kith tune: what a graph finds for queries of one's own, and which list reaches a recall.
#include "tune.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "index_file.hpp"
#include "interrupt.hpp"
#include "run.hpp"
#include "stream.hpp"
#include "tree.hpp"
#include "units.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

struct Options {
  std::string index;
  Source queries;
  std::string input_format;
  std::string output;
  std::vector<std::int64_t> ks = {1, 10, 100};
  std::vector<double> recalls = {0.9, 0.95, 0.99};
  std::int64_t max_queries = -1;
};

// Which list a search for that recall takes, as --tune will have it.
nlohmann::json choice(const RecallCurve& curve, double recall, std::int64_t k) {
  nlohmann::json object = {{"k", k}, {"recall", recall}};
  const RecallPoint* point = curve.reaching(recall, k);
  object["list_size"] = point == nullptr ? nlohmann::json() : nlohmann::json(point->list_size);
  return object;
}

std::string describe(const QueryDistribution& its) {
  if (its.rows == 0) return "the rows are too few to compare the queries with";
  const std::string numbers = fmt::format(
      "median distance to the nearest row {} (of the rows: {}), D = {:.3f}, p = {:.2g}",
      format_number(its.queries_median), format_number(its.rows_median), its.difference, its.p_value);
  return (its.other() ? "the queries are distributed otherwise than the rows: "
                      : "the queries may be distributed as the rows are: ") +
         numbers;
}

void show(const Tuning& tuning, const Options& options) {
  print(fmt::format("{:>5}  {:>9}  {:>8}  {:>18}  {:>9}  {:>10}  {:>10}\n", "k", "list size", "recall",
                    "99 % interval", "hops", "distances", "queries/s"));
  for (std::size_t i = 0; i < tuning.curve.points.size(); ++i) {
    const RecallPoint& p = tuning.curve.points[i];
    print(fmt::format("{:>5}  {:>9}  {:>8.4f}  {:>18}  {:>9.1f}  {:>10.1f}  {:>10}\n", p.k, p.list_size,
                      p.recall.recall, fmt::format("{:.4f} to {:.4f}", p.recall.lower, p.recall.upper),
                      p.hops, p.distances, format_short(tuning.queries_per_second[i])));
  }
  for (const std::int64_t k : options.ks) {
    for (const double recall : options.recalls) {
      const RecallPoint* point = tuning.curve.reaching(recall, k);
      print(point == nullptr
                ? fmt::format("recall {} at k = {}: no list measured reaches it, the exact engine answers\n",
                              recall, k)
                : fmt::format("recall {} at k = {}: a list of {}, which found {:.4f}\n", recall, k,
                              point->list_size, point->recall.recall));
    }
  }
  print(describe(tuning.distribution) + "\n");
}

nlohmann::json as_json(const Tuning& tuning, const Options& options) {
  const QueryDistribution& its = tuning.distribution;
  nlohmann::json object = to_json(tuning.curve);
  for (std::size_t i = 0; i < tuning.queries_per_second.size(); ++i) {
    object["points"][i]["queries_per_second"] = tuning.queries_per_second[i];
  }
  nlohmann::json choices = nlohmann::json::array();
  for (const std::int64_t k : options.ks) {
    for (const double recall : options.recalls) choices.push_back(choice(tuning.curve, recall, k));
  }
  object["graph_hash"] = fmt::format("{:016x}", tuning.graph_hash);
  object["choices"] = std::move(choices);
  object["distribution"] = {{"other", its.other()},
                            {"rows", its.rows},
                            {"difference", its.difference},
                            {"p_value", its.p_value},
                            {"queries_median", its.queries_median},
                            {"rows_median", its.rows_median}};
  return object;
}

void check(const Common& common, Options& options) {
  for (const double recall : options.recalls) {
    if (!(recall > 0 && recall < 1)) {
      throw InvalidArgument(fmt::format("--recall {}: use above 0 and below 1; 1 is exact search", recall));
    }
  }
  if (options.max_queries < -1) {
    throw InvalidArgument(fmt::format("--max-queries {}: use 1 or more", options.max_queries));
  }
  if (options.output.empty()) return;
  options.output = output_path(common, options.output);
  check_output(options.output, "tuning", {}, false);
  refuse_overwriting({options.output}, {options.index, options.queries.path});
}

void run(const Common& common, Options& options) {
  check(common, options);
  const UnpackedClouds unpacked(common, {&options.queries.path}, options.output, options.input_format);
  const FileInfo info = open_index(common, options.index, options.queries, options.input_format);
  options.queries.max_rows = options.max_queries;
  const Size size = peek(options.queries);
  MemoryPlan plan(common, "tune by fewer queries (--max-queries)");
  plan.add("index", static_cast<double>(info.bytes), shown(options.index) == options.index);
  plan.add("queries", size.bytes, size.mapped);
  plan.check();
  Dataset queries = load(common, options.queries);
  const Tuning tuning = run_cancellable(common, make_execution(common), [&](const Execution& how) {
    Execution left = how;
    left.memory_limit = plan.left();
    const AnyIndex any = AnyIndex::load(options.index, left);
    const Vamana& index = graph_of(any, options.index, "measures itself");
    plan.add("codes and graph", static_cast<double>(index.memory_bytes()));
    left.memory_limit = plan.left();
    queries = as_the_index(common, queries, index.dtype(), "queries", "searched");
    return index.tune(queries, options.ks, left);
  });
  if (!options.output.empty()) {
    const CancellableScope scope;
    write_tuning(options.output, tuning, must_stop);
    outputs_in_place();
  }
  if (common.json) {
    nlohmann::json object = as_json(tuning, options);
    if (!options.output.empty()) object["file"] = shown_output(options.output);
    print_json(object);
    return;
  }
  show(tuning, options);
  if (!options.output.empty()) {
    note(common, fmt::format("wrote {}; kith search --tune {} goes by it", shown_output(options.output),
                             shown_output(options.output)));
  }
}

}  // namespace

void add_tuning_option(CLI::App& command, Common& common, std::string& file) {
  common.file(command
                  .add_option("--tune", file,
                              "With --recall: by the measurements for queries of this kind that kith tune "
                              "wrote, in place of those of the build")
                  ->type_name("FILE")
                  ->group("Search"));
}

AnyIndex with_tuning(const Common& common, const AnyIndex& index, std::string& file) {
  if (file.empty()) return index;
  open_input(common, file);
  return graph_of(index, "", "goes by a tuning").tuned(read_tuning(file));
}

void add_tune(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->queries.default_member = "test";
  CLI::App& command =
      add_command(app, common, "tune", "Measure the recall of a saved graph for queries of your own",
                  [options, &common] { run(common, *options); });
  add_file_argument(command, common, "INDEX", options->index, "A graph that kith build --index vamana wrote");
  add_file_argument(command, common, "QUERIES", options->queries.path, "Queries like those to come");
  command
      .add_option("-k,--neighbors", options->ks,
                  "Measure it for so many neighbours; several numbers with commas between them")
      ->type_name("K")
      ->delimiter(',')
      ->capture_default_str()
      ->group("Search");
  command
      .add_option("--recall", options->recalls,
                  "Say which list reaches this recall; several with commas between them")
      ->type_name("R")
      ->delimiter(',')
      ->capture_default_str()
      ->group("Search");
  command.add_option("--max-queries", options->max_queries, "Only the first N queries")
      ->type_name("N")
      ->group("Search");
  common.file(command
                  .add_option("-o,--output", options->output,
                              "Write the measurements to this file, for --tune of kith search; whole or not "
                              "at all")
                  ->type_name("FILE")
                  ->group("Answer"));
  add_member_option(command, "--query-member", options->queries, "with the queries");
  add_input_format_option(command, common, options->input_format, {"QUERIES"}, dataset_formats());
  add_execution_options(command, common);
  About& about = common.about(command);
  about.details = {
      "A graph has measured its recall on its own rows. Queries of another kind may need longer lists, or "
      "shorter ones: this answers them by the exact engine, and by walks with lists of growing size. The "
      "index "
      "stays as it is, since one may have several kinds of queries; the file that -o writes fits this graph "
      "alone.",
      "A last line says whether the queries are distributed as the rows: their distances to the nearest row "
      "are "
      "compared with those of 1,000 rows to theirs (two-sample Kolmogorov-Smirnov test). They are called "
      "other "
      "where the distribution functions are 0.1 or more apart and that has a probability below 0.001 by "
      "accident. What does not show in these distances is not noticed, but is in the recall measured."};
  about.examples = {
      {"kith tune graph.kith queries.fvecs -k 10 -o queries.tune", "Measures, shows and keeps it."},
      {"kith search graph.kith more.fvecs -k 10 --recall 0.95 --tune queries.tune -o answer",
       "Searches by it."}};
}

}  // namespace kith::cli
