// Searching trees on a GPU, bit by bit against the CPU's walk: every regime, type, metric and dimension,
// ties, floods, infinities, memory of the host and of the device, batches, cancellation, several threads.
// Skipped where there is no GPU.
#ifdef KITH_CUDA_ENABLED

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "core/visit_dtype.hpp"
#include "kd_tree/cpu/build.hpp"
#include "kith/convert.hpp"
#include "kith/error.hpp"
#include "octree/cpu/build.hpp"
#include "point_tree/cpu/kernels.hpp"
#include "point_tree/cpu/search.hpp"
#include "point_tree/cuda/search.hpp"
#include "support/device_memory.hpp"
#include "support/gpu_test.hpp"
#include "support/gpus.hpp"

namespace kith::point_tree {
namespace {

using test::cuda_ok;
using test::DeviceMemory;
using test::on_gpu;

constexpr double endless = std::numeric_limits<double>::infinity();
constexpr Metric metrics[] = {Metric::sqeuclidean, Metric::euclidean, Metric::manhattan};

class CudaTreeSearch : public test::GpuTest {};

std::vector<float> uniform(std::int64_t rows, std::int64_t dim, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> one(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(rows * dim));
  for (float& v : values) v = one(random);
  return values;
}

// Rows of an element type, with a gap between them.
struct Rows {
  std::vector<unsigned char> memory;
  DatasetView view;

  Rows(const std::vector<float>& values, std::int64_t dim, Dtype dtype = Dtype::f32, std::int64_t gap = 0) {
    const auto rows = static_cast<std::int64_t>(values.size()) / dim;
    memory.assign(static_cast<std::size_t>(rows * (dim + gap)) * size_of(dtype), 0x5A);
    visit_dtype(dtype, [&]<class T>(T /*tag*/) {
      T* out = static_cast<T*>(static_cast<void*>(memory.data()));
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < dim; ++j) {
          const float value = values[static_cast<std::size_t>(i * dim + j)];
          T& to = out[i * (dim + gap) + j];
          if constexpr (std::is_same_v<T, float16>) {
            to = to_float16(value);
          } else if constexpr (std::is_same_v<T, bfloat16>) {
            to = to_bfloat16(value);
          } else if constexpr (std::is_integral_v<T>) {
            to = static_cast<T>(std::round((value + (std::is_signed_v<T> ? 0.0F : 1.0F)) * 100));
          } else {
            to = static_cast<T>(value) * static_cast<T>(1.0000000001);  // more digits than a float has
          }
        }
      }
    });
    view = DatasetView(memory.data(), dtype, rows, dim, dim + gap);
  }
};

Tree build(const DatasetView& rows, Metric metric, bool octree = false, std::int64_t leaf = 32) {
  Tree tree = octree ? octree::build(rows, leaf, {}) : kd_tree::build(rows, leaf, {});
  tree.index = octree ? "octree" : "kd_tree";
  tree.metric = metric;
  return tree;
}

template <class T>
struct Lists {
  std::vector<std::int64_t> indices;
  std::vector<T> distances;
  Lists(std::int64_t queries, std::int64_t k)
      : indices(static_cast<std::size_t>(queries * k), -1),
        distances(static_cast<std::size_t>(queries * k), std::numeric_limits<T>::infinity()) {}
};

template <class T>
Lists<T> on_cpu(const Tree& tree, const Asked& asked, std::int64_t k, double radius) {
  Lists<T> lists(asked.count(tree), k);
  run<T>(tree, asked, Kind::nearest, k, radius, {}, "search", [&](const Part<T>& part) {
    for (std::int64_t i = 0; i < part.count; ++i) {
      std::copy_n(part.rows + i * part.k, part.k, lists.indices.begin() + part.queries[i] * k);
      std::copy_n(part.distances + i * part.k, part.k, lists.distances.begin() + part.queries[i] * k);
    }
  });
  return lists;
}

enum class Answers : std::uint8_t { host, device };

