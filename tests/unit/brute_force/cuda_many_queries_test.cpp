// Many queries of short codes on a GPU, where blocks compare 256 queries at a time: the bits of the CPU for
// every width of a code, int8 and halves, whole tiles of queries and parts of one, rows and queries that no
// filter speaks for, and batches too small for such tiles. Skipped where there is no GPU.
#ifdef KITH_CUDA_ENABLED

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/plan.hpp"
#include "conformance/problem.hpp"
#include "cuda/runtime.hpp"
#include "kith/brute_force.hpp"
#include "kith/generate.hpp"
#include "support/device_memory.hpp"
#include "support/forced_directions.hpp"
#include "support/gpu_test.hpp"
#include "support/gpus.hpp"
#include "support/sanitizers.hpp"
#include "unit/brute_force/same_answers.hpp"

namespace kith {
namespace {

using test::DeviceMemory;
using test::expect_same;
using test::on_gpu;

class CudaManyQueries : public test::GpuTest {
 protected:
  void TearDown() override { brute_force::force_order(std::nullopt); }
};

Dataset clusters(std::int64_t rows, std::int64_t dim, Dtype dtype, std::int64_t first) {
  Dataset data = generate({.generator = Generator::clusters,
                           .rows = rows,
                           .dim = dim,
                           .dtype = dtype,
                           .first_row = first,
                           .clusters = 30,
                           .spread = 0.3});
  if (dtype == Dtype::f32) {
    auto* values = static_cast<float*>(data.mutable_data());
    values[3 * dim] = std::numeric_limits<float>::quiet_NaN();
    values[70 * dim + 1] = std::numeric_limits<float>::infinity();
    values[150 * dim] = 1e30F;                                                             // special
    values[190 * dim + dim / 2] *= 40;                                                     // beyond the codes
    for (std::int64_t j = 0; j < dim; ++j) values[191 * dim + j] = values[192 * dim + j];  // equal rows
  }
  return data;
}

struct Shape {
  std::int64_t rows, dim, queries;
};

TEST_F(CudaManyQueries, TheBitsOfTheCpu) {
  std::vector<Shape> shapes = {{40'000, 20, 256},  {33'001, 64, 193},  {70'001, 100, 513},
                               {35'000, 128, 300}, {36'000, 130, 257}, {33'333, 250, 200},
                               {33'100, 500, 210}, {33'000, 640, 194}, {9'000, 128, 1000}};
  if (test::reduced()) shapes = {{33'001, 64, 193}, {9'000, 130, 257}};
  for (const Shape& s : shapes) {
    for (const Dtype dtype : {Dtype::f32, Dtype::u8}) {
      if (dtype == Dtype::u8 && s.dim > 300) continue;
      const Dataset rows = clusters(s.rows, s.dim, dtype, 0);
      const Dataset queries = clusters(s.queries, s.dim, dtype, s.rows);
      const DeviceMemory copy(rows.view().data, static_cast<std::size_t>(s.rows * s.dim) * size_of(dtype));
      DatasetView there = rows.view();
      there.data = copy.data();
      there.space = MemorySpace::cuda;
      for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product, Metric::cosine}) {
        const BruteForce cpu = BruteForce::build(rows.view(), {.metric = metric});
        for (const Filter filter : {Filter::int8, Filter::fp16}) {
          const BruteForce gpu = BruteForce::build(there, {.metric = metric, .filter = filter}, on_gpu());
          for (const std::int64_t k : {1, 10, 100}) {
            const std::string what = std::to_string(s.rows) + " x " + std::to_string(s.dim) + ", " +
                                     std::to_string(s.queries) + " queries, k " + std::to_string(k) + ", " +
                                     std::string(name(dtype)) + " " + std::string(name(metric)) + " " +
                                     std::string(name(filter));
            const Neighbors expected = cpu.search(queries.view(), k);
            for (const bool in_order : {false, true}) {
              brute_force::force_order(in_order);
              expect_same(gpu.search(queries.view(), k, on_gpu()), expected,
                          what + (in_order ? ", in order" : ""));
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

// Thresholds that are far apart, or that all rows reach: queries by themselves, among equal ones, among rows,
// and more of them than one block has.
TEST_F(CudaManyQueries, AnyThresholdsInAnyOrder) {
  const std::int64_t n = test::reduced() ? 33'000 : 100'000;
  const std::int64_t q = test::reduced() ? 700 : 5'001;
  brute_force::force_order(true);
  for (const std::int64_t dim : {12, 40, 90, 128}) {
    Dataset rows = generate({.generator = Generator::gaussian, .rows = n, .dim = dim});
    Dataset queries = generate({.generator = Generator::gaussian, .rows = q, .dim = dim, .first_row = n});
    auto* values = static_cast<float*>(queries.mutable_data());
    for (std::int64_t i = 0; i < q; ++i) {
      for (std::int64_t j = 0; j < dim; ++j) {
        float& value = values[i * dim + j];
        if (i % 7 == 0) value *= static_cast<float>(i % 50);
        if (i % 11 == 0) value = values[j];
        if (i % 13 == 0) value = static_cast<const float*>(rows.view().data)[i * dim + j];
      }
    }
    for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product}) {
      const BruteForce cpu = BruteForce::build(rows.view(), {.metric = metric});
      for (const Filter filter : {Filter::int8, Filter::fp16}) {
        const BruteForce gpu = BruteForce::build(rows.view(), {.metric = metric, .filter = filter}, on_gpu());
        for (const std::int64_t k : {1, 30, 500}) {
          expect_same(gpu.search(queries.view(), k, on_gpu()), cpu.search(queries.view(), k),
                      std::to_string(dim) + " " + std::string(name(metric)) + " " +
                          std::string(name(filter)) + ", k " + std::to_string(k));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Some queries keep a hundred times more than most: of codes of all values and along directions, with fine
// codes, more of them than blocks share, some more than there is room for, above all within a limit.
TEST_F(CudaManyQueries, SomeKeepFarMore) {
  const std::int64_t q = 640, d = 64, far = 40;
  const std::vector<std::int64_t> sizes =
      test::reduced() ? std::vector<std::int64_t>{9'000} : std::vector<std::int64_t>{5'000, 9'000, 50'000};
  for (const std::int64_t n : sizes) {
    for (const Generator generator : {Generator::gaussian, Generator::low_intrinsic_dimension}) {
      const Dataset rows = generate({.generator = generator, .rows = n, .dim = d});
      Dataset queries = generate({.generator = generator, .rows = q, .dim = d, .first_row = n});
      auto* values = static_cast<float*>(queries.mutable_data());
      for (std::int64_t i = 0; i < far; ++i) {
        float* value = values + i * (q / far) * d;
        for (std::int64_t j = 0; j < d; ++j) value[j] *= 1 + static_cast<float>(i) / 4;
      }
      const BruteForce cpu = BruteForce::build(rows.view());
      for (const int directions : {0, 20}) {
        const test::ForcedDirections forced(directions);
        const BruteForce gpu = BruteForce::build(rows.view(), {.filter = Filter::int8}, on_gpu());
        for (const std::int64_t k : {10, 60, 300}) {
          const Neighbors expected = cpu.search(queries.view(), k);
          for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{24} << 20U}) {
            expect_same(gpu.search(queries.view(), k, on_gpu(limit)), expected,
                        std::to_string(n) + " rows, " + std::to_string(directions) + " directions, k " +
                            std::to_string(k) + ", limit " + std::to_string(limit));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// The plan is for all queries, a batch may have few: its first bound comes from a sample.
TEST_F(CudaManyQueries, ALimitCutsThemIntoSmallBatches) {
  const std::int64_t n = test::reduced() ? 33'000 : 70'000, d = 96, q = 450, k = 10;
  const Dataset rows = clusters(n, d, Dtype::f32, 0);
  const Dataset queries = clusters(q, d, Dtype::f32, n);
  const BruteForce cpu = BruteForce::build(rows.view());
  const BruteForce gpu = BruteForce::build(rows.view(), {}, on_gpu());
  const Neighbors expected = cpu.search(queries.view(), k);
  for (const std::uint64_t mib : {4, 16, 32}) {
    expect_same(gpu.search(queries.view(), k, on_gpu(mib << 20U)), expected, std::to_string(mib) + " MiB");
    if (HasFatalFailure()) return;
  }
}

// The few queries that several blocks share are those that keep the most.
TEST_F(CudaManyQueries, TheHeaviestAreShared) {
  namespace cuda = brute_force::cuda;
  constexpr std::uint32_t most = 600;
  constexpr std::uint32_t none = 0xffffffffU;
  const kith::cuda::Stream stream;
  conformance::Random random(5);
  for (const std::int64_t queries : {1, 31, 1000, 5000}) {
    for (const std::int64_t heavy : {std::int64_t{0}, std::int64_t{7}, queries / 8, queries}) {
      if (heavy > queries) continue;
      std::vector<std::uint32_t> counts(static_cast<std::size_t>(queries));
      for (std::int64_t q = 0; q < queries; ++q) {
        const bool many = q * heavy / queries != (q + 1) * heavy / queries;
        const double times = many ? 1.01 * std::pow(1000.0, random.uniform()) : random.uniform();
        counts[static_cast<std::size_t>(q)] = static_cast<std::uint32_t>(most * times);
      }
      const DeviceMemory on_device(counts.data(), counts.size() * sizeof(std::uint32_t));
      const DeviceMemory found(cuda::most_heavy * sizeof(std::uint32_t));
      cuda::Candidates candidates;
      candidates.counts = static_cast<std::uint32_t*>(on_device.data());
      cuda::find_heavy(candidates, queries, most, static_cast<std::uint32_t*>(found.data()), stream);
      stream.synchronize();
      std::vector<std::uint32_t> taken;
      for (const std::uint32_t q : found.read<std::uint32_t>()) {
        if (q == none) continue;
        ASSERT_LT(q, queries);
        taken.push_back(counts[q]);
        EXPECT_GT(taken.back(), most);
        counts[q] = 0;  // once
      }
      EXPECT_EQ(taken.size(), static_cast<std::size_t>(std::min<std::int64_t>(heavy, cuda::most_heavy)));
      const std::uint32_t left = *std::max_element(counts.begin(), counts.end());
      for (const std::uint32_t count : taken) EXPECT_GE(count * 1.13, left > most ? left : 0);
    }
  }
}

}  // namespace
}  // namespace kith

#endif
