// Codes along leading directions on GPUs: coordinates within their bound of the real ones, the bits of the
// CPU whatever the spectrum and wherever the rows lie, and codes of all values where queries ask for them.
// Skipped where there is no GPU.
#ifdef KITH_CUDA_ENABLED

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/prepared.hpp"
#include "brute_force/cuda/shard.hpp"
#include "brute_force/cuda/tuning.hpp"
#include "brute_force/directions.hpp"
#include "codes/cuda/codes.hpp"
#include "conformance/problem.hpp"
#include "core/visit_dtype.hpp"
#include "distance/canonical.hpp"
#include "kith/brute_force.hpp"
#include "kith/convert.hpp"
#include "support/device_memory.hpp"
#include "support/forced_directions.hpp"
#include "support/gpu_test.hpp"
#include "support/gpus.hpp"

namespace kith {
namespace {

using conformance::Random;
using test::DeviceMemory;
using test::on_gpu;
using Wide = long double;

class CudaDirectionsTest : public test::GpuTest {};

void expect_same(const Neighbors& found, const Neighbors& expected, const std::string& what) {
  EXPECT_EQ(found.indices, expected.indices) << what;
  EXPECT_EQ(found.distances, expected.distances) << what;
}

/// Values of any element type in host memory.
struct Values {
  std::vector<std::uint64_t> memory;
  DatasetView view;

