// The filters' promise, pair by pair: with the bound set to a row's own distance the row must be kept, on
// every instruction set; and rows clearly beyond it must be dropped, or the filter would be useless.
#include "brute_force/cpu/filter.hpp"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "distance/canonical.hpp"
#include "support/sanitizers.hpp"
#include "unit/brute_force/shapes.hpp"

namespace kith::brute_force {
namespace {

using conformance::Random;
using reference::Matrix;

const Shape shapes[] = {
    {"gaussian", [](Random& r, std::int64_t, std::int64_t) { return r.normal(); }},
    {"far from the origin", [](Random& r, std::int64_t, std::int64_t) { return 1e6 + r.normal(); }},
    {"decaying", [](Random& r, std::int64_t,
                    std::int64_t c) { return r.normal() * std::exp(-0.3 * static_cast<double>(c)); }},
    {"one spike a row",
     [](Random& r, std::int64_t row, std::int64_t c) { return c == row % 5 ? 50.0 : 1e-3 * r.normal(); }},
    {"norms over six decades",
     [](Random& r, std::int64_t row, std::int64_t) {
       return r.normal() * std::pow(10.0, static_cast<double>(row % 7) - 3);
     }},
    {"tiny", [](Random& r, std::int64_t, std::int64_t) { return r.normal() * 1e-35; }},
    {"huge", [](Random& r, std::int64_t, std::int64_t) { return r.normal() * 1e17; }},
    {"nearly equal",
     [](Random& r, std::int64_t, std::int64_t c) { return static_cast<double>(c + 1) + 1e-6 * r.normal(); }},
    {"zeros and ones", [](Random& r, std::int64_t, std::int64_t) { return static_cast<double>(r.below(2)); }},
};

struct Tally {
  std::int64_t pairs = 0;
  std::int64_t dropped_wrongly = 0;
  std::int64_t far_pairs = 0;
  std::int64_t far_dropped = 0;
};

// One query against all rows, the bound walking through the distances of all of them.
template <class R>
void walk(const DatasetView& data, const DatasetView& queries, const codes::CodeSpace& space, Tally& tally) {
  const Metric metric = space.metric;
  const codes::Codes codes = codes::encode_rows(data, space, {});
  const TileFunction kernel = filter_kernel(space.choice);
  const auto canonical = canonical_function(data.dtype, metric);
  std::vector<double> values(static_cast<std::size_t>(canonical_padded(data.dim)));
  for (std::int64_t q = 0; q < queries.rows; ++q) {
    const auto query = prepare_canonical_query(queries.row(q), data.dtype, data.dim, metric, values.data());
    FilterQueries filter(codes, 1);
    if (filter.add(values.data()) != codes::RowKind::regular) continue;
    std::vector<R> distances;
    for (std::int64_t row = 0; row < data.rows; ++row) {
      double distance = 0;
      canonical(canonical_rows(data), query, &row, 1, &distance);
      distances.push_back(static_cast<R>(distance));
    }
    R farthest = 0;
    for (const R d : distances) farthest = std::isfinite(d) ? std::max(farthest, d) : farthest;
    for (std::int64_t row = 0; row < data.rows; ++row) {
      const R bound = distances[static_cast<std::size_t>(row)];
      filter.set_bound(0, real_bound(bound, metric, data.dim));
      for (std::int64_t t = 0; t < codes.tiles; ++t) {
        std::uint64_t mask = 0;
        kernel(tile_of(codes, t), filter.view(), 0, 1, &mask);
        for (std::int64_t other = t * tile_rows; other < std::min(data.rows, (t + 1) * tile_rows); ++other) {
          if ((codes.valid[static_cast<std::size_t>(t)] >> (other % tile_rows) & 1U) == 0) continue;
          const bool kept = (mask >> (other % tile_rows) & 1U) != 0;
          const R d = distances[static_cast<std::size_t>(other)];
          ++tally.pairs;
          if (d <= bound && !kept) ++tally.dropped_wrongly;
          if (metric != Metric::inner_product && metric != Metric::cosine && d > bound * 4 && bound > 0) {
            ++tally.far_pairs;
            tally.far_dropped += kept ? 0 : 1;
          }
        }
      }
    }
  }
}

std::string describe(Dtype dtype, Metric metric, codes::CodeChoice choice, std::int64_t dim,
                     const char* shape) {
  return std::string(name(dtype)) + " " + std::string(name(metric)) + " " + std::string(name(choice.filter)) +
         (choice.narrow ? " narrow" : "") + " form " + std::to_string(static_cast<int>(choice.form)) +
         " d=" + std::to_string(dim) + " " + shape;
}

// All codes, narrow ones also where the instruction set would not take them.
std::vector<codes::CodeChoice> all_codes(Dtype dtype, Metric metric, std::int64_t dim) {
  auto list = codes::possible_codes(dtype, metric, dim);
  if (codes::prefers_narrow() || metric == Metric::manhattan) return list;
  list.push_back({Filter::int8, codes::Form::cauchy, true});
  const bool euclid = metric == Metric::sqeuclidean || metric == Metric::euclidean;
  if (euclid) list.push_back({Filter::int8, codes::Form::triangle, true});
  return list;
}

class FilterTest : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override { force_instruction_set(GetParam()); }
  void TearDown() override { force_instruction_set(std::nullopt); }
};

TEST_P(FilterTest, KeepsEveryRowAtItsOwnDistance) {
  constexpr std::int64_t rows = 70;
  constexpr std::int64_t queries = 3;
  // Sanitizers slow the kernels down a hundredfold: fewer dimensions there, as in the conformance suite.
  const std::vector<std::int64_t> dims =
      test::reduced() ? std::vector<std::int64_t>{3, 17} : std::vector<std::int64_t>{1, 3, 4, 17, 64, 100};
  Tally total;
  Tally projected;
  for (const Shape& shape : shapes) {
    for (const std::int64_t dim : dims) {
      const auto [x, q] = make(shape, rows, queries, dim);
      for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::u8, Dtype::i8, Dtype::bf16}) {
        const conformance::Rows data(conformance::quantize(x, dtype, 20), dtype);
        const conformance::Rows asked(conformance::quantize(q, dtype, 20), dtype);
        for (const Metric metric : {Metric::sqeuclidean, Metric::euclidean, Metric::inner_product,
                                    Metric::cosine, Metric::manhattan}) {
          for (const codes::CodeChoice choice : all_codes(dtype, metric, dim)) {
            if (choice.filter == Filter::none) continue;
            const auto check = [&](const codes::CodeSpace& space, Tally& sum) {
              Tally tally;
              if (dtype == Dtype::f64) {
                walk<double>(data.view(), asked.view(), space, tally);
              } else {
                walk<float>(data.view(), asked.view(), space, tally);
              }
              EXPECT_EQ(tally.dropped_wrongly, 0) << describe(dtype, metric, space.choice, dim, shape.name)
                                                  << (space.projection == nullptr ? "" : " projected");
              sum.pairs += tally.pairs;
              sum.far_pairs += tally.far_pairs;
              sum.far_dropped += tally.far_dropped;
            };
            const codes::CodeSpace space = codes::make_code_space(data.view(), metric, choice);
            check(space, total);
            const bool dot = choice.form != codes::Form::difference && choice.form != codes::Form::absolute;
            const bool long_enough = dim == 17 || (dim == 64 && dtype == Dtype::f32);
            if (!dot || !long_enough || dtype == Dtype::bf16 || metric == Metric::euclidean) continue;
            codes::CodeSpace along = codes::real_valued(data.view(), space);
            const std::int64_t count = (dim + 2) / 3;
            along.projection = std::make_shared<codes::Projection>(
                codes::make_projection(codes::directions_of(data.view(), along, count, {}), count));
            // Without one where nothing varies.
            if (along.projection->directions == 0) continue;
            check(along, projected);
          }
        }
      }
    }
  }
  EXPECT_GT(total.pairs, test::reduced() ? 100000 : 1000000);
  // Rows at more than four times the bound: nearly all must go, or the filter does no work.
  EXPECT_GT(static_cast<double>(total.far_dropped), 0.7 * static_cast<double>(total.far_pairs));
  // A third of the directions of data that mostly have no leading ones.
  EXPECT_GT(projected.pairs, 100000);
  EXPECT_GT(static_cast<double>(projected.far_dropped), 0.3 * static_cast<double>(projected.far_pairs));
}

