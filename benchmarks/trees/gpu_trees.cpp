// Trees on GPUs, medians of whole calls: builds of rows in GPU memory; the neighbours of all rows, their
// normals from k = 8 on, the neighbours of the same rows as shuffled queries, and of 1024 others, answers in
// GPU memory, some of them compared with brute force; and from page-locked host memory to answers there.
//   gpu_trees [--repeat N] [--device cuda:0] [--json FILE] [--rows N]... [--index kd_tree|octree]... [--k
//   K]...
//             [--leaf-size N] [--queries N] [--only build|search|host]
// Ends with status 1 where an answer is not what it is compared with.
// Points: uniform in a cube; coast, walks of short steps with noise, most of space empty; coast twice, half
// of its rows copies of others; flood, half of the uniform rows one point; outlier, one of them far away.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <cuda_runtime_api.h>

#include "kith/kith.hpp"

namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

// splitmix64 (Steele et al. 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
  }
  float uniform() { return static_cast<float>(next() >> 40U) * 0x1p-24F; }

 private:
  std::uint64_t state_;
};

// A thousand walks, one point a step; rows of a walk are not beside each other.
void fill_coast(std::vector<float>& out, Random& random) {
  const std::size_t rows = out.size() / 3;
  const std::size_t walks = std::min<std::size_t>(1000, rows);
  std::vector<float> at(walks * 3);
  for (float& v : at) v = random.uniform();
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      float& v = at[i % walks * 3 + j];
      v += (random.uniform() - 0.5F) * 4e-4F;
      out[i * 3 + j] = v + (random.uniform() - 0.5F) * 1e-4F;
    }
  }
}

std::vector<float> points(const std::string& kind, std::int64_t rows) {
  Random random(static_cast<std::uint64_t>(rows));
  std::vector<float> out(static_cast<std::size_t>(rows) * 3);
  if (kind.starts_with("coast")) {
    fill_coast(out, random);
  } else {
    for (float& v : out) v = random.uniform();
  }
  if (kind == "outlier") out[0] = 1e6F;
  if (kind == "flood" || kind == "coast twice") {
    for (std::int64_t i = 0; i < rows; ++i) {
      if (random.next() % 2 == 0) continue;
      const auto from =
          kind == "flood" ? 0 : static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(rows));
      std::copy_n(out.begin() + from * 3, 3, out.begin() + i * 3);
    }
  }
  return out;
}

struct DeviceRows {
  void* data = nullptr;
  kith::DatasetView view;
  DeviceRows(const std::vector<float>& values, int device) {
    const std::size_t bytes = values.size() * sizeof(float);
    check(cudaMalloc(&data, bytes));
    check(cudaMemcpy(data, values.data(), bytes, cudaMemcpyHostToDevice));
    const auto rows = static_cast<std::int64_t>(values.size() / 3);
    view = kith::DatasetView(data, kith::Dtype::f32, rows, 3, 3);
    view.space = kith::MemorySpace::cuda;
    view.device = device;
  }
  DeviceRows(const DeviceRows&) = delete;
  DeviceRows& operator=(const DeviceRows&) = delete;
  ~DeviceRows() { (void)cudaFree(data); }
};

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Times {
  double median, least;
};

template <class Work>
Times time_of(int repeat, const Work& work) {
  for (int i = 0; i < 3; ++i) work();
  std::vector<double> all;
  for (int i = 0; i < repeat; ++i) {
    const double begin = now_ms();
    work();
    all.push_back(now_ms() - begin);
  }
  std::sort(all.begin(), all.end());
  return {all[all.size() / 2], all.front()};
}

cudaMemPool_t pool_of(int device) {
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, device));
  return pool;
}

std::uint64_t pool_bytes(int device, cudaMemPoolAttr attribute) {
  std::uint64_t bytes = 0;
  check(cudaMemPoolGetAttribute(pool_of(device), attribute, &bytes));
  return bytes;
}

kith::PointTree build(const std::string& index, const kith::DatasetView& rows, std::int64_t leaf_size,
                      const kith::Execution& execution) {
  if (index == "octree") return kith::Octree::build(rows, {kith::Metric::sqeuclidean, leaf_size}, execution);
  return kith::KdTree::build(rows, {kith::Metric::sqeuclidean, leaf_size}, execution);
}