  Values(const std::vector<double>& from, std::int64_t dim, Dtype dtype, double integer_scale = 20) {
    const auto rows = static_cast<std::int64_t>(from.size()) / dim;
    memory.resize((from.size() * size_of(dtype) + 7) / 8);
    visit_dtype(dtype, [&]<class T>(T /*tag*/) {
      T* out = reinterpret_cast<T*>(memory.data());
      for (std::size_t i = 0; i < from.size(); ++i) {
        if constexpr (std::is_same_v<T, float16>) {
          out[i] = to_float16(static_cast<float>(from[i]));
        } else if constexpr (std::is_same_v<T, bfloat16>) {
          out[i] = to_bfloat16(static_cast<float>(from[i]));
        } else if constexpr (std::is_integral_v<T>) {
          const double value = std::round(from[i] * integer_scale) + (std::is_signed_v<T> ? 0 : 128);
          out[i] = static_cast<T>(
              std::clamp<double>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
        } else {
          out[i] = static_cast<T>(from[i]);
        }
      }
    });
    view = DatasetView(memory.data(), dtype, rows, dim, dim);
  }
};

/// Deviations fall from 1 by `decades` powers of ten in all, along directions that are no axes: every row is
/// mirrored in a plane across all axes.
std::vector<double> falling(std::int64_t rows, std::int64_t dim, double decades, double offset,
                            std::uint64_t seed) {
  Random fixed(7);
  std::vector<double> plane(static_cast<std::size_t>(dim));
  double squares = 0;
  for (double& value : plane) {
    value = fixed.normal();
    squares += value * value;
  }
  Random random(seed);
  std::vector<double> out(static_cast<std::size_t>(rows * dim));
  for (std::int64_t i = 0; i < rows; ++i) {
    double* row = out.data() + i * dim;
    double product = 0;
    for (std::int64_t j = 0; j < dim; ++j) {
      row[j] = (random.uniform() + random.uniform() + random.uniform() - 1.5) *
               std::pow(10.0, -decades * static_cast<double>(j) / static_cast<double>(dim));
      product += row[j] * plane[static_cast<std::size_t>(j)];
    }
    for (std::int64_t j = 0; j < dim; ++j) {
      row[j] += offset - 2 * product / squares * plane[static_cast<std::size_t>(j)];
    }
  }
  return out;
}

/// Sums of `rank` rows: nothing is left across them but rounding.
std::vector<double> of_rank(std::int64_t rows, std::int64_t dim, int rank, std::uint64_t seed) {
  Random fixed(8);
  std::vector<double> base(static_cast<std::size_t>(rank * dim));
  for (double& value : base) value = fixed.normal();
  Random random(seed);
  std::vector<double> out(static_cast<std::size_t>(rows * dim));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (int r = 0; r < rank; ++r) {
      const double factor = random.normal();
      for (std::int64_t j = 0; j < dim; ++j) {
        out[static_cast<std::size_t>(i * dim + j)] += factor * base[static_cast<std::size_t>(r * dim + j)];
      }
    }
  }
  return out;
}

// Coordinates and 1 / |x| of all rows, as the kernels leave them.
std::vector<double> coordinates_of(const DatasetView& rows, brute_force::Shard& shard) {
  namespace cuda = codes::cuda;
  const std::int64_t width = shard.space.map_width;
  const kith::cuda::Stream stream;
  const DeviceMemory data(rows.data, static_cast<std::size_t>(rows.rows * rows.dim) * size_of(rows.dtype));
  const DeviceMemory out(
      static_cast<std::size_t>(cuda::Coordinates::doubles(rows.rows, width)) * sizeof(double), 0);
  cuda::project(data.data(), rows.dim, rows.rows, shard.space,
                cuda::Coordinates::in(static_cast<double*>(out.data()), rows.rows, width), stream);
  stream.synchronize();
  return out.read<double>();
}

// All kernels, for few rows, some and many, every width of a block's tile and two of them side by side.
TEST_F(CudaDirectionsTest, CoordinatesAreWithinTheirErrorOfTheRealOnes) {
  struct Shape {
    std::int64_t rows, dim, directions;
  };
  for (const Shape s :
       {Shape{1, 20, 1}, Shape{5, 96, 28}, Shape{300, 97, 33}, Shape{257, 130, 96}, Shape{1000, 257, 124},
        Shape{700, 300, 150}, Shape{3, 768, 60}, Shape{513, 15, 15}, Shape{16'385, 21, 20},
        Shape{16'500, 63, 60}, Shape{17'000, 97, 90}, Shape{16'390, 130, 124}, Shape{16'400, 160, 150}}) {
    const std::int64_t step = s.rows > 1000 ? 97 : 1;  // of the rows that are looked at
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::u8, Dtype::f16}) {
      for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product, Metric::cosine}) {
        const std::string what = std::to_string(s.rows) + " x " + std::to_string(s.dim) + " along " +
                                 std::to_string(s.directions) + ", " + std::string(name(dtype)) + " " +
                                 std::string(name(metric));
        const Values values(falling(s.rows, s.dim, 3, 0.1, 3), s.dim, dtype);
        Random random(5);
        brute_force::CudaChoice choice;
        choice.filter = Filter::int8;
        choice.form = metric == Metric::sqeuclidean ? codes::Form::triangle : codes::Form::cauchy;
        choice.unit = metric == Metric::cosine ? 1 : 0.25;
        if (metric == Metric::sqeuclidean) {
          for (std::int64_t j = 0; j < s.dim; ++j) choice.mean.push_back(random.normal());
        }
        auto projection = std::make_shared<codes::Projection>(codes::empty_projection(s.dim, s.directions));
        for (std::int64_t i = 0; i < s.dim; ++i) {
          for (std::int64_t j = 0; j < s.directions; ++j) {
            projection->at(i, j) = random.normal() / std::sqrt(static_cast<double>(s.dim));
          }
        }
        ASSERT_TRUE(codes::contract(*projection)) << what;
        choice.projection = projection;
        brute_force::Shard shard(0, choice, values.view, metric, s.rows, brute_force::tuning::with_wgmma);
        const std::vector<double> found = coordinates_of(values.view, shard);
        const std::int64_t width = shard.space.map_width;
        ASSERT_GE(width, s.directions);
        for (std::int64_t r = s.rows - 1; r >= 0; r -= step) {
          std::vector<double> y(static_cast<std::size_t>(s.dim));
          codes::row_kernels().load[static_cast<int>(dtype)](values.view.row(r), s.dim, y.data());
          const double inverse = found[static_cast<std::size_t>(s.rows * width + r)];
          Wide squares = 0;
          for (std::int64_t j = 0; j < s.dim; ++j) {
            double& value = y[static_cast<std::size_t>(j)];
            if (metric == Metric::cosine) {
              value *= inverse;
            } else {
              const double mean = choice.mean.empty() ? 0 : choice.mean[static_cast<std::size_t>(j)];
              value = (value - mean) * choice.unit;
            }
            squares += Wide{value} * value;
          }
          Wide apart = 0;
          for (std::int64_t j = 0; j < width; ++j) {
            Wide real = 0;
            for (std::int64_t i = 0; i < s.dim && j < s.directions; ++i) {
              real += Wide{projection->at(i, j)} * y[static_cast<std::size_t>(i)];
            }
            const double computed = found[static_cast<std::size_t>(r * width + j)];
            apart += (computed - real) * (computed - real);
          }
          const double share =
              (static_cast<double>(s.dim) + 16) * std::sqrt(static_cast<double>(s.directions)) * 0x1p-51 / 3;
          ASSERT_LE(std::sqrt(apart), share * std::sqrt(squares)) << what << ", row " << r;
          if (metric == Metric::cosine) {
            ASSERT_NEAR(static_cast<double>(squares), 1, 1e-12) << what;
          }
        }
      }
    }
  }
}

