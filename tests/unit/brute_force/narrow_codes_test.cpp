// Narrow int8 codes: their ranges, on which the proof rests, and the sums that kernels make of them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "brute_force/cpu/filter.hpp"
#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "kith/brute_force.hpp"
#include "support/instruction_sets.hpp"

namespace kith::brute_force {
namespace {

using conformance::Random;

constexpr std::int64_t rows = 130;
constexpr std::int64_t queries = 14;  // every size of a group of queries

// Rows whose codes are long in one lane, alone or along a query's, and others.
using Value = float (*)(Random& random, std::int64_t row, std::int64_t column);
const Value values[] = {
    [](Random& r, std::int64_t, std::int64_t) { return static_cast<float>(r.normal()); },
    [](Random&, std::int64_t row, std::int64_t) { return row % 2 == 0 ? 1.0F : -1.0F; },
    [](Random& r, std::int64_t row, std::int64_t c) {
      return row % 3 == c / 2 % 3 ? 1.0F + 1e-3F * static_cast<float>(r.uniform()) : 0;
    },
    [](Random& r, std::int64_t, std::int64_t c) {
      return c % 4 < 2 ? 1.0F : 0.01F * static_cast<float>(r.normal());
    },
    [](Random& r, std::int64_t, std::int64_t c) {
      return c / 64 % 2 == 1 ? 0.999F : 0.01F * static_cast<float>(r.normal());
    },
    [](Random& r, std::int64_t row, std::int64_t c) {
      return c == row ? 9.0F : 1e-9F * static_cast<float>(r.normal());
    },
    [](Random& r, std::int64_t row, std::int64_t) {
      return static_cast<float>(r.normal()) * std::exp2f(static_cast<float>(row % 90) - 70);
    },
    [](Random&, std::int64_t, std::int64_t) { return 0.0F; },
};

std::vector<std::int64_t> dims() {
  return {1, 2, 4, 31, 63, 64, 65, 72, 73, 144, 148, 300};
}

// Rows and queries of one kind, as codes without a mean: what is encoded is what was made.
struct Encoded {
  Encoded(const Value& value, std::int64_t dim) {
    Random random(static_cast<std::uint64_t>(dim));
    data.resize(static_cast<std::size_t>((rows + queries) * dim));
    for (std::int64_t i = 0; i < rows + queries; ++i) {
      for (std::int64_t j = 0; j < dim; ++j)
        data[static_cast<std::size_t>(i * dim + j)] = value(random, i, j);
    }
    const DatasetView view(data.data(), rows, dim);
    codes = codes::encode_rows(
        view, codes::make_code_space(view, Metric::inner_product, {Filter::int8, codes::Form::cauchy, true}),
        {});
    const std::int64_t stride = codes.space.query_stride_bytes();
    query_codes.resize(static_cast<std::size_t>(queries * stride));
    codes::Scratch scratch(codes.space);
    for (std::int64_t q = 0; q < queries; ++q) {
      const float* row = data.data() + (rows + q) * dim;
      const std::vector<double> wide(row, row + dim);
      const auto code =
          codes::encode_query(codes.space, wide.data(), query_codes.data() + q * stride, scratch);
      EXPECT_EQ(code.kind, codes::RowKind::regular);
      bias.push_back(code.bias);
    }
  }
  int row_code(std::int64_t row, std::int64_t i) const {
    const auto* tile = codes.codes.data() + row / tile_rows * codes.space.bytes_per_tile();
    return tile[i / 4 * tile_rows * 4 + row % tile_rows * 4 + i % 4] - codes::narrow_offset;
  }
  int query_code(std::int64_t q, std::int64_t i) const {
    return query_codes[static_cast<std::size_t>(q * codes.space.query_stride_bytes() + i)];
  }
  std::int64_t product(std::int64_t row, std::int64_t q) const {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < codes.space.steps() * 4; ++i) sum += row_code(row, i) * query_code(q, i);
    return sum;
  }