// Room for an answer, in GPU memory or page-locked.
struct Answer {
  kith::NeighborsView view;
  Answer(std::int64_t queries, std::int64_t k, kith::MemorySpace space, int device) {
    const auto cells = static_cast<std::size_t>(queries * k);
    void* indices = nullptr;
    void* distances = nullptr;
    if (space == kith::MemorySpace::cuda) {
      check(cudaMalloc(&indices, cells * sizeof(std::int64_t)));
      check(cudaMalloc(&distances, cells * sizeof(float)));
    } else {
      check(cudaMallocHost(&indices, cells * sizeof(std::int64_t)));
      check(cudaMallocHost(&distances, cells * sizeof(float)));
    }
    view = {static_cast<std::int64_t*>(indices), distances, queries, k, space, device};
  }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer() {
    if (view.space == kith::MemorySpace::cuda) {
      (void)cudaFree(view.indices);
      (void)cudaFree(view.distances);
    } else {
      (void)cudaFreeHost(view.indices);
      (void)cudaFreeHost(view.distances);
    }
  }
};

// Cells of the first queries that are not what an unfiltered search finds.
std::int64_t wrong_cells(const kith::DatasetView& rows, const kith::DatasetView& queries,
                         const Answer& answer, const kith::Execution& execution) {
  const std::int64_t some = std::min<std::int64_t>(64, queries.rows);
  const auto truth = kith::knn(rows, queries.slice(0, some), answer.view.k,
                               {kith::Metric::sqeuclidean, kith::Filter::none}, execution);
  const auto cells = static_cast<std::size_t>(some * answer.view.k);
  std::vector<std::int64_t> indices(cells);
  std::vector<float> distances(cells);
  check(cudaMemcpy(indices.data(), answer.view.indices, cells * sizeof(std::int64_t), cudaMemcpyDefault));
  check(cudaMemcpy(distances.data(), answer.view.distances, cells * sizeof(float), cudaMemcpyDefault));
  const auto& expected = std::get<std::vector<float>>(truth.distances);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < cells; ++i) {
    if (indices[i] != truth.indices[i] || std::memcmp(&distances[i], &expected[i], sizeof(float)) != 0)
      ++wrong;
  }
  return wrong;
}

// A table on the screen, a list in a file.
class Report {
 public:
  explicit Report(const std::string& json) {
    if (json.empty()) return;
    file_.open(json);
    file_ << "[";
  }
  ~Report() {
    if (file_.is_open()) file_ << "\n]\n";
  }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  /// `fields`: further members of the JSON object. `wrong`: cells that are, -1 where nobody looked.
  void add(const char* what, const std::string& index, const std::string& kind, std::int64_t rows,
           const Times& times, std::string fields, std::string note,
           std::optional<std::int64_t> wrong = std::nullopt) {
    if (wrong) {
      fields += ", \"wrong\": " + std::to_string(*wrong);
      if (*wrong >= 0) note += ", " + std::to_string(*wrong) + " wrong";
      if (*wrong > 0) {
        failures_.push_back(std::string(what) + ", " + index + " of " + std::to_string(rows) + " " + kind +
                            " points, " + note);
      }
    }
    std::printf("%-14s %-8s %-11s %9lld | %9.3f %9.3f | %s\n", what, index.c_str(), kind.c_str(),
                static_cast<long long>(rows), times.median, times.least, note.c_str());
    std::fflush(stdout);
    if (!file_.is_open()) return;
    file_ << (first_ ? "\n" : ",\n") << R"({"what": ")" << what << R"(", "index": ")" << index
          << R"(", "points": ")" << kind << R"(", "rows": )" << rows << R"(, "ms": )" << times.median
          << R"(, "min_ms": )" << times.least << fields << "}";
    first_ = false;
  }

  /// The measurements with wrong cells.
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  std::ofstream file_;
  bool first_ = true;
  std::vector<std::string> failures_;
};

struct Options {
  int repeat = 15;
  std::int64_t leaf_size = 0;
  std::int64_t queries = 1024;
  std::string device = "cuda:0";
  std::string json, only;
  std::vector<std::int64_t> sizes, ks;
  std::vector<std::string> indexes;
  bool wants(const char* part) const { return only.empty() || only == part; }
};

