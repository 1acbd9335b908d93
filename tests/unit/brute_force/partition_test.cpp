// Rows in lists: none that may hold a neighbour is left out, clustered rows cost a share of a look at all of
// them, and no answer knows of it.
#include "brute_force/partition.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "brute_force/cpu/filter.hpp"
#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "distance/canonical.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "support/expect_error.hpp"
#include "support/instruction_sets.hpp"
#include "support/sanitizers.hpp"
#include "unit/brute_force/shapes.hpp"

namespace kith::brute_force {
namespace {

using conformance::Random;
using reference::Matrix;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Metric metrics[] = {Metric::sqeuclidean, Metric::euclidean, Metric::cosine};

// A cluster in seven, around whole numbers.
double centre(std::int64_t row, std::int64_t column) {
  return static_cast<double>((row % 7 * 31 + column * 17) % 13);
}

const Shape shapes[] = {
    {"gaussian", [](Random& r, std::int64_t, std::int64_t) { return r.normal(); }},
    {"clusters", [](Random& r, std::int64_t i, std::int64_t j) { return centre(i, j) + 0.01 * r.normal(); }},
    {"tight clusters",
     [](Random& r, std::int64_t i, std::int64_t j) { return centre(i, j) + 1e-5 * r.normal(); }},
    {"clusters far from the origin",
     [](Random& r, std::int64_t i, std::int64_t j) { return 1e6 + centre(i, j) + 0.01 * r.normal(); }},
    {"widths over twelve decades",
     [](Random& r, std::int64_t i, std::int64_t j) {
       return centre(i, j) + r.normal() * std::pow(10.0, -2.0 * static_cast<double>(i % 7));
     }},
    {"a falling spectrum",
     [](Random& r, std::int64_t, std::int64_t j) {
       return r.normal() * std::pow(10.0, -0.1 * static_cast<double>(j));
     }},
    {"one direction", [](Random& r, std::int64_t i,
                         std::int64_t j) { return static_cast<double>(i % 7 + j) + 1e-7 * r.normal(); }},
    {"tiny",
     [](Random& r, std::int64_t i, std::int64_t j) { return centre(i, j) * 1e-35 + 1e-38 * r.normal(); }},
    {"huge",
     [](Random& r, std::int64_t i, std::int64_t j) { return centre(i, j) * 1e17 + 1e15 * r.normal(); }},
    {"zeros and ones", [](Random& r, std::int64_t, std::int64_t) { return static_cast<double>(r.below(2)); }},
};

struct Data {
  conformance::Rows rows, queries;
};

Data make(const Shape& shape, Dtype dtype, std::int64_t rows, std::int64_t queries, std::int64_t dim) {
  const auto [x, q] = make(shape, rows, queries, dim);
  return {conformance::Rows(conformance::quantize(x, dtype, 20), dtype),
          conformance::Rows(conformance::quantize(q, dtype, 20), dtype)};
}

std::string describe(const Shape& shape, Dtype dtype, Metric metric) {
  return std::string(shape.name) + " " + std::string(name(dtype)) + " " + std::string(name(metric)) + " " +
         std::string(name(active_instruction_set()));
}

struct Tally {
  std::int64_t pairs = 0, left_out = 0, wrongly = 0;
};

// For each query the bound walks through the distances of all rows: the list of a row within it must stay.
template <class R>
void walk(const Partition& partition, const DatasetView& data, const DatasetView& queries, Tally& tally) {
  const Metric metric = partition.space.metric;
  std::vector<double> values(static_cast<std::size_t>(canonical_padded(data.dim)));
  ListDistances distances(partition);
  for (std::int64_t q = 0; q < queries.rows; ++q) {
    const auto query = prepare_canonical_query(queries.row(q), data.dtype, data.dim, metric, values.data());
    if (distances.look(values.data()) != codes::RowKind::regular) continue;
    for (std::int64_t list = 0; list < partition.lists(); ++list) {
      R nearest = std::numeric_limits<R>::infinity();
      for (std::int64_t i = 0; i < partition.size_of(list); ++i) {
        double distance = 0;
        canonical_function(data.dtype, metric)(canonical_rows(data), query, partition.rows_of(list) + i, 1,
                                               &distance);
        nearest = std::min(nearest, static_cast<R>(distance));
        const double reach = distances.reach(real_bound(static_cast<R>(distance), metric, data.dim));
        ++tally.pairs;
        tally.wrongly += distances.least(list) > reach ? 1 : 0;
      }
      const R half = metric == Metric::sqeuclidean ? nearest / 4 : nearest / 2;
      tally.left_out += distances.least(list) > distances.reach(real_bound(half, metric, data.dim)) ? 1 : 0;
    }
  }
}

class PartitionTest : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override { force_instruction_set(GetParam()); }
  void TearDown() override { force_instruction_set(std::nullopt); }
};

TEST_P(PartitionTest, LeavesNoListOutThatHasARowWithinTheBound) {
  const std::int64_t rows = test::reduced() ? 140 : 420;
  Tally total;
  for (const Shape& shape : shapes) {
    for (const std::int64_t dim : {3, 17, 100}) {
      if (test::reduced() && dim == 100) continue;
      for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::u8, Dtype::i8, Dtype::f16}) {
        const Data data = make(shape, dtype, rows, 5, dim);
        for (const Metric metric : metrics) {
          const auto space = codes::make_code_space(data.rows.view(), metric,
                                                    codes::possible_codes(dtype, metric, dim).front());
          const auto partition = make_partition(data.rows.view(), space, {}, 21, {});
          Tally tally;
          if (dtype == Dtype::f64) {
            walk<double>(*partition, data.rows.view(), data.queries.view(), tally);
          } else {
            walk<float>(*partition, data.rows.view(), data.queries.view(), tally);
          }
          EXPECT_EQ(tally.wrongly, 0) << describe(shape, dtype, metric) << " d=" << dim;
          total.pairs += tally.pairs;
          total.left_out += tally.left_out;
        }
      }
    }
  }
  EXPECT_GT(total.pairs, test::reduced() ? 100'000 : 500'000);
  EXPECT_GT(total.left_out, 1000) << "what is never left out saves nothing";
}

