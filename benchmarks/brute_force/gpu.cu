// Exact search on GPUs: the cases of docs/benchmarks.md with data made on the device, medians of whole calls
// (queries and answers in GPU memory), each answer checked against an unfiltered search of some of its
// queries.
//   gpu_search [--repeat N] [--devices cuda:0,1] [--filter F] [--json FILE] [CASE...]
//   CASE: [mixture:RATIO:]d,queries,rows,k[,dtype]   uniform values, or a mixture like embeddings
//   (gpu_data.cuh)
//   or GENERATOR:d,queries,rows,k[,dtype]   gaussian, clusters or low_intrinsic_dimension as `kith generate`
//   makes them, queries the rows behind the others
//   --directions on|off|both   whether codes may hold leading directions alone; both: answers are compared
//   --lists auto|N    into how many lists rows are divided; 0: none
//   --mixtures        the mixtures, and uniform values beside them, with and without directions
//   --data BASE QUERIES K   rows and queries from files, as another case
//   --host            rows and queries in pageable host memory, one-shot searches, all copies included
//   --memory-limit N  MiB of GPU memory; rows then stay in host memory
// Ends with status 1 where a cell is wrong.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "gpu_data.cuh"
#include "kith/kith.hpp"

namespace {

// A copy in pageable host memory.
struct HostRows {
  std::vector<unsigned char> data;
  kith::DatasetView view;
  explicit HostRows(const Rows& rows)
      : data(static_cast<std::size_t>(rows.view.rows * rows.view.dim) * kith::size_of(rows.view.dtype)) {
    check(cudaMemcpy(data.data(), rows.data, data.size(), cudaMemcpyDeviceToHost));
    view = kith::DatasetView(data.data(), rows.view.dtype, rows.view.rows, rows.view.dim, rows.view.dim);
  }
};

struct Answer {
  std::int64_t* indices = nullptr;
  float* distances = nullptr;
  std::int64_t queries, k;
  Answer(std::int64_t q, std::int64_t kk) : queries(q), k(kk) {
    check(cudaMalloc(&indices, static_cast<std::size_t>(q * kk) * sizeof(std::int64_t)));
    check(cudaMalloc(&distances, static_cast<std::size_t>(q * kk) * sizeof(float)));
  }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer() {
    (void)cudaFree(indices);
    (void)cudaFree(distances);
  }
  kith::NeighborsView view() const { return {indices, distances, queries, k, kith::MemorySpace::cuda, 0}; }
};

struct Case {
  std::int64_t dim, queries, rows, k;
  kith::Dtype dtype = kith::Dtype::f32;
  double ratio = 0;                     // of a mixture; 0: uniform
  std::string base_file, queries_file;  // empty: made here
  std::string generator;                // empty: made on the device

  std::string data() const {
    if (!base_file.empty()) return base_file;
    if (!generator.empty()) return generator;
    return ratio > 0 ? "mixture:" + std::to_string(static_cast<int>(ratio)) : "uniform";
  }
};

Rows rows_of(const Case& c, bool queries) {
  const std::string& file = queries ? c.queries_file : c.base_file;
  if (!file.empty()) return Rows(kith::read_dataset(file).view());
  if (!c.generator.empty()) {
    return Rows(kith::generate({.generator = kith::parse_generator(c.generator),
                                .rows = queries ? c.queries : c.rows,
                                .dim = c.dim,
                                .dtype = c.dtype,
                                .first_row = queries ? c.rows : 0})
                    .view());
  }
  if (c.ratio > 0) {
    const Mixture mixture(static_cast<int>(c.dim), c.ratio);
    return queries ? Rows(mixture, c.rows, c.queries, c.dim, c.dtype)
                   : Rows(mixture, 0, c.rows, c.dim, c.dtype);
  }
  return queries ? Rows(c.queries, c.dim, c.dtype, 0x76543210) : Rows(c.rows, c.dim, c.dtype, 0x1234567);
}

// Cells of the first `some` queries that differ from an unfiltered search.
std::int64_t wrong_cells(const kith::DatasetView& data, const kith::DatasetView& queries,
                         const Answer& answer, std::int64_t some, const kith::Execution& execution) {
  some = std::min(some, queries.rows);
  const auto plain =
      kith::BruteForce::build(data, {kith::Metric::sqeuclidean, kith::Filter::none}, execution);
  const kith::Neighbors truth = plain.search(queries.slice(0, some), answer.k, execution);
  const auto cells = static_cast<std::size_t>(some * answer.k);
  std::vector<std::int64_t> indices(cells);
  std::vector<float> distances(cells);
  check(cudaMemcpy(indices.data(), answer.indices, cells * sizeof(std::int64_t), cudaMemcpyDeviceToHost));
  check(cudaMemcpy(distances.data(), answer.distances, cells * sizeof(float), cudaMemcpyDeviceToHost));
  const auto& expected = std::get<std::vector<float>>(truth.distances);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < cells; ++i) {
    if (indices[i] != truth.indices[i] || std::memcmp(&distances[i], &expected[i], 4) != 0) ++wrong;
  }
  return wrong;
}