void measure_builds(const Options& options, const kith::Execution& execution, Report& report) {
  const int device = execution.devices.front().ordinal;
  for (const std::int64_t n : options.sizes) {
    for (const char* kind : {"uniform", "coast", "coast twice", "flood", "outlier"}) {
      const DeviceRows rows(points(kind, n), device);
      for (const std::string& index : options.indexes) {
        const Times times =
            time_of(options.repeat, [&] { (void)build(index, rows.view, options.leaf_size, execution); });
        const std::uint64_t before = pool_bytes(device, cudaMemPoolAttrUsedMemCurrent);
        std::uint64_t reset = 0;
        check(cudaMemPoolSetAttribute(pool_of(device), cudaMemPoolAttrUsedMemHigh, &reset));
        const kith::PointTree tree = build(index, rows.view, options.leaf_size, execution);
        const double peak = static_cast<double>(pool_bytes(device, cudaMemPoolAttrUsedMemHigh) - before) /
                            static_cast<double>(n);
        const double kept = static_cast<double>(tree.memory_bytes()) / static_cast<double>(n);
        char note[80];
        std::snprintf(note, sizeof note, "%.1f bytes a point at the peak, %.1f kept", peak, kept);
        report.add("build", index, kind, n, times,
                   ", \"peak_bytes_a_point\": " + std::to_string(peak) +
                       ", \"tree_bytes_a_point\": " + std::to_string(kept),
                   note);
      }
    }
  }
}

// Room for normals in GPU memory.
struct NormalsThere {
  kith::NormalsView view;
  NormalsThere(std::int64_t rows, int device) {
    view = {nullptr, nullptr, rows, 3, kith::MemorySpace::cuda, device};
    check(cudaMalloc(reinterpret_cast<void**>(&view.normals), static_cast<std::size_t>(rows) * 24));
    check(cudaMalloc(reinterpret_cast<void**>(&view.curvature), static_cast<std::size_t>(rows) * 8));
  }
  NormalsThere(const NormalsThere&) = delete;
  NormalsThere& operator=(const NormalsThere&) = delete;
  ~NormalsThere() {
    (void)cudaFree(view.normals);
    (void)cudaFree(view.curvature);
  }
};

// Normals of all points, left in GPU memory; of small clouds all of them are compared with the CPU's.
void add_normals(const Options& options, const kith::PointTree& tree, const std::string& index,
                 const char* kind, std::int64_t k, const kith::Execution& execution, Report& report) {
  const std::int64_t n = tree.rows();
  const NormalsThere there(n, execution.devices.front().ordinal);
  const Times times = time_of(n > 1000000 ? std::min(options.repeat, 5) : options.repeat,
                              [&] { tree.normals_into(there.view, {k}, {}, execution); });
  std::int64_t wrong = -1;
  if (n <= 1000000) {
    std::vector<double> found(static_cast<std::size_t>(n) * 3);
    check(cudaMemcpy(found.data(), there.view.normals, found.size() * sizeof(double), cudaMemcpyDefault));
    const std::vector<double> expected = tree.normals({k}).normals;
    wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (std::memcmp(&found[i], &expected[i], sizeof(double)) != 0) ++wrong;
    }
  }
  report.add("normals", index, kind, n, times, ", \"k\": " + std::to_string(k), "k = " + std::to_string(k),
             wrong);
}

void measure_searches(const Options& options, const kith::Execution& execution, Report& report) {
  const int device = execution.devices.front().ordinal;
  for (const std::int64_t n : options.sizes) {
    for (const char* kind : {"uniform", "coast"}) {
      // Rows come in no order: as queries they are shuffled ones.
      const DeviceRows rows(points(kind, n), device);
      for (const std::string& index : options.indexes) {
        const kith::PointTree tree = build(index, rows.view, options.leaf_size, execution);
        for (const std::int64_t k : options.ks) {
          const Answer answer(n, k, kith::MemorySpace::cuda, device);
          const auto add = [&](const char* what, const DeviceRows& queries, const Answer& found,
                               const Times& times) {
            const std::int64_t wrong = wrong_cells(rows.view, queries.view, found, execution);
            report.add(
                what, index, kind, n, times,
                ", \"k\": " + std::to_string(k) + ", \"queries\": " + std::to_string(queries.view.rows),
                "k = " + std::to_string(k), wrong);
          };
          const int repeat = n > 1000000 ? std::min(options.repeat, 5) : options.repeat;
          add("all neighbours", rows, answer,
              time_of(repeat, [&] { (void)tree.all_knn_into(answer.view, true, execution); }));
          if (k >= 8) add_normals(options, tree, index, kind, k, execution, report);
          add("shuffled", rows, answer,
              time_of(repeat, [&] { (void)tree.search_into(rows.view, answer.view, execution); }));
          const DeviceRows few(points("uniform", options.queries), device);
          const Answer small(options.queries, k, kith::MemorySpace::cuda, device);
          add((std::to_string(options.queries) + " queries").c_str(), few, small,
              time_of(5 * options.repeat, [&] { (void)tree.search_into(few.view, small.view, execution); }));
        }
      }
    }
  }
}

