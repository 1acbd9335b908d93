// Trees on GPUs: builds of rows in GPU memory, and all neighbours of all rows; medians of whole calls.
//   gpu_trees [--repeat N] [--device cuda:0] [--json FILE] [--rows N]... [--index kd_tree|octree]
// Points: uniform in a cube; coast, walks of short steps with noise, most of space empty; duplicates, half of
// the uniform rows copies of others.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
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

std::vector<float> points(const std::string& kind, std::int64_t rows) {
  Random random(static_cast<std::uint64_t>(rows));
  std::vector<float> out(static_cast<std::size_t>(rows) * 3);
  if (kind == "coast") {
    // A thousand walks, one point a step; rows of a walk are not beside each other.
    const std::int64_t walks = std::min<std::int64_t>(1000, rows);
    std::vector<float> at(static_cast<std::size_t>(walks) * 3);
    for (float& v : at) v = random.uniform();
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < 3; ++j) {
        float& v = at[static_cast<std::size_t>(i % walks * 3 + j)];
        v += (random.uniform() - 0.5F) * 4e-4F;
        out[static_cast<std::size_t>(i * 3 + j)] = v + (random.uniform() - 0.5F) * 1e-4F;
      }
    }
    return out;
  }
  for (float& v : out) v = random.uniform();
  if (kind == "duplicates") {
    for (std::int64_t i = 0; i < rows; ++i) {
      if (random.next() % 2 == 0) continue;
      const auto from = static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(rows));
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

kith::PointTree build(const std::string& index, const kith::DatasetView& rows,
                      const kith::Execution& execution) {
  if (index == "octree") return kith::Octree::build(rows, {}, execution);
  return kith::KdTree::build(rows, {}, execution);
}

int run(int argc, char** argv) {
  int repeat = 15;
  std::string device = "cuda:0";
  std::string json;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> indexes;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const bool more = i + 1 < argc;
    if (text == "--repeat" && more) {
      repeat = std::max(1, std::atoi(argv[++i]));
    } else if (text == "--device" && more) {
      device = argv[++i];
    } else if (text == "--json" && more) {
      json = argv[++i];
    } else if (text == "--rows" && more) {
      sizes.push_back(std::atoll(argv[++i]));
    } else if (text == "--index" && more) {
      indexes.emplace_back(argv[++i]);
    } else {
      std::fprintf(stderr, "'%s' is not an option; see the top of gpu_trees.cpp\n", text.c_str());
      return 2;
    }
  }
  if (sizes.empty()) sizes = {65536, 1000000, 10000000};
  if (indexes.empty()) indexes = {"kd_tree", "octree"};
  kith::Execution execution;
  execution.devices = kith::parse_devices(device);
  const int ordinal = execution.devices.front().ordinal;
  check(cudaSetDevice(ordinal));

  std::ofstream out;
  if (!json.empty()) {
    out.open(json);
    out << "[";
  }
  bool first = true;
  std::printf("%-8s %-10s %9s | %9s %9s | %8s %8s\n", "index", "points", "n", "median ms", "min ms",
              "peak B/p", "tree B/p");
  for (const std::int64_t n : sizes) {
    for (const char* kind : {"uniform", "coast", "duplicates"}) {
      const DeviceRows rows(points(kind, n), ordinal);
      for (const std::string& index : indexes) {
        const Times times = time_of(repeat, [&] { (void)build(index, rows.view, execution); });
        const std::uint64_t before = pool_bytes(ordinal, cudaMemPoolAttrUsedMemCurrent);
        std::uint64_t reset = 0;
        check(cudaMemPoolSetAttribute(pool_of(ordinal), cudaMemPoolAttrUsedMemHigh, &reset));
        const kith::PointTree tree = build(index, rows.view, execution);
        const double peak = static_cast<double>(pool_bytes(ordinal, cudaMemPoolAttrUsedMemHigh) - before) /
                            static_cast<double>(n);
        const double kept = static_cast<double>(tree.memory_bytes()) / static_cast<double>(n);
        std::printf("%-8s %-10s %9lld | %9.3f %9.3f | %8.1f %8.1f\n", index.c_str(), kind,
                    static_cast<long long>(n), times.median, times.least, peak, kept);
        if (!json.empty()) {
          out << (first ? "\n" : ",\n") << R"({"index": ")" << index << R"(", "points": ")" << kind
              << R"(", "rows": )" << n << R"(, "build_ms": )" << times.median << R"(, "build_min_ms": )"
              << times.least << R"(, "peak_bytes_a_point": )" << peak << R"(, "tree_bytes_a_point": )" << kept
              << "}";
          first = false;
        }
      }
    }
  }
  if (!json.empty()) out << "\n]\n";
  return 0;
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
