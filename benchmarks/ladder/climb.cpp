// Runs the rungs of a case: decides which, times them, compares their answers with the engine's.
#include "climb.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "engine.hpp"
#include "graph_case.hpp"
#include "grid.hpp"
#include "kith/convert.hpp"

namespace kith::ladder {
namespace {

// The same points in every run.
constexpr std::uint64_t point_seed = 1;
constexpr std::uint64_t query_seed = 2;

constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The engine's answer: what every rung must give.
Answer truth_of(const Problem& problem, const ClimbOptions& options) {
  Run run;
  run.threads = options.threads;
  run.cancelled = options.cancelled;
  Execution execution = engine_execution(run);
  Answer answer(problem);
  const auto search = [&] {
    knn_into(host_points(problem), host_queries(problem), into(answer, problem), {}, execution);
  };
  if (!options.gpus.empty()) {
    execution.devices = {{Device::Kind::cuda, options.gpus.front()}};
    execution.device_memory_limit = options.device_memory_limit;
    try {
      search();
      return answer;
    } catch (const OutOfMemory&) {
      if (options.device_memory_limit == 0) throw;
    }
    execution = engine_execution(run);  // the same bits
  }
  search();
  return answer;
}

class Climber {
 public:
  Climber(const Problem& problem, const Answer& truth, const ClimbOptions& options)
      : problem_(problem), truth_(truth), options_(options) {}

  Step step(const Rung& rung) const {
    std::string reason = why_not(rung);
    if (!reason.empty()) return left_out(rung, std::move(reason));
    try {
      return measure(rung);
    } catch (const OutOfMemory& error) {
      if (options_.device_memory_limit == 0 || rung.hardware == Hardware::cpu) throw;
      return left_out(rung, error.what());
    }
  }

 private:
  static Step left_out(const Rung& rung, std::string reason) {
    Step out;
    out.rung = &rung;
    out.skipped = std::move(reason);
    out.ms = out.min_ms = out.max_ms = out.ms_with_copies = out.build_ms = not_measured;
    out.recall = out.recall_floor = not_measured;
    return out;
  }

  Step measure(const Rung& rung) const {
    Step out = left_out(rung, "");
    Run run = new_run(options_.repeat);
    const Answer answer = rung.search(problem_, run);
    if (problem_.graph == nullptr) {
      out.wrong = cells_that_differ(answer, truth_);
    } else {
      out.wrong = untrue_cells(problem_, answer);
      out.recall = recall_of(problem_, answer, truth_);
      // Of rows that somebody brings nothing is known.
      const bool known = !problem_.bytes() && problem_.graph->list_size() >= default_list_size;
      const bool promised = rung.recall_floor == 1 || known;
      if (promised) out.recall_floor = rung.recall_floor;
    }
    out.ms = median(run.times);
    out.min_ms = *std::min_element(run.times.begin(), run.times.end());
    out.max_ms = *std::max_element(run.times.begin(), run.times.end());
    out.runs = static_cast<int>(run.times.size());
    out.devices = run.devices;
    out.fallback = run.fallback;
    if (run.build_ms >= 0) out.build_ms = run.build_ms;
    if (options_.copies) out.ms_with_copies = time_whole(rung);
    return out;
  }

  Run new_run(int repeat) const {
    Run run;
    run.gpus = options_.gpus;
    run.threads = options_.threads;
    run.repeat = repeat;
    run.device_memory_limit = options_.device_memory_limit;
    run.cancelled = options_.cancelled;
    return run;
  }

  // From host memory to host memory. Everything has run before: code is loaded, pools hold memory.
  double time_whole(const Rung& rung) const {
    Run times = new_run(options_.repeat);
    times.search([&] {
      Run run = new_run(1);
      run.whole = true;
      (void)rung.search(problem_, run);
    });
    return median(times.times);
  }

