// What only a GPU search does: memory of the device in and out, several stages, rows that stay on the host or
// stream through, streams, several devices. Bits are compared with the CPU's. Skipped where there is no GPU.
#ifdef KITH_CUDA_ENABLED

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "brute_force/cuda/kernels.hpp"
#include "conformance/problem.hpp"
#include "core/visit_dtype.hpp"
#include "cuda/launch.hpp"
#include "kith/brute_force.hpp"
#include "kith/convert.hpp"
#include "kith/error.hpp"
#include "kith/generate.hpp"
#include "support/device_memory.hpp"
#include "support/errors.hpp"
#include "support/gpu_test.hpp"
#include "support/gpus.hpp"
#include "support/sanitizers.hpp"

namespace kith {
namespace {

using conformance::Random;
using test::contains;
using test::cuda_ok;
using test::DeviceMemory;
using test::gpus;
using test::message_of;

Execution on(std::vector<int> ordinals, std::uint64_t device_memory_limit = 0) {
  Execution execution;
  execution.devices.clear();
  for (const int ordinal : ordinals) execution.devices.push_back({Device::Kind::cuda, ordinal});
  execution.device_memory_limit = device_memory_limit;
  return execution;
}

class Cuda : public test::GpuTest {};

/// Rows on the host and the same rows, stride and all, on a device.
struct Rows {
  std::vector<unsigned char> memory;
  DatasetView host;

  Rows(const std::vector<float>& values, std::int64_t dim, Dtype dtype, std::int64_t gap = 0) {
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
            const float shifted = std::round(value * 20) + (std::is_signed_v<T> ? 0 : 128);
            to = static_cast<T>(
                std::clamp<float>(shifted, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
          } else {
            to = static_cast<T>(value);
          }
        }
      }
    });
    host = DatasetView(memory.data(), dtype, rows, dim, dim + gap);
  }
  DatasetView view_on(const DeviceMemory& copy) const {
    DatasetView view = host;
    view.data = copy.data();
    view.space = MemorySpace::cuda;
    view.device = copy.device();
    return view;
  }
};

/// Memory of a device for an answer.
struct DeviceAnswer {
  DeviceMemory indices;
  DeviceMemory distances;
  NeighborsView view;

  DeviceAnswer(std::int64_t queries, std::int64_t k, Dtype dtype, int device = 0)
      : indices(static_cast<std::size_t>(queries * k) * 8, device),
        distances(static_cast<std::size_t>(queries * k) * size_of(distance_dtype(dtype)), device) {
    view = {
        static_cast<std::int64_t*>(indices.data()), distances.data(), queries, k, MemorySpace::cuda, device};
  }
};

const unsigned char* bytes_of(const Neighbors& answer, std::int64_t query) {
  const auto cell = static_cast<std::int64_t>(size_of(answer.distance_dtype()));
  return std::visit(
      [&](const auto& list) {
        return static_cast<const unsigned char*>(static_cast<const void*>(list.data())) +
               query * answer.k * cell;
      },
      answer.distances);
}

/// The first k of each list of `expected` are the answer, bit by bit.
void expect_same(const Neighbors& expected, std::int64_t k, const std::vector<std::int64_t>& indices,
                 const unsigned char* distances, const std::string& what) {
  const std::size_t cell = size_of(expected.distance_dtype());
  for (std::int64_t q = 0; q < expected.queries; ++q) {
    const auto truth = expected.indices_of(q);
    const bool same = std::equal(truth.begin(), truth.begin() + k, indices.begin() + q * k) &&
                      std::memcmp(bytes_of(expected, q), distances + static_cast<std::size_t>(q * k) * cell,
                                  static_cast<std::size_t>(k) * cell) == 0;
    ASSERT_TRUE(same) << what << ", k " << k << ", query " << q << ": first row "
                      << indices[static_cast<std::size_t>(q * k)] << " instead of " << truth[0];
  }
}

void expect_same(const Neighbors& expected, const Neighbors& found, const std::string& what) {
  expect_same(expected, found.k, found.indices, bytes_of(found, 0), what);
}

void expect_same(const Neighbors& expected, const DeviceAnswer& found, const std::string& what) {
  expect_same(expected, found.view.k, found.indices.read<std::int64_t>(),
              found.distances.read<unsigned char>().data(), what);
}