// Rows and answers in page-locked memory; what the copies alone take stands beside it.
void measure_host(const Options& options, const kith::Execution& execution, Report& report) {
  const int device = execution.devices.front().ordinal;
  constexpr std::int64_t k = 8;
  for (const std::int64_t n : options.sizes) {
    const std::vector<float> values = points("uniform", n);
    const std::size_t bytes = values.size() * sizeof(float);
    void* pinned = nullptr;
    check(cudaMallocHost(&pinned, bytes));
    std::memcpy(pinned, values.data(), bytes);
    const kith::DatasetView rows(pinned, kith::Dtype::f32, n, 3, 3);
    const Answer host(n, k, kith::MemorySpace::host, 0);
    const Answer there(n, k, kith::MemorySpace::cuda, device);
    const DeviceRows copy(values, device);
    const int repeat = std::min(options.repeat, 5);
    const Times copies = time_of(repeat, [&] {
      check(cudaMemcpy(copy.data, pinned, bytes, cudaMemcpyHostToDevice));
      const auto cells = static_cast<std::size_t>(n * k);
      check(cudaMemcpy(host.view.indices, there.view.indices, cells * sizeof(std::int64_t),
                       cudaMemcpyDeviceToHost));
      check(cudaMemcpy(host.view.distances, there.view.distances, cells * sizeof(float),
                       cudaMemcpyDeviceToHost));
    });
    for (const std::string& index : options.indexes) {
      const Times times = time_of(repeat, [&] {
        (void)build(index, rows, options.leaf_size, execution).all_knn_into(host.view, true, execution);
      });
      char note[80];
      std::snprintf(note, sizeof note, "k = 8; the copies alone %.3f ms", copies.median);
      report.add("end to end", index, "uniform", n, times,
                 ", \"k\": 8, \"copies_ms\": " + std::to_string(copies.median), note);
    }
    (void)cudaFreeHost(pinned);
  }
}

int run(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const bool more = i + 1 < argc;
    if (text == "--repeat" && more) {
      options.repeat = std::max(1, std::atoi(argv[++i]));
    } else if (text == "--device" && more) {
      options.device = argv[++i];
    } else if (text == "--json" && more) {
      options.json = argv[++i];
    } else if (text == "--rows" && more) {
      options.sizes.push_back(std::atoll(argv[++i]));
    } else if (text == "--index" && more) {
      options.indexes.emplace_back(argv[++i]);
    } else if (text == "--k" && more) {
      options.ks.push_back(std::atoll(argv[++i]));
    } else if (text == "--queries" && more) {
      options.queries = std::max<std::int64_t>(1, std::atoll(argv[++i]));
    } else if (text == "--leaf-size" && more) {
      options.leaf_size = std::atoll(argv[++i]);
    } else if (text == "--only" && more) {
      options.only = argv[++i];
    } else {
      std::fprintf(stderr, "'%s' is not an option; see the top of gpu_trees.cpp\n", text.c_str());
      return 2;
    }
  }
  if (options.sizes.empty()) options.sizes = {65536, 1000000, 10000000};
  if (options.indexes.empty()) options.indexes = {"kd_tree", "octree"};
  if (options.ks.empty()) options.ks = {1, 8, 20, 32};
  kith::Execution execution;
  execution.devices = kith::parse_devices(options.device);
  check(cudaSetDevice(execution.devices.front().ordinal));
  Report report(options.json);
  std::printf("%-14s %-8s %-11s %9s | %9s %9s |\n", "", "index", "points", "n", "median ms", "min ms");
  if (options.wants("build")) measure_builds(options, execution, report);
  if (options.wants("search")) measure_searches(options, execution, report);
  if (options.wants("host")) measure_host(options, execution, report);
  for (const std::string& failure : report.failures()) {
    std::fprintf(stderr, "gpu_trees: %s\n", failure.c_str());
  }
  return report.failures().empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_trees: %s\n", error.what());
    return 1;
  }
}