TEST_P(FilterTest, AnUnknownBoundKeepsEverythingAndAClosedQueryNothing) {
  constexpr std::int64_t rows = 130;
  constexpr std::int64_t dim = 20;
  Random random(5);
  Matrix x{rows, dim, std::vector<double>(static_cast<std::size_t>(rows * dim))};
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < dim; ++j) x.row(i)[j] = random.normal();
  }
  for (const Dtype dtype : {Dtype::f32, Dtype::u8}) {
    const conformance::Rows data(conformance::quantize(x, dtype, 20), dtype);
    for (const Metric metric :
         {Metric::sqeuclidean, Metric::inner_product, Metric::cosine, Metric::manhattan}) {
      for (const codes::CodeChoice choice : all_codes(dtype, metric, dim)) {
        if (choice.filter == Filter::none) continue;
        const codes::Codes codes =
            codes::encode_rows(data.view(), codes::make_code_space(data.view(), metric, choice), {});
        FilterQueries filter(codes, 1);
        std::vector<double> values(static_cast<std::size_t>(canonical_padded(dim)));
        (void)prepare_canonical_query(data.view().row(1), dtype, dim, metric, values.data());
        ASSERT_EQ(filter.add(values.data()), codes::RowKind::regular);
        const auto masks = [&] {
          std::vector<std::uint64_t> result(static_cast<std::size_t>(codes.tiles));
          for (std::int64_t t = 0; t < codes.tiles; ++t) {
            filter_kernel(choice)(tile_of(codes, t), filter.view(), 0, 1,
                                  &result[static_cast<std::size_t>(t)]);
            result[static_cast<std::size_t>(t)] &= codes.valid[static_cast<std::size_t>(t)];
          }
          return result;
        };
        EXPECT_EQ(masks(), codes.valid) << describe(dtype, metric, choice, dim, "fresh");
        filter.set_bound(0, std::numeric_limits<double>::infinity());
        EXPECT_EQ(masks(), codes.valid) << describe(dtype, metric, choice, dim, "infinite bound");
        filter.close(0);
        EXPECT_EQ(masks(), std::vector<std::uint64_t>(codes.valid.size(), 0))
            << describe(dtype, metric, choice, dim, "closed");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, FilterTest, testing::ValuesIn(usable_instruction_sets()),
                         [](const auto& set) { return std::string(name(set.param)); });

}  // namespace
}  // namespace kith::brute_force
