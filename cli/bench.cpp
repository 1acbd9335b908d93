// kith bench: times searches, by itself or taking turns with other libraries, and writes JSON.
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench_case.hpp"
#include "commands.hpp"
#include "interrupt.hpp"
#include "measure.hpp"
#include "stream.hpp"
#include "units.hpp"
#include "unpacked.hpp"

namespace kith::cli {

namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

void print_case(const json& run) {
  const auto& statistics = run["statistics"];
  print(fmt::format(
      "\nk {}, {}, filter {}{}, {}; {} repeats{}\n", run["k"].get<std::int64_t>(),
      run["metric"].get<std::string>(), statistics["filter"].get<std::string>(),
      statistics["instruction_set"].get<std::string>().empty()
          ? ""
          : " on " + statistics["instruction_set"].get<std::string>(),
      plural(run["threads"].get<std::int64_t>(), "thread"), run["seconds"].size(),
      run["batch"].get<std::int64_t>() > 0
          ? fmt::format(", {} a call", plural(run["batch"].get<std::int64_t>(), "query", "queries"))
          : ""));
  const bool compared = !run["peers"].empty();
  print(fmt::format("  {:<10}{:>12}{:>13}{:>13}{:>11}{}\n", "", "median", "a call", "queries/s", "build",
                    compared ? fmt::format("{:>9}{:>9}{:>12}", "ratio", "recall", "same lists") : ""));
  const auto row = [&](const std::string& who, const json& r, const std::string& tail) {
    print(fmt::format("  {:<10}{:>10.4f} s{:>10.3f} ms{:>13}{:>9.2f} s{}\n", who,
                      r["median_seconds"].get<double>(), 1e3 * r["median_call_seconds"].get<double>(),
                      format_short(r["queries_per_second"].get<double>()), r["build_seconds"].get<double>(),
                      tail));
  };
  row("kith", run, compared ? fmt::format("{:>9}{:>9}{:>12}", "1.00", "exact", "") : "");
  for (const auto& peer : run["peers"]) {
    row(peer["name"], peer,
        fmt::format("{:>9.2f}{:>9.4f}{:>12}", peer["ratio"].get<double>(), peer["recall"].get<double>(),
                    peer["exact_queries"].get<std::int64_t>()));
  }
  const auto& memory = run["memory"];
  print(fmt::format("  candidates a query {:.1f}, fallbacks {}; memory: data {}, codes {}, peak {}\n",
                    run["candidates_per_query"].get<double>(), statistics["fallbacks"].get<std::int64_t>(),
                    format_bytes(memory["data_bytes"].get<double>()),
                    format_bytes(memory["codes_bytes"].get<double>()),
                    format_bytes(memory["peak_bytes"].get<double>())));
}

/// The runner of the source tree this program was built in, unless one was named.
void find_peers(BenchOptions& options) {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path build = program.parent_path().parent_path();
  const auto first_of = [](std::initializer_list<fs::path> candidates) {
    std::error_code error;
    for (const auto& path : candidates) {
      if (!path.empty() && fs::exists(path, error)) return fs::absolute(path).string();
    }
    return std::string();
  };
  if (options.runner.empty()) {
    options.runner = first_of({build.parent_path() / "benchmarks/peers/run.py", "benchmarks/peers/run.py"});
  }
  if (options.runner.empty() || !fs::exists(options.runner, ignored)) {
    throw InvalidArgument(fmt::format(
        "--peers needs benchmarks/peers/run.py of Kith's source tree{}; name it with --peers-runner",
        options.runner.empty() ? "" : fmt::format(", and '{}' does not exist", options.runner)));
  }
  if (options.python.empty()) options.python = first_of({build / "venv-peers/bin/python"});
  if (options.python.empty()) options.python = "python3";
}

void check(const BenchOptions& options) {
  if (options.generate.empty() == options.base.empty() || options.base.empty() != options.queries.empty()) {
    throw InvalidArgument("name the files BASE and QUERIES, or make data with --generate KIND");
  }
  for (const std::int64_t k : options.k) {
    if (k < 1) throw InvalidArgument(fmt::format("-k {}: use 1 or more", k));
  }
  if (!options.generate.empty() && options.max_queries != -1) {
    throw InvalidArgument("--max-queries is for files; with --generate say --queries N");
  }
  if (!options.generate.empty() && !options.input_format.empty()) {
    throw InvalidArgument("--input-format is for files; leave it out with --generate");
  }
  if (options.max_queries < -1 || options.max_queries == 0) {
    throw InvalidArgument(fmt::format("--max-queries {}: use 1 or more", options.max_queries));
  }
  if (options.repeats < 1) throw InvalidArgument(fmt::format("--repeats {}: use 1 or more", options.repeats));
  if (options.batch < 0)
    throw InvalidArgument(
        fmt::format("--batch {}: use 1 or more, or 0 for all queries in one call", options.batch));
  for (const std::int64_t threads : options.threads) {
    if (threads < 0 || threads > 4096) {
      throw InvalidArgument(fmt::format("--threads {}: use 1 to 4096, or 0 for all cores", threads));
    }
  }
  for (const std::string& label : options.labels) {
    if (label.find('=') == std::string::npos) {
      throw InvalidArgument(fmt::format("--label {}: write it as NAME=VALUE", label));
    }
  }
}

void run(BenchOptions options, const Common& common, const std::vector<std::string>& command_line) {
  check(options);
  if (!options.peers.empty()) find_peers(options);
  // Found now rather than after minutes of measuring.
  options.output = output_path(common, options.output);
  check_result_folder(options.output);
  refuse_overwriting({options.output}, {options.base, options.queries});
  const UnpackedClouds unpacked(common, {&options.base, &options.queries}, options.output,
                                options.input_format);
  if (options.generate.empty()) {
    Source base;
    Source queries;
    base.path = options.base;
    queries.path = options.queries;
    open_inputs(common, {&base, &queries}, options.input_format);
    options.base = base.path;
    options.queries = queries.path;
    options.base_format = base.format;
    options.queries_format = queries.format;
  }
  const bool tables = !common.json && !is_standard_output(options.output);
  const CancellableScope scope;
  const TemporaryFolder folder(!options.peers.empty());
  json out = {{"format", "kith-bench"},  {"format_version", 1},           {"date", utc_now()},
              {"kith", version()},       {"machine", describe_machine()}, {"command", command_line},
              {"labels", json::object()}};
  for (const std::string& label : options.labels) {
    out["labels"][label.substr(0, label.find('='))] = label.substr(label.find('=') + 1);
  }
  const BenchInput in = read_bench_input(options, folder, make_execution(common));
  out["data"] = in.description;
  if (tables) {
    print(fmt::format("{}, {}\n{} {} x {}; {}\n", out["machine"]["cpu"].get<std::string>(),
                      plural(out["machine"]["cores"].get<std::int64_t>(), "core"),
                      format_count(in.base.rows()), name(in.base.dtype()), in.base.dim(),
                      plural(in.queries.rows(), "query", "queries")));
  }
  out["runs"] = json::array();
  for (const std::string& metric : options.metrics) {
    for (const std::string& filter : options.filters) {
      for (const std::int64_t threads : options.threads) {
        for (const std::int64_t k : options.k) {
          const BenchCase item{k, metric, filter, static_cast<int>(threads)};
          out["runs"].push_back(run_bench_case(options, in, item, common, folder));
          if (tables) print_case(out["runs"].back());
        }
      }
    }
  }
  if (common.json) print_json(out);
  if (!options.output.empty()) {
    write_result(options.output, out);
    outputs_in_place();
    note(common, fmt::format("wrote {}", shown_output(options.output)));
  }
}

}  // namespace