// Radii and places of all rows, in extended precision.
TEST_P(PartitionTest, HasEveryRowOnceWithinItsRadius) {
  for (const Shape& shape : shapes) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::u8}) {
      const Data data = make(shape, dtype, 300, 1, 20);
      const DatasetView view = data.rows.view();
      const auto space = codes::make_code_space(
          view, Metric::sqeuclidean, codes::possible_codes(dtype, Metric::sqeuclidean, 20).front());
      const auto partition = make_partition(view, space, {}, 15, {});
      std::vector<int> seen(static_cast<std::size_t>(view.rows), 0);
      for (const std::int64_t row : partition->special) ++seen[static_cast<std::size_t>(row)];
      std::vector<double> values(static_cast<std::size_t>(view.dim));
      for (std::int64_t list = 0; list < partition->lists(); ++list) {
        for (std::int64_t i = 0; i < partition->size_of(list); ++i) {
          const std::int64_t row = partition->rows_of(list)[i];
          ++seen[static_cast<std::size_t>(row)];
          codes::row_kernels().load[static_cast<int>(dtype)](view.row(row), view.dim, values.data());
          long double squares = 0;
          for (std::int64_t j = 0; j < view.dim; ++j) {
            const auto at = static_cast<std::size_t>(j);
            const long double y = (static_cast<long double>(values[at]) - partition->space.mean[at]) *
                                  static_cast<long double>(partition->space.unit);
            const long double c =
                partition->centres
                    .values[static_cast<std::size_t>(j * partition->centres.padded_count + list)];
            squares += (y - c) * (y - c);
          }
          ASSERT_LE(std::sqrt(squares), partition->radii[static_cast<std::size_t>(list)])
              << describe(shape, dtype, Metric::sqeuclidean);
        }
      }
      EXPECT_EQ(seen, std::vector<int>(static_cast<std::size_t>(view.rows), 1)) << shape.name;
    }
  }
}

void expect_same(const Neighbors& found, const Neighbors& expected, const std::string& what) {
  EXPECT_EQ(found.indices, expected.indices) << what;
  EXPECT_EQ(found.distances, expected.distances) << what;
}