// Searches on both, and compares all that the GPU has not left to the CPU.
template <class T>
SearchStatistics compare_as(const Tree& tree, const Asked& asked, std::int64_t k, double radius = endless,
                            const Execution& execution = on_gpu(), Answers answers = Answers::host,
                            std::vector<std::int64_t>* left_out = nullptr) {
  const Lists<T> expected = on_cpu<T>(tree, asked, k, radius);
  const std::int64_t queries = asked.count(tree);
  Lists<T> found(queries, k);
  std::fill(found.indices.begin(), found.indices.end(), -77);
  std::fill(found.distances.begin(), found.distances.end(), T{-77});
  NeighborsView out{found.indices.data(), found.distances.data(), queries, k};
  const DeviceMemory indices(found.indices.size() * 8);
  const DeviceMemory distances(found.distances.size() * sizeof(T));
  if (answers == Answers::device) {
    out.indices = static_cast<std::int64_t*>(indices.data());
    out.distances = distances.data();
    out.space = MemorySpace::cuda;
  }
  std::vector<std::int64_t> left;
  const SearchStatistics statistics = nearest_on_device(tree, asked, radius, out, execution, "search", left);
  if (answers == Answers::device && queries > 0) {
    indices.read(found.indices.data());
    distances.read(found.distances.data());
  }
  std::sort(left.begin(), left.end());
  EXPECT_EQ(std::adjacent_find(left.begin(), left.end()), left.end()) << "a query is left twice";
  std::int64_t wrong = 0;
  for (std::int64_t q = 0; q < queries; ++q) {
    if (std::binary_search(left.begin(), left.end(), q)) continue;
    const bool same = std::memcmp(&found.indices[static_cast<std::size_t>(q * k)],
                                  &expected.indices[static_cast<std::size_t>(q * k)],
                                  static_cast<std::size_t>(k) * 8) == 0 &&
                      std::memcmp(&found.distances[static_cast<std::size_t>(q * k)],
                                  &expected.distances[static_cast<std::size_t>(q * k)],
                                  static_cast<std::size_t>(k) * sizeof(T)) == 0;
    if (!same && wrong++ == 0) {
      std::int64_t at = q * k;
      while (at < q * k + k - 1 &&
             found.indices[static_cast<std::size_t>(at)] == expected.indices[static_cast<std::size_t>(at)] &&
             found.distances[static_cast<std::size_t>(at)] ==
                 expected.distances[static_cast<std::size_t>(at)]) {
        ++at;
      }
      ADD_FAILURE() << "query " << q << " rank " << at - q * k << ": "
                    << found.indices[static_cast<std::size_t>(at)] << " at "
                    << found.distances[static_cast<std::size_t>(at)] << ", expected "
                    << expected.indices[static_cast<std::size_t>(at)] << " at "
                    << expected.distances[static_cast<std::size_t>(at)];
    }
  }
  EXPECT_EQ(wrong, 0) << "of " << queries << ", " << statistics.instruction_set;
  if (left_out != nullptr)
    *left_out = left;
  else
    EXPECT_TRUE(left.empty());
  return statistics;
}

SearchStatistics compare(const Tree& tree, const Asked& asked, std::int64_t k, double radius = endless,
                         const Execution& execution = on_gpu(), Answers answers = Answers::host,
                         std::vector<std::int64_t>* left = nullptr) {
  return tree.is_double() ? compare_as<double>(tree, asked, k, radius, execution, answers, left)
                          : compare_as<float>(tree, asked, k, radius, execution, answers, left);
}

constexpr std::int64_t ks[] = {1, 3, 8, 9, 16, 20, 24, 25, 32, 33, 64, 65, 128, 129, 256, 257};

TEST_F(CudaTreeSearch, EveryKInGroups) {
  const Rows rows(uniform(20000, 3, 1), 3);
  const Rows queries(uniform(32000, 3, 2), 3);
  for (const Metric metric : metrics) {
    const Tree tree = build(rows.view, metric, true);
    for (const std::int64_t k : ks) {
      SCOPED_TRACE(k);
      const auto s = compare(tree, {nullptr, k % 2 == 0}, k);
      EXPECT_EQ(s.instruction_set, k <= 32 ? "cuda groups" : "cuda sorted warps");
      EXPECT_GT(s.pairs, 0);
      EXPECT_GT(s.candidates, 0);
      EXPECT_EQ(compare(tree, {&queries.view}, k).instruction_set, k <= 32 ? "cuda groups" : "cuda warps");
    }
  }
}

