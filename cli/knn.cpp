// kith knn: one-shot search, nothing is saved.
#include <memory>

#include <fmt/format.h>

#include "commands.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "result.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

struct Options {
  Source base;
  Source queries;
  std::string metric = "sqeuclidean";
  std::string filter = "auto";
  ResultOptions result;
};

// Rows of different element types are both brought to the narrowest type that holds them exactly.
void unify(const Common& common, Dataset& base, Dataset& queries) {
  if (base.dtype() == queries.dtype()) return;
  const Dtype wide = common_dtype(base.dtype(), queries.dtype());
  note(common,
       fmt::format("the base is {}, the queries are {}: both are searched as {}, which holds them exactly",
                   name(base.dtype()), name(queries.dtype()), name(wide)));
  if (base.dtype() != wide) base = convert(base, wide);
  if (queries.dtype() != wide) queries = convert(queries, wide);
}

void run(const Common& common, Options& options) {
  check_result_options(options.result);
  Execution execution = make_execution(common);
  options.queries.max_rows = options.result.max_queries;

  // The estimate from the headers comes before the files are read.
  const bool one_file = same_rows(options.base, options.queries);
  const Size base_size = peek(options.base);
  const Size query_size = peek(options.queries);
  MemoryPlan estimate(common);
  estimate.add("base", base_size.bytes, base_size.mapped);
  if (!one_file) estimate.add("queries", query_size.bytes, query_size.mapped);
  estimate.add("answer", query_size.rows * static_cast<double>(options.result.k) * 12);
  estimate.check();

  Dataset base = load(options.base);
  Dataset queries = one_file ? base : load(options.queries);
  DatasetView query_view = queries;
  if (one_file && options.result.max_queries >= 0 && options.result.max_queries < query_view.rows) {
    query_view = query_view.slice(0, options.result.max_queries);
  }
  if (base.dim() != queries.dim()) {
    throw InvalidArgument(
        fmt::format("'{}' has dimension {}, the queries '{}' have {}; they must be the same",
                    options.base.path, base.dim(), options.queries.path, queries.dim()));
  }
  if (!one_file) {
    unify(common, base, queries);
    query_view = queries;
  }

  // What is really held now decides what is left for the search itself.
  const auto bytes = [](const DatasetView& view) {
    return static_cast<double>(view.rows) * static_cast<double>(view.dim) *
           static_cast<double>(size_of(view.dtype));
  };
  MemoryPlan plan(common);
  plan.add("base", bytes(base), base_size.mapped);
  if (!one_file) plan.add("queries", bytes(queries), query_size.mapped);
  MemoryPlan with_answer = plan;
  with_answer.add("answer", static_cast<double>(query_view.rows) * static_cast<double>(options.result.k) *
                                static_cast<double>(8 + size_of(distance_dtype(base.dtype()))));
  with_answer.check();
  execution.memory_limit = plan.left();

  const BruteForceParameters parameters{parse_metric(options.metric), parse_filter(options.filter)};
  const Neighbors answer = run_search(common, std::move(execution), [&](const Execution& how) {
    return knn(base, query_view, options.result.k, parameters, how);
  });
  deliver(common, options.result, answer, parameters.metric);
}

}  // namespace

void add_knn(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->base.default_member = "train";
  options->queries.default_member = "test";
  CLI::App& command =
      add_command(app, common, "knn", "Find the nearest rows of BASE for every row of QUERIES, exactly",
                  [options, &common] { run(common, *options); });
  common.file(
      command.add_option("BASE", options->base.path, "The rows to search in: a file of vectors or points")
          ->type_name("FILE")
          ->required());
  common.file(
      command
          .add_option("QUERIES", options->queries.path,
                      "The rows to search for; may be the same file: every row then finds itself first")
          ->type_name("FILE")
          ->required());
  add_result_options(command, common, options->result);
  add_metric_option(command, common, options->metric);
  add_filter_option(command, common, options->filter);
  command
      .add_option("--base-member", options->base.member,
                  "HDF5 files: the dataset with the base [default: train]")
      ->type_name("NAME")
      ->group("Input");
  command
      .add_option("--query-member", options->queries.member,
                  "HDF5 files: the dataset with the queries [default: test]")
      ->type_name("NAME")
      ->group("Input");
  add_execution_options(command, common);
  add_statistics_option(command, common);
  About& about = common.about(command);
  about.details = {
      "Reads fvecs, bvecs, fbin, u8bin, i8bin, npy, HDF5 (ann-benchmarks), PCD, PLY, LAS and xyz. Without "
      "-o the first answers are shown; with it all are written. The answer is exact: the same rows and the "
      "same bits whatever the filter, the threads and the device. Ties go to the lower row number; queries "
      "with fewer than K rows to find are filled up with row -1 at an infinite distance.",
      "When BASE and QUERIES have different element types, both are converted to the narrowest type that "
      "holds them exactly (f32 or f64), and a note says so."};
  about.examples = {
      {"kith knn base.fvecs queries.fvecs -k 5", "Shows the 5 nearest rows of the first queries."},
      {"kith knn base.fvecs queries.fvecs -k 100 -o answer",
       "Writes answer.indices.npy and answer.distances.npy for NumPy."},
      {"kith knn scan.las scan.las -k 8 --metric euclidean -o graph.ivecs",
       "The 8 nearest points of every point of a laser scan, itself included, in metres."},
      {"kith knn glove.hdf5 glove.hdf5 --metric cosine -k 10 -o answer.hdf5",
       "An ann-benchmarks file: member test is searched in member train."},
      {"kith knn base.npy queries.npy --max-queries 3 --json",
       "Everything about three queries, for a program."}};
}

}  // namespace kith::cli