TEST_P(PartitionTest, GivesTheSameBits) {
  const std::int64_t rows = test::reduced() ? 300 : 500;
  for (const Shape& shape : shapes) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::u8, Dtype::i8}) {
      if (test::reduced() && (dtype == Dtype::bf16 || dtype == Dtype::i8)) continue;
      const Data data = make(shape, dtype, rows, 9, 24);
      for (const Metric metric : metrics) {
        for (const Filter filter : {Filter::automatic, Filter::int8, Filter::fp16, Filter::fp32}) {
          if (test::reduced() && filter != Filter::automatic) continue;
          const auto plain = BruteForce::build(data.rows.view(), {metric, filter, {}, 0});
          const auto index = BruteForce::build(data.rows.view(), {metric, filter, {}, 30});
          for (const std::int64_t k : {std::int64_t{1}, std::int64_t{10}, rows + 3}) {
            if (k > rows && (filter != Filter::automatic || dtype == Dtype::bf16)) continue;
            const Neighbors found = index.search(data.queries.view(), k);
            EXPECT_GT(found.statistics.lists, 0);
            const Neighbors expected = plain.search(data.queries.view(), k);
            EXPECT_EQ(expected.statistics.lists, 0);
            expect_same(found, expected, describe(shape, dtype, metric) + " " + std::string(name(filter)));
          }
        }
      }
    }
  }
}

// One of them under sanitizers.
std::vector<InstructionSet> sets() {
  std::vector<InstructionSet> list = usable_instruction_sets();
  if (test::reduced()) list.resize(1);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Sets, PartitionTest, testing::ValuesIn(sets()),
                         [](const auto& set) { return std::string(name(set.param)); });

// NaN, infinities, rows far above the rest, zeros, equal rows, a NaN among equal rows.
TEST(Partition, KnowsWhatNoListCanHold) {
  constexpr std::int64_t rows = 400;
  constexpr std::int64_t dim = 20;
  for (const Metric metric : metrics) {
    Data data = make(shapes[1], Dtype::f32, rows, 8, dim);
    std::vector<float> values(static_cast<std::size_t>(rows * dim));
    const auto* from = static_cast<const float*>(data.rows.view().data);
    std::copy_n(from, values.size(), values.begin());
    const auto set = [&](std::int64_t row, float value) {
      std::fill_n(values.begin() + row * dim, dim, value);
    };
    const auto nan = std::numeric_limits<float>::quiet_NaN();
    values[7 * dim + 3] = nan;
    set(11, nan);
    for (std::int64_t row = 200; row < 250; ++row) set(row, nan);
    set(50, static_cast<float>(infinity));
    values[51 * dim] = static_cast<float>(-infinity);
    set(60, 3e38F);
    set(61, 0);
    set(62, 1e-30F);
    for (std::int64_t row = 100; row < 180; ++row)
      std::copy_n(values.begin(), dim, values.begin() + row * dim);
    const DatasetView view(values.data(), rows, dim);
    const auto plain = BruteForce::build(view, {metric, Filter::automatic, {}, 0});
    const auto index = BruteForce::build(view, {metric, Filter::automatic, {}, 12});
    for (const DatasetView& queries : {data.queries.view(), view}) {
      for (const std::int64_t k : {std::int64_t{1}, std::int64_t{90}, rows}) {
        const Neighbors found = index.search(queries, k);
        const Neighbors expected = plain.search(queries, k);
        expect_same(found, expected, std::string(name(metric)));
        EXPECT_EQ(found.statistics.nan_rows, expected.statistics.nan_rows);
        EXPECT_EQ(found.statistics.nan_queries, expected.statistics.nan_queries);
      }
    }
  }
}

// Bounds of the caller's, any number of threads, few lists and more than there are rows.
TEST(Partition, KeepsWhatTheCallerKnows) {
  const Data data = make(shapes[1], Dtype::f32, 700, 40, 24);
  const auto plain = BruteForce::build(data.rows.view(), {});
  const Neighbors expected = plain.search(data.queries.view(), 5);
  std::vector<double> bounds;
  for (std::int64_t q = 0; q < 40; ++q)
    bounds.push_back(expected.distances_as<float>()[static_cast<std::size_t>(q * 5 + 4)]);
  for (const std::int64_t lists : {1, 2, 50, 5000}) {
    const auto index = BruteForce::build(data.rows.view(), {.lists = lists});
    for (const int threads : {1, 2, 7}) {
      Execution execution;
      execution.threads = threads;
      expect_same(index.search(data.queries.view(), 5, execution), expected, std::to_string(lists));
      expect_same(index.search(data.queries.view(), 5, execution, {.bounds = bounds}), expected, "bounds");
    }
  }
  const auto empty = BruteForce::build(data.rows.view().slice(0, 0), {.lists = 4});
  EXPECT_EQ(empty.search(data.queries.view(), 2).indices[0], -1);
}

