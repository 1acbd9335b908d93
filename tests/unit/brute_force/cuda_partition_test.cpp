// Rows in lists on a GPU: no list is left out that may hold a neighbour, clustered rows cost a share of a
// look at all of them, and no answer knows of it. Skipped where there is no GPU.
#ifdef KITH_CUDA_ENABLED

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "brute_force/cuda/choice.hpp"
#include "brute_force/cuda/partition.hpp"
#include "brute_force/cuda/shard.hpp"
#include "brute_force/cuda/tuning.hpp"
#include "brute_force/partition.hpp"
#include "conformance/problem.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "kith/generate.hpp"
#include "support/device_memory.hpp"
#include "support/expect_error.hpp"
#include "support/gpu_test.hpp"
#include "support/gpus.hpp"
#include "support/sanitizers.hpp"
#include "unit/brute_force/same_answers.hpp"
#include "unit/brute_force/shapes.hpp"

namespace kith::brute_force {
namespace {

using conformance::Random;
using test::expect_same;
using test::on_gpu;

double centre(std::int64_t row, std::int64_t column) {
  return static_cast<double>((row % 29 * 31 + column * 17) % 13);
}

const Shape shapes[] = {
    {"clusters", [](Random& r, std::int64_t i, std::int64_t j) { return centre(i, j) + 0.1 * r.normal(); }},
    {"tight clusters",
     [](Random& r, std::int64_t i, std::int64_t j) { return centre(i, j) + 1e-5 * r.normal(); }},
    {"far from the origin",
     [](Random& r, std::int64_t i, std::int64_t j) { return 1e5 + centre(i, j) + 0.01 * r.normal(); }},
    {"equal rows", [](Random&, std::int64_t i, std::int64_t j) { return centre(i, j); }},
    {"gaussian", [](Random& r, std::int64_t, std::int64_t) { return r.normal(); }},
    {"spectrum",
     [](Random& r, std::int64_t i, std::int64_t j) {
       return centre(i, j) + r.normal() * std::pow(10.0, -0.1 * static_cast<double>(j));
     }},
};

class CudaPartition : public test::GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    force_lists(true);
  }
  void TearDown() override { force_lists(std::nullopt); }
};

TEST_F(CudaPartition, GivesTheBitsOfALookAtAllRows) {
  std::uint64_t turn = 0;
  std::int64_t pairs = 0;
  std::int64_t compared = 0;
  for (const Shape& shape : shapes) {
    for (const Metric metric : {Metric::sqeuclidean, Metric::euclidean, Metric::cosine}) {
      for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::u8, Dtype::f64}) {
        ++turn;
        if (test::reduced() && turn % 9 != 0) continue;
        const std::int64_t n = (test::reduced() ? 2600 : 9000) + static_cast<std::int64_t>(turn % 7) * 131;
        const std::int64_t dim = std::vector<std::int64_t>{20, 96, 200, 520}[turn % 4];
        const std::int64_t queries = turn % 3 == 0 && !test::reduced() ? 700 : 150;
        const RowsAndQueries made = make(shape, n, queries, dim);
        const conformance::Rows rows(conformance::quantize(made.rows, dtype, 16), dtype);
        const conformance::Rows asked(conformance::quantize(made.queries, dtype, 16), dtype);
        const BruteForce plain = BruteForce::build(rows.view(), {.metric = metric, .lists = 0});
        for (const Filter filter : {Filter::int8, Filter::fp16}) {
          const std::int64_t lists =
              std::vector<std::int64_t>{1, 60, 120, 700}[(turn + static_cast<std::uint64_t>(filter)) % 4];
          const auto by_lists =
              BruteForce::build(rows.view(), {.metric = metric, .filter = filter, .lists = lists}, on_gpu());
          for (const std::int64_t k : {1, 10, 100}) {
            const Neighbors found = by_lists.search(asked.view(), k, on_gpu());
            expect_same(found, plain.search(asked.view(), k),
                        std::string(shape.name) + " " + std::string(name(metric)) + " " +
                            std::string(name(dtype)) + " " + std::string(name(filter)) + " " +
                            std::to_string(lists) + " lists, k = " + std::to_string(k));
            if (HasFatalFailure()) return;
            EXPECT_GE(found.statistics.lists, 1);
            EXPECT_LE(found.statistics.lists, lists + lists / 2 + 2);
            // A block of queries looks at tiles of 256 rows: the lists of 700 queries are more than those of
            // a block.
            if (queries < 700 || lists < 60 || k == 100 || shape.value == shapes[4].value) continue;
            pairs += queries * n;
            compared += found.statistics.pairs;
          }
        }
      }
    }
  }
  EXPECT_TRUE(test::reduced() || compared < pairs * 3 / 4) << compared << " of " << pairs;
}

