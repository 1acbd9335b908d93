// Exact search on GPUs: the cases of docs/benchmarks.md with data made on the device, medians of whole calls
// (queries and answers in GPU memory), each answer checked against an unfiltered search of some of its
// queries.
//   gpu_search [--repeat N] [--devices cuda:0,1] [--filter F] [--json FILE] [CASE...]   CASE:
//   d,queries,rows,k[,dtype]
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
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "kith/kith.hpp"

namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(status));
    std::exit(1);
  }
}

// Uniform in [0, 1): splitmix64 of the position (Steele et al. 2014).
__device__ std::uint64_t mix(std::uint64_t z) {
  z *= 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

__global__ void fill_floats(float* out, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    out[i] = static_cast<float>(mix(seed + static_cast<std::uint64_t>(i) + 1) >> 40U) * 0x1p-24F;
  }
}
__global__ void fill_bytes(std::uint8_t* out, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    out[i] = static_cast<std::uint8_t>(mix(seed + static_cast<std::uint64_t>(i) + 1) >> 56U);
  }
}

struct Rows {
  void* data = nullptr;
  kith::DatasetView view;
  Rows(std::int64_t rows, std::int64_t dim, kith::Dtype dtype, std::uint64_t seed) {
    const std::int64_t count = rows * dim;
    check(cudaMalloc(&data, static_cast<std::size_t>(count) * kith::size_of(dtype)));
    if (dtype == kith::Dtype::f32) {
      fill_floats<<<4096, 256>>>(static_cast<float*>(data), count, seed);
    } else {
      fill_bytes<<<4096, 256>>>(static_cast<std::uint8_t*>(data), count, seed);
    }
    check(cudaDeviceSynchronize());
    view = kith::DatasetView(data, dtype, rows, dim, dim);
    view.space = kith::MemorySpace::cuda;
  }
  explicit Rows(const kith::DatasetView& from) {
    const auto bytes = static_cast<std::size_t>(from.rows * from.dim) * kith::size_of(from.dtype);
    check(cudaMalloc(&data, bytes));
    check(cudaMemcpy(data, from.data, bytes, cudaMemcpyHostToDevice));
    check(cudaDeviceSynchronize());
    view = kith::DatasetView(data, from.dtype, from.rows, from.dim, from.dim);
    view.space = kith::MemorySpace::cuda;
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  ~Rows() { (void)cudaFree(data); }
};

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
  std::string base_file, queries_file;  // empty: uniform, made here
};

Rows rows_of(const Case& c, bool queries) {
  const std::string& file = queries ? c.queries_file : c.base_file;
  if (!file.empty()) return Rows(kith::read_dataset(file).view());
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

}  // namespace

int main(int argc, char** argv) {
  int repeat = 15;
  std::string devices = "cuda:0";
  std::string json;
  kith::Filter filter = kith::Filter::automatic;
  bool host = false;
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
      if (std::sscanf(text.c_str(), "%lld,%lld,%lld,%lld,%7s", &v[0], &v[1], &v[2], &v[3], dtype) < 4) {
        std::fprintf(stderr, "'%s' is not a case; write d,queries,rows,k[,f32|u8]\n", text.c_str());
        return 2;
      }
      c = {v[0], v[1], v[2], v[3], kith::parse_dtype(dtype)};
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
    const auto begin = std::chrono::steady_clock::now();
    const auto index = kith::BruteForce::build(data, {kith::Metric::sqeuclidean, filter}, limited);
    const double build =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    const Answer answer(c.queries, c.k);
    kith::SearchStatistics s;
    const auto search = [&] {
      return host ? kith::knn_into(data, asked, answer.view(), {kith::Metric::sqeuclidean, filter}, limited)
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
    const std::int64_t wrong = wrong_cells(rows.view, queries.view, answer, 16, execution);
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
        (s.filter + (c.base_file.empty() ? "" : " " + c.base_file)).c_str());
    std::fflush(stdout);
    if (out.is_open()) {
      out << (first ? "\n" : ",\n") << "  {\"dim\": " << c.dim << ", \"queries\": " << c.queries
          << ", \"rows\": " << c.rows << ", \"k\": " << c.k << ", \"dtype\": \"" << kith::name(c.dtype)
          << "\", \"median_ms\": " << median << ", \"min_ms\": " << times.front()
          << ", \"max_ms\": " << times.back() << ", \"build_ms\": " << build << ", \"filter\": \"" << s.filter
          << "\", \"candidates\": " << s.candidates << ", \"fallbacks\": " << s.fallbacks
          << ", \"wrong_cells\": " << wrong << ", \"devices\": \"" << devices
          << "\", \"from_host\": " << (from_host ? "true" : "false")
          << ", \"memory_limit_mib\": " << memory_mib << "}";
      first = false;
    }
  }
  if (out.is_open()) out << "\n]\n";
  for (const std::string& failure : failures) std::fprintf(stderr, "gpu_search: %s\n", failure.c_str());
  return failures.empty() ? 0 : 1;
}
