// RaBitQ: kernels against plain loops, codes against an exhaustive search for the best grid vector, estimates
// against the definition, and the bound on rows that were made to break it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "codes/coding.hpp"
#include "codes/cpu/rabitq.hpp"
#include "codes/cuda/bit_planes.hpp"
#include "codes/rotation.hpp"
#include "conformance/problem.hpp"
#include "kith/codes.hpp"
#include "kith/generate.hpp"
#include "support/instruction_sets.hpp"
#include "support/sanitizers.hpp"

namespace kith::codes {
namespace {

using test::Forced;

// Value i of a code's bits, as rabitq.hpp of the kernels lays them out.
std::uint32_t value_of(const std::uint8_t* planes, std::int64_t bits, std::int64_t i) {
  std::uint32_t value = 0;
  for (std::int64_t bit = 0; bit < bits; ++bit) {
    std::uint32_t word = 0;
    std::memcpy(&word, planes + (i / 32 * bits + bit) * 4, 4);
    value |= (word >> (i % 32) & 1U) << bit;
  }
  return value;
}

TEST(RabitqKernels, ProductsAreTheSameOnEveryInstructionSet) {
  conformance::Random random(5);
  for (std::int64_t bits = 1; bits <= 8; ++bits) {
    for (const std::int64_t blocks : {1, 2, 5, 24}) {
      const std::int64_t dim = 32 * blocks, stride = 12 + 4 * bits * blocks, rows = 11;
      const auto range =
          static_cast<int>(std::min<std::int64_t>(32767, 0x7FFFFFFF / (dim * ((1 << bits) - 1))));
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * stride));
      for (auto& byte : codes) byte = static_cast<std::uint8_t>(random.below(256));
      std::fill(codes.begin() + 12, codes.begin() + stride, std::uint8_t{255});
      for (const bool extreme : {false, true}) {
        std::vector<std::int16_t> query(static_cast<std::size_t>(dim));
        for (auto& q : query) {
          q = static_cast<std::int16_t>(extreme ? -range : random.below(2 * range + 1) - range);
        }
        std::vector<std::int64_t> expected;
        for (std::int64_t r = 0; r < rows; ++r) {
          std::int64_t sum = 0;
          for (std::int64_t i = 0; i < dim; ++i) {
            sum += std::int64_t{value_of(codes.data() + 12 + r * stride, bits, i)} *
                   query[static_cast<std::size_t>(i)];
          }
          expected.push_back(sum);
        }
        // As devices take them.
        for (std::int64_t r = 0; r < rows; ++r) {
          std::int32_t sum = 0;
          for (std::int64_t b = 0; b < blocks; ++b) {
            cuda::Block block;
            for (std::int64_t bit = 0; bit < bits; ++bit) {
              std::uint32_t word = 0;
              std::memcpy(&word, codes.data() + r * stride + 12 + (b * bits + bit) * 4, 4);
              block.add_plane(word, static_cast<int>(bit));
            }
            const auto pair = [&](int i) {
              std::uint32_t two = 0;
              std::memcpy(&two, query.data() + 32 * b + 2 * i, 4);
              return two;
            };
            sum = block.dot(pair, sum);
          }
          EXPECT_EQ(sum, expected[static_cast<std::size_t>(r)]) << bits << " " << blocks;
        }
        for (const InstructionSet set : usable_instruction_sets()) {
          const Forced forced(set);
          for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{6}, rows}) {
            std::vector<std::int32_t> out(static_cast<std::size_t>(rows), -1);
            rabitq_kernels().dots(codes.data() + 12, stride, blocks, bits, query.data(), count, out.data());
            for (std::int64_t r = 0; r < rows; ++r) {
              EXPECT_EQ(out[static_cast<std::size_t>(r)],
                        r < count ? expected[static_cast<std::size_t>(r)] : -1)
                  << name(set) << " " << bits << " " << blocks;
            }
          }
          const std::vector<std::uint32_t> some = {10, 0, 0, 7, 3};
          std::vector<std::int32_t> out(some.size());
          rabitq_kernels().gathered_dots(codes.data() + 12, stride, blocks, bits, query.data(), some.data(),
                                         static_cast<std::int64_t>(some.size()), out.data());
          for (std::size_t i = 0; i < some.size(); ++i) EXPECT_EQ(out[i], expected[some[i]]) << name(set);
        }
      }
    }
  }
}