// What filters keep of pairs (query i, row i) when the bound is each pair's own canonical distance.
struct Kept {
  std::int64_t coded = 0;  // rows that have codes: the others are evaluated without
  std::int64_t int8 = 0, fine = 0;
};

Kept keep_pairs(const DatasetView& rows, const DatasetView& queries, Metric metric, std::int64_t directions) {
  namespace engine = brute_force::cuda;
  using engine::Buffer;
  const std::int64_t n = rows.rows, dim = rows.dim, padded = (dim + 7) / 8 * 8;
  Dataset sample = Dataset::allocate(rows.dtype, n, dim);
  std::memcpy(sample.mutable_data(), rows.data, static_cast<std::size_t>(n * dim) * size_of(rows.dtype));
  const auto& policy = brute_force::tuning::policy_of(0);
  const auto all =
      brute_force::choose_cuda_codes(rows, n, {.metric = metric, .filter = Filter::int8}, policy);
  const auto choice =
      brute_force::CudaDirections(std::move(sample), metric, all, directions, {}).along(directions, policy);
  EXPECT_EQ(choice.directions(), directions);
  const kith::cuda::Stream stream;
  const DeviceMemory row_copy(rows.data, static_cast<std::size_t>(n * dim) * size_of(rows.dtype));
  const DeviceMemory query_copy(queries.data, static_cast<std::size_t>(n * dim) * size_of(rows.dtype));
  brute_force::Shard shard(0, choice, rows, metric, n, brute_force::tuning::with_wgmma);
  shard.encode(row_copy.data(), dim, n, stream);
  const engine::CodeSpace& space = shard.space;
  const int tile = engine::choose_query_tile(space.shape, n, 0);

  std::vector<float> bounds;
  std::vector<double> values(static_cast<std::size_t>(canonical_padded(dim)));
  for (std::int64_t i = 0; i < n; ++i) {
    double distance = 0;
    const auto query = prepare_canonical_query(queries.row(i), rows.dtype, dim, metric, values.data());
    canonical_function(rows.dtype, metric)(canonical_rows(rows), query, &i, 1, &distance);
    bounds.push_back(static_cast<float>(distance));
  }
  const DeviceMemory best(bounds.data(), bounds.size() * sizeof(float));
  Buffer<double> query_values(n * padded, stream);
  Buffer<double> coordinates(engine::Coordinates::doubles(n, space.map_width), stream);
  Buffer<std::uint8_t> codes((n + tile - 1) / tile * tile * space.shape.row_bytes(), stream);
  Buffer<std::int16_t> fine(n * space.fine_stride(), stream);
  Buffer<engine::QueryScalars> scalars(n, stream);
  Buffer<engine::QueryBound> query_bounds(n, stream);
  Buffer<std::uint64_t> entries(n * n, stream);
  Buffer<std::uint32_t> counts(n, stream);
  Buffer<unsigned char> lists(n * engine::key_bytes<float>, stream);
  Buffer<float> own_best(n, stream);
  Buffer<std::uint32_t> arrived(n, stream);
  Buffer<std::uint8_t> overflow(n, stream);
  Buffer<unsigned long long> counters(6, stream);
  KITH_CUDA(cudaMemsetAsync(counters.data(), 0, counters.bytes(), stream));
  engine::QueryCodes encoded;
  encoded.values = query_values.data();
  encoded.padded = padded;
  encoded.codes = codes.data();
  encoded.tile = tile;
  encoded.scalars = scalars.data();
  encoded.coordinates = engine::Coordinates::in(coordinates.data(), n, space.map_width);
  encoded.fine = fine.data();
  engine::encode_queries(query_copy.data(), dim, n, space, encoded, stream);
  engine::Batch<float> batch{};
  batch.data = row_copy.data();
  batch.stride = dim;
  batch.shard_rows = n;
  batch.space = space;
  batch.queries = query_values.data();
  batch.padded = padded;
  batch.scalars = scalars.data();
  batch.count = n;
  batch.maxima = shard.row_codes().largest_residual;
  batch.candidates = {entries.data(), counts.data(), static_cast<std::uint32_t>(n)};
  batch.lists = reinterpret_cast<engine::Key<float>*>(lists.data());
  batch.best = own_best.data();
  batch.k = 1;
  batch.arrived = arrived.data();
  batch.bounds = query_bounds.data();
  batch.overflow = overflow.data();
  batch.counters = counters.data();
  batch.fine = shard.row_codes().fine;
  batch.fine_queries = fine.data();
  engine::start_lists(batch, static_cast<const float*>(best.data()), stream);
  const std::int64_t tiles = shard.tiles();
  engine::run_code_filter({shard.row_codes(),
                           n,
                           codes.data(),
                           query_bounds.data(),
                           n,
                           tile,
                           space.shape,
                           space.test(),
                           false,
                           {tiles, 1, 0, tiles},
                           batch.candidates},
                          0, stream);
  std::vector<std::uint32_t> special(static_cast<std::size_t>(shard.special_rows));
  if (!special.empty()) {
    KITH_CUDA(cudaMemcpyAsync(special.data(), shard.special.data(), special.size() * sizeof(std::uint32_t),
                              cudaMemcpyDeviceToHost, stream));
    stream.synchronize();
  }
  // Queries whose own row has a code, and is among their candidates.
  const auto kept = [&] {
    std::vector<std::uint64_t> found(static_cast<std::size_t>(n * n));
    std::vector<std::uint32_t> counted(static_cast<std::size_t>(n));
    KITH_CUDA(cudaMemcpyAsync(found.data(), entries.data(), entries.bytes(), cudaMemcpyDeviceToHost, stream));
    KITH_CUDA(cudaMemcpyAsync(counted.data(), counts.data(), counts.bytes(), cudaMemcpyDeviceToHost, stream));
    stream.synchronize();
    std::int64_t pairs = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      if (std::ranges::find(special, static_cast<std::uint32_t>(i)) != special.end()) continue;
      const auto from = found.begin() + i * n;
      pairs += std::any_of(from, from + counted[static_cast<std::size_t>(i)], [i](std::uint64_t entry) {
        return static_cast<std::int64_t>(entry & 0xffffffffU) == i;
      });
    }
    return pairs;
  };
  Kept out;
  out.coded = n - shard.special_rows;
  out.int8 = kept();
  engine::refine_candidates(batch, stream);
  out.fine = kept();
  return out;
}

