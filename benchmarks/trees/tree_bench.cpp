// tree_bench DATA: times Kith's KdTree and Octree beside nanoflann on one file, and compares their answers.
//
// Everything runs in one process, on the same rows in memory, with the same number of threads; the contenders
// take turns, so that a slow moment of the machine hits all alike. nanoflann has no batch search: its queries
// are dealt out to threads in blocks, in the order given. A row counts among its own neighbours on both
// sides. The time of an answer includes the memory for it; nanoflann's is 8 bytes a neighbour, Kith's 12.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "kith/kith.hpp"
#include "nanoflann_peer.hpp"

namespace {

using kith::benchmark_trees::NanoflannTree;
using nlohmann::json;

struct Options {
  std::string data;
  std::string queries;
  std::vector<std::int64_t> k = {1, 8, 20, 32};
  std::vector<std::int64_t> leaf_sizes = {0};
  std::vector<std::int64_t> nanoflann_leaf_sizes = {10, 16, 32};
  int threads = 0;
  int repeats = 5;
  double seconds = 30;
  double limit = 120;
  std::string kth_distances;
  std::string output;
};

using Clock = std::chrono::steady_clock;

double timed(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Distances of an answer, and of Kith's the indices.
struct Answer {
  std::vector<std::int64_t> indices;
  std::vector<float> distances;
};

/// One tree of one library with one leaf size. Searches give up, by kith::Cancelled, at the deadline.
struct Contender {
  std::string name;
  std::int64_t leaf_size = 0;  // as asked for; 0 is the default
  std::function<void()> forget_tree;
  std::function<void()> build;
  std::function<void(std::int64_t k)> all_knn;
  std::function<void(std::int64_t k)> search;
  std::function<Answer()> take_answer;  // of the last search, which is then forgotten
  std::function<std::uint64_t()> memory_bytes;
  std::shared_ptr<Clock::time_point> deadline = std::make_shared<Clock::time_point>(Clock::time_point::max());
  bool kith = true;
};

template <class Tree, class Parameters>
Contender kith_contender(const std::string& name, const kith::DatasetView& rows,
                         const kith::DatasetView& queries, std::int64_t leaf_size, int threads) {
  struct State {
    std::optional<Tree> tree;
    kith::Neighbors answer;
  };
  const auto state = std::make_shared<State>();
  kith::Execution execution;
  execution.threads = threads;
  Contender c;
  execution.cancelled = [deadline = c.deadline] { return Clock::now() > *deadline; };
  c.name = name;
  c.leaf_size = leaf_size;
  c.forget_tree = [=] { state->tree.reset(); };
  c.build = [=] {
    Parameters parameters;
    parameters.leaf_size = leaf_size;
    state->tree = Tree::build(rows, parameters, execution);
  };
  c.all_knn = [=](std::int64_t k) { state->answer = state->tree->all_knn(k, true, execution); };
  c.search = [=](std::int64_t k) { state->answer = state->tree->search(queries, k, execution); };
  c.take_answer = [=] {
    kith::Neighbors taken = std::move(state->answer);
    state->answer = {};
    return Answer{std::move(taken.indices), std::get<std::vector<float>>(std::move(taken.distances))};
  };
  c.memory_bytes = [=] { return state->tree->memory_bytes(); };
  return c;
}

Contender nanoflann_contender(const kith::DatasetView& rows, const kith::DatasetView& queries,
                              std::int64_t leaf_size, int threads) {
  struct State {
    std::unique_ptr<NanoflannTree> tree;
    std::unique_ptr<std::uint32_t[]> indices;  // not zeroed: that would be time that nanoflann need not spend
    std::unique_ptr<float[]> distances;
    std::size_t size = 0;
  };
  const auto state = std::make_shared<State>();
  Contender c;
  const auto run = [state, threads, deadline = c.deadline](const kith::DatasetView& asked, std::int64_t k) {
    state->size = static_cast<std::size_t>(asked.rows * k);
    state->indices.reset(new std::uint32_t[state->size]);
    state->distances.reset(new float[state->size]);
    const auto* values = static_cast<const float*>(asked.data);
    constexpr std::int64_t block = 1024;
    std::atomic<std::int64_t> next = 0;
    const auto work = [&] {
      for (std::int64_t first; Clock::now() < *deadline && (first = next.fetch_add(block)) < asked.rows;) {
        for (std::int64_t q = first; q < std::min(first + block, asked.rows); ++q) {
          state->tree->search(values + q * asked.dim, k, state->indices.get() + q * k,
                              state->distances.get() + q * k);
        }
      }
    };
    {
      std::vector<std::jthread> others;
      for (int t = 1; t < threads; ++t) others.emplace_back(work);
      work();
    }
    if (next < asked.rows) throw kith::Cancelled("nanoflann took longer than --limit");
  };
  c.name = "nanoflann";
  c.leaf_size = leaf_size;
  c.kith = false;
  c.forget_tree = [=] { state->tree.reset(); };
  c.build = [=] {
    state->tree = kith::benchmark_trees::build_nanoflann(static_cast<const float*>(rows.data), rows.rows,
                                                         rows.dim, leaf_size, threads);
  };
  c.all_knn = [=](std::int64_t k) { run(rows, k); };
  c.search = [=](std::int64_t k) { run(queries, k); };
  c.take_answer = [=] {
    Answer answer;
    answer.distances.assign(state->distances.get(), state->distances.get() + state->size);
    state->indices.reset();
    state->distances.reset();
    state->size = 0;
    return answer;
  };
  c.memory_bytes = [] { return std::uint64_t{0}; };  // it does not say
  return c;
}

/// How many queries got another answer than `expected`: of Kith's trees to the bit, of the peer's distances
/// more than float32 arithmetic of `dim` terms can explain.
std::int64_t differing(const Answer& expected, const Answer& found, std::int64_t k, std::int64_t dim,
                       bool bits) {
  const float tolerance = 2 * static_cast<float>(dim + 2) * std::numeric_limits<float>::epsilon();
  const std::size_t queries = expected.distances.size() / static_cast<std::size_t>(k);
  std::int64_t count = 0;
  for (std::size_t q = 0; q < queries; ++q) {
    bool same = true;
    for (std::size_t at = q * static_cast<std::size_t>(k); at < (q + 1) * static_cast<std::size_t>(k); ++at) {
      const float a = expected.distances[at];
      const float b = found.distances[at];
      same = same && (bits ? a == b && expected.indices[at] == found.indices[at]
                           : a == b || std::abs(a - b) <= tolerance * std::max(a, b));
    }
    count += !same;
  }
  return count;
}

/// Every k-th value from the last of the first query on: the farthest neighbour of each.
void write_kth(const std::string& path, const std::vector<float>& distances, std::int64_t k) {
  const auto queries = static_cast<std::int64_t>(distances.size()) / k;
  const kith::DatasetView view(distances.data() + k - 1, queries, 1, k);
  kith::write_dataset(path, kith::Dataset::copy(view).view());
}

/// Memory that the last contender has given back may have gone back to the host of a virtual machine, which
/// takes far longer to bring a page back than the kernel takes to clear it. Whoever comes first would pay for
/// all: so `bytes` are touched and given back before each. What the kernel takes for fresh memory stays in
/// everybody's time.
void touch_memory(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;  // the work will say so
  (void)::madvise(memory, size, MADV_HUGEPAGE);
  std::memset(memory, 1, size);
  (void)::munmap(memory, size);
}

/// Times `work` of every contender in turn, `before` and `after` it untimed, until there are enough repeats,
/// or the seconds are used up. The first round does not count where there are others. `bytes` is about what
/// the work allocates.
json measure(const Options& options, const std::vector<Contender>& contenders, std::int64_t bytes,
             const std::function<void(const Contender&)>& before,
             const std::function<void(const Contender&)>& work,
             const std::function<void(std::size_t, const Contender&, int round)>& after) {
  std::vector<std::vector<double>> seconds(contenders.size());
  double spent = 0;
  for (int round = 0; round <= options.repeats && (round == 0 || spent < options.seconds); ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      if (round > 0 && seconds[i].empty()) continue;
      before(contenders[i]);
      touch_memory(bytes);
      try {
        seconds[i].push_back(timed([&] { work(contenders[i]); }));
        spent += seconds[i].back();
        after(i, contenders[i], round);
      } catch (const kith::Cancelled&) {  // in the first round: it has no time, and no further round
        spent += options.limit;
      }
    }
  }
  json entries = json::array();
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (seconds[i].size() > 1) seconds[i].erase(seconds[i].begin());
    json entry = {
        {"name", contenders[i].name}, {"leaf_size", contenders[i].leaf_size}, {"seconds", seconds[i]}};
    entry["median_seconds"] =
        seconds[i].empty() ? json() : json(median(seconds[i]));  // null: above the limit
    entries.push_back(std::move(entry));
  }
  return entries;
}