// Clusters of rows after another, which a search of some queries finds at once.
std::vector<float> clusters(std::int64_t rows, std::int64_t dim, double width) {
  Random random(7);
  std::vector<float> centres(static_cast<std::size_t>(40 * dim));
  for (float& value : centres) value = static_cast<float>(random.normal());
  std::vector<float> values(static_cast<std::size_t>(rows * dim));
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto its = static_cast<std::int64_t>(random.below(40));
    for (std::int64_t j = 0; j < dim; ++j) {
      values[static_cast<std::size_t>(i * dim + j)] =
          centres[static_cast<std::size_t>(its * dim + j)] + static_cast<float>(width * random.normal());
    }
  }
  return values;
}

TEST(Partition, IsMadeWhereRowsLieInClusters) {
  constexpr std::int64_t rows = 40000;
  constexpr std::int64_t dim = 32;
  const std::vector<float> values = clusters(rows, dim, 0.05);
  const DatasetView view(values.data(), rows, dim);
  const DatasetView queries = view.slice(0, 50);
  for (const Metric metric : metrics) {
    if (test::reduced() && metric != Metric::euclidean) continue;
    const auto index = BruteForce::build(view, {.metric = metric});
    const Neighbors found = index.search(queries, 10);
    EXPECT_GT(found.statistics.lists, 20) << name(metric);
    EXPECT_LT(found.statistics.pairs, rows * queries.rows / 8);
    expect_same(found, BruteForce::build(view, {.metric = metric, .lists = 0}).search(queries, 10),
                "clusters");
  }
  // Not where there are none, where few queries cannot repay them, or where they may not be.
  const std::vector<float> even = clusters(rows, dim, 5);
  const DatasetView spread(even.data(), rows, dim);
  EXPECT_EQ(BruteForce::build(spread).search(queries, 5).statistics.lists, 0);
  EXPECT_EQ(knn(view, queries, 5).statistics.lists, 0);
  EXPECT_EQ(BruteForce::build(view, {.lists = 0}).search(queries, 5).statistics.lists, 0);
  EXPECT_EQ(BruteForce::build(view.slice(0, 5000)).search(queries, 5).statistics.lists, 0);
  for (const Metric metric : {Metric::inner_product, Metric::manhattan})
    EXPECT_EQ(BruteForce::build(view, {.metric = metric}).search(queries, 5).statistics.lists, 0);
  Execution little;
  little.memory_limit = 32 * rows;
  EXPECT_EQ(BruteForce::build(view, {}, little).search(queries, 5).statistics.lists, 0);
}

TEST(Partition, IsKeptByASavedIndex) {
  const Data data = make(shapes[1], Dtype::f32, 500, 4, 24);
  const auto path = std::filesystem::temp_directory_path() / ("lists" + std::to_string(::getpid()) + ".kith");
  for (const std::int64_t lists : {0, 9}) {
    BruteForce::build(data.rows.view(), {.lists = lists}).save(path);
    EXPECT_EQ(BruteForce::load(path).search(data.queries.view(), 2).statistics.lists > 0, lists > 0);
  }
  std::filesystem::remove(path);
}

TEST(Partition, IsRefusedWithAReason) {
  const Data data = make(shapes[1], Dtype::f32, 500, 4, 24);
  const auto build = [&](const BruteForceParameters& parameters, const Execution& execution = {}) {
    return [&data, parameters, execution] { BruteForce::build(data.rows.view(), parameters, execution); };
  };
  test::expect_error<InvalidArgument>(build({.lists = -1}), {"lists = -1", "use 0 for none"});
  test::expect_error<InvalidArgument>(build({.metric = Metric::inner_product, .lists = 5}),
                                      {"5 lists need", "sqeuclidean, euclidean, cosine"});
  test::expect_error<InvalidArgument>(build({.filter = Filter::none, .lists = 5}), {"5 lists need a filter"});
  Execution little;
  little.memory_limit = 20000;
  test::expect_error<OutOfMemory>(build({.lists = 5}, little), {"5 lists of 500 rows", "20000", "raise it"});
  // One caller stops another's wait: nothing was produced.
  Execution stopped;
  stopped.cancelled = [] { return true; };
  EXPECT_THROW(build({.lists = 5}, stopped)(), Cancelled);
}

}  // namespace
}  // namespace kith::brute_force