TEST_F(CudaTreeSearch, EveryTypeMetricAndDimension) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i8, Dtype::u8, Dtype::f64}) {
    for (std::int64_t dim = 1; dim <= 16; dim += dim < 5 ? 1 : 3) {
      const Rows rows(uniform(3000, dim, 3), dim, dtype, 1);
      const Rows queries(uniform(700, dim, 4), dim, dtype, 2);
      for (const Metric metric : metrics) {
        SCOPED_TRACE(std::string(name(dtype)) + " " + std::to_string(dim) + " " + std::string(name(metric)));
        const Tree tree = build(rows.view, metric, false, 16);
        compare(tree, {&queries.view}, 7);
        compare(tree, {nullptr, false}, 40);
      }
    }
  }
}

TEST_F(CudaTreeSearch, ManyQueriesInHigherDimensionAndDouble) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t dim : {3, 5}) {
      const Rows rows(uniform(9000, dim, 5), dim, dtype);
      const Rows queries(uniform(5000, dim, 6), dim, dtype);
      const Tree tree = build(rows.view, Metric::euclidean);
      compare(tree, {&queries.view}, 5);
      compare(tree, {nullptr, true}, 33);
    }
  }
}

TEST_F(CudaTreeSearch, AllRowsAndMore) {
  for (const std::int64_t n : {1, 2, 31, 32, 33, 100, 700}) {
    const Rows rows(uniform(n, 3, 7), 3);
    const Rows queries(uniform(6000, 3, 8), 3);
    const Tree tree = build(rows.view, Metric::sqeuclidean, true, 8);
    for (const std::int64_t k : {n, n + 1, std::int64_t{5}}) {
      SCOPED_TRACE(std::to_string(n) + " " + std::to_string(k));
      compare(tree, {nullptr, false}, k);
      compare(tree, {&queries.view}, k);
    }
  }
}

TEST_F(CudaTreeSearch, TiesAndFloods) {
  auto lattice = uniform(30000, 3, 9);
  for (float& v : lattice) v = std::floor(v * 12);
  auto flood = uniform(30000, 3, 10);
  for (float& v : flood) v = std::floor(v * 2);
  auto line = uniform(30000, 3, 11);
  for (std::size_t i = 0; i < line.size(); ++i) line[i] = line[i - i % 3];
  auto plane = uniform(30000, 3, 12);
  for (std::size_t i = 2; i < plane.size(); i += 3) plane[i] = 0.5F;
  std::vector<float> one(30000 * 3, 0.25F);
  auto steep = uniform(30000, 3, 13);
  for (float& v : steep) v = std::copysign(std::exp(40 * std::fabs(v) - 30), v);
  for (const auto* values : {&lattice, &flood, &line, &plane, &one, &steep}) {
    const Rows rows(*values, 3);
    const Rows queries(std::vector<float>(values->begin(), values->begin() + 3 * 5000), 3);
    std::vector<float> more = uniform(40000, 3, 36);
    std::copy(values->begin(), values->end(), more.begin());
    const Rows many(more, 3);
    for (const bool octree : {false, true}) {
      const Tree tree = build(rows.view, Metric::sqeuclidean, octree);
      for (const std::int64_t k : {1, 8, 20, 32, 64, 100}) {
        SCOPED_TRACE(k);
        compare(tree, {nullptr, false}, k);
        compare(tree, {&queries.view}, k);
        compare(tree, {&many.view}, k);
      }
    }
  }
}

TEST_F(CudaTreeSearch, LeavesOfAnySize) {
  const Rows rows(uniform(20000, 2, 14), 2);
  for (const std::int64_t leaf : {1, 7, 100, 4096}) {
    const Tree tree = build(rows.view, Metric::manhattan, true, leaf);
    compare(tree, {nullptr, false}, 12);
    const Rows few(uniform(50, 2, 15), 2);
    compare(tree, {&few.view}, 12);
  }
}

TEST_F(CudaTreeSearch, NoneFartherThanTheRadius) {
  const Rows rows(uniform(20000, 3, 16), 3);
  for (const Metric metric : metrics) {
    const Tree tree = build(rows.view, metric);
    for (const double radius : {0.0, 1e-3, 0.05, 0.1}) {
      compare(tree, {nullptr, true}, 10, radius);
      compare(tree, {nullptr, false}, 70, radius);
    }
  }
}

