// One suite for every exact index, backend, dtype and metric that kith::supported lists: shapes and kinds of
// data against the float64 oracle, on every instruction set of this CPU and with every filter.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "brute_force/partition.hpp"
#include "conformance/check.hpp"
#include "kith/error.hpp"
#include "support/forced_directions.hpp"
#include "support/instruction_sets.hpp"

namespace kith::conformance {
namespace {

class Conformance : public testing::TestWithParam<Support> {
 protected:
  void SetUp() override {
    if (!backend_usable(GetParam())) GTEST_SKIP() << "no usable CUDA device here";
  }

  static bool is_tree() { return GetParam().index != "brute_force"; }

  void check(const std::string& what, const Values& values, std::vector<std::int64_t> ks) {
    std::sort(ks.begin(), ks.end());
    ks.erase(std::unique(ks.begin(), ks.end()), ks.end());
    ks.erase(std::remove_if(ks.begin(), ks.end(), [](std::int64_t k) { return k < 1; }), ks.end());
    const Support& entry = GetParam();
    if (!supports_dim(entry.index, values.data.dim)) return;
    const Problem problem = make_problem(what, values, entry.dtype, entry.metric, ks.back());
    check_everywhere(problem, entry, ks);
  }
};

// Some of a list under sanitizers.
std::vector<std::int64_t> thinned(std::vector<std::int64_t> list) {
  if (size() > Size::reduced) return list;
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < list.size(); i += size() == Size::brief ? 15 : 4) out.push_back(list[i]);
  return out;
}

TEST_P(Conformance, Dimensions) {
  for (const std::int64_t d :
       thinned({1,  2,  3,  4,   5,   6,   7,   8,   9,   12,  15,  16,  17,  20,  24,  31,  32,  33,  48, 63,
                64, 65, 96, 100, 127, 128, 129, 191, 192, 200, 255, 256, 257, 384, 511, 513, 768, 1025})) {
    check("dimensions", gaussian(131, d, 7, 100 + static_cast<std::uint64_t>(d)), {1, 10});
  }
}

TEST_P(Conformance, Rows) {
  for (const std::int64_t n :
       thinned({0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   15,   16,   17,   31,   32,   33,  47,
                48,  49,  63,  64,  65,  66,  95,  96,  97,  127, 128,  129,  191,  192,  193,  255, 256,
                257, 383, 384, 385, 511, 512, 513, 639, 640, 641, 1023, 1024, 1025, 2047, 2048, 2049})) {
    check("rows",
          gaussian(n,
                   is_tree()    ? 2 + n % 2
                   : n % 2 == 0 ? 20
                                : 5,
                   5, 200 + static_cast<std::uint64_t>(n)),
          {1, 7, n, n + 1});
  }
}

TEST_P(Conformance, Queries) {
  for (const std::int64_t q :
       thinned({0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,  17,  18,  19, 23,
                24, 25, 31, 32, 33, 48, 63, 64, 65, 66, 71, 72, 73, 95, 96, 97, 127, 128, 129, 257})) {
    check("queries", gaussian(130, q % 2 == 0 && !is_tree() ? 33 : 3, q, 300 + static_cast<std::uint64_t>(q)),
          {5});
  }
}

TEST_P(Conformance, Neighbours) {
  for (const std::int64_t d : {3, 40}) {
    const std::int64_t n = size() == Size::reduced ? 600 : 2500;
    if (size() == Size::brief) {
      check("neighbours", gaussian(300, d, 2, 400 + static_cast<std::uint64_t>(d)), {1, 10, 100});
      continue;
    }
    check("neighbours", gaussian(n, d, 4, 400 + static_cast<std::uint64_t>(d)),
          {1, 2, 3, 10, 63, 64, 65, 100, 128, 255, 256, 257, 1000, 2048, 2049, n - 1, n, n + 1, n + 100});
  }
}

TEST_P(Conformance, Kinds) {
  struct Shape {
    std::int64_t n, d, q;
    std::vector<std::int64_t> ks;
  };
  std::vector<Shape> shapes = {{150, 3, 7, {1, 10, 65}}, {400, 2, 7, {3, 33}},   {63, 1, 5, {4, 64}},
                               {321, 17, 6, {2, 64}},    {700, 64, 13, {1, 10}}, {257, 130, 3, {5, 300}}};
  if (size() == Size::reduced) shapes = {{130, 3, 7, {1, 10}}, {200, 40, 3, {5}}};
  if (size() == Size::brief) shapes = {{130, 3, 3, {10}}};
  if (size() == Size::full) {
    shapes.push_back({5000, 24, 40, {1, 10, 100, 1000}});
    shapes.push_back({3000, 3, 100, {1, 8, 65}});
    shapes.push_back({2000, 960, 8, {10}});
  }
  std::uint64_t seed = 500;
  for (const Kind& kind : kinds()) {
    for (const Shape& shape : shapes) {
      Random random(++seed);
      // In brief every fourth kind, others for other metrics.
      if (size() == Size::brief && (seed + static_cast<std::uint64_t>(GetParam().metric)) % 4 != 0) continue;
      check(kind.name, kind.make(shape.n, shape.d, shape.q, random), shape.ks);
    }
  }
}

// Filters along leading directions, few, some or all: what they leave out must not matter.
TEST_P(Conformance, LeadingDirections) {
  const Support& entry = GetParam();
  if (entry.index != "brute_force") GTEST_SKIP() << "has no codes along directions";
  const bool on_gpu = entry.backend == Device::Kind::cuda;
  const std::int64_t n = size() == Size::brief ? 70 : size() == Size::reduced ? 80 : 130;
  std::uint64_t seed = 900;
  for (const Kind& kind : kinds()) {
    Random random(++seed);
    if (size() == Size::brief && (seed + static_cast<std::uint64_t>(entry.metric)) % 4 != 0) continue;
    const std::int64_t d = seed % 2 == 0 ? 33 : 20;
    const std::int64_t directions = std::vector<std::int64_t>{1, 7, d}[seed % 3];
    const test::ForcedDirections forced(directions);
    const Values values = kind.make(n, d, 7, random);
    // GPUs filter where the rows are eight times as many.
    check(kind.name, values, on_gpu ? std::vector<std::int64_t>{1, 8, 20} : std::vector<std::int64_t>{20});
    const std::string_view what = kind.name;
    if ((what != "normal" && what != "spectrum_1e12") || (on_gpu && entry.metric == Metric::manhattan))
      continue;
    // Proof that the test reaches what it is for.
    const Problem problem = make_problem(kind.name, values, entry.dtype, entry.metric, 1);
    const Rows data(problem.data, problem.dtype);
    const auto index = AnyIndex::build(Dataset::adopt(data.view(), nullptr),
                                       parameters_for(entry, Filter::int8), execution_for(entry, 1));
    EXPECT_EQ(index.search(data.view(), 1, execution_for(entry, 1)).statistics.directions,
              entry.metric == Metric::manhattan ? 0 : directions);
  }
}

// Searches on a GPU go by lists, if so, as long as it lives.
class ListsForced {
 public:
  explicit ListsForced(bool go) { brute_force::force_lists(go ? std::optional(true) : std::nullopt); }
  ListsForced(const ListsForced&) = delete;
  ListsForced& operator=(const ListsForced&) = delete;
  ~ListsForced() { brute_force::force_lists(std::nullopt); }
};

// Rows in lists, one, some, or one for every third row: those that a query leaves out must not matter.
TEST_P(Conformance, Lists) {
  const Support& entry = GetParam();
  const bool lengths = entry.metric != Metric::inner_product && entry.metric != Metric::manhattan;
  if (entry.index != "brute_force" || !lengths) GTEST_SKIP() << "has no lists";
  // There tiles of codes hold 256 rows, and seven queries are many.
  const bool gpu = entry.backend != Device::Kind::cpu;
  const ListsForced forced_lists(gpu);
  const std::int64_t n = gpu ? 2100 : size() == Size::brief ? 70 : size() == Size::reduced ? 90 : 200;
  const std::int64_t most = gpu ? n / 8 : n + 1;
  std::int64_t left_out = 0;
  std::uint64_t seed = 950;
  for (const Kind& kind : kinds()) {
    Random random(++seed);
    if (size() == Size::brief && (seed + static_cast<std::uint64_t>(entry.metric)) % 4 != 0) continue;
    const std::int64_t d = std::vector<std::int64_t>{3, 20, 33}[seed % 3];
    const Problem problem =
        make_problem(kind.name, kind.make(n, d, 7, random), entry.dtype, entry.metric, most);
    const Rows data(problem.data, problem.dtype, seed % 2 == 0 ? 3 : 0);
    const Rows queries(problem.queries, problem.dtype);
    const Execution execution = execution_for(entry, 1 + static_cast<int>(seed % 2));
    for (const auto& [set, filter] : paths(entry, seed)) {
      if (filter == Filter::none || (gpu && filter != Filter::int8 && filter != Filter::fp16)) continue;
      const test::Forced forced(set);
      IndexParameters parameters = parameters_for(entry, filter);
      std::get<BruteForceParameters>(parameters).lists =
          std::vector<std::int64_t>{1, 8, std::min<std::int64_t>(n / 3, 66)}[seed / 3 % 3];
      const auto index = AnyIndex::build(Dataset::adopt(data.view(), nullptr), parameters, execution);
      for (const std::int64_t k : {std::int64_t{1}, std::int64_t{10}, most}) {
        const Neighbors found = index.search(queries.view(), k, execution);
        if (!compare(problem, found, 0,
                     {entry, filter, set, fmt::format("lists={} k={}", found.statistics.lists, k)})) {
          GTEST_FAIL() << "the rest of it is left out";
        }
        left_out += n * queries.view().rows - found.statistics.pairs;
      }
    }
  }
  // Seven queries are one block of a GPU's, which leaves out what all of them do.
  if (!gpu) {
    EXPECT_GT(left_out, 0);
  }
}

// Zeros appended to every row change no bit of the answer.
TEST_P(Conformance, ZeroPadding) {
  const Support& entry = GetParam();
  for (const std::int64_t d : {1, 3, 8, 13, 30}) {
    if (!supports_dim(entry.index, d) || (size() == Size::brief && d != 3)) continue;
    const Values plain = gaussian(200, d, 6, 600 + static_cast<std::uint64_t>(d));
    Problem problem = make_problem("zero_padding", plain, entry.dtype, entry.metric, 20);
    for (const std::int64_t padded : {d + 1, d + 2, d + 8, d + 61}) {
      if (!supports_dim(entry.index, padded)) continue;
      for (reference::Matrix* matrix : {&problem.data, &problem.queries}) {
        reference::Matrix wide{matrix->rows, padded, {}};
        wide.values.assign(static_cast<std::size_t>(wide.rows * padded), 0.0);
        for (std::int64_t r = 0; r < matrix->rows; ++r) {
          std::copy_n(matrix->row(r), d, wide.row(r));
        }
        *matrix = std::move(wide);
      }
      check_everywhere(problem, entry, {20});
    }
  }
}

// Enough rows for tiles, samples and worker threads to matter.
TEST_P(Conformance, ManyRows) {
  const std::int64_t n = size() <= Size::reduced ? 2000 : size() == Size::full ? 100'000 : 9'001;
  check("many_rows_few_queries", gaussian(n, 24, 2, 701), {1, 10, 200});
  check("many_rows_one_query", gaussian(n, 3, 1, 702), {1, 100});
  check("many_queries", gaussian(n / 20, 16, n / 40, 703), {10});
  if (size() == Size::brief) return;
  Random random(704);
  for (const Kind& kind : kinds()) {
    const std::string_view what = kind.name;
    if (what == "shell_1e-7" || what == "duplicates" || what == "lattice" || what == "descending" ||
        what == "near_duplicates_1e-6" || what == "outlier") {
      check(kind.name, kind.make(n / 2, is_tree() ? 3 : 20, 2, random), {10, 100});
    }
  }
}

// Rows that no filter tells apart, enough of them for an engine on the CPU to give its filter up half-way,
// and for one on a GPU to search again with more room.
TEST_P(Conformance, UselessFilter) {
  const Support& entry = GetParam();
  if (entry.index != "brute_force") GTEST_SKIP() << "trees have no filter to give up";
  const std::int64_t n = size() <= Size::reduced ? 3000 : 44'000;
  Random random(705);
  std::int64_t useless = 0;
  for (const Kind& kind : kinds()) {
    const std::string_view what = kind.name;
    if (what != "shell_1e-7" && what != "near_duplicates_1e-6") continue;
    const Values values = kind.make(n, 18, 3, random);
    const Problem problem = make_problem(kind.name, values, entry.dtype, entry.metric, 10);
    const Rows data(problem.data, problem.dtype);
    const Rows queries(problem.queries, problem.dtype);
    for (const auto& [set, filter] : paths(entry, static_cast<std::uint64_t>(entry.metric))) {
      const Forced forced(set);
      const Execution execution = execution_for(entry, 1);
      const auto index =
          AnyIndex::build(Dataset::adopt(data.view(), nullptr), parameters_for(entry, filter), execution);
      const Neighbors result = index.search(queries.view(), 10, execution);
      if (filter == Filter::int8) {
        useless += entry.backend == Device::Kind::cpu ? result.statistics.fallbacks
                                                      : result.statistics.candidates / (n / 2);
      }
      ASSERT_TRUE(compare(problem, result, 0, {entry, filter, set, ""}));
    }
  }
  // Proof that the test reaches what it is for.
  if (entry.index == "brute_force" && entry.dtype == Dtype::f32 && entry.metric == Metric::sqeuclidean &&
      size() > Size::reduced) {
    EXPECT_GT(useless, 0);
  }
}

// Sums of products that need more than 31 bits, and the last dimension before.
TEST_P(Conformance, LongVectors) {
  const Support& entry = GetParam();
  if (!supports_dim(entry.index, 32768)) GTEST_SKIP() << "not for this dimension";
  constexpr std::int64_t longest_int8 = 32768;
  std::vector<std::int64_t> dims = thinned({longest_int8, longest_int8 + 1});
  // A tree has no int8 sums; these do not fit a warp's share of a GPU's shared memory either.
  if (size() == Size::brief && entry.index != "brute_force") dims = {4096};
  for (const std::int64_t d : dims) {
    for (const Kind& kind : kinds()) {
      const std::string_view what = kind.name;
      if (what != "extremes" && (what != "normal" || size() == Size::normal)) continue;
      Random random(static_cast<std::uint64_t>(d));
      Values values = kind.make(5, d, 2, random);
      // The largest sums there are: all of one sign.
      for (std::int64_t j = 0; j < d && what == "extremes"; ++j) {
        values.data.row(0)[j] = values.queries.row(0)[j] = 300;
        values.data.row(1)[j] = -300;
      }
      const Problem problem = make_problem(kind.name, values, entry.dtype, entry.metric, 6);
      const Rows data(problem.data, problem.dtype);
      const Rows queries(problem.queries, problem.dtype);
      for (const auto& [set, filter] : paths(entry, static_cast<std::uint64_t>(d + 1))) {
        const Forced forced(set);
        const Execution execution = execution_for(entry, 1);
        try {
          const auto index =
              AnyIndex::build(Dataset::adopt(data.view(), nullptr), parameters_for(entry, filter), execution);
          ASSERT_TRUE(
              compare(problem, index.search(queries.view(), 6, execution), 0, {entry, filter, set, ""}));
        } catch (const InvalidArgument& error) {
          EXPECT_TRUE(filter == Filter::int8 && d > longest_int8) << error.what();
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Supported, Conformance, testing::ValuesIn(supported_by(Guarantee::exact)),
                         [](const auto& entry) { return entry_name(entry.param); });

}  // namespace
}  // namespace kith::conformance