TEST(RabitqKernels, FitsAreTheSameOnEveryInstructionSet) {
  conformance::Random random(6);
  std::vector<double> magnitudes(96);
  for (double& value : magnitudes) value = static_cast<double>(random.below(100000)) / 100000;
  const GridFit expected = rabitq_kernels_portable.fit(magnitudes.data(), 96, 7.3, 3);
  double product = 0, square = 0;
  for (const double value : magnitudes) {
    const double middle = std::min(std::floor(value * 7.3), 3.0) + 0.5;
    product += middle * value;
    square += middle * middle;
  }
  EXPECT_NEAR(expected.product, product, 1e-10);
  EXPECT_NEAR(expected.square, square, 1e-10);
  for (const InstructionSet set : usable_instruction_sets()) {
    const Forced forced(set);
    const GridFit fit = rabitq_kernels().fit(magnitudes.data(), 96, 7.3, 3);
    EXPECT_EQ(fit.product, expected.product) << name(set);
    EXPECT_EQ(fit.square, expected.square) << name(set);
  }
}

struct Code {
  float square, scale, spread;
  std::vector<double> grid;
};

Code read(const Dataset& codes, std::int64_t row, std::int64_t bits, std::int64_t dim) {
  const auto* bytes = static_cast<const std::uint8_t*>(codes.view().row(row));
  Code code{};
  std::memcpy(&code.square, bytes, 4);
  std::memcpy(&code.scale, bytes + 4, 4);
  std::memcpy(&code.spread, bytes + 8, 4);
  for (std::int64_t i = 0; i < dim; ++i) {
    code.grid.push_back(value_of(bytes + 12, bits, i) - ((1 << bits) - 1) / 2.0);
  }
  return code;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Mean of the rows, and rows and queries rotated, as the code has them.
struct Rotated {
  std::vector<double> mean;
  Rotation rotation;
  std::vector<double> of(const float* row, bool centered) const {
    std::vector<double> y(static_cast<std::size_t>(rotation.dim()), 0.0), scratch = y;
    for (std::size_t i = 0; i < mean.size(); ++i) y[i] = row[i] - (centered ? mean[i] : 0);
    rotation.apply(y.data(), scratch.data());
    return y;
  }
};

Rotated rotated(const Dataset& data, std::uint64_t seed) {
  const std::int64_t dim = data.dim();
  Rotated out{std::vector<double>(static_cast<std::size_t>(dim), 0.0), Rotation((dim + 31) / 32 * 32, seed)};
  for (std::int64_t i = 0; i < data.rows(); ++i) {
    const auto* row = static_cast<const float*>(data.view().row(i));
    for (std::int64_t j = 0; j < dim; ++j) out.mean[static_cast<std::size_t>(j)] += row[j];
  }
  for (double& value : out.mean) value /= static_cast<double>(data.rows());
  return out;
}

TEST(Rabitq, CodesAndEstimatesAreTheDefinition) {
  constexpr std::int64_t dim = 70;
  const Dataset data =
      generate({.generator = Generator::clusters, .rows = 60, .dim = dim, .seed = 4, .clusters = 5});
  const Rotated rotation = rotated(data, 9);
  for (std::int64_t bits = 1; bits <= 8; ++bits) {
    for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product}) {
      const Quantizer quantizer = Quantizer::train(data, RabitqParameters{metric, bits, 9});
      EXPECT_EQ(quantizer.code_bytes(), 12 + 12 * bits);
      const Dataset codes = quantizer.encode(data);
      const Estimates estimates = quantizer.estimate(data, codes);
      for (std::int64_t i = 0; i < data.rows(); ++i) {
        const std::vector<double> y = rotation.of(static_cast<const float*>(data.view().row(i)), true);
        const Code code = read(codes, i, bits, 96);
        const double square = dot(y, y), product = dot(code.grid, y),
                     cosine = product / std::sqrt(square * dot(code.grid, code.grid));
        EXPECT_NEAR(code.square, square, 1e-6 * square);
        EXPECT_NEAR(code.scale, square / product, 1e-6 * code.scale);
        EXPECT_NEAR(code.spread, std::sqrt(square * (1 / (cosine * cosine) - 1) / 95), 1e-5 * code.spread);
        for (std::int64_t q = 0; q < 5; ++q) {
          const auto* query = static_cast<const float*>(data.view().row(q));
          const bool inner = metric == Metric::inner_product;
          const std::vector<double> r = rotation.of(query, !inner);
          double offset = 0;
          for (std::size_t j = 0; j < rotation.mean.size(); ++j) offset += query[j] * rotation.mean[j];
          const double estimate = dot(code.grid, r) * square / product;
          const double expected = inner ? -(offset + estimate) : dot(r, r) + square - 2 * estimate;
          const double room =
              2e-4 * std::sqrt(dot(r, r) * square) + 1e-6 * (dot(r, r) + square + std::abs(offset));
          const auto at = static_cast<std::size_t>(q * data.rows() + i);
          EXPECT_NEAR(estimates.distances[at], expected, room) << bits << " " << name(metric);
        }
      }
    }
  }
}