TEST_F(CudaTreeSearch, NanAndInfinity) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  auto values = uniform(6000, 3, 17);
  values[3 * 100] = NAN;
  values[3 * 200 + 1] = inf;
  values[3 * 201 + 2] = -inf;
  auto asked = uniform(20000, 3, 18);
  asked[3 * 7] = NAN;
  asked[3 * 9 + 1] = inf;
  asked[3 * 4000] = 1e30F;
  const Rows rows(values, 3);
  for (const std::int64_t count : {20000, 20}) {
    const Rows queries(std::vector<float>(asked.begin(), asked.begin() + 3 * count), 3);
    const Tree tree = build(rows.view, Metric::sqeuclidean);
    std::vector<std::int64_t> left;
    auto s = compare(tree, {&queries.view}, 6, endless, on_gpu(), Answers::host, &left);
    EXPECT_EQ(s.nan_queries, 1);
    EXPECT_EQ(s.nan_rows, 1);
    // The farther query is at +inf from all rows once that is rounded to float.
    EXPECT_EQ(left, count > 4000 ? (std::vector<std::int64_t>{9, 4000}) : std::vector<std::int64_t>{9});
    // With more asked for than there are points, rows with infinities come last in every answer.
    compare(tree, {&queries.view}, 5999, endless, on_gpu(), Answers::host, &left);
    EXPECT_EQ(static_cast<std::int64_t>(left.size()), count - 1);
  }
  const Tree tree = build(rows.view, Metric::sqeuclidean);
  for (const Answers answers : {Answers::host, Answers::device}) {
    std::vector<std::int64_t> left;
    compare(tree, {nullptr, false}, 6, endless, on_gpu(), answers, &left);
    EXPECT_EQ(left, (std::vector<std::int64_t>{200, 201}));
    compare(tree, {nullptr, false}, 6, 0.1, on_gpu(), answers, &left);
    EXPECT_EQ(left, (std::vector<std::int64_t>{200, 201}));
  }
}

TEST_F(CudaTreeSearch, ValuesAtTheEndsOfFloat) {
  auto values = uniform(20000, 3, 19);
  for (float& v : values) v *= 3e38F;
  auto tiny = uniform(20000, 3, 20);
  for (float& v : tiny) v *= 1e-44F;
  for (const auto* some : {&values, &tiny}) {
    const Rows rows(*some, 3);
    for (const Metric metric : metrics) {
      const Tree tree = build(rows.view, metric);
      compare(tree, {nullptr, false}, 5);
    }
  }
}

TEST_F(CudaTreeSearch, WideRowNumbers) {
  const std::int64_t before = largest_narrow_tree();
  set_largest_narrow_tree(100);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const Rows rows(uniform(6000, 3, 21), 3, dtype);
    const Rows queries(uniform(5000, 3, 22), 3, dtype);
    const Tree tree = build(rows.view, Metric::sqeuclidean);
    EXPECT_TRUE(tree.wide_rows);
    compare(tree, {nullptr, false}, 8);
    compare(tree, {&queries.view}, 50);
  }
  set_largest_narrow_tree(before);
}

TEST_F(CudaTreeSearch, MemoryOfTheDevice) {
  const Rows rows(uniform(20000, 3, 23), 3);
  const Tree tree = build(rows.view, Metric::sqeuclidean);
  for (const std::int64_t count : {10, 40000}) {
    const Rows queries(uniform(count, 3, 24), 3, Dtype::f32, 3);
    const DeviceMemory there(queries.memory.data(), queries.memory.size());
    DatasetView view = queries.view;
    const Lists<float> expected = on_cpu<float>(tree, {&view}, 11, endless);
    view.data = there.data();
    view.space = MemorySpace::cuda;
    Lists<float> found(count, 11);
    std::vector<std::int64_t> left;
    const NeighborsView out{found.indices.data(), found.distances.data(), count, 11};
    nearest_on_device(tree, {&view}, endless, out, on_gpu(), "search", left);
    EXPECT_EQ(found.indices, expected.indices);
    EXPECT_EQ(found.distances, expected.distances);
    compare(tree, {&queries.view}, 11, endless, on_gpu(), Answers::device);
  }
  compare(tree, {nullptr, false}, 11, endless, on_gpu(), Answers::device);
  compare(tree, {nullptr, false}, 100, endless, on_gpu(), Answers::device);
}

