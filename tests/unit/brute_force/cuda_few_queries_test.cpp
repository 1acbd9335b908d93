// Few queries of int8 codes on a GPU, answered by one look at all rows: the bits of the CPU for every width
// of a code, rows that come to shared memory and rows that cannot, rows that no code speaks for, and lists
// that have more to say than their nearest row. Skipped where there is no GPU.
#ifdef KITH_CUDA_ENABLED

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "brute_force/directions.hpp"
#include "kith/brute_force.hpp"
#include "kith/generate.hpp"
#include "support/gpu_test.hpp"
#include "support/gpus.hpp"
#include "support/sanitizers.hpp"
#include "unit/brute_force/same_answers.hpp"

namespace kith {
namespace {

using test::expect_same;
using test::on_gpu;

class CudaFewQueries : public test::GpuTest {
 protected:
  void TearDown() override {
    brute_force::force_directions(std::nullopt);
    brute_force::force_short_codes(std::nullopt);
  }
};

// By the GPU's int8 codes and by the CPU, for 1 to 5 of the queries: more than four go through stages.
void compare(const Dataset& rows, const Dataset& queries, const std::vector<std::int64_t>& ks,
             const std::string& what) {
  for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product, Metric::cosine}) {
    const BruteForce cpu = BruteForce::build(rows.view(), {.metric = metric});
    const BruteForce gpu =
        BruteForce::build(rows.view(), {.metric = metric, .filter = Filter::int8}, on_gpu());
    for (const std::int64_t k : ks) {
      const Neighbors expected = cpu.search(queries.view().slice(0, 5), k);
      for (const std::int64_t count : {1, 3, 4, 5}) {
        Neighbors some = expected;
        some.indices.resize(static_cast<std::size_t>(count * k));
        std::visit([&](auto& values) { values.resize(static_cast<std::size_t>(count * k)); }, some.distances);
        expect_same(gpu.search(queries.view().slice(0, count), k, on_gpu()), some,
                    what + ", " + std::string(name(metric)) + ", " + std::to_string(count) + " queries, k " +
                        std::to_string(k));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

float* values_of(Dataset& data) {
  return static_cast<float*>(data.mutable_data());
}

TEST_F(CudaFewQueries, TheBitsOfTheCpu) {
  struct Shape {
    std::int64_t rows, dim;
    Dtype dtype;
  };
  // Rows of 68 bytes do not come to shared memory, those of 2,100 values in pieces, and their queries stay
  // where they are.
  std::vector<Shape> shapes = {
      {4'096, 5, Dtype::f32},    {9'000, 17, Dtype::f32},   {40'000, 32, Dtype::f32},
      {33'001, 64, Dtype::f32},  {70'001, 100, Dtype::f32}, {250'000, 128, Dtype::f32},
      {20'000, 130, Dtype::f32}, {33'333, 384, Dtype::f32}, {9'000, 2'100, Dtype::f32},
      {60'000, 96, Dtype::u8},   {50'001, 100, Dtype::u8},  {20'000, 300, Dtype::i8},
      {40'000, 128, Dtype::f16}, {30'000, 72, Dtype::bf16}, {20'000, 48, Dtype::f64}};
  if (test::reduced()) {
    shapes = {{9'000, 17, Dtype::f32},
              {33'001, 128, Dtype::f32},
              {5'000, 2'100, Dtype::f32},
              {9'000, 300, Dtype::u8}};
  }
  for (const Shape& s : shapes) {
    const auto some = [&](std::int64_t rows, std::int64_t first) {
      return generate({.generator = Generator::clusters,
                       .rows = rows,
                       .dim = s.dim,
                       .dtype = s.dtype,
                       .first_row = first,
                       .clusters = 3,
                       .spread = 0.8});
    };
    compare(some(s.rows, 0), some(5, s.rows), {1, 10, 32},
            std::to_string(s.rows) + " x " + std::to_string(s.dim) + " " + std::string(name(s.dtype)));
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaFewQueries, AlongDirections) {
  const std::int64_t n = test::reduced() ? 20'000 : 120'000;
  brute_force::force_directions(32);
  for (const std::int64_t dim : {160, 768}) {
    const auto some = [&](std::int64_t rows, std::int64_t first) {
      return generate({.generator = Generator::low_intrinsic_dimension,
                       .rows = rows,
                       .dim = dim,
                       .first_row = first,
                       .intrinsic_dim = 12,
                       .noise = 0.05});
    };
    compare(some(n, 0), some(5, n), {1, 10, 32}, std::to_string(dim));
    if (HasFatalFailure()) return;
  }
}

// Few queries have codes of their own, and where these keep too much (gaussian values are in no few
// directions) those that all others have.
TEST_F(CudaFewQueries, ByShortCodes) {
  const std::int64_t n = test::reduced() ? 20'000 : 120'000;
  constexpr std::int64_t dim = 160;
  brute_force::force_directions(64);
  brute_force::force_short_codes(28);
  for (const Generator generator : {Generator::low_intrinsic_dimension, Generator::gaussian}) {
    const auto some = [&](std::int64_t rows, std::int64_t first) {
      return generate({.generator = generator,
                       .rows = rows,
                       .dim = dim,
                       .first_row = first,
                       .intrinsic_dim = 12,
                       .noise = 0.05});
    };
    const Dataset rows = some(n, 0);
    const Dataset queries = some(5, n);
    compare(rows, queries, {1, 10, 32, 33}, "short codes");
    if (HasFatalFailure()) return;
    if (generator == Generator::gaussian) continue;
    const BruteForce gpu = BruteForce::build(rows.view(), {.filter = Filter::int8}, on_gpu());
    brute_force::force_short_codes(std::nullopt);
    const BruteForce plain = BruteForce::build(rows.view(), {.filter = Filter::int8}, on_gpu());
    brute_force::force_short_codes(28);
    EXPECT_GT(gpu.memory_bytes(), plain.memory_bytes());
    const auto directions = [&](std::int64_t count, std::int64_t k) {
      return gpu.search(queries.view().slice(0, count), k, on_gpu()).statistics.directions;
    };
    EXPECT_EQ(directions(1, 10), 28);
    EXPECT_EQ(directions(4, 32), 28);
    EXPECT_EQ(directions(4, 33), 64);
    EXPECT_EQ(directions(5, 10), 64);
  }
}

// Rows that no code speaks for are evaluated for each query; where there are many of them stages follow. The
// queries are near such rows, near others, and one is NaN and one infinite.
TEST_F(CudaFewQueries, RowsWithoutCodes) {
  constexpr std::int64_t n = 30'000, dim = 96;
  for (const std::int64_t special : {1, 300, 1'024, 1'025, 1'500, -300}) {
    if (test::reduced() && special == 1'500) continue;
    if (special < 0) brute_force::force_short_codes(28);  // once more, by codes of their own
    Dataset rows = generate({.generator = Generator::gaussian, .rows = n, .dim = dim});
    Dataset queries = generate({.generator = Generator::gaussian, .rows = 5, .dim = dim, .first_row = n});
    for (std::int64_t i = 0; i < std::abs(special); ++i) {
      float* row = values_of(rows) + (i * 19 + 7) * dim;
      for (std::int64_t j = 0; j < dim; ++j) row[j] *= i % 2 == 0 ? 1e3F : 30.0F;
    }
    float* asked = values_of(queries);
    std::memcpy(asked, values_of(rows) + 7 * dim, dim * sizeof(float));
    std::memcpy(asked + 2 * dim, values_of(rows) + 26 * dim, dim * sizeof(float));
    compare(rows, queries, {1, 10, 32}, std::to_string(special) + " rows without codes");
    if (HasFatalFailure()) return;
    asked[0] = std::numeric_limits<float>::quiet_NaN();
    asked[dim] = std::numeric_limits<float>::infinity();
    compare(rows, queries, {10}, "odd queries");
    if (HasFatalFailure()) return;
  }
}

// So many rows nearer to a query than codes can tell: few lists with a second one, parts of lists with a
// second one, more than are looked through.
TEST_F(CudaFewQueries, ListsWithMoreThanTheirNearest) {
  constexpr std::int64_t dim = 64;
  const std::int64_t n = test::reduced() ? 40'000 : 400'000;
  for (const std::int64_t near : {20, 100, 400, 1'500, 6'000, 30'000}) {
    Dataset rows = generate({.generator = Generator::gaussian, .rows = n, .dim = dim});
    const Dataset noise = generate({.generator = Generator::gaussian, .rows = near, .dim = dim, .seed = 1});
    const Dataset queries = generate({.generator = Generator::gaussian, .rows = 5, .dim = dim, .seed = 2});
    const auto* asked = static_cast<const float*>(queries.view().data);
    for (std::int64_t i = 0; i < near; ++i) {
      float* row = values_of(rows) + i * (n / near) * dim;
      const float* off = static_cast<const float*>(noise.view().data) + i * dim;
      // Half of them equal ones.
      for (std::int64_t j = 0; j < dim; ++j) row[j] = asked[j] + (i % 2 == 0 ? 1e-4F * off[j] : 1e-4F);
    }
    compare(rows, queries, {1, 10, 32}, std::to_string(near) + " near rows");
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace kith

#endif