// The largest cosine to any grid vector: all scales at which a value changes its step.
double best_cosine(std::vector<double> y, int bits) {
  const int top = (1 << (bits - 1)) - 1;
  for (double& value : y) value = std::abs(value);
  std::vector<double> scales = {1e-9};
  for (const double value : y) {
    for (int step = 1; step <= top; ++step) scales.push_back(step / value * (1 + 1e-12));
  }
  double best = 0;
  for (const double scale : scales) {
    double product = 0, square = 0;
    for (const double value : y) {
      const double middle = std::min(std::floor(value * scale), static_cast<double>(top)) + 0.5;
      product += middle * value;
      square += middle * middle;
    }
    best = std::max(best, product / std::sqrt(square * dot(y, y)));
  }
  return best;
}

TEST(Rabitq, GridVectorsAreNearlyTheBest) {
  for (const std::int64_t dim : {32, 128}) {
    const Dataset data = generate({.generator = Generator::gaussian, .rows = 20, .dim = dim, .seed = 2});
    const Rotated rotation = rotated(data, 0);
    for (const int bits : {1, 2, 3, 4, 6}) {
      const Dataset codes = Quantizer::train(data, RabitqParameters{.bits = bits}).encode(data);
      double lost = 0, least = 0;
      for (std::int64_t i = 0; i < data.rows(); ++i) {
        const std::vector<double> y = rotation.of(static_cast<const float*>(data.view().row(i)), true);
        const Code code = read(codes, i, bits, dim);
        const double cosine = dot(code.grid, y) / std::sqrt(dot(y, y) * dot(code.grid, code.grid));
        const double best = best_cosine(y, bits);
        EXPECT_LE(cosine, best + 1e-9);
        EXPECT_LT(1 - cosine, 1.3 * (1 - best) + 1e-9) << dim << " " << bits;
        lost += 1 - cosine;
        least += 1 - best;
      }
      EXPECT_LT(lost, 1.06 * least + 1e-9) << dim << " " << bits;
    }
  }
}

double true_distance(const float* q, const float* x, std::int64_t dim, Metric metric) {
  double square = 0, product = 0;
  for (std::int64_t i = 0; i < dim; ++i) {
    square += (double(q[i]) - x[i]) * (double(q[i]) - x[i]);
    product += double(q[i]) * x[i];
  }
  return metric == Metric::inner_product ? -product : square;
}

// Rows and queries that a bad rotation or a bad bound would show on.
Dataset hostile(const std::string& kind, std::int64_t dim) {
  constexpr std::int64_t rows = 48;
  Dataset data = Dataset::allocate(Dtype::f32, rows, dim);
  conformance::Random random(static_cast<std::uint64_t>(dim));
  float* x = data.mutable_values<float>().data();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < dim; ++j) {
      const auto sign = static_cast<float>(2 * random.below(2) - 1);
      const auto noise = static_cast<float>(random.below(2001) - 1000) / 1000;
      float value = 0;
      if (kind == "uniform") value = noise;
      if (kind == "one value") value = j == i % dim ? 3 : 0;
      if (kind == "signs") value = sign;
      if (kind == "blocks") value = j / 32 == i % ((dim + 31) / 32) ? 1 : 0;
      if (kind == "walsh") value = __builtin_parityll(static_cast<unsigned long long>(i & j)) ? -1.0F : 1.0F;
      if (kind == "far off") value = 1000 + noise;
      if (kind == "nearly equal") value = static_cast<float>(j % 3) + (j == i ? 1e-3F : 0);
      if (kind == "one far row") value = (i == 7 ? 1e4F : 1.0F) * noise;
      if (kind == "last value") value = j + 1 == dim ? static_cast<float>(i) : noise * 1e-3F;
      x[i * dim + j] = value;
    }
  }
  return data;
}