void add_bench(CLI::App& app, Common& common) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App& command =
      add_command(app, common, "bench", "Time searches, alone or alternating with other libraries",
                  [options, &common] { run(*options, common, published_command_line()); });
  common.file(command.add_option("BASE", options->base, "File of the rows that are searched"));
  common.file(command.add_option("QUERIES", options->queries, "File of the queries"));

  command.add_option("-k", options->k, "Neighbours a query; several: 1,10,100")
      ->type_name("K,...")
      ->delimiter(',')
      ->default_str("10")
      ->group("Search");
  command.add_option("--metric", options->metrics, "Metrics, as of kith knn")
      ->type_name("METRIC,...")
      ->delimiter(',')
      ->default_str("sqeuclidean")
      ->group("Search");
  command.add_option("--filter", options->filters, "Filters, as of kith knn")
      ->type_name("FILTER,...")
      ->delimiter(',')
      ->default_str("auto")
      ->group("Search");
  command.add_option("--threads", options->threads, "Numbers of threads; 0 is one per core")
      ->type_name("N,...")
      ->delimiter(',')
      ->default_str("0")
      ->group("Search");
  command.add_option("--repeats", options->repeats, "Timed runs of each combination, after an untimed one")
      ->type_name("N")
      ->capture_default_str()
      ->group("Search");
  command
      .add_option("--batch", options->batch,
                  "Queries a call; 0 gives all queries to one call, 1 measures latency")
      ->type_name("N")
      ->capture_default_str()
      ->group("Search");
  command.add_option("--max-queries", options->max_queries, "Use the first N queries of the file only")
      ->type_name("N")
      ->group("Search");

  CLI::Option* generate =
      command
          .add_option("--generate", options->generate,
                      "Generate the data: uniform, gaussian, clusters, low_intrinsic_dimension, terrain_scan")
          ->type_name("KIND")
          ->group("Generated data");
  const auto of_generate = [&](CLI::Option* option, const char* type) {
    option->needs(generate)->group("Generated data");
    if (type != nullptr) option->type_name(type)->capture_default_str();
  };
  of_generate(command.add_option("--rows", options->rows, "Rows to search"), "N");
  of_generate(command.add_option("--dim", options->dim, "Their dimension"), "D");
  of_generate(command.add_option("--queries", options->count, "Queries"), "N");
  of_generate(command.add_option("--dtype", options->dtype, "Element type"), "DTYPE");
  of_generate(from_zero(command.add_option("--seed", options->seed, "Seed")), "N");
  of_generate(command.add_flag("--normalize", options->normalize, "Scale every row to length 1"), nullptr);
  of_generate(command.add_flag("--utm", options->utm, "terrain_scan: in coordinates of a UTM zone"), nullptr);

  add_input_format_option(command, common, options->input_format, {"BASE", "QUERIES"}, dataset_formats());
  command
      .add_option("--peers", options->peers, "Libraries to alternate with Kith: faiss, sklearn, numpy, scipy")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->group("Comparison");
  common.file(
      command
          .add_option("--peers-python", options->python,
                      "Python with these libraries; default: venv-peers of the build folder, else python3")
          ->type_name("PROGRAM")
          ->envname("KITH_PEERS_PYTHON")
          ->group("Comparison"));
  common.file(command
                  .add_option("--peers-runner", options->runner,
                              "benchmarks/peers/run.py; default: that of the source tree around the program")
                  ->type_name("FILE")
                  ->envname("KITH_PEERS_RUNNER")
                  ->group("Comparison"));

  common.file(
      command.add_option("-o,--output", options->output, "Write everything that was measured to a JSON file")
          ->type_name("FILE")
          ->group("Output"));
  command.add_option("--label", options->labels, "A note kept in the JSON; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->group("Output");

  common.about(command).details = {
      "Every combination of k, metric, filter and threads is built, searched once without timing, then "
      "searched --repeats times; the median counts. Peers run in a process of their own on the same files "
      "with the same number of threads, one run after each run of Kith; their answers are compared with "
      "Kith's.",
      "'ratio' is how many times longer a peer took than Kith. 'recall' is the share of Kith's (exact) "
      "neighbours the peer found, 'same lists' the number of queries whose list is the same."};
  common.about(command).examples = {
      {"kith bench base.npy queries.npy -k 1,10,100 --threads 1,2", "Six combinations, as tables."},
      {"kith bench base.npy queries.npy --peers faiss,sklearn -o result.json",
       "Side by side with two libraries."},
      {"kith bench --generate clusters --rows 1000000 --dim 96 --batch 1 --queries 50",
       "The latency of single queries on generated data."}};
}

}  // namespace kith::cli