// Radii hold the rows of their lists, and no row of a list is nearer to a query than the list is said to be:
// in extended precision. Neither is much more than that.
TEST_F(CudaPartition, BoundsHoldPairByPair) {
  using test::DeviceMemory;
  constexpr std::int64_t n = 900;
  constexpr std::int64_t count = 130;
  constexpr std::int64_t lists = 70;
  const cuda::Stream stream;
  for (const Shape& shape : shapes) {
    for (const Metric metric : {Metric::euclidean, Metric::cosine}) {
      for (const std::int64_t dim : {5, 64, 333}) {
        const std::string what =
            std::string(shape.name) + " " + std::string(name(metric)) + " " + std::to_string(dim);
        const RowsAndQueries made = make(shape, n, count, dim);
        const conformance::Rows rows(made.rows, Dtype::f32);
        const conformance::Rows asked(made.queries, Dtype::f32);
        const auto* x = static_cast<const float*>(rows.view().data);
        const auto* q = static_cast<const float*>(asked.view().data);
        const auto stride = static_cast<std::size_t>(cuda::ball_stride(dim));
        // The first rows as centres, as they are in code space; about as long as the rows, not centred.
        const bool cosine = metric == Metric::cosine;
        const double unit = cosine ? 1 : 0x1p-4;
        const auto place = [&](const float* row, std::int64_t j) {
          long double squares = 0;
          for (std::int64_t i = 0; i < dim; ++i) squares += static_cast<long double>(row[i]) * row[i];
          return cosine ? static_cast<long double>(row[j]) / std::sqrt(squares)
                        : static_cast<long double>(row[j]) * unit;
        };
        std::vector<float> centres(lists * stride, 0.0F);
        for (std::int64_t list = 0; list < lists; ++list) {
          for (std::int64_t j = 0; j < dim; ++j) {
            centres[static_cast<std::size_t>(list) * stride + static_cast<std::size_t>(j)] =
                static_cast<float>(place(x + list * dim, j));
          }
        }
        const auto distance = [&](const std::vector<long double>& a, const auto* b) {
          long double sum = 0;
          for (std::size_t j = 0; j < a.size(); ++j) sum += (a[j] - b[j]) * (a[j] - b[j]);
          return std::sqrt(sum);
        };
        std::vector<std::vector<long double>> placed_rows;
        std::vector<std::vector<long double>> placed_queries;
        for (std::int64_t i = 0; i < n; ++i) {
          placed_rows.emplace_back();
          for (std::int64_t j = 0; j < dim; ++j) placed_rows.back().push_back(place(x + i * dim, j));
        }
        for (std::int64_t i = 0; i < count; ++i) {
          placed_queries.emplace_back();
          for (std::int64_t j = 0; j < dim; ++j) placed_queries.back().push_back(place(q + i * dim, j));
        }
        cuda::CodeSpace space;
        space.form = cosine ? codes::Form::cauchy : codes::Form::triangle;
        space.metric = metric;
        space.dim = dim;
        space.unit = unit;
        const DeviceMemory device_rows(x, static_cast<std::size_t>(n * dim) * 4);
        const DeviceMemory device_queries(q, static_cast<std::size_t>(count * dim) * 4);
        const DeviceMemory device_centres(centres.data(), centres.size() * 4);
        const std::vector<float> none(lists, 0.0F);
        const DeviceMemory radii(none.data(), lists * 4);
        const DeviceMemory row_points(n * stride * 4);
        const DeviceMemory points(count * stride * 4);
        const DeviceMemory off(count * 4);
        const DeviceMemory nearest(n * 8);
        const DeviceMemory nearest_of_queries(count * 8);
        const DeviceMemory least(count * lists * 4);
        const auto floats = [](const DeviceMemory& memory) { return static_cast<float*>(memory.data()); };
        const cuda::ListBalls balls{lists, static_cast<std::int64_t>(stride), floats(device_centres),
                                    floats(radii)};
        auto* of_rows = static_cast<std::uint64_t*>(nearest.data());
        cuda::place_in_space(device_rows.data(), dim, n, space, floats(row_points), nullptr, stream);
        cuda::compare_with_centres(floats(row_points), nullptr, n, balls, of_rows, nullptr, stream);
        cuda::measure_radii(device_rows.data(), dim, n, space, of_rows, balls, floats(radii), stream);
        cuda::place_in_space(device_queries.data(), dim, count, space, floats(points), floats(off), stream);
        cuda::compare_with_centres(floats(points), floats(off), count, balls,
                                   static_cast<std::uint64_t*>(nearest_of_queries.data()), floats(least),
                                   stream);
        stream.synchronize();
        const std::vector<std::uint64_t> list_of = nearest.read<std::uint64_t>();
        const std::vector<float> radius = radii.read<float>();
        const std::vector<float> bound = least.read<float>();
        std::vector<long double> farthest(lists, 0);
        for (std::int64_t i = 0; i < n; ++i) {
          const auto list = static_cast<std::uint32_t>(list_of[static_cast<std::size_t>(i)]);
          ASSERT_LT(list, lists);
          const long double length =
              distance(placed_rows[static_cast<std::size_t>(i)], centres.data() + list * stride);
          ASSERT_LE(length, static_cast<long double>(radius[list])) << what;
          farthest[list] = std::max(farthest[list], length);
        }
        long double loosest = 0;
        for (std::int64_t i = 0; i < count; ++i) {
          const auto& query = placed_queries[static_cast<std::size_t>(i)];
          for (std::int64_t row = 0; row < n; ++row) {
            const auto list = static_cast<std::uint32_t>(list_of[static_cast<std::size_t>(row)]);
            const float said = bound[static_cast<std::size_t>(i * lists) + list];
            ASSERT_GE(distance(query, placed_rows[static_cast<std::size_t>(row)].data()),
                      static_cast<long double>(said))
                << what;
          }
          for (std::int64_t list = 0; list < lists; ++list) {
            const long double to_centre =
                distance(query, centres.data() + static_cast<std::size_t>(list) * stride);
            const auto at = static_cast<std::size_t>(list);
            loosest =
                std::max(loosest, to_centre - farthest[at] - bound[static_cast<std::size_t>(i * lists) + at]);
          }
        }
        long double length = 0;
        for (const long double value : placed_rows[0]) length += value * value;
        EXPECT_LT(loosest, 1e-4L * std::sqrt(length)) << what;
        for (std::size_t list = 0; list < lists; ++list)
          EXPECT_LT(radius[list], farthest[list] * (1 + 1e-6L) + 1e-6L * std::sqrt(length)) << what;
      }
    }
  }
}