TEST_F(CudaTreeSearch, SmallMemoryMeansBatches) {
  const Rows rows(uniform(20000, 3, 25), 3);
  const Rows queries(uniform(40000, 3, 26), 3);
  const Tree tree = build(rows.view, Metric::sqeuclidean);
  for (const std::int64_t k : {8, 100}) {
    for (const std::uint64_t limit : {std::uint64_t{1} << 21U, std::uint64_t{4} << 20U}) {
      for (const bool self : {false, true}) {
        int reports = 0;
        Execution execution = on_gpu(limit);
        execution.progress = [&](const Progress& /*now*/) { ++reports; };
        const Asked asked{self ? nullptr : &queries.view, false};
        compare(tree, asked, k, endless, execution);
        if (k == 100) {
          EXPECT_GT(reports, 2) << "one batch only";
        }
      }
    }
  }
  Lists<float> found(40000, 8);
  std::vector<std::int64_t> left;
  EXPECT_THROW(nearest_on_device(tree, {&queries.view}, endless,
                                 {found.indices.data(), found.distances.data(), 40000, 8}, on_gpu(1000),
                                 "search", left),
               OutOfMemory);
}

TEST_F(CudaTreeSearch, StopsWhenAsked) {
  const Rows rows(uniform(20000, 3, 27), 3);
  const Tree tree = build(rows.view, Metric::sqeuclidean);
  Execution execution = on_gpu(std::uint64_t{1} << 21U);
  int polls = 0;
  execution.cancelled = [&] { return ++polls == 2; };
  Lists<float> found(20000, 100);
  std::vector<std::int64_t> left;
  EXPECT_THROW(nearest_on_device(tree, {nullptr, false}, endless,
                                 {found.indices.data(), found.distances.data(), 20000, 100}, execution,
                                 "search", left),
               Cancelled);
  compare(tree, {nullptr, false}, 8);  // and the next search is none the worse
}

TEST_F(CudaTreeSearch, WaitsForTheCallersStream) {
  const Rows rows(uniform(20000, 3, 28), 3);
  const Tree tree = build(rows.view, Metric::sqeuclidean);
  const Rows queries(uniform(2000, 3, 29), 3);
  const Lists<float> expected = on_cpu<float>(tree, {&queries.view}, 4, endless);
  cudaStream_t stream = nullptr;
  cuda_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const DeviceMemory there(queries.memory.size());
  const DeviceMemory much(std::size_t{1} << 30U);
  for (int i = 0; i < 20; ++i) cuda_ok(cudaMemsetAsync(much.data(), i, std::size_t{1} << 30U, stream));
  cuda_ok(cudaMemcpyAsync(there.data(), queries.memory.data(), queries.memory.size(), cudaMemcpyHostToDevice,
                          stream));
  DatasetView view = queries.view;
  view.data = there.data();
  view.space = MemorySpace::cuda;
  Execution execution = on_gpu();
  execution.stream = stream;
  Lists<float> found(2000, 4);
  std::vector<std::int64_t> left;
  nearest_on_device(tree, {&view}, endless, {found.indices.data(), found.distances.data(), 2000, 4},
                    execution, "search", left);
  EXPECT_EQ(found.indices, expected.indices);
  cuda_ok(cudaStreamDestroy(stream));
}

