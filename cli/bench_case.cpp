// Reading, timing and comparing for kith bench.
#include "bench_case.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "measure.hpp"
#include "peer.hpp"
#include "progress.hpp"
#include "stream.hpp"

namespace kith::cli {

namespace fs = std::filesystem;
using json = nlohmann::json;
using Clock = std::chrono::steady_clock;

TemporaryFolder::TemporaryFolder(bool needed) {
  if (!needed) return;
  patient_.emplace();
  std::string name = (fs::temp_directory_path() / "kith-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw IoError(fmt::format("cannot make a folder in '{}'; set TMPDIR to one that is writable",
                              fs::temp_directory_path().string()));
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

BenchInput read_bench_input(const BenchOptions& options, const TemporaryFolder& folder,
                            const Execution& execution) {
  BenchInput in;
  if (!options.generate.empty()) {
    GenerateParameters parameters;
    parameters.generator = parse_generator(options.generate);
    parameters.rows = options.rows;
    parameters.dim = options.dim;
    parameters.dtype = parse_dtype(options.dtype);
    parameters.seed = options.seed;
    parameters.normalize = options.normalize;
    parameters.utm = options.utm;
    in.base = generate(parameters, execution);
    parameters.first_row = options.rows;  // rows the base does not have
    parameters.rows = options.count;
    in.queries = generate(parameters, execution);
    in.description = {{"generator", options.generate},
                      {"seed", options.seed},
                      {"normalize", options.normalize},
                      {"utm", options.utm}};
  } else {
    ReadOptions read;
    read.format = options.base_format;
    in.base = read_dataset(options.base, read);
    read.format = options.queries_format;
    read.max_rows = options.max_queries;
    in.queries = read_dataset(options.queries, read);
    in.description = {{"base", fs::path(shown(options.base)).filename().string()},
                      {"queries_file", fs::path(shown(options.queries)).filename().string()}};
  }
  in.description["rows"] = in.base.rows();
  in.description["dim"] = in.base.dim();
  in.description["dtype"] = name(in.base.dtype());
  in.description["queries"] = in.queries.rows();
  if (!options.peers.empty()) {
    // Peers read npy; other formats, and a part of the queries, are written out for them once.
    const auto as_npy = [&](const std::string& given, const Dataset& data, const char* part, bool whole) {
      if (!given.empty() && whole && is_plain_file(given) && guess_format(given) == FileFormat::npy) {
        return fs::absolute(given);
      }
      fs::path path = folder.path() / (std::string(part) + ".npy");
      write_dataset(path, data.view());
      return path;
    };
    in.base_file = as_npy(options.generate.empty() ? options.base : "", in.base, "base", true);
    in.queries_file = as_npy(options.generate.empty() ? options.queries : "", in.queries, "queries",
                             options.max_queries < 0);
  }
  return in;
}

namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// All queries, `batch` a call; appends the seconds of each call. The answers joined.
Neighbors search_all(const AnyIndex& index, const DatasetView& queries, const BenchCase& item,
                     std::int64_t batch, const Execution& execution, std::vector<double>& calls) {
  const std::int64_t step = batch > 0 ? batch : std::max<std::int64_t>(1, queries.rows);
  Neighbors all;
  for (std::int64_t first = 0; first == 0 || first < queries.rows; first += step) {
    const auto start = Clock::now();
    Neighbors part =
        index.search(queries.slice(first, std::min(step, queries.rows - first)), item.k, execution);
    calls.push_back(seconds_since(start));
    if (first == 0) {
      all = std::move(part);
      continue;
    }
    all.queries += part.queries;
    all.indices.insert(all.indices.end(), part.indices.begin(), part.indices.end());
    std::visit(
        [&](auto& to) {
          const auto& from = std::get<std::decay_t<decltype(to)>>(part.distances);
          to.insert(to.end(), from.begin(), from.end());
        },
        all.distances);
    all.statistics.pairs += part.statistics.pairs;
    all.statistics.candidates += part.statistics.candidates;
    all.statistics.fallbacks += part.statistics.fallbacks;
    all.statistics.nan_queries += part.statistics.nan_queries;
    all.statistics.seconds += part.statistics.seconds;
  }
  return all;
}

/// The seconds of every repeat and of every call.
struct Times {
  std::vector<double> repeats, calls;
  void add(const std::vector<double>& repeat) {
    double sum = 0;
    for (double s : repeat) sum += s;
    repeats.push_back(sum);
    calls.insert(calls.end(), repeat.begin(), repeat.end());
  }
  json to_json(std::int64_t queries) const {
    const double middle = median(repeats);
    return {{"seconds", repeats},
            {"median_seconds", middle},
            {"queries_per_second", static_cast<double>(queries) / middle},
            {"calls", calls.size()},
            {"median_call_seconds", median(calls)}};
  }
};

json number_or_null(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

}  // namespace

json run_bench_case(const BenchOptions& options, const BenchInput& in, const BenchCase& item,
                    const Common& common, const TemporaryFolder& folder) {
  ProgressBar bar(common);
  Execution execution = make_execution(common);
  execution.threads = item.threads;
  execution.progress = bar.callback();
  const BruteForceParameters parameters{parse_metric(item.metric), parse_filter(item.filter)};

  reset_peak_memory();
  auto start = Clock::now();
  const AnyIndex index = AnyIndex::build(in.base, parameters, execution);
  const double build_seconds = seconds_since(start);
  std::vector<double> warm_up;
  const Neighbors answer = search_all(index, in.queries.view(), item, options.batch, execution, warm_up);
  bar.erase();
  execution.progress = nullptr;
  const std::uint64_t peak = peak_memory();
  const std::uint64_t data_bytes = static_cast<std::uint64_t>(in.base.rows()) *
                                   static_cast<std::uint64_t>(in.base.dim()) * size_of(in.base.dtype());

  std::vector<std::unique_ptr<PeerProcess>> peers;
  for (const std::string& peer : options.peers) {
    PeerTask task;
    task.peer = peer;
    task.python = options.python;
    task.runner = options.runner;
    task.base = in.base_file;
    task.queries = in.queries_file;
    task.batch = options.batch;
    task.k = item.k;
    task.metric = item.metric;
    task.threads = resolve_threads(execution);
    peers.push_back(std::make_unique<PeerProcess>(task));
    peers.back()->search();  // warm-up
  }

  // Everybody runs once a round, so that a slow moment of the machine hits all alike.
  Times own;
  std::vector<Times> theirs(peers.size());
  const auto settle = [&] {
    // Thread pools spin for a while after their work; let them go to sleep first.
    if (!peers.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  };
  for (std::int64_t round = 0; round < options.repeats; ++round) {
    settle();
    std::vector<double> calls;
    search_all(index, in.queries.view(), item, options.batch, execution, calls);
    own.add(calls);
    for (std::size_t p = 0; p < peers.size(); ++p) {
      settle();
      theirs[p].add(peers[p]->search());
    }
  }

  json out = own.to_json(in.queries.rows());
  out.update(
      {{"k", item.k},
       {"metric", item.metric},
       {"filter_asked", item.filter},
       {"threads", resolve_threads(execution)},
       {"batch", options.batch},
       {"build_seconds", build_seconds},
       {"statistics", to_json(answer.statistics)},
       {"candidates_per_query", in.queries.rows() > 0 ? static_cast<double>(answer.statistics.candidates) /
                                                            static_cast<double>(in.queries.rows())
                                                      : 0.0},
       {"memory",
        {{"data_bytes", data_bytes},
         {"codes_bytes", index.memory_bytes()},
         {"peak_bytes", peak},
         {"beyond_data_and_codes_bytes",
          static_cast<std::int64_t>(peak) - static_cast<std::int64_t>(data_bytes + index.memory_bytes())}}},
       {"peers", json::array()}});
  for (std::size_t p = 0; p < peers.size(); ++p) {
    const fs::path stem = folder.path() / options.peers[p];
    json about = peers[p]->about();
    about.update(peers[p]->finish(stem));
    about.update(theirs[p].to_json(in.queries.rows()));
    const Evaluation quality = evaluate(read_neighbors(stem.string() + ".indices.npy"), answer);
    about["recall"] = quality.recall;
    about["recall_with_ties"] = number_or_null(quality.recall_with_ties);
    about["exact_queries"] = quality.exact_queries;
    about["ratio"] = about["median_seconds"].get<double>() / out["median_seconds"].get<double>();
    out["peers"].push_back(about);
  }
  return out;
}

}  // namespace kith::cli