  std::vector<float> data;
  codes::Codes codes;
  std::vector<signed char> query_codes;
  std::vector<std::int32_t> bias;
};

// Calls visit(block, lane, i) for all code values.
template <class Visit>
void each_value(const codes::CodeSpace& space, Visit visit) {
  for (std::int64_t i = 0; i < space.steps() * 4; ++i) visit(i / (codes::narrow_block * 4), i % 4 / 2, i);
}

// Largest sum of squares of a lane, of at most `largest` magnitudes.
template <class Code>
std::int64_t longest_lane(const codes::CodeSpace& space, int largest, Code code) {
  std::vector<std::int64_t> squares(static_cast<std::size_t>(space.blocks() * 2));
  each_value(space, [&](std::int64_t block, std::int64_t lane, std::int64_t i) {
    EXPECT_LE(std::abs(code(i)), largest);
    squares[static_cast<std::size_t>(block * 2 + lane)] += std::int64_t{code(i)} * code(i);
  });
  return *std::max_element(squares.begin(), squares.end());
}

TEST(NarrowCodes, AreAsShortAsTheProofSays) {
  constexpr std::int64_t row_limit = codes::narrow_row_lane * codes::narrow_row_lane;
  constexpr std::int64_t query_limit = codes::narrow_query_lane * codes::narrow_query_lane;
  EXPECT_LT(row_limit * query_limit, std::int64_t{1} << 30);
  std::int64_t longest_row = 0, longest_query = 0, largest_sum = 0;
  for (const Value& value : values) {
    for (const std::int64_t dim : dims()) {
      const Encoded e(value, dim);
      const codes::CodeSpace& space = e.codes.space;
      for (std::int64_t row = 0; row < rows; ++row) {
        longest_row = std::max(longest_row, longest_lane(space, codes::narrow_largest,
                                                         [&](std::int64_t i) { return e.row_code(row, i); }));
      }
      for (std::int64_t q = 0; q < queries; ++q) {
        longest_query = std::max(
            longest_query, longest_lane(space, 127, [&](std::int64_t i) { return e.query_code(q, i); }));
        std::vector<std::int64_t> sums(static_cast<std::size_t>(space.blocks() * 2));
        each_value(space, [&](std::int64_t block, std::int64_t lane, std::int64_t i) {
          sums[static_cast<std::size_t>(block * 2 + lane)] += e.row_code(q, i) * e.query_code(q, i);
        });
        for (const std::int64_t sum : sums) largest_sum = std::max(largest_sum, std::abs(sum));
      }
    }
  }
  EXPECT_LE(longest_row, row_limit);
  EXPECT_LE(longest_query, query_limit);
  // The data reach what the limits are for.
  EXPECT_GT(longest_row, row_limit * 9 / 10);
  EXPECT_GT(longest_query, query_limit * 9 / 10);
  EXPECT_LT(largest_sum, 32768);
  EXPECT_GT(largest_sum, 30000);
}

class NarrowKernels : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override { force_instruction_set(GetParam()); }
  void TearDown() override { force_instruction_set(std::nullopt); }
};