/// The ratios to Kith's k-d tree (or what comes first), on the screen.
void show(const std::string& task, const json& run) {
  const json& first = run["entries"][0]["median_seconds"];
  for (const json& entry : run["entries"]) {
    const json& seconds = entry["median_seconds"];
    std::fprintf(stderr, "%-14s %-10s leaf %4lld ", task.c_str(), entry["name"].get<std::string>().c_str(),
                 entry["leaf_size"].get<long long>());
    if (seconds.is_null()) {
      std::fprintf(stderr, "above the limit");
    } else {
      std::fprintf(stderr, "%10.2f ms", seconds.get<double>() * 1e3);
      if (!first.is_null()) std::fprintf(stderr, " %8.2f x", seconds.get<double>() / first.get<double>());
    }
    if (entry.contains("differing")) {
      std::fprintf(stderr, "  %lld differ", entry["differing"].get<long long>());
    }
    std::fprintf(stderr, "\n");
  }
}

json knn_task(const Options& options, const std::vector<Contender>& contenders, const std::string& task,
              std::int64_t k, std::int64_t dim, std::int64_t queries) {
  std::vector<std::optional<std::int64_t>> differ(contenders.size());
  std::optional<Answer> expected;  // the first contender's that finished
  const auto set_deadline = [&](const Contender& c) {
    *c.deadline = Clock::now() +
                  std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.limit));
  };
  const auto search = [&](const Contender& c) { task == "all_knn" ? c.all_knn(k) : c.search(k); };
  const auto compare = [&](std::size_t i, const Contender& c, int round) {
    Answer found = c.take_answer();  // and so no answer's memory is freed while the next is timed
    if (round > 0) return;
    if (expected) {
      differ[i] = differing(*expected, found, k, dim, c.kith);
      return;
    }
    expected = std::move(found);
    if (!options.kth_distances.empty()) {
      write_kth(options.kth_distances + "/" + task + "." + std::to_string(k) + ".npy", expected->distances,
                k);
    }
  };
  json entries = measure(options, contenders, queries * (12 * k + 16), set_deadline, search, compare);
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (differ[i]) entries[i]["differing"] = *differ[i];
  }
  json made = {{"task", task}, {"k", k}, {"queries", queries}, {"entries", std::move(entries)}};
  show(task + " k=" + std::to_string(k), made);
  return made;
}