TEST_F(CudaDirectionsTest, NoFilterLosesAPairWhoseDistanceIsTheBound) {
  const std::int64_t n = 512, dim = 96;
  for (const double decades : {0.0, 3.0, 12.0}) {
    for (const double offset : {0.0, 1e3}) {
      std::vector<double> rows = falling(n, dim, decades, offset, 21);
      std::vector<double> queries = falling(n, dim, decades, offset, 22);
      for (std::int64_t i = 0; i < n; ++i) {
        // From near to far, along all axes.
        const double share = std::pow(10.0, -static_cast<double>(i % 8));
        for (std::int64_t j = 0; j < dim; ++j) {
          const auto at = static_cast<std::size_t>(i * dim + j);
          queries[at] = rows[at] + share * (queries[at] - rows[at]);
        }
      }
      const Values data(rows, dim, Dtype::f32), asked(queries, dim, Dtype::f32);
      for (const Metric metric :
           {Metric::sqeuclidean, Metric::euclidean, Metric::inner_product, Metric::cosine}) {
        for (const std::int64_t directions : {5, 28, 60, 96}) {
          const Kept kept = keep_pairs(data.view, asked.view, metric, directions);
          const std::string what = std::to_string(decades) + " decades, offset " + std::to_string(offset) +
                                   ", " + std::string(name(metric)) + ", along " + std::to_string(directions);
          EXPECT_GT(kept.coded, n - n / 16) << what;
          EXPECT_EQ(kept.int8, kept.coded) << what;
          EXPECT_EQ(kept.fine, kept.coded) << what;
        }
      }
    }
  }
}

struct Kind {
  std::string name;
  std::vector<double> rows, queries;
  double integer_scale = 20;
};