TEST_F(CudaTreeSearch, ManyThreadsSearchOneTree) {
  const Rows rows(uniform(20000, 3, 30), 3);
  const Tree tree = build(rows.view, Metric::sqeuclidean);
  const Rows queries(uniform(40000, 3, 31), 3);
  const Lists<float> expected = on_cpu<float>(tree, {&queries.view}, 9, endless);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        Lists<float> found(40000, 9);
        std::vector<std::int64_t> left;
        nearest_on_device(tree, {&queries.view}, endless,
                          {found.indices.data(), found.distances.data(), 40000, 9}, on_gpu(), "search", left);
        wrong += found.indices != expected.indices || found.distances != expected.distances;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

template <class T>
void compare_within(const Tree& tree, const DatasetView& queries, double radius, const Execution& execution) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(queries.rows), 0);
  std::vector<std::vector<Entry<T>>> expected(static_cast<std::size_t>(queries.rows));
  run<T>(tree, {&queries}, Kind::collect, 1, radius, {}, "search", [&](const Part<T>& part) {
    std::int64_t from = 0;
    for (std::int64_t i = 0; i < part.count; ++i) {
      expected[static_cast<std::size_t>(part.queries[i])].assign(part.entries + from,
                                                                 part.entries + part.ends[i]);
      from = part.ends[i];
    }
  });
  const auto before = [](const Entry<T>& a, const Entry<T>& b) {
    return a.distance < b.distance || (a.distance == b.distance && a.row < b.row);
  };
  count_on_device(tree, queries, radius, counts.data(), execution);
  for (const bool sorted : {true, false}) {
    const RadiusNeighbors found = within_on_device(tree, queries, radius, sorted, execution);
    ASSERT_EQ(found.queries, queries.rows);
    ASSERT_EQ(found.offsets.size(), expected.size() + 1);
    const auto& distances = std::get<std::vector<T>>(found.distances);
    for (std::size_t q = 0; q < expected.size(); ++q) {
      std::sort(expected[q].begin(), expected[q].end(), before);
      std::vector<Entry<T>> mine;
      for (auto i = found.offsets[q]; i < found.offsets[q + 1]; ++i) {
        mine.push_back({distances[static_cast<std::size_t>(i)], found.indices[static_cast<std::size_t>(i)]});
      }
      if (!sorted) std::sort(mine.begin(), mine.end(), before);
      ASSERT_EQ(mine.size(), expected[q].size()) << q;
      ASSERT_EQ(counts[q], static_cast<std::int64_t>(mine.size()));
      for (std::size_t i = 0; i < mine.size(); ++i) {
        ASSERT_EQ(mine[i].row, expected[q][i].row) << q << " " << i;
        ASSERT_EQ(mine[i].distance, expected[q][i].distance);
      }
    }
  }
}

TEST_F(CudaTreeSearch, WithinARadius) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::u8}) {
    for (const std::int64_t dim : {1, 3, 7}) {
      auto values = uniform(5000, dim, 32);
      values[static_cast<std::size_t>(dim) * 5] = dtype == Dtype::u8 ? 0.0F : NAN;
      const Rows rows(values, dim, dtype);
      for (const std::int64_t count : {300, 4500}) {
        auto asked = uniform(count, dim, 33);
        if (dtype != Dtype::u8) {
          asked[0] = NAN;
          asked[static_cast<std::size_t>(dim)] = std::numeric_limits<float>::infinity();
        }
        const Rows queries(asked, dim, dtype, 1);
        for (const Metric metric : metrics) {
          const Tree tree = build(rows.view, metric);
          const double radius = (dtype == Dtype::u8 ? 10.0 : 0.1) * (dim == 7 ? 4 : 1);
          for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{3} << 19U}) {
            if (dtype == Dtype::f64) {
              compare_within<double>(tree, queries.view, radius, on_gpu(limit));
            } else {
              compare_within<float>(tree, queries.view, radius, on_gpu(limit));
            }
          }
        }
      }
    }
  }
}

TEST_F(CudaTreeSearch, TheRegimeIsChosenInOnePlace) {
  const Rows rows(uniform(70000, 3, 34), 3);
  const Tree tree = build(rows.view, Metric::sqeuclidean);
  EXPECT_EQ(choose_regime(tree, 1024, 8, false, cuda::with_wgmma), Regime::warps);
  EXPECT_EQ(choose_regime(tree, 50000, 8, false, cuda::with_wgmma), Regime::warps);
  EXPECT_EQ(choose_regime(tree, 60000, 8, false, cuda::with_wgmma), Regime::groups);
  EXPECT_EQ(choose_regime(tree, 20000, 8, true, cuda::with_wgmma), Regime::groups);
  EXPECT_EQ(choose_regime(tree, 10000, 8, true, cuda::with_wgmma), Regime::sorted_warps);
  EXPECT_EQ(choose_regime(tree, 60000, 32, false, cuda::with_wgmma), Regime::groups);
  EXPECT_EQ(choose_regime(tree, 60000, 33, false, cuda::with_wgmma), Regime::warps);
  EXPECT_EQ(choose_regime(tree, 300000, 33, false, cuda::with_wgmma), Regime::sorted_warps);
  const Rows wide(uniform(5000, 4, 35), 4);
  EXPECT_EQ(choose_regime(build(wide.view, Metric::sqeuclidean), 300000, 8, false, cuda::with_wgmma),
            Regime::sorted_warps);
}

}  // namespace
}  // namespace kith::point_tree

#endif