json machine() {
  const kith::DeviceInfo cpu = kith::devices().front();
  return {{"cpu", cpu.description}, {"cores", cpu.cores}, {"instruction_sets", cpu.instruction_sets}};
}

kith::Dataset read_points(const std::string& path) {
  const kith::Dataset mapped = kith::read_dataset(path);
  if (mapped.view().dtype != kith::Dtype::f32) {
    throw kith::InvalidArgument("'" + path +
                                "' does not hold float32 values; nanoflann is measured with these");
  }
  if (mapped.rows() > std::numeric_limits<std::uint32_t>::max()) {
    throw kith::InvalidArgument("'" + path + "' has more rows than nanoflann's 32-bit indices count");
  }
  return kith::Dataset::copy(mapped.view());  // in memory, so that no reading of a file is timed
}

void run(const Options& options) {
  const kith::Dataset data = read_points(options.data);
  const kith::Dataset queries = options.queries.empty() ? data : read_points(options.queries);
  const kith::DatasetView rows = data.view();
  kith::Execution execution;
  execution.threads = options.threads;
  const int threads = kith::resolve_threads(execution);

  std::vector<Contender> contenders;
  for (const std::int64_t leaf : options.leaf_sizes) {
    contenders.push_back(
        kith_contender<kith::KdTree, kith::KdTreeParameters>("kd_tree", rows, queries.view(), leaf, threads));
    if (rows.dim == 2 || rows.dim == 3) {
      contenders.push_back(kith_contender<kith::Octree, kith::OctreeParameters>(
          "octree", rows, queries.view(), leaf, threads));
    }
  }
  for (const std::int64_t leaf : options.nanoflann_leaf_sizes) {
    if (leaf > 0) contenders.push_back(nanoflann_contender(rows, queries.view(), leaf, threads));
  }

  json runs = json::array();
  json build = {{"task", "build"}};
  build["entries"] = measure(
      options, contenders, rows.rows * (16 * rows.dim + 64), [](const Contender& c) { c.forget_tree(); },
      [](const Contender& c) { c.build(); }, [](std::size_t, const Contender&, int) {});
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (contenders[i].kith) build["entries"][i]["memory_bytes"] = contenders[i].memory_bytes();
  }
  show("build", build);
  runs.push_back(std::move(build));
  for (const std::int64_t k : options.k) {
    runs.push_back(knn_task(options, contenders, "all_knn", k, rows.dim, rows.rows));
  }
  if (!options.queries.empty()) {
    runs.push_back(knn_task(options, contenders, "search", 1, rows.dim, queries.rows()));
  }

  const json result = {{"rows", rows.rows},
                       {"dim", rows.dim},
                       {"threads", threads},
                       {"machine", machine()},
                       {"nanoflann",
                        {{"version", kith::benchmark_trees::nanoflann_version()},
                         {"threaded_build", kith::benchmark_trees::nanoflann_builds_in_parallel()}}},
                       {"runs", runs}};
  if (options.output.empty()) {
    std::printf("%s\n", result.dump(1).c_str());
  } else {
    std::ofstream(options.output) << result.dump(1) << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Times Kith's trees beside nanoflann on one file of float32 points, and compares the answers.");
  Options options;
  app.add_option("DATA", options.data, "The rows: any file that Kith reads")->required();
  app.add_option("--queries", options.queries, "Other points, searched for k = 1");
  app.add_option("-k", options.k, "Neighbours of every row, itself included; several by commas")
      ->delimiter(',');
  app.add_option("--leaf-sizes", options.leaf_sizes, "Of Kith's trees; 0: the default")->delimiter(',');
  app.add_option("--nanoflann-leaf-sizes", options.nanoflann_leaf_sizes, "10 is its default; 0 leaves it out")
      ->delimiter(',');
  app.add_option("--threads", options.threads, "Threads of all; 0: one per core");
  app.add_option("--repeats", options.repeats, "Rounds that count, after one that does not")
      ->check(CLI::PositiveNumber);
  app.add_option("--limit", options.limit, "A search that takes longer, in seconds, is given up");
  app.add_option("--seconds", options.seconds, "No further round of a task after this time");
  app.add_option(
      "--kth-distances", options.kth_distances,
      "Folder for TASK.K.npy: the distance of each query's last neighbour, for other peers to compare");
  app.add_option("-o,--output", options.output, "The result, JSON (default: standard output)");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