std::vector<Kind> kinds(std::int64_t rows, std::int64_t dim, std::int64_t queries) {
  std::vector<Kind> out = {
      {"falling", falling(rows, dim, 3, 0, 1), falling(queries, dim, 3, 0, 2), 60},
      {"spectrum of 1e12", falling(rows, dim, 12, 0, 1), falling(queries, dim, 12, 0, 2), 60},
      {"translated by 1e6", falling(rows, dim, 3, 1e6, 1), falling(queries, dim, 3, 1e6, 2), 1e-4},
      {"of rank 3", of_rank(rows, dim, 3, 1), of_rank(queries, dim, 3, 2)},
      {"in one direction", of_rank(rows, dim, 1, 1), of_rank(queries, dim, 1, 2)},
      {"no spectrum", falling(rows, dim, 0, 0, 1), falling(queries, dim, 0, 0, 2), 60},
      // What the directions leave out is all that these have.
      {"queries off the directions", falling(rows, dim, 6, 0, 1), falling(queries, dim, 0, 0, 2), 60},
      {"queries far away", falling(rows, dim, 6, 0, 1), falling(queries, dim, 6, 1e5, 2), 60},
  };
  Random random(9);
  for (Kind& kind : out) {
    // Some queries are rows, and some rows have the rest of others turned round.
    for (std::int64_t q = 0; q < queries; q += 3) {
      const std::int64_t row = random.below(rows);
      std::copy_n(kind.rows.begin() + row * dim, dim, kind.queries.begin() + q * dim);
    }
    for (std::int64_t i = 0; i + 1 < rows; i += 50) {
      std::copy_n(kind.rows.begin() + i * dim, dim, kind.rows.begin() + (i + 1) * dim);
      double& last = kind.rows[static_cast<std::size_t>((i + 2) * dim - 1)];
      last = -last;
    }
  }
  return out;
}