// With scale 1 and no other terms a score is the product itself: every row's own is a threshold once.
TEST_P(NarrowKernels, SumTheirProductsExactly) {
  const std::vector<float> ones(tile_rows, 1.0F), zeros(tile_rows, 0.0F);
  std::vector<float> weights(queries, 1.0F), thresholds(queries);
  for (const codes::Form form : {codes::Form::triangle, codes::Form::cauchy}) {
    const TileFunction kernel = filter_kernel({Filter::int8, form, true});
    for (const Value& value : values) {
      for (const std::int64_t dim : dims()) {
        const Encoded e(value, dim);
        const codes::CodeSpace& space = e.codes.space;
        const TileQueries asked{
            e.query_codes.data(), space.query_stride_bytes(), e.bias.data(), weights.data(), weights.data(),
            weights.data(),       thresholds.data(),          nullptr};
        for (std::int64_t t = 0; t < e.codes.tiles - 1; ++t) {
          const Tile tile{e.codes.codes.data() + t * space.bytes_per_tile(),
                          space.steps(),
                          ones.data(),
                          zeros.data(),
                          zeros.data(),
                          zeros.data(),
                          nullptr};
          std::vector<std::vector<std::int64_t>> products(queries);
          for (std::int64_t q = 0; q < queries; ++q) {
            for (std::int64_t i = 0; i < tile_rows; ++i)
              products[static_cast<std::size_t>(q)].push_back(e.product(t * tile_rows + i, q));
          }
          for (std::int64_t i = 0; i < tile_rows; i += 5) {
            const std::int64_t first = i % 3;
            const std::int64_t count = 1 + i % (queries - first);
            for (std::size_t q = 0; q < queries; ++q)
              thresholds[q] = static_cast<float>(products[q][static_cast<std::size_t>(i)]);
            std::vector<std::uint64_t> masks(static_cast<std::size_t>(count)), expected(masks.size());
            kernel(tile, asked, first, count, masks.data());
            for (std::size_t q = 0; q < masks.size(); ++q) {
              const auto& of_query = products[q + static_cast<std::size_t>(first)];
              for (std::size_t r = 0; r < tile_rows; ++r) {
                if (of_query[r] >= of_query[static_cast<std::size_t>(i)])
                  expected[q] |= std::uint64_t{1} << r;
              }
            }
            ASSERT_EQ(masks, expected)
                << "form " << static_cast<int>(form) << " kind " << &value - values << " d=" << dim;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, NarrowKernels, testing::ValuesIn(usable_instruction_sets()),
                         [](const auto& set) { return std::string(name(set.param)); });

// An index that one instruction set has built answers on all others.
TEST(NarrowCodes, GiveTheSameAnswersOnEveryInstructionSet) {
  constexpr std::int64_t n = 6000, dim = 100;
  Random random(3);
  std::vector<float> floats(n * dim);
  std::vector<std::uint8_t> bytes(n * dim);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    floats[i] = static_cast<float>(random.normal());
    bytes[i] = static_cast<std::uint8_t>(std::min(255.0, std::abs(random.normal()) * 60));
  }
  const auto check = [&](const DatasetView& data) {
    const DatasetView asked = data.slice(17, 40);
    for (const Metric metric :
         {Metric::sqeuclidean, Metric::euclidean, Metric::inner_product, Metric::cosine}) {
      const Neighbors truth = BruteForce::build(data, {metric, Filter::none}).search(asked, 10);
      for (const InstructionSet builder : usable_instruction_sets()) {
        force_instruction_set(builder);
        const BruteForce index = BruteForce::build(data, {.metric = metric, .filter = Filter::int8});
        for (const InstructionSet searcher : usable_instruction_sets()) {
          force_instruction_set(searcher);
          for (const DatasetView& part : {asked, asked.slice(5, 1)}) {
            const Neighbors found = index.search(part, 10);
            const std::int64_t first = part.rows == 1 ? 50 : 0;
            const auto cells = static_cast<std::ptrdiff_t>(part.rows * 10);
            EXPECT_TRUE(std::equal(found.indices.begin(), found.indices.end(), truth.indices.begin() + first,
                                   truth.indices.begin() + first + cells))
                << name(builder) << " " << name(searcher) << " " << name(metric);
            for (std::int64_t j = 0; j < 10; ++j)
              EXPECT_EQ(found.distance(0, j), truth.distance(first / 10, j));
            EXPECT_LT(found.statistics.candidates, part.rows * n / 4);
          }
        }
        force_instruction_set(std::nullopt);
      }
    }
  };
  check(DatasetView(floats.data(), n, dim));
  check(DatasetView(bytes.data(), n, dim));
}

// Where bytes are multiplied fastest in narrow codes, these are what is chosen unless they keep too much.
TEST(NarrowCodes, AreChosenOnAvx2) {
  const auto& sets = usable_instruction_sets();
  if (std::find(sets.begin(), sets.end(), InstructionSet::avx2) == sets.end()) GTEST_SKIP() << "no AVX2";
  const test::Forced forced(InstructionSet::avx2);
  constexpr std::int64_t n = 20000, dim = 64;
  Random random(3);
  std::vector<float> floats(n * dim);
  for (float& value : floats) value = static_cast<float>(random.normal());
  EXPECT_EQ(BruteForce::build(DatasetView(floats.data(), n, dim)).filter(), Filter::int8);
  // One value far above the rest in every row: seven bits say nothing of the others.
  for (std::int64_t i = 0; i < n; ++i)
    floats[static_cast<std::size_t>(i * dim)] = i % 2 == 0 ? 200.0F : -200.0F;
  EXPECT_NE(BruteForce::build(DatasetView(floats.data(), n, dim)).filter(), Filter::int8);
}

}  // namespace
}  // namespace kith::brute_force