/// Clusters of unequal width; rows in ascending order of length, so that any piece is unlike the rest; and
/// every row many times over, with neighbours one step away.
std::vector<float> make(const std::string& kind, std::int64_t n, std::int64_t d, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(n * d));
  constexpr int clusters = 40;
  std::vector<double> centres;
  Random fixed(99);
  for (std::int64_t i = 0; i < clusters * d; ++i) centres.push_back(fixed.normal());
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t c = random.below(clusters);
    for (std::int64_t j = 0; j < d; ++j) {
      double value = 0;
      if (kind == "clustered") {
        value =
            centres[static_cast<std::size_t>(c * d + j)] + 0.02 * static_cast<double>(c) * random.normal();
      } else if (kind == "sorted") {
        value = (0.2 + 3.0 * static_cast<double>(i) / static_cast<double>(n)) * random.normal();
      } else {
        value = static_cast<double>((i % 300 * 7 + j) % 11) / 4 + (i % 1000 == 0 && j == 0 ? 0x1p-18 : 0);
      }
      out.push_back(static_cast<float>(value));
    }
  }
  return out;
}

// Large enough for several stages of the filter, and for whole tiles of queries.
class CudaStages : public test::GpuTest, public testing::WithParamInterface<std::int64_t> {};

TEST_P(CudaStages, TheBitsOfTheCpu) {
  const std::int64_t d = GetParam();
  const std::int64_t n = 60'000;
  const std::int64_t count = d <= 128 ? 150 : 30;
  for (const char* kind : {"clustered", "sorted", "duplicates"}) {
    const Rows rows(make(kind, n, d, 1), d, Dtype::f32);
    const Rows queries(make(kind, count, d, 2), d, Dtype::f32);
    const DeviceMemory row_copy(rows.memory.data(), rows.memory.size());
    const DeviceMemory query_copy(queries.memory.data(), queries.memory.size());
    for (const Metric metric : all_metrics) {
      const std::string what =
          std::string(kind) + ", " + std::string(name(metric)) + ", d " + std::to_string(d);
      const Neighbors expected = knn(rows.host, queries.host, 1500, {metric});
      const BruteForce index = BruteForce::build(rows.view_on(row_copy), {metric}, on({0}));
      for (const std::int64_t k : {1, 10, 100, 1500}) {
        const DeviceAnswer answer(count, k, Dtype::f32);
        const SearchStatistics s = index.search_into(queries.view_on(query_copy), answer.view, on({0}));
        expect_same(expected, answer, what + ", on the device");
        EXPECT_EQ(s.instruction_set, "cuda");
        expect_same(expected, index.search(queries.host, k, on({0})), what + ", queries on the host");
      }
      // One query at a time takes other paths.
      for (std::int64_t q = 0; q < 3; ++q) {
        const Neighbors one = index.search(queries.host.slice(q, 1), 10, on({0}));
        EXPECT_TRUE(std::equal(one.indices.begin(), one.indices.end(), expected.indices_of(q).begin()))
            << what;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dimensions, CudaStages, testing::Values(3, 16, 32, 64, 96, 128, 200, 768),
                         [](const auto& shape) { return "d" + std::to_string(shape.param); });

// Small k over enough rows: one look at every pair instead of stages, and over a sample for the first bound.
TEST_F(Cuda, OneLookAtEveryPair) {
  struct Shape {
    std::int64_t n, d, q;
  };
  const Shape shapes[] = {{4096, 1, 1},    {5000, 2, 3},     {20000, 3, 1},    {20001, 3, 4},
                          {9001, 3, 130},  {30000, 4, 40},   {12345, 8, 129},  {8000, 13, 4},
                          {8000, 16, 300}, {6000, 24, 77},   {7000, 32, 5},    {9000, 100, 2},
                          {5000, 300, 4},  {40000, 3, 2000}, {600000, 3, 700}, {400000, 16, 900}};
  for (const Shape& s : shapes) {
    if (test::reduced() && s.n * s.q > 1'000'000) continue;
    for (const std::string kind : {"clustered", "sorted", "duplicates"}) {
      const bool large = s.n * s.q > 100'000'000;
      if (large && kind == "duplicates") continue;
      for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::u8, Dtype::bf16}) {
        if ((large || kind != "clustered") && dtype != Dtype::f32) continue;
        const Rows rows(make(kind, s.n, s.d, 1), s.d, dtype, s.q % 2);
        std::vector<float> asked = make(kind, s.q, s.d, 2);
        if (dtype != Dtype::u8 && s.q > 3) {
          asked[0] = std::numeric_limits<float>::quiet_NaN();
          asked[static_cast<std::size_t>(s.d)] = std::numeric_limits<float>::infinity();
        }
        const Rows queries(asked, s.d, dtype);
        const DeviceMemory data(rows.memory.data(), rows.memory.size());
        const DeviceMemory device_queries(queries.memory.data(), queries.memory.size());
        for (const Metric metric : all_metrics) {
          if (large && metric != Metric::sqeuclidean) continue;
          const auto cpu = BruteForce::build(rows.host, {metric});
          for (const Filter filter : {Filter::automatic, Filter::int8, Filter::fp32}) {
            if (filter == Filter::int8 && metric == Metric::manhattan) continue;
            if (filter == Filter::fp32 && (metric == Metric::inner_product || metric == Metric::cosine))
              continue;
            const auto gpu = BruteForce::build(rows.view_on(data), {metric, filter}, on({0}));
            for (const std::int64_t k : {1, 7, 32}) {
              DeviceAnswer found(s.q, k, dtype);
              gpu.search_into(queries.view_on(device_queries), found.view, on({0}));
              expect_same(cpu.search(queries.host, k), found,
                          kind + " " + std::to_string(s.n) + " x " + std::to_string(s.d) + ", " +
                              std::to_string(s.q) + " queries, k " + std::to_string(k) + ", " +
                              std::string(name(dtype)) + " " + std::string(name(metric)) + " " +
                              std::string(name(filter)));
              if (HasFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST_F(Cuda, ElementTypesFiltersAndStrides) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16, Dtype::i8, Dtype::u8, Dtype::f64, Dtype::f32}) {
    for (const std::int64_t d : {3, 40}) {
      const Rows rows(make("clustered", 30'000, d, 3), d, dtype, 5);
      const Rows queries(make("clustered", 70, d, 4), d, dtype, 3);
      const DeviceMemory row_copy(rows.memory.data(), rows.memory.size());
      const DeviceMemory query_copy(queries.memory.data(), queries.memory.size());
      for (const Metric metric : all_metrics) {
        const Neighbors expected = knn(rows.host, queries.host, 10, {metric});
        for (const Filter filter :
             {Filter::automatic, Filter::int8, Filter::fp16, Filter::fp32, Filter::none}) {
          const bool euclid = metric == Metric::sqeuclidean || metric == Metric::euclidean;
          if ((filter == Filter::int8 || filter == Filter::fp16) && metric == Metric::manhattan) continue;
          if (filter == Filter::fp32 && metric != Metric::manhattan && !euclid) continue;
          const std::string what = std::string(name(dtype)) + ", " + std::string(name(metric)) + ", " +
                                   std::string(name(filter)) + ", d " + std::to_string(d);
          const BruteForce there = BruteForce::build(rows.view_on(row_copy), {metric, filter}, on({0}));
          const DeviceAnswer answer(70, 10, dtype);
          there.search_into(queries.view_on(query_copy), answer.view, on({0}));
          expect_same(expected, answer, what + ", rows on the device");
          const BruteForce here = BruteForce::build(rows.host, {metric, filter}, on({0}));
          if (filter != Filter::automatic) {
            EXPECT_EQ(here.filter(), filter);
          }
          expect_same(expected, here.search(queries.host, 10, on({0})), what + ", rows on the host");
        }
      }
    }
  }
}

TEST_F(Cuda, RowsOnTheDeviceAreNotCopied) {
  const Rows rows(make("clustered", 50'000, 64, 3), 64, Dtype::f32);
  const DeviceMemory copy(rows.memory.data(), rows.memory.size());
  const BruteForce there = BruteForce::build(rows.view_on(copy), {}, on({0}));
  const BruteForce here = BruteForce::build(rows.host, {}, on({0}));
  EXPECT_LT(there.memory_bytes(), rows.memory.size());
  EXPECT_GE(here.memory_bytes(), rows.memory.size());
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { there.save("nowhere.kith"); }), "GPU memory"));
}

// Limits that the answer does not fit as a whole: the queries are searched part by part. One that half a
// query needs is refused.
TEST_F(Cuda, AnswersAreCutToTheLimit) {
  constexpr std::int64_t n = 3000;
  constexpr std::int64_t k = 1000;
  const Rows rows(make("sorted", n, 8, 11), 8, Dtype::f32);
  const Neighbors expected = knn(rows.host, rows.host, k);
  constexpr std::uint64_t answer = n * k * 12;
  for (const std::uint64_t limit : {answer / 4, answer / 20}) {
    expect_same(expected, knn(rows.host, rows.host, k, {}, on({0}, limit)), "one search");
    const BruteForce index = BruteForce::build(rows.host, {}, on({0}));
    const Neighbors found = index.search(rows.host, k, on({0}, limit));
    expect_same(expected, found, "an index");
    EXPECT_EQ(found.statistics.pairs, n * n);
    EXPECT_EQ(found.statistics.nan_rows, 0);
  }
  const BruteForce index = BruteForce::build(rows.host, {}, on({0}));
  const std::string message = message_of<OutOfMemory>([&] { index.search(rows.host, k, on({0}, 20'000)); });
  EXPECT_TRUE(contains(message, "device memory limit is 20000")) << message;
}

// The limit leaves room for the codes alone, then not even for them: what is held says which it was.
TEST_F(Cuda, ALimitLeavesRowsOnTheHostOrStreamsThem) {
  const std::int64_t n = 200'000;
  const std::int64_t d = 128;
  constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
  for (const std::int64_t gap : {0, 3}) {
    const Rows rows(make("sorted", n, d, 5), d, Dtype::f32, gap);
    const Rows queries(make("sorted", 40, d, 6), d, Dtype::f32);
    for (const Metric metric : all_metrics) {
      const Neighbors expected = knn(rows.host, queries.host, 1200, {metric});
      for (const std::uint64_t limit : {std::uint64_t{0}, 64 * mib, 24 * mib}) {
        const BruteForce index = BruteForce::build(rows.host, {metric}, on({0}, limit));
        const std::uint64_t held = index.memory_bytes();
        if (limit == 0) {
          EXPECT_GE(held, static_cast<std::uint64_t>(n * d) * 4) << "resident";
        } else if (limit == 64 * mib) {
          EXPECT_LT(held, limit) << "rows on the host";
          if (metric != Metric::manhattan) {
            EXPECT_GE(held, static_cast<std::uint64_t>(n * d)) << "codes on the device";
          }
        } else {
          EXPECT_EQ(held, 0U) << "streamed";
        }
        const std::string what = std::string(name(metric)) + ", limit " + std::to_string(limit);
        for (const std::int64_t k : {1, 10, 1200}) {
          expect_same(expected, index.search(queries.host, k, on({0}, limit)), what);
        }
        const DeviceMemory copy(queries.memory.data(), queries.memory.size());
        const DeviceAnswer answer(40, 10, Dtype::f32);
        index.search_into(queries.view_on(copy), answer.view, on({0}, limit));
        expect_same(expected, answer, what + ", on the device");
      }
    }
  }
}

TEST_F(Cuda, OtherElementTypesStreamToo) {
  for (const Dtype dtype : {Dtype::u8, Dtype::f16, Dtype::f64}) {
    for (const std::int64_t d : {3, 100}) {
      const std::int64_t n = 100'000;
      const Rows rows(make("clustered", n, d, 7), d, dtype);
      const Rows queries(make("clustered", 20, d, 8), d, dtype);
      const std::uint64_t limit =
          static_cast<std::uint64_t>(n * d) * size_of(dtype) / 4 + (std::uint64_t{3} << 20U);
      const BruteForce index = BruteForce::build(rows.host, {}, on({0}, limit));
      EXPECT_LT(index.memory_bytes(), limit);
      expect_same(knn(rows.host, queries.host, 10), index.search(queries.host, 10, on({0}, limit)),
                  std::string(name(dtype)) + ", d " + std::to_string(d));
    }
  }
}

TEST_F(Cuda, TooLittleMemoryIsSaid) {
  const Rows rows(make("clustered", 50'000, 768, 3), 768, Dtype::f32);
  EXPECT_TRUE(contains(message_of<OutOfMemory>([&] { BruteForce::build(rows.host, {}, on({0}, 100'000)); }),
                       "100000"));
}

// Half of the rows are one point, which no filter has room for: queries there are searched in several passes.
// The nearest rows of the other queries lie too far out for any code; they belong into a list once.
TEST_F(Cuda, RowsWithoutACodeAreOfferedOnce) {
  constexpr std::int64_t n = 60'000;
  constexpr std::int64_t d = 24;
  std::vector<float> values = make("clustered", n, d, 3);
  Random random(12);
  for (std::int64_t i = 0; i < n; ++i) {
    if (i % 3000 != 7 && i % 2 != 0) continue;
    for (std::int64_t j = 0; j < d; ++j) {
      values[static_cast<std::size_t>(i * d + j)] =
          i % 3000 == 7 ? static_cast<float>(1e7 + 100 * random.normal()) : 0.25F;
    }
  }
  std::vector<float> asked(values.begin(), values.begin() + 40 * d);  // half of them the crowded point
  for (std::int64_t j = 0; j < d; ++j) asked[static_cast<std::size_t>(9 * d + j)] = 1e7F;
  const Rows rows(values, d, Dtype::f32);
  const Rows queries(asked, d, Dtype::f32);
  for (const Metric metric : all_metrics) {
    for (const Filter filter : {Filter::automatic, Filter::int8, Filter::fp16}) {
      if (filter != Filter::automatic && metric == Metric::manhattan) continue;
      const Neighbors expected = knn(rows.host, queries.host, 1100, {metric});
      const BruteForce index = BruteForce::build(rows.host, {metric, filter}, on({0}));
      for (const std::int64_t k : {5, 40, 1100}) {
        expect_same(expected, index.search(queries.host, k, on({0})), std::string(name(metric)));
      }
    }
  }
}

// The tensor cores are as exact as the bound of half codes says.
TEST_F(Cuda, HalvesAreSummedWell) {
  for (int device = 0; device < gpus(); ++device)
    EXPECT_TRUE(brute_force::cuda::halves_are_summed_well(device));
}

// Rows in tight clusters far apart: one byte a value cannot tell the rows of a cluster apart, two can, and
// which is needed is found out by a search.
TEST_F(Cuda, ClustersAreSearchedWithHalves) {
  constexpr std::int64_t d = 256;
  GenerateParameters p;
  p.generator = Generator::clusters;
  p.clusters = 10;
  p.spread = 0.05;
  p.rows = 140'000;
  p.dim = d;
  const Dataset rows = generate(p, Execution{});
  p.first_row = p.rows;
  p.rows = 300;
  const Dataset queries = generate(p, Execution{});
  const BruteForce index = BruteForce::build(rows.view(), {}, on({0}));
  EXPECT_EQ(index.filter(), Filter::fp16);
  const Neighbors expected = knn(rows.view(), queries.view(), 10);
  const Neighbors found = index.search(queries.view(), 10, on({0}));
  expect_same(expected, found, "clusters");
  EXPECT_LT(found.statistics.candidates, 300 * 2000);
  EXPECT_EQ(found.statistics.fallbacks, 0);
}

// So are long normal rows, of which few make work enough to find that out.
TEST_F(Cuda, LongNormalRowsAreSearchedWithHalves) {
  GenerateParameters p;
  p.generator = Generator::gaussian;
  p.rows = 32'768;
  p.dim = 1536;
  const Dataset rows = generate(p, Execution{});
  p.first_row = p.rows;
  p.rows = 260;
  const Dataset queries = generate(p, Execution{});
  const BruteForce index = BruteForce::build(rows.view(), {}, on({0}));
  const bool small = cuda::shared_limit(0) <= 99 << 10;  // these halves are too long for such a chip
  EXPECT_EQ(index.filter(), small ? Filter::int8 : Filter::fp16);
  expect_same(knn(rows.view(), queries.view(), 10), index.search(queries.view(), 10, on({0})), "normal");
  const Neighbors few = knn(rows.view(), queries.view(), 1, {}, on({0}));  // one-shot, of enough queries
  expect_same(knn(rows.view(), queries.view(), 1), few, "one-shot");
}

// Queries that keep more than there is room for are searched again with more, not evaluated row by row.
TEST_F(Cuda, AQueryThatKeepsMuchIsSearchedAgain) {
  constexpr std::int64_t d = 64;
  constexpr std::int64_t n = 200'000;
  std::vector<float> values = make("uniform", n, d, 5);
  Random random(7);
  for (std::int64_t i = 0; i < n / 4; ++i) {  // a crowd that no code tells apart
    for (std::int64_t j = 0; j < d; ++j) {
      values[static_cast<std::size_t>(4 * i * d + j)] = static_cast<float>(0.3 + 1e-6 * random.normal());
    }
  }
  std::vector<float> asked = make("uniform", 200, d, 6);
  for (std::int64_t i = 0; i < 200; i += 9) std::fill_n(asked.begin() + i * d, d, 0.3F);
  const Rows rows(values, d, Dtype::f32);
  const Rows queries(asked, d, Dtype::f32);
  for (const Filter filter : {Filter::int8, Filter::fp16}) {
    for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product, Metric::cosine}) {
      const Neighbors expected = knn(rows.host, queries.host, 20, {metric});
      const BruteForce index = BruteForce::build(rows.host, {metric, filter}, on({0}));
      const Neighbors found = index.search(queries.host, 20, on({0}));
      expect_same(expected, found, std::string(name(metric)));
      EXPECT_EQ(found.statistics.fallbacks, 0) << name(metric) << ", " << name(filter);
    }
  }
}

struct ClusteredShapes {
  std::int64_t rows;
  std::vector<std::int64_t> dims, queries;
  std::int64_t k;
};

void expect_the_bits_of_the_cpu(const ClusteredShapes& shapes, const std::vector<Metric>& metrics,
                                const std::vector<Filter>& filters) {
  for (const std::int64_t d : shapes.dims) {
    const Rows rows(make("clustered", shapes.rows, d, 11), d, Dtype::f32);
    for (const std::int64_t count : shapes.queries) {
      const Rows queries(make("clustered", count, d, 12), d, Dtype::f32);
      for (const Metric metric : metrics) {
        const Neighbors expected = knn(rows.host, queries.host, shapes.k, {metric});
        for (const Filter filter : filters) {
          const BruteForce index = BruteForce::build(rows.host, {metric, filter}, on({0}));
          expect_same(expected, index.search(queries.host, shapes.k, on({0})),
                      std::string(name(metric)) + ", " + std::string(name(filter)) + ", d " +
                          std::to_string(d) + ", queries " + std::to_string(count));
        }
      }
    }
  }
}

// Blocks in pairs, with an odd number of query tiles too, and queries that come along with the rows.
TEST_F(Cuda, LongCodesInPairs) {
  expect_the_bits_of_the_cpu({9'000, {300, 768, 1500, 3000}, {65, 128, 129, 300}, 7},
                             {Metric::sqeuclidean, Metric::cosine}, {Filter::int8, Filter::fp16});
}

// The first bound comes from a look at a sample, two blocks sharing a tile where codes are long; the last
// pair of blocks may have one without queries.
TEST_F(Cuda, LongCodesLookAtASample) {
  expect_the_bits_of_the_cpu({40'000, {600, 1600}, {65, 129, 300}, 7}, {Metric::sqeuclidean},
                             {Filter::int8, Filter::fp16});
}

// So many queries that each has a small block, lists that fill more than one round of offers, and long ones,
// which begin with the runs of a third of the rows.
TEST_F(Cuda, ManyQueriesAndLongLists) {
  const std::vector<Filter> filters = {Filter::int8, Filter::fp16};
  for (const std::int64_t k : {1, 100, 128}) {
    expect_the_bits_of_the_cpu({20'000, {40, 200}, {700}, k}, {Metric::sqeuclidean}, filters);
  }
  expect_the_bits_of_the_cpu({60'000, {24}, {600}, 300}, {Metric::sqeuclidean, Metric::cosine}, filters);
  expect_the_bits_of_the_cpu({200'000, {24}, {90}, 1000}, {Metric::sqeuclidean}, filters);
}

// A chip with 99 KB of shared memory and no wgmma takes the portable kernels with short rings, and no codes
// for rows that are too long for these.
TEST_F(Cuda, WhatOlderChipsTake) {
  struct Pretence {
    Pretence() = default;
    Pretence(const Pretence&) = delete;
    Pretence& operator=(const Pretence&) = delete;
    ~Pretence() { cuda::pretends_86 = before; }
    const bool before = cuda::pretends_86.exchange(true);
  } const pretence;
  expect_the_bits_of_the_cpu({9'000, {20, 60, 100, 300, 768, 1700, 3000}, {3, 40, 129, 300}, 40},
                             {Metric::sqeuclidean}, {Filter::automatic, Filter::int8, Filter::fp16});
}

TEST_F(Cuda, ManyThreadsSearchOneIndex) {
  const Rows rows(make("clustered", 60'000, 48, 3), 48, Dtype::f32);
  const Rows queries(make("clustered", 400, 48, 4), 48, Dtype::f32);
  const Neighbors expected = knn(rows.host, queries.host, 1100);
  const BruteForce index = BruteForce::build(rows.host, {}, on({0}));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 6; ++round) {
        const std::int64_t first = t * 90 + round;
        const std::int64_t count = 1 + (t + round) % 3 * 40;
        const std::int64_t k = (t + round) % 2 == 0 ? 10 : 1100;
        const Neighbors found = index.search(queries.host.slice(first, count), k, on({0}));
        for (std::int64_t q = 0; q < count; ++q) {
          const auto truth = expected.indices_of(first + q).subspan(0, static_cast<std::size_t>(k));
          if (!std::equal(truth.begin(), truth.end(), found.indices_of(q).begin())) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Cuda, CancelStopsAndLeavesTheIndexGood) {
  const Rows rows(make("clustered", 200'000, 64, 3), 64, Dtype::f32);
  const Rows queries(make("clustered", 300, 64, 4), 64, Dtype::f32);
  const Neighbors expected = knn(rows.host, queries.host, 10);
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{12} << 20U}) {
    Execution stopping = on({0}, limit);
    stopping.cancelled = [] { return true; };
    if (limit == 0) {
      EXPECT_THROW(BruteForce::build(rows.host, {}, stopping), Cancelled);
    }
    EXPECT_THROW(knn(rows.host, queries.host, 10, {}, stopping), Cancelled);
    const BruteForce index = BruteForce::build(rows.host, {}, on({0}, limit));
    for (const int polls : {0, 1}) {
      std::atomic<int> left = polls;
      stopping.cancelled = [&] { return left.fetch_sub(1) <= 0; };
      EXPECT_THROW(index.search(queries.host, 10, stopping), Cancelled) << polls << " polls, limit " << limit;
      expect_same(expected, index.search(queries.host, 10, on({0}, limit)), "after a cancelled search");
    }
  }
}

TEST_F(Cuda, ProgressGrowsAndEndsAtTheTotal) {
  const Rows rows(make("clustered", 200'000, 64, 3), 64, Dtype::f32);
  const Rows queries(make("clustered", 30, 64, 4), 64, Dtype::f32);
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{12} << 20U}) {
    const BruteForce index = BruteForce::build(rows.host, {}, on({0}, limit));
    std::vector<Progress> seen;
    Execution execution = on({0}, limit);
    execution.progress = [&](const Progress& progress) { seen.push_back(progress); };
    index.search(queries.host, 10, execution);
    ASSERT_FALSE(seen.empty());
    for (std::size_t i = 0; i < seen.size(); ++i) {
      EXPECT_STREQ(seen[i].stage, "search");
      EXPECT_EQ(seen[i].total, seen[0].total) << "limit " << limit;
      EXPECT_TRUE(i == 0 || seen[i].done >= seen[i - 1].done);
    }
    EXPECT_EQ(seen.back().done, seen.back().total);
    if (limit != 0) {
      EXPECT_GT(seen.size(), 5U) << "a stream of pieces reports as it goes";
    }
  }
}

TEST_F(Cuda, FiltersThatAreNotThereAreRefused) {
  const Rows rows(make("clustered", 1000, 20, 3), 20, Dtype::f32);
  const auto refusal = [&](Metric metric, Filter filter) {
    return message_of<InvalidArgument>([&] { BruteForce::build(rows.host, {metric, filter}, on({0})); });
  };
  const std::string message = refusal(Metric::manhattan, Filter::fp16);
  EXPECT_TRUE(contains(message, "no fp16 filter for manhattan")) << message;
  EXPECT_TRUE(contains(message, "leave the choice to auto")) << message;
  EXPECT_TRUE(contains(refusal(Metric::manhattan, Filter::int8), "no int8 filter for manhattan"));
  EXPECT_TRUE(contains(refusal(Metric::cosine, Filter::fp32), "no fp32 filter for cosine"));
}

TEST_F(Cuda, AnIndexIsSearchedWhereItLies) {
  const Rows rows(make("clustered", 1000, 20, 3), 20, Dtype::f32);
  const BruteForce index = BruteForce::build(rows.host, {}, on({0}));
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { index.search(rows.host, 1); }),
                       "was built for cuda:0, the search is to run on cpu"));
  const BruteForce other = BruteForce::build(rows.host);
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { other.search(rows.host, 1, on({0})); }),
                       "was built for cpu, the search is to run on cuda:0"));
}

void CUDART_CB wait_a_little(void* /*unused*/) {
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
}

// The stream is busy for a while before it writes the queries: a search that did not wait would read 0xEE.
TEST_F(Cuda, AStreamOfTheCallersComesFirst) {
  const Rows rows(make("clustered", 30'000, 32, 3), 32, Dtype::f32);
  const Rows queries(make("clustered", 60, 32, 4), 32, Dtype::f32);
  const Neighbors expected = knn(rows.host, queries.host, 5);
  const DeviceMemory row_source(rows.memory.data(), rows.memory.size());
  const DeviceMemory query_source(queries.memory.data(), queries.memory.size());
  cudaStream_t stream = nullptr;
  cuda_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Execution ordered = on({0});
  ordered.stream = stream;
  const auto late_copy = [&](const DeviceMemory& to, const DeviceMemory& from, std::size_t bytes) {
    cuda_ok(cudaLaunchHostFunc(stream, wait_a_little, nullptr));
    cuda_ok(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, stream));
  };
  {
    const BruteForce index = BruteForce::build(rows.host, {}, on({0}));
    const DeviceMemory late(queries.memory.size());
    const DeviceAnswer answer(60, 5, Dtype::f32);
    late_copy(late, query_source, queries.memory.size());
    index.search_into(queries.view_on(late), answer.view, ordered);
    expect_same(expected, answer, "queries that come late");
  }
  {
    const DeviceMemory late(rows.memory.size());
    late_copy(late, row_source, rows.memory.size());
    const BruteForce index = BruteForce::build(rows.view_on(late), {}, ordered);
    expect_same(expected, index.search(queries.host, 5, on({0})), "rows that come late");
  }
  cuda_ok(cudaStreamSynchronize(stream));
  cuda_ok(cudaStreamDestroy(stream));
}

class CudaPair : public testing::Test {
 protected:
  void SetUp() override {
    if (gpus() < 2) GTEST_SKIP() << "two CUDA devices are needed";
  }
};

TEST_F(CudaPair, TwoDevicesGiveTheAnswerOfOne) {
  struct Shape {
    std::int64_t n, d, queries;
  };
  // Rows are shared out; many queries over few rows, where queries are; fewer rows than fill a tile.
  for (const Shape& shape : {Shape{300'000, 48, 100}, Shape{20'000, 32, 3000}, Shape{77, 5, 9}}) {
    const Rows rows(make("sorted", shape.n, shape.d, 3), shape.d, Dtype::f32);
    const Rows queries(make("sorted", shape.queries, shape.d, 4), shape.d, Dtype::f32);
    for (const Metric metric : {Metric::euclidean, Metric::inner_product, Metric::manhattan}) {
      const Neighbors expected = knn(rows.host, queries.host, 100, {metric});
      for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{8} << 20U}) {
        const std::string what = std::string(name(metric)) + ", limit " + std::to_string(limit);
        const BruteForce index = BruteForce::build(rows.host, {metric}, on({0, 1}, limit));
        expect_same(expected, index.search(queries.host, 100, on({0, 1}, limit)), what);
        expect_same(expected, index.search(queries.host, 10, on({1, 0}, limit)), what);
        for (const int device : {0, 1}) {
          const DeviceMemory copy(queries.memory.data(), queries.memory.size(), device);
          const DeviceAnswer answer(shape.queries, 10, Dtype::f32, device);
          cudaStream_t stream = nullptr;
          cuda_ok(cudaSetDevice(device));
          cuda_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
          Execution ordered = on({0, 1}, limit);
          ordered.stream = stream;
          index.search_into(queries.view_on(copy), answer.view, ordered);
          expect_same(expected, answer, what + ", on device " + std::to_string(device));
          cuda_ok(cudaStreamDestroy(stream));
          cuda_ok(cudaSetDevice(0));
        }
      }
      const DeviceMemory second(rows.memory.data(), rows.memory.size(), 1);
      for (const std::vector<int>& where : {std::vector<int>{1}, {0}, {0, 1}}) {
        expect_same(expected, knn(rows.view_on(second), queries.host, 10, {metric}, on(where)),
                    "rows in the second device's memory");
      }
    }
  }
}

}  // namespace
}  // namespace kith

#endif  // KITH_CUDA_ENABLED