  std::string why_not(const Rung& rung) const {
    const bool asked = options_.chosen.contains(rung.number);
    if (!options_.chosen.empty() && !asked) return "not among --rungs";
    if (rung.hardware != Hardware::cpu && options_.gpus.empty()) return "no GPU: " + options_.no_gpus;
    if (rung.search == nullptr) return "no GPU: this build has no CUDA support";
    if (std::string reason = rung.refuses(problem_); !reason.empty()) return reason;
    if (asked) return "";
    const auto ask = [&](const std::string& reason) {
      return reason.empty() ? "" : reason + "; --rungs runs it all the same";
    };
    if (problem_.graph != nullptr && rung.recall_floor == 1 && !brute_force(rung)) {
      return ask("is for cases of exact search");
    }
    if (std::string reason = rung.declines(problem_); !reason.empty()) return ask(reason);
    if (rung.engine && rung.hardware == Hardware::gpus && options_.gpus.size() == 1) {
      return ask("there is one GPU: see rung 23");
    }
    return rung.hardware == Hardware::cpu && !rung.engine ? ask(too_slow(rung)) : "";
  }

  // The engine's exact searches, for the time that a graph must beat.
  static bool brute_force(const Rung& rung) {
    return rung.number == 20 || rung.number == 23 || rung.number == 26;
  }

  // A serial rung takes the same time for every query: one tells how long all take.
  std::string too_slow(const Rung& rung) const {
    if (problem_.queries < 8) return "";
    Problem one = problem_;
    one.queries = 1;
    Run run = new_run(1);
    (void)rung.search(one, run);
    const double seconds = run.times.front() / 1e3 * static_cast<double>(problem_.queries);
    if (seconds <= options_.most_seconds) return "";
    return fmt::format("would take about {:.0f} s, more than {:g}", seconds, options_.most_seconds);
  }

  const Problem& problem_;
  const Answer& truth_;
  const ClimbOptions& options_;
};

}  // namespace

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::int64_t cells_that_differ(const Answer& a, const Answer& b) {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < a.indices.size(); ++i) {
    const bool same = a.indices[i] == b.indices[i] && std::bit_cast<std::uint32_t>(a.distances[i]) ==
                                                          std::bit_cast<std::uint32_t>(b.distances[i]);
    wrong += same ? 0 : 1;
  }
  return wrong;
}

std::string Case::name() const {
  return fmt::format("{}{},{},{},{}", list_size > 0 ? "graph:" : "", dim, queries, points, k);
}

Case parse_case(std::string_view whole) {
  constexpr std::string_view of_graphs = "graph:";
  const bool graph = whole.starts_with(of_graphs);
  const std::string_view text = graph ? whole.substr(of_graphs.size()) : whole;
  std::vector<std::int64_t> numbers;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    std::int64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{} || number < 1 || (next != end && *next != ',')) {
      numbers.clear();
      break;
    }
    numbers.push_back(number);
    if (next == end) break;
    at = next + 1;
  }
  if (numbers.size() != 3 && numbers.size() != 4) {
    throw InvalidArgument(
        fmt::format("--case '{}': write it as DIM,QUERIES,POINTS or DIM,QUERIES,POINTS,K, numbers of 1 or "
                    "more, graph: before them for a case of graphs; or all, published, tiles, or graph",
                    whole));
  }
  const std::int64_t usual_k = graph ? graph_case().k : 1;
  Case sizes{numbers[0], numbers[1], numbers[2], numbers.size() == 4 ? numbers[3] : usual_k};
  if (graph) sizes.list_size = std::max(default_list_size, sizes.k);
  if (largest_coordinate(sizes.dim) < 1) {
    throw InvalidArgument(
        fmt::format("--case '{}': {} dimensions; float32 is exact up to 16777216", whole, sizes.dim));
  }
  if (graph && sizes.dim > Vamana::index_type.largest_dim) {
    throw InvalidArgument(fmt::format("--case '{}': {} dimensions; a graph takes up to {}", whole, sizes.dim,
                                      Vamana::index_type.largest_dim));
  }
  constexpr std::int64_t most_rows = std::int64_t{1} << 31;
  if (sizes.points >= most_rows || sizes.queries >= most_rows || sizes.k >= most_rows) {
    throw InvalidArgument(
        fmt::format("--case '{}': the ladder counts points, queries and k by 32 bits; use less than {}",
                    whole, most_rows));
  }
  return sizes;
}