// One look and stages, few queries and many, rows on the device, on the host and streaming.
TEST_F(CudaDirectionsTest, TheBitsOfTheCpuOnEveryPath) {
  const std::int64_t n = 20'000, d = 128, q = 150;
  constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
  for (const Kind& kind : kinds(n, d, q)) {
    const Values rows(kind.rows, d, Dtype::f32), asked(kind.queries, d, Dtype::f32);
    const DeviceMemory copy(rows.memory.data(), rows.memory.size() * 8);
    DatasetView there = rows.view;
    there.data = copy.data();
    there.space = MemorySpace::cuda;
    for (const Metric metric :
         {Metric::sqeuclidean, Metric::euclidean, Metric::inner_product, Metric::cosine}) {
      const BruteForce cpu = BruteForce::build(rows.view, {.metric = metric, .directions = false});
      const Neighbors of_1200 = cpu.search(asked.view, 1200);
      for (const std::int64_t directions : {7, 28, 60, 128}) {
        const test::ForcedDirections forced(directions);
        // 10 MB of rows, 3 MB of codes: all of it, the codes alone, nothing at all.
        for (const std::uint64_t limit : {std::uint64_t{0}, 12 * mib, 4 * mib, std::uint64_t{1}}) {
          if (limit > 1 && directions != 28) continue;
          const bool on_device = limit == 1;
          const Execution execution = on_gpu(on_device ? 0 : limit);
          const BruteForce gpu = BruteForce::build(on_device ? there : rows.view,
                                                   {.metric = metric, .filter = Filter::int8}, execution);
          const std::string what = kind.name + ", " + std::string(name(metric)) + ", along " +
                                   std::to_string(directions) + ", limit " + std::to_string(limit);
          // Codes of all values would take more than half of this: the queries stay with the directions.
          if (limit == 0) {
            const Execution little = on_gpu(6 * mib);
            const Neighbors found = gpu.search(asked.view, 10, little);
            EXPECT_EQ(found.statistics.directions, directions) << what;
            expect_same(found, cpu.search(asked.view, 10), what + ", little memory");
          }
          for (const std::int64_t k : {1, 10, 100, 1200}) {
            if (k != 1200) {
              expect_same(gpu.search(asked.view, k, execution), cpu.search(asked.view, k), what);
            } else {
              const Neighbors found = gpu.search(asked.view, k, execution);
              expect_same(found, of_1200, what);
            }
          }
          for (const std::int64_t some : {1, 3}) {
            const DatasetView few = asked.view.slice(3, some);
            expect_same(gpu.search(few, 10, execution), cpu.search(few, 10), what + ", few queries");
          }
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_F(CudaDirectionsTest, OtherElementTypesHaveThem) {
  const std::int64_t n = 12'000, d = 100, q = 40;
  for (const Kind& kind : kinds(n, d, q)) {
    for (const Dtype dtype : {Dtype::u8, Dtype::i8, Dtype::f16, Dtype::bf16, Dtype::f64}) {
      const Values rows(kind.rows, d, dtype, kind.integer_scale),
          asked(kind.queries, d, dtype, kind.integer_scale);
      for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product, Metric::cosine}) {
        const BruteForce cpu = BruteForce::build(rows.view, {.metric = metric, .directions = false});
        const test::ForcedDirections forced(28);
        const BruteForce gpu =
            BruteForce::build(rows.view, {.metric = metric, .filter = Filter::int8}, on_gpu());
        const std::string what =
            kind.name + ", " + std::string(name(dtype)) + ", " + std::string(name(metric));
        for (const std::int64_t k : {5, 200}) {
          expect_same(gpu.search(asked.view, k, on_gpu()), cpu.search(asked.view, k), what);
        }
        // Rows ask as rows do: along the directions.
        const DatasetView own = rows.view.slice(0, 200);
        const Neighbors found = gpu.search(own, 5, on_gpu());
        expect_same(found, cpu.search(own, 5), what + ", rows");
        EXPECT_TRUE(kind.name != "falling" || found.statistics.directions == 28) << what;
        if (HasFailure()) return;
      }
    }
  }
}

constexpr std::int64_t many_rows = 200'000;
constexpr std::int64_t many_dim = 256;

const Values& steep() {
  static const Values values(falling(many_rows + 300, many_dim, 8, 0, 11), many_dim, Dtype::f32);
  return values;
}
const Values& even() {
  static const Values values(falling(300, many_dim, 0, 0, 12), many_dim, Dtype::f32);
  return values;
}

// How many there are, or none, is measured; what is found does not depend on it.
TEST_F(CudaDirectionsTest, ChoiceChangesNoAnswer) {
  const DatasetView rows = steep().view.slice(0, many_rows), asked = steep().view.slice(many_rows, 300);
  for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product, Metric::cosine}) {
    const BruteForce along = BruteForce::build(rows, {.metric = metric, .directions = true}, on_gpu());
    const BruteForce plain = BruteForce::build(rows, {.metric = metric, .directions = false}, on_gpu());
    const Neighbors found = along.search(asked, 10, on_gpu());
    expect_same(BruteForce::build(rows, {.metric = metric}, on_gpu()).search(asked, 10, on_gpu()), found,
                std::string(name(metric)) + ", unset");
    const Neighbors expected = plain.search(asked, 10, on_gpu());
    EXPECT_LE(found.statistics.directions, many_dim / 2) << name(metric);
    EXPECT_EQ(expected.statistics.directions, 0);
    expect_same(found, expected, std::string(name(metric)));
    expect_same(found, BruteForce::build(rows, {.metric = metric}).search(asked, 10), "CPU");
  }
}

// Rows that a sample does not tell of are longer than all others and lie beyond the range of the codes: each
// query would evaluate all of them.
TEST_F(CudaDirectionsTest, TheStepIsLongerWhereManyRowsLieBeyondTheRange) {
  constexpr std::int64_t n = 100'000, dim = 160, directions = 60;
  const std::vector<double> rows = falling(n, dim, 3, 0, 17);
  const auto& policy = brute_force::tuning::policy_of(0);
  const Metric metric = Metric::sqeuclidean;
  const Values plain(rows, dim, Dtype::f32);
  const auto all = brute_force::choose_cuda_codes(plain.view.slice(0, 512), n,
                                                  {.metric = metric, .filter = Filter::int8}, policy);
  Dataset sample = Dataset::allocate(Dtype::f32, 4096, dim);
  std::memcpy(sample.mutable_data(), plain.view.data, 4096 * dim * sizeof(float));
  const brute_force::CudaChoice first =
      brute_force::CudaDirections(std::move(sample), metric, all, directions, {}).along(directions, policy);
  // So much longer that they have just become special.
  std::int64_t beyond = 0;
  for (double longer = 1.5; beyond <= brute_force::tuning::most_beyond_range; longer *= 1.1) {
    ASSERT_LT(longer, 100);
    std::vector<double> some = rows;
    for (std::int64_t i = 7; i < n; i += 100) {
      for (std::int64_t j = 0; j < dim; ++j) some[static_cast<std::size_t>(i * dim + j)] *= longer;
    }
    const Values values(some, dim, Dtype::f32);
    const DeviceMemory copy(values.view.data, n * dim * sizeof(float));
    brute_force::Shard shard(0, first, values.view, metric, n, policy);
    shard.encode(copy.data(), dim, n, shard.stream);
    shard.data = copy.data();
    shard.stride = dim;
    beyond = shard.special_rows;
    if (beyond <= brute_force::tuning::most_beyond_range) continue;
    brute_force::CudaChoice choice = first;
    brute_force::encode_along(choice, [&](const brute_force::CudaChoice& by) -> const brute_force::Shard& {
      shard.code_anew(by);
      return shard;
    });
    EXPECT_GT(choice.step, first.step);
    EXPECT_EQ(shard.space.step, choice.step);
    EXPECT_LT(shard.special_rows, beyond * 3 / 4);
  }
}

TEST_F(CudaDirectionsTest, AreLeftOutWhereTheyDoNotPay) {
  const Values level(falling(140'000, many_dim, 0, 0, 13), many_dim, Dtype::f32);
  EXPECT_EQ(BruteForce::build(level.view, {.directions = true}, on_gpu())
                .search(even().view, 5, on_gpu())
                .statistics.directions,
            0);
  const DatasetView rows = steep().view.slice(0, many_rows), asked = steep().view.slice(many_rows, 300);
  EXPECT_EQ(knn(rows, asked, 5, {.directions = true}, on_gpu()).statistics.directions, 0) << "few queries";
  EXPECT_EQ(knn(rows, asked, 5, {}, on_gpu()).statistics.directions, 0) << "few queries, unset";
  EXPECT_EQ(BruteForce::build(rows, {.directions = false}, on_gpu())
                .search(asked, 5, on_gpu())
                .statistics.directions,
            0)
      << "refused";
  EXPECT_EQ(BruteForce::build(rows.slice(0, 5000), {.directions = true}, on_gpu())
                .search(asked, 5, on_gpu())
                .statistics.directions,
            0)
      << "few rows";
  for (const Filter filter : {Filter::none, Filter::fp16, Filter::fp32}) {
    const BruteForce index = BruteForce::build(rows, {.filter = filter, .directions = true}, on_gpu());
    EXPECT_EQ(index.search(asked, 5, on_gpu()).statistics.directions, 0) << name(filter);
  }
}

// Queries that lie off the directions: codes along these would keep most rows.
TEST_F(CudaDirectionsTest, GiveWayForQueriesUnlikeTheRows) {
  const test::ForcedDirections forced(28);
  const DatasetView rows = steep().view.slice(0, many_rows), asked = steep().view.slice(many_rows, 300);
  for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product, Metric::cosine}) {
    const BruteForce index = BruteForce::build(rows, {.metric = metric}, on_gpu());
    const BruteForce plain = BruteForce::build(rows, {.metric = metric, .directions = false}, on_gpu());
    const std::string what(name(metric));
    const std::uint64_t before = index.memory_bytes();
    EXPECT_GT(index.search(asked, 10, on_gpu()).statistics.directions, 0) << what;
    EXPECT_EQ(index.memory_bytes(), before) << what;
    // No memory for others: 52 MB of codes are more than half of the limit.
    const Neighbors limited = index.search(even().view, 10, on_gpu(std::uint64_t{32} << 20U));
    EXPECT_GT(limited.statistics.directions, 0) << what;
    EXPECT_EQ(index.memory_bytes(), before) << what;
    const Neighbors expected = plain.search(even().view, 10, on_gpu());
    expect_same(limited, expected, what + ", limited");
    for (const std::int64_t count : {300, 300, 40, 1}) {
      const DatasetView some = even().view.slice(0, count);
      const Neighbors found = index.search(some, 10, on_gpu());
      // One look at every pair may have been enough for one query.
      EXPECT_TRUE(count == 1 || found.statistics.directions == 0) << what;
      expect_same(found, plain.search(some, 10, on_gpu()), what);
    }
    EXPECT_GT(index.memory_bytes(), before) << what;
    EXPECT_GT(index.search(asked, 10, on_gpu()).statistics.directions, 0) << what;
  }
}

}  // namespace
}  // namespace kith
#endif