// Cells of two answers that differ.
std::int64_t different_cells(const Answer& a, const Answer& b) {
  const auto cells = static_cast<std::size_t>(a.queries * a.k);
  std::vector<std::int64_t> indices[2];
  std::vector<float> distances[2];
  for (int i = 0; i < 2; ++i) {
    const Answer& from = i == 0 ? a : b;
    indices[i].resize(cells);
    distances[i].resize(cells);
    check(cudaMemcpy(indices[i].data(), from.indices, cells * sizeof(std::int64_t), cudaMemcpyDeviceToHost));
    check(cudaMemcpy(distances[i].data(), from.distances, cells * sizeof(float), cudaMemcpyDeviceToHost));
  }
  std::int64_t different = 0;
  for (std::size_t i = 0; i < cells; ++i) {
    if (indices[0][i] != indices[1][i] || std::memcmp(&distances[0][i], &distances[1][i], 4) != 0)
      ++different;
  }
  return different;
}

}  // namespace

int main(int argc, char** argv) {
  int repeat = 15;
  std::string devices = "cuda:0";
  std::string json;
  kith::Filter filter = kith::Filter::automatic;
  bool host = false;
  std::string directions = "on";
  std::optional<std::int64_t> lists;
  long long memory_mib = 0;
  std::vector<Case> cases;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--repeat" && i + 1 < argc) {
      repeat = std::atoi(argv[++i]);
    } else if (text == "--devices" && i + 1 < argc) {
      devices = argv[++i];
    } else if (text == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else if (text == "--data" && i + 3 < argc) {
      Case c{};
      c.base_file = argv[++i];
      c.queries_file = argv[++i];
      c.k = std::atoll(argv[++i]);
      const kith::Dataset base = kith::read_dataset(c.base_file);
      c.dim = base.view().dim;
      c.rows = base.view().rows;
      c.dtype = base.view().dtype;
      c.queries = kith::read_dataset(c.queries_file).view().rows;
      cases.push_back(c);
    } else if (text == "--directions" && i + 1 < argc) {
      directions = argv[++i];
      if (directions != "on" && directions != "off" && directions != "both") {
        std::fprintf(stderr, "--directions is on, off or both, not '%s'\n", directions.c_str());
        return 2;
      }
    } else if (text == "--lists" && i + 1 < argc) {
      const std::string many = argv[++i];
      lists = many == "auto" ? std::nullopt : std::optional<std::int64_t>(std::atoll(many.c_str()));
    } else if (text == "--mixtures") {
      directions = "both";
      for (const std::int64_t k : {10, 100}) {
        cases.push_back({768, 10000, 1000000, k, kith::Dtype::f32, 40, "", "", ""});
        cases.push_back({128, 10000, 10000000, k, kith::Dtype::u8, 6, "", "", ""});
        cases.push_back({128, 10000, 1000000, k, kith::Dtype::f32, 6, "", "", ""});
        cases.push_back({128, 10000, 1000000, k, kith::Dtype::f32, 0, "", "", ""});
        cases.push_back({768, 10000, 1000000, k, kith::Dtype::f32, 0, "", "", ""});
      }
      cases.push_back({768, 1, 1000000, 10, kith::Dtype::f32, 40, "", "", ""});
      cases.push_back({128, 1, 10000000, 10, kith::Dtype::u8, 6, "", "", ""});
    } else if (text == "--host") {
      host = true;
    } else if (text == "--memory-limit" && i + 1 < argc) {
      memory_mib = std::atoll(argv[++i]);
    } else if (text == "--filter" && i + 1 < argc) {
      filter = kith::parse_filter(argv[++i]);
    } else {
      Case c{};
      char dtype[8] = "f32";
      long long v[4];
      double ratio = 0;
      const std::size_t colon = text.rfind(':');
      const std::string shape = colon == std::string::npos ? text : text.substr(colon + 1);
      const bool mixture = std::sscanf(text.c_str(), "mixture:%lf:", &ratio) == 1;
      const std::string generator =
          mixture || colon == std::string::npos ? std::string() : text.substr(0, colon);
      const bool known = generator.empty() || generator == "gaussian" || generator == "clusters" ||
                         generator == "low_intrinsic_dimension";
      if (!known ||
          std::sscanf(shape.c_str(), "%lld,%lld,%lld,%lld,%7s", &v[0], &v[1], &v[2], &v[3], dtype) < 4) {
        std::fprintf(
            stderr,
            "'%s' is not a case; write [mixture:RATIO:]d,queries,rows,k[,f32|u8], or with gaussian:, "
            "clusters: or low_intrinsic_dimension: in front\n",
            text.c_str());
        return 2;
      }
      c = {v[0], v[1], v[2], v[3], kith::parse_dtype(dtype), ratio, "", "", generator};
      cases.push_back(c);
    }
  }
  if (cases.empty()) {
    cases = {{128, 512, 8192, 16},       {3, 1024, 65536, 1},       {16, 1024, 65536, 1},
             {3, 1024, 1048576, 1},      {16, 1024, 1048576, 1},    {3, 1, 16777216, 1},
             {16, 1, 16777216, 1},       {128, 1, 1000000, 10},     {768, 1, 1000000, 10},
             {768, 100, 1000000, 10},    {96, 10000, 1000000, 10},  {128, 10000, 1000000, 10},
             {128, 10000, 1000000, 100}, {768, 10000, 1000000, 10}, {768, 10000, 1000000, 100},
             {96, 10000, 10000000, 10}};
  }
  kith::Execution execution;
  execution.devices = kith::parse_devices(devices);
  std::ofstream out;
  if (!json.empty()) {
    out.open(json);
    out << "[";
  }
  std::printf("%5s %6s %9s %5s %5s | %9s %9s %9s | %10s %8s %10s %4s %9s %5s\n", "d", "q", "n", "k", "dtype",
              "median ms", "min ms", "max ms", "QPS", "TFLOP/s", "cand/q", "fall", "build ms", "wrong");
  bool first = true;
  std::vector<std::string> failures;
  for (const Case& c : cases) {
    const Rows rows = rows_of(c, false);
    const Rows queries = rows_of(c, true);
    const bool from_host = host || memory_mib > 0;
    const std::unique_ptr<HostRows> host_rows = from_host ? std::make_unique<HostRows>(rows) : nullptr;
    const std::unique_ptr<HostRows> host_queries = from_host ? std::make_unique<HostRows>(queries) : nullptr;
    const kith::DatasetView data = from_host ? host_rows->view : rows.view;
    const kith::DatasetView asked = from_host ? host_queries->view : queries.view;
    kith::Execution limited = execution;
    limited.device_memory_limit = static_cast<std::uint64_t>(memory_mib) << 20U;
    std::vector<std::unique_ptr<Answer>> answers;
    for (const bool along : {true, false}) {
      if (directions == (along ? "off" : "on")) continue;
      const kith::BruteForceParameters parameters{kith::Metric::sqeuclidean, filter, along, lists};
      const auto begin = std::chrono::steady_clock::now();
      const auto index = kith::BruteForce::build(data, parameters, limited);
      const double build =
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
      answers.push_back(std::make_unique<Answer>(c.queries, c.k));
      const Answer& answer = *answers.back();
      kith::SearchStatistics s;
      const auto search = [&] {
        return host ? kith::knn_into(data, asked, answer.view(), parameters, limited)
                    : index.search_into(asked, answer.view(), limited);
      };
      for (int i = 0; i < (from_host ? 1 : 3); ++i) s = search();
      std::vector<double> times;
      for (int i = 0; i < repeat; ++i) {
        const auto start = std::chrono::steady_clock::now();
        s = search();
        times.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
      }
      std::sort(times.begin(), times.end());
      const double median = times[times.size() / 2];
      const double pairs = static_cast<double>(c.queries) * static_cast<double>(c.rows);
      std::int64_t wrong = wrong_cells(rows.view, queries.view, answer, 16, execution);
      if (answers.size() == 2) wrong += different_cells(*answers[0], *answers[1]);
      if (wrong > 0) {
        failures.push_back(std::to_string(c.dim) + "," + std::to_string(c.queries) + "," +
                           std::to_string(c.rows) + "," + std::to_string(c.k) + "," +
                           std::string(kith::name(c.dtype)) + ": " + std::to_string(wrong) +
                           " cells are wrong");
      }
      std::printf(
          "%5lld %6lld %9lld %5lld %5s | %9.4f %9.4f %9.4f | %10.0f %8.1f %10.1f %4lld %9.2f %5lld  %s\n",
          static_cast<long long>(c.dim), static_cast<long long>(c.queries), static_cast<long long>(c.rows),
          static_cast<long long>(c.k), std::string(kith::name(c.dtype)).c_str(), median, times.front(),
          times.back(), static_cast<double>(c.queries) / median * 1e3,
          pairs * 2 * static_cast<double>(c.dim) / median / 1e9,
          static_cast<double>(s.candidates) / static_cast<double>(c.queries),
          static_cast<long long>(s.fallbacks), build, static_cast<long long>(wrong),
          (s.filter + " " + (s.directions > 0 ? std::to_string(s.directions) + " directions " : "") +
           (s.lists > 0 ? std::to_string(s.lists) + " lists, " +
                              std::to_string(100 * static_cast<double>(s.pairs) / pairs) + " % compared "
                        : "") +
           c.data() + (along ? "" : " (directions off)"))
              .c_str());
      std::fflush(stdout);
      if (out.is_open()) {
        out << (first ? "\n" : ",\n") << "  {\"dim\": " << c.dim << ", \"queries\": " << c.queries
            << ", \"rows\": " << c.rows << ", \"k\": " << c.k << ", \"dtype\": \"" << kith::name(c.dtype)
            << "\", \"median_ms\": " << median << ", \"min_ms\": " << times.front()
            << ", \"max_ms\": " << times.back() << ", \"build_ms\": " << build << ", \"filter\": \""
            << s.filter << "\", \"candidates\": " << s.candidates << ", \"fallbacks\": " << s.fallbacks
            << ", \"directions\": " << s.directions << ", \"lists\": " << s.lists
            << ", \"pairs\": " << s.pairs << ", \"directions_asked\": " << (along ? "true" : "false")
            << ", \"data\": \"" << c.data() << "\""
            << ", \"wrong_cells\": " << wrong << ", \"devices\": \"" << devices
            << "\", \"from_host\": " << (from_host ? "true" : "false")
            << ", \"memory_limit_mib\": " << memory_mib << "}";
        first = false;
      }
    }
  }
  if (out.is_open()) out << "\n]\n";
  for (const std::string& failure : failures) std::fprintf(stderr, "gpu_search: %s\n", failure.c_str());
  return failures.empty() ? 0 : 1;
}