std::vector<Case> published_cases() {
  constexpr std::int64_t m1 = std::int64_t{1} << 20;
  constexpr std::int64_t m16 = std::int64_t{1} << 24;
  return {{3, 1, m16, 1},      {16, 1, m16, 1},      {3, 1024, m1, 1},    {16, 1024, m1, 1},
          {3, 1024, 65536, 1}, {16, 1024, 65536, 1}, {128, 512, 8192, 16}};
}

std::vector<Case> all_cases() {
  std::vector<Case> out;
  for (const std::int64_t points : {std::int64_t{1} << 16, std::int64_t{1} << 20, std::int64_t{1} << 24}) {
    for (const std::int64_t queries : {1, 1024}) {
      for (const std::int64_t dim : {3, 16}) out.push_back({dim, queries, points, 1});
    }
  }
  out.push_back({128, 512, 8192, 16});
  return out;
}

std::vector<Case> tile_cases() {
  constexpr std::int64_t m1 = std::int64_t{1} << 20;
  return {{3, 1, m1, 20, true}, {3, 1024, m1, 20, true}, {3, 1024, 8 * m1, 20, true}};
}

Case graph_case() {
  return {96, 1000, 100'000, 10, false, default_list_size};
}

std::set<int> parse_rungs(const std::vector<std::string>& texts) {
  const auto fail = [](const std::string& text, const std::string& what) {
    throw InvalidArgument(fmt::format("--rungs '{}': {}; use 1 to {}, 2-10, or names such as fused", text,
                                      what, rungs().back().number));
  };
  const auto number_of = [&](std::string_view part, const std::string& text) {
    int number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc{} || end != part.data() + part.size()) fail(text, "no rung has that name");
    if (number < 1 || number > rungs().back().number) fail(text, "there is no such rung");
    return number;
  };
  std::set<int> out;
  for (const std::string& text : texts) {
    const auto named =
        std::find_if(rungs().begin(), rungs().end(), [&](const Rung& rung) { return text == rung.id; });
    if (named != rungs().end()) {
      out.insert(named->number);
      continue;
    }
    const std::size_t dash = text.find('-', 1);
    const int first = number_of(std::string_view(text).substr(0, dash), text);
    const int last =
        dash == std::string::npos ? first : number_of(std::string_view(text).substr(dash + 1), text);
    if (last < first) fail(text, "the range is empty");
    for (int number = first; number <= last; ++number) out.insert(number);
  }
  return out;
}

Climb climb(const Case& sizes, const ClimbOptions& options) {
  Climb out;
  out.sizes = sizes;
  out.largest = largest_coordinate(sizes.dim);
  Execution execution;
  execution.threads = options.threads;
  execution.cancelled = options.cancelled;
  const bool graph = sizes.list_size > 0;
  const auto rows = [&](std::int64_t count, std::uint64_t seed, std::int64_t first) {
    return graph ? embeddings(count, sizes.dim, first, execution)
                 : grid(count, sizes.dim, out.largest, seed, execution);
  };
  const GivenRows* given = sizes.given.get();
  const Dataset points = given != nullptr ? given->points : rows(sizes.points, point_seed, 0);
  const Dataset queries =
      given != nullptr ? convert(given->queries, Dtype::f32) : rows(sizes.queries, query_seed, sizes.points);
  Problem problem{
      sizes.dim, sizes.queries, sizes.points, sizes.k, static_cast<const float*>(queries.view().data),
      nullptr,   sizes.tiles};
  if (given != nullptr) {
    out.largest = std::numeric_limits<std::uint8_t>::max();
    problem.point_bytes = static_cast<const std::uint8_t*>(points.view().data);
    problem.query_bytes = static_cast<const std::uint8_t*>(given->queries.view().data);
  } else {
    problem.point = static_cast<const float*>(points.view().data);
  }
  std::optional<GraphCase> walked;
  if (graph) {
    walked.emplace(problem, sizes.list_size, options.gpus, execution);
    problem.graph = &*walked;
    out.degree = walked->degree();
    out.graph_ms = walked->build_ms();
    out.graph_hash = walked->index().graph_hash();
  }
  const Answer truth = truth_of(problem, options);
  const Climber climber(problem, truth, options);
  for (const Rung& rung : rungs()) {
    if (options.progress) options.progress(rung, rung.number - 1, rungs().back().number);
    out.steps.push_back(climber.step(rung));
  }
  return out;
}

}  // namespace kith::ladder