TEST(Rabitq, TheBoundHoldsWithTheConfidenceStated) {
  const std::uint64_t seeds = test::reduced() ? 20 : 60;
  Execution alone;
  alone.threads = 1;
  for (const char* kind : {"uniform", "one value", "signs", "blocks", "walsh", "far off", "nearly equal",
                           "one far row", "last value"}) {
    for (const std::int64_t dim : {24, 96}) {
      const Dataset data = hostile(kind, dim);
      for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product}) {
        for (const std::int64_t bits : {1, 2, 4, 7}) {
          const double confidences[] = {0.5, 0.9, 0.99};
          std::int64_t outside[3] = {};
          std::int64_t pairs = 0;
          for (std::uint64_t seed = 0; seed < seeds; ++seed) {
            const Quantizer quantizer = Quantizer::train(data, RabitqParameters{metric, bits, seed}, alone);
            const Dataset codes = quantizer.encode(data, alone);
            const DatasetView queries = data.view().slice(0, 12);
            pairs += queries.rows * data.rows();
            for (int c = 0; c < 3; ++c) {
              const Estimates found = quantizer.estimate(queries, codes, alone, confidences[c]);
              for (std::int64_t q = 0; q < found.queries; ++q) {
                for (std::int64_t i = 0; i < found.rows; ++i) {
                  const double truth =
                      true_distance(static_cast<const float*>(data.view().row(q)),
                                    static_cast<const float*>(data.view().row(i)), dim, metric);
                  const auto at = static_cast<std::size_t>(q * found.rows + i);
                  ASSERT_TRUE(found.bounds[at] >= 0);
                  outside[c] += std::abs(found.distances[at] - truth) > found.bounds[at] ? 1 : 0;
                }
              }
            }
          }
          for (int c = 0; c < 3; ++c) {
            EXPECT_LE(static_cast<double>(outside[c]), (1 - confidences[c]) * static_cast<double>(pairs))
                << kind << " " << dim << " " << bits << " " << confidences[c] << " " << name(metric);
          }
        }
      }
    }
  }
}

// Of every kind, whatever the order that codes are met in.
TEST(GatheredEstimates, AreThoseOfAdjacentCodes) {
  constexpr std::int64_t rows = 40;
  const Dataset data = generate({.generator = Generator::gaussian, .rows = rows, .dim = 33, .seed = 8});
  std::vector<std::unique_ptr<const Coding>> codings;
  for (const Metric metric : {Metric::sqeuclidean, Metric::inner_product}) {
    codings.push_back(train_scalar(data, {.metric = metric}, {}));
    codings.push_back(train_rabitq(data, {.metric = metric, .bits = 3}, {}));
    codings.push_back(train_pq(data, {.metric = metric, .subspaces = 5}, {}));
  }
  for (const auto& coding : codings) {
    const auto worker = coding->worker(Quantizer::default_confidence);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(rows * coding->code_bytes()));
    for (std::int64_t i = 0; i < rows; ++i) {
      worker->encode(data.view().row(i), codes.data() + i * coding->code_bytes());
    }
    worker->set_query(data.view().row(3));
    std::vector<float> adjacent(rows), gathered(rows);
    worker->estimate(codes.data(), rows, adjacent.data(), nullptr);
    std::vector<std::uint32_t> order(rows);
    for (std::uint32_t i = 0; i < rows; ++i) order[i] = i * 7 % rows;
    worker->estimate_gathered(codes.data(), order.data(), rows, gathered.data());
    for (std::size_t i = 0; i < rows; ++i) EXPECT_EQ(gathered[i], adjacent[order[i]]);
  }
}

// Bounds that hold because they are wide would be of no use: a good share of errors lies beyond half of them.
TEST(Rabitq, TheBoundIsNotWiderThanItMustBe) {
  constexpr std::int64_t dim = 128, rows = 200;
  const Dataset data = generate({.generator = Generator::gaussian, .rows = rows, .dim = dim, .seed = 5});
  for (const std::int64_t bits : {1, 4, 8}) {
    const Quantizer quantizer = Quantizer::train(data, RabitqParameters{.bits = bits});
    const Estimates found = quantizer.estimate(data, quantizer.encode(data), {}, 0.5);
    std::int64_t outside = 0, pairs = 0;
    double error = 0;
    for (std::int64_t q = 0; q < rows; ++q) {
      for (std::int64_t i = 0; i < rows; ++i) {
        if (i == q) continue;
        const double truth =
            true_distance(static_cast<const float*>(data.view().row(q)),
                          static_cast<const float*>(data.view().row(i)), dim, Metric::sqeuclidean);
        const auto at = static_cast<std::size_t>(q * rows + i);
        outside += 2 * std::abs(found.distances[at] - truth) > found.bounds[at] ? 1 : 0;
        error += (found.distances[at] - truth) / found.bounds[at];
        ++pairs;
      }
    }
    EXPECT_GT(static_cast<double>(outside), 0.3 * static_cast<double>(pairs)) << bits;
    EXPECT_LT(std::abs(error / static_cast<double>(pairs)), 0.05) << bits;  // no bias
  }
}

}  // namespace
}  // namespace kith::codes