// The bound set to a row's own distance: the tile that holds the row is looked at.
TEST_F(CudaPartition, NoTileIsLeftOutThatHasARowWithinTheBound) {
  using test::DeviceMemory;
  constexpr std::int64_t n = 2000;
  constexpr std::int64_t count = 60;
  constexpr std::int64_t dim = 24;
  constexpr std::int64_t tiles = (n + codes::cuda::code_tile_rows - 1) / codes::cuda::code_tile_rows;
  const cuda::Stream stream;
  std::int64_t left_out = 0;
  for (const Shape& shape : shapes) {
    for (const Metric metric : {Metric::sqeuclidean, Metric::euclidean, Metric::cosine}) {
      const RowsAndQueries made = make(shape, n, count, dim);
      const conformance::Rows rows(made.rows, Dtype::f32);
      const conformance::Rows asked(made.queries, Dtype::f32);
      const DeviceMemory copy(rows.view().data, n * dim * 4);
      const CudaChoice choice =
          choose_cuda_codes(rows.view(), n, {.metric = metric, .filter = Filter::fp16}, tuning::policy_of(0));
      Shard shard(0, choice, rows.view(), metric, n, tuning::with_wgmma);
      shard.data = copy.data();
      shard.stride = dim;
      shard.encode(copy.data(), dim, n, shard.stream);
      const ListCentres centres = centres_of_lists(rows.view(), metric, 100, {});
      shard.divide(centres.values, {});
      ASSERT_EQ(shard.special_rows, 0);
      std::vector<std::uint32_t> order(static_cast<std::size_t>(shard.lists.order.size()));
      ASSERT_EQ(cudaMemcpy(order.data(), shard.lists.order.data(), order.size() * 4, cudaMemcpyDeviceToHost),
                cudaSuccess);
      std::vector<std::int64_t> tile_of(n);
      for (std::int64_t place = 0; place < n; ++place)
        tile_of[order[static_cast<std::size_t>(place)]] = place % tiles;
      Workspace w(0);
      const DeviceMemory queries(asked.view().data, count * dim * 4);
      const cuda::ListedQueries listed = order_queries(shard, w, queries.data(), dim, count);
      w.stream.synchronize();
      std::vector<std::uint32_t> ids(count);
      ASSERT_EQ(cudaMemcpy(ids.data(), listed.ids, count * 4, cudaMemcpyDeviceToHost), cudaSuccess);
      // Distances to all rows, by number.
      const Neighbors all =
          BruteForce::build(rows.view(), {.metric = metric, .lists = 0}).search(asked.view(), n);
      const auto& distances = std::get<std::vector<float>>(all.distances);
      const std::vector<cuda::QueryScalars> regular(count);
      const DeviceMemory scalars(regular.data(), count * sizeof(cuda::QueryScalars));
      const DeviceMemory best(count * 4);
      const DeviceMemory visited(count * tiles * 4);
      const DeviceMemory counts(count * 4);
      const DeviceMemory pairs(8);
      for (const std::int64_t rank : {0, 1, 7, 60, 300, 1000, 1999}) {
        for (const float share : {1.0F, 0.5F}) {
          std::vector<float> bounds(count);
          for (std::int64_t q = 0; q < count; ++q) {
            bounds[static_cast<std::size_t>(q)] =
                share * distances[ids[static_cast<std::size_t>(q)] * n + rank];
          }
          ASSERT_EQ(cudaMemcpy(best.data(), bounds.data(), count * 4, cudaMemcpyHostToDevice), cudaSuccess);
          cuda::Batch<float> batch{};
          batch.space = shard.space;
          batch.count = count;
          batch.shard_rows = n;
          batch.scalars = static_cast<const cuda::QueryScalars*>(scalars.data());
          batch.best = static_cast<float*>(best.data());
          cuda::choose_visits(batch, listed, shard.lists.balls(dim), cuda::Stage{tiles, 1, 0, tiles}, 1,
                              static_cast<std::uint32_t*>(visited.data()),
                              static_cast<std::uint32_t*>(counts.data()),
                              static_cast<unsigned long long*>(pairs.data()), w.stream);
          w.stream.synchronize();
          const std::vector<std::uint32_t> looked = visited.read<std::uint32_t>();
          const std::vector<std::uint32_t> many = counts.read<std::uint32_t>();
          for (std::int64_t q = 0; q < count; ++q) {
            const auto at = static_cast<std::size_t>(q);
            ASSERT_LE(many[at], tiles);
            left_out += tiles - many[at];
            const auto first = looked.begin() + q * tiles;
            for (std::int64_t i = 0; i < n; ++i) {
              const std::size_t cell = ids[at] * static_cast<std::size_t>(n) + static_cast<std::size_t>(i);
              if (!(distances[cell] <= bounds[at])) break;
              const auto tile =
                  static_cast<std::uint32_t>(tile_of[static_cast<std::size_t>(all.indices[cell])]);
              ASSERT_TRUE(std::find(first, first + many[at], tile) != first + many[at])
                  << shape.name << " " << name(metric) << ", row " << all.indices[cell] << ", rank " << i;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(left_out, 10000);
}

// NaN, infinities, rows and queries far from all others, zeros.
TEST_F(CudaPartition, KnowsWhatNoListCanHold) {
  constexpr std::int64_t dim = 40;
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Dataset rows =
      generate({.generator = Generator::clusters, .rows = 5000, .dim = dim, .clusters = 20, .spread = 0.1});
  Dataset asked = generate({.generator = Generator::clusters,
                            .rows = 300,
                            .dim = dim,
                            .first_row = 5000,
                            .clusters = 20,
                            .spread = 0.1});
  auto* values = static_cast<float*>(rows.mutable_data());
  values[17 * dim + 3] = nan;
  values[18 * dim] = infinity;
  values[19 * dim + 39] = -3e38F;
  for (std::int64_t j = 0; j < dim; ++j) values[20 * dim + j] = 1e20F;
  for (std::int64_t j = 0; j < dim; ++j) values[21 * dim + j] = 0;
  auto* queries = static_cast<float*>(asked.mutable_data());
  queries[5 * dim] = nan;
  queries[6 * dim + 7] = infinity;
  for (std::int64_t j = 0; j < dim; ++j) {
    queries[7 * dim + j] = 1e20F;
    queries[8 * dim + j] = -1e6F;
    queries[9 * dim + j] = 0;
  }
  for (const Metric metric : {Metric::sqeuclidean, Metric::euclidean, Metric::cosine}) {
    const auto plain = BruteForce::build(rows.view(), {.metric = metric, .lists = 0});
    for (const Filter filter : {Filter::int8, Filter::fp16}) {
      const auto by_lists =
          BruteForce::build(rows.view(), {.metric = metric, .filter = filter, .lists = 50}, on_gpu());
      for (const std::int64_t k : {1, 12, 600}) {
        const Neighbors found = by_lists.search(asked.view(), k, on_gpu());
        expect_same(found, plain.search(asked.view(), k),
                    std::string(name(metric)) + " " + std::string(name(filter)) + " " + std::to_string(k));
        EXPECT_EQ(found.statistics.nan_rows, 1);
        EXPECT_EQ(found.statistics.nan_queries, 1);
      }
    }
  }
}

TEST_F(CudaPartition, KeepsTheMemoryLimit) {
  const std::int64_t n = 20'000;
  const Dataset rows = generate({.generator = Generator::clusters, .rows = n, .dim = 64});
  const Dataset asked = generate({.generator = Generator::clusters, .rows = 2000, .dim = 64, .first_row = n});
  const auto by_lists = BruteForce::build(rows.view(), {.filter = Filter::fp16, .lists = 200}, on_gpu());
  const Neighbors expected = BruteForce::build(rows.view(), {.lists = 0}).search(asked.view(), 10);
  for (const std::uint64_t mib : {256, 24, 12, 6}) {
    const Neighbors found = by_lists.search(asked.view(), 10, on_gpu(mib << 20U));
    expect_same(found, expected, std::to_string(mib) + " MiB");
    if (mib == 256) {
      EXPECT_LT(found.statistics.pairs, 2000 * n / 2);
    }
  }
}

// Queries that do not go by lists find rows by the same order of tiles: few by one pass, others by a look at
// a sample, at runs of one, or stages.
TEST_F(CudaPartition, OtherWaysToSearchKnowTheOrderOfRows) {
  const std::int64_t n = test::reduced() ? 5000 : 40'000;
  for (const std::int64_t dim : {12, 20, 64, 300}) {
    const Dataset rows = generate({.generator = Generator::clusters, .rows = n, .dim = dim});
    const std::int64_t many = dim == 12 && !test::reduced() ? 7000 : 300;
    const Dataset asked =
        generate({.generator = Generator::clusters, .rows = many, .dim = dim, .first_row = n});
    const auto plain = BruteForce::build(rows.view(), {.lists = 0});
    for (const Filter filter : {Filter::int8, Filter::fp16}) {
      const auto divided = BruteForce::build(rows.view(), {.filter = filter, .lists = 300}, on_gpu());
      for (const std::int64_t count : {std::int64_t{1}, std::int64_t{3}, std::int64_t{100}, many}) {
        const DatasetView some = asked.view().slice(0, count);
        for (const std::int64_t k : {1, 10, 40}) {
          const Neighbors expected = plain.search(some, k);
          const std::string what = std::to_string(dim) + " " + std::string(name(filter)) + " " +
                                   std::to_string(count) + " queries, k = " + std::to_string(k);
          force_lists(false);
          const Neighbors found = divided.search(some, k, on_gpu());
          expect_same(found, expected, what);
          EXPECT_EQ(found.statistics.pairs, count * n);
          force_lists(std::nullopt);
          const Neighbors as_it_pays = divided.search(some, k, on_gpu());
          expect_same(as_it_pays, expected, what);
          // A tile of 256 rows is a twentieth of the few rows.
          if (dim >= 64 && filter == Filter::fp16 && count == 1 && !test::reduced()) {
            EXPECT_LT(as_it_pays.statistics.pairs, n / 4) << what;
          }
        }
      }
    }
  }
}

// In memory of the device, read as soon as the call is back.
TEST_F(CudaPartition, AnswersAreThereWhenTheCallIsBack) {
  const std::int64_t n = 30'000;
  const std::int64_t queries = test::reduced() ? 300 : 4000;
  const std::int64_t k = 900;
  const Dataset rows = generate({.generator = Generator::clusters, .rows = n, .dim = 32});
  const Dataset asked =
      generate({.generator = Generator::clusters, .rows = queries, .dim = 32, .first_row = n});
  const auto index = BruteForce::build(rows.view(), {.filter = Filter::int8, .lists = 60}, on_gpu());
  const Neighbors expected = BruteForce::build(rows.view(), {.lists = 0}).search(asked.view(), k);
  for (int time = 0; time < 3; ++time) {
    const test::DeviceMemory indices(static_cast<std::size_t>(queries * k) * sizeof(std::int64_t));
    const test::DeviceMemory distances(static_cast<std::size_t>(queries * k) * sizeof(float));
    NeighborsView view{static_cast<std::int64_t*>(indices.data()), distances.data(), queries, k};
    view.space = MemorySpace::cuda;
    (void)index.search_into(asked.view(), view, on_gpu());
    std::vector<std::int64_t> found(static_cast<std::size_t>(queries * k));
    // On a stream that waits for no other, as the caller may.
    const cuda::Stream stream;
    ASSERT_EQ(cudaMemcpyAsync(found.data(), indices.data(), found.size() * sizeof(std::int64_t),
                              cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    stream.synchronize();
    EXPECT_EQ(found, expected.indices);
    EXPECT_EQ(distances.read<float>(), std::get<std::vector<float>>(expected.distances));
  }
}

TEST_F(CudaPartition, IsRefusedWithAReason) {
  const Dataset rows = generate({.generator = Generator::clusters, .rows = 3000, .dim = 30});
  const auto build = [&](const BruteForceParameters& parameters, std::uint64_t limit = 0) {
    return [&rows, parameters, limit] { BruteForce::build(rows.view(), parameters, on_gpu(limit)); };
  };
  test::expect_error<InvalidArgument>(build({.metric = Metric::inner_product, .lists = 5}),
                                      {"5 lists on a GPU need", "sqeuclidean, euclidean, cosine"});
  test::expect_error<InvalidArgument>(build({.filter = Filter::fp32, .lists = 5}),
                                      {"5 lists", "int8 or fp16"});
  test::expect_error<InvalidArgument>(build({.lists = 70'000}), {"70000 lists", "at most 65536"});
}

// By itself where rows lie in clusters, and nowhere else.
TEST_F(CudaPartition, IsMadeWhereRowsLieInClusters) {
  if (test::reduced()) GTEST_SKIP() << "400,000 rows";
  force_lists(std::nullopt);
  const std::int64_t n = 400'000;
  for (const Generator generator : {Generator::clusters, Generator::gaussian}) {
    const bool clustered = generator == Generator::clusters;
    const Dataset rows = generate({.generator = generator, .rows = n, .dim = 128});
    const Dataset asked = generate({.generator = generator, .rows = 3000, .dim = 128, .first_row = n});
    const Neighbors found = BruteForce::build(rows.view(), {}, on_gpu()).search(asked.view(), 10, on_gpu());
    EXPECT_EQ(found.statistics.lists > 0, clustered);
    EXPECT_EQ(found.statistics.pairs < 3000 * n / 4, clustered);
    const Neighbors expected =
        BruteForce::build(rows.view(), {.lists = 0}, on_gpu()).search(asked.view(), 10, on_gpu());
    EXPECT_EQ(expected.statistics.lists, 0);
    expect_same(found, expected, std::string(name(generator)));
    if (clustered) {
      EXPECT_EQ(knn(rows.view(), asked.view().slice(0, 300), 10, {}, on_gpu()).statistics.lists, 0);
    }
  }
}

}  // namespace
}  // namespace kith::brute_force

#endif
