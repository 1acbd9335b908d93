// What approximate indexes promise, for every one of them, dtype and metric that kith::supported lists: a
// list of all rows finds the truth, a shorter one gives true distances in order, and neither depends on
// threads, batches, instruction sets or on where the index was stored.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "conformance/check.hpp"
#include "support/files.hpp"

namespace kith::conformance {
namespace {

// An index with what may be chosen of it: codes of a kind.
struct Chosen : Support {
  CodeKind codes = CodeKind::scalar;
};

std::vector<Chosen> all_chosen() {
  std::vector<Chosen> all;
  for (const Support& support : supported_by(Guarantee::approximate)) {
    all.push_back({support});
    if (support.dtype == Dtype::f32) all.push_back({support, CodeKind::rabitq});
    if (support.dtype == Dtype::u8) all.push_back({support, CodeKind::pq});
  }
  return all;
}

std::string chosen_name(const testing::TestParamInfo<Chosen>& info) {
  const std::string its = entry_name(info.param);
  return info.param.codes == CodeKind::scalar ? its : its + "_" + std::string(name(info.param.codes));
}

class Approximate : public testing::TestWithParam<Chosen> {
 protected:
  void SetUp() override {
    if (!backend_usable(GetParam())) GTEST_SKIP() << "no usable CUDA device here";
  }

  // Few edges, so that small problems have walks.
  static IndexParameters parameters() {
    IndexParameters chosen = Indexes::parameters(GetParam().index, GetParam().metric);
    std::visit(
        [](auto& its) {
          if constexpr (requires { its.max_degree; }) {
            its.max_degree = 6;
            its.build_list_size = 12;
            its.codes = GetParam().codes;
          }
        },
        chosen);
    return chosen;
  }

  // In brief one kind of data, others for other metrics and element types.
  static bool has_its_turn(std::uint64_t seed) {
    const auto its =
        static_cast<std::uint64_t>(GetParam().metric) + 5 * static_cast<std::uint64_t>(GetParam().dtype);
    return seed % kinds().size() == its % kinds().size();
  }

  static AnyIndex build(const Rows& data, int threads = 2) {
    return AnyIndex::build(Dataset::adopt(data.view(), nullptr), parameters(),
                           execution_for(GetParam(), threads));
  }

  static Problem problem(const std::string& what, const Values& values, std::int64_t max_k) {
    return make_problem(what, values, GetParam().dtype, GetParam().metric, max_k);
  }

  // Distances as the truth has them for these rows, ascending, ties by row, no row twice, padding last.
  static void expect_true(const Problem& problem, const Neighbors& found, const std::string& where) {
    for (std::int64_t q = 0; q < found.queries; ++q) {
      const reference::Answer& truth = problem.truth[static_cast<std::size_t>(q)];
      std::set<std::int64_t> met;
      bool padded = false;
      for (std::int64_t j = 0; j < found.k; ++j) {
        const std::int64_t row = found.indices_of(q)[static_cast<std::size_t>(j)];
        const double distance = found.distance(q, j);
        if (row < 0) {
          padded = true;
          ASSERT_TRUE(row == -1 && std::isinf(distance) && distance > 0) << where;
          continue;
        }
        ASSERT_FALSE(padded) << where << ": a row after the padding";
        ASSERT_TRUE(met.insert(row).second) << where << ": row " << row << " twice";
        const auto at = std::find(truth.indices.begin(), truth.indices.end(), row);
        ASSERT_NE(at, truth.indices.end()) << where << ": row " << row << " has no distance";
        const double wanted = truth.distances[static_cast<std::size_t>(at - truth.indices.begin())];
        const bool same =
            found.distance_dtype() == Dtype::f32
                ? std::bit_cast<std::uint32_t>(static_cast<float>(distance)) ==
                      std::bit_cast<std::uint32_t>(static_cast<float>(wanted))
                : std::bit_cast<std::uint64_t>(distance) == std::bit_cast<std::uint64_t>(wanted);
        ASSERT_TRUE(same) << where << ": row " << row << " at " << distance << ", not " << wanted;
        if (j == 0) continue;
        const std::int64_t before = found.indices_of(q)[static_cast<std::size_t>(j - 1)];
        ASSERT_TRUE(found.distance(q, j - 1) < distance ||
                    (found.distance(q, j - 1) == distance && before < row))
            << where << ": out of order at " << j;
      }
      counts().answers += found.k;
    }
  }
};

bool same_bits(const Neighbors& a, const Neighbors& b) {
  return a.indices == b.indices && a.distances == b.distances;
}

struct Shape {
  std::int64_t n, d, q, k;
};

std::vector<Shape> shapes() {
  if (size() == Size::brief) return {{130, 3, 3, 10}};
  if (size() == Size::reduced) return {{200, 40, 3, 5}};
  if (size() == Size::full) return {{150, 3, 7, 10}, {63, 1, 5, 64}, {321, 17, 6, 8}, {2000, 64, 8, 10}};
  return {{63, 1, 5, 64}, {321, 17, 6, 8}};
}

TEST_P(Approximate, AListOfAllRowsFindsTheTruth) {
  std::uint64_t seed = 900;
  for (const Kind& kind : kinds()) {
    for (const Shape& shape : shapes()) {
      Random random(++seed);
      if (size() == Size::brief && !has_its_turn(seed)) continue;
      const Problem its = problem(kind.name, kind.make(shape.n, shape.d, shape.q, random), shape.k);
      const Rows data(its.data, its.dtype, seed % 3 == 0 ? 3 : 0, seed % 3 == 0 ? 1 : 0);
      const Rows queries(its.queries, its.dtype);
      const auto& sets = usable_instruction_sets();
      const InstructionSet set = sets[seed % sets.size()];
      const Forced forced(set);
      const AnyIndex index = build(data, 1 + static_cast<int>(seed % 3));
      const SearchOptions all{.list_size = std::max(shape.n, shape.k),
                              .beam_width = 1 + static_cast<std::int64_t>(seed % 4)};
      const Neighbors found = index.search(queries.view(), shape.k, execution_for(GetParam(), 2), all);
      EXPECT_FALSE(found.statistics.certified);
      compare(its, found, 0, {GetParam(), Filter::automatic, set, "all rows in view"});
    }
  }
}

TEST_P(Approximate, ShortListsGiveTrueDistancesInOrder) {
  std::uint64_t seed = 1900;
  for (const Kind& kind : kinds()) {
    for (const Shape& shape : shapes()) {
      Random random(++seed);
      if (size() == Size::brief
              ? !has_its_turn(seed)
              : size() <= Size::normal && seed % 5 != static_cast<std::uint64_t>(GetParam().metric)) {
        continue;
      }
      const Problem its = problem(kind.name, kind.make(shape.n, shape.d, shape.q, random), shape.n);
      const Rows data(its.data, its.dtype);
      const Rows queries(its.queries, its.dtype);
      const AnyIndex index = build(data);
      const std::int64_t k = std::min(shape.k, shape.n);
      for (const std::int64_t list : {k, k + 7}) {
        const Neighbors found =
            index.search(queries.view(), k, execution_for(GetParam(), 2), {.list_size = list});
        expect_true(its, found, fmt::format("{} n={} list={}", kind.name, shape.n, list));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Nobody who says nothing gets less than the truth on rows too few to measure a recall.
TEST_P(Approximate, FewRowsAreAnsweredExactly) {
  const auto row_counts =
      size() == Size::brief ? std::vector<std::int64_t>{1, 50} : std::vector<std::int64_t>{0, 1, 2, 3, 50};
  for (const std::int64_t n : row_counts) {
    const Problem its = problem("few", gaussian(n, 5, 4, 950 + static_cast<std::uint64_t>(n)), n + 2);
    const Rows data(its.data, its.dtype);
    const Rows queries(its.queries, its.dtype);
    const AnyIndex index = build(data);
    const InstructionSet set = usable_instruction_sets().front();
    for (const std::int64_t k : {std::int64_t{1}, n + 1, n + 2}) {
      const Neighbors found = index.search(queries.view(), k, execution_for(GetParam(), 2));
      EXPECT_TRUE(found.statistics.certified);
      compare(its, found, 0, {GetParam(), Filter::automatic, set, "few rows"});
      const Neighbors walked = index.search(queries.view(), k, execution_for(GetParam(), 2),
                                            {.list_size = std::max<std::int64_t>(n, 1)});
      EXPECT_FALSE(walked.statistics.certified);
      compare(its, walked, 0, {GetParam(), Filter::automatic, set, "few rows, walked"});
    }
  }
}

TEST_P(Approximate, TheSameBitsFromThreadsBatchesInstructionSetsAndFiles) {
  const std::int64_t n = size() == Size::brief     ? 150
                         : size() == Size::reduced ? 300
                         : size() == Size::full    ? 3000
                                                   : 700;
  Random random(1);
  for (const Kind& kind : kinds()) {
    const std::string_view what = kind.name;
    if (what != "normal" && what != "duplicates" && what != "nan_rows") continue;
    if (size() <= Size::reduced && what != "nan_rows") continue;
    const Problem its = problem(kind.name, kind.make(n, 20, 40, random), 1);
    const Rows data(its.data, its.dtype);
    const Rows queries(its.queries, its.dtype);
    const AnyIndex index = build(data, 1);
    const SearchOptions options{.list_size = 24};
    const Neighbors expected = index.search(queries.view(), 10, execution_for(GetParam(), 1), options);
    const auto expect_same = [&](const AnyIndex& other, const std::string& where) {
      EXPECT_TRUE(
          same_bits(other.search(queries.view(), 10, execution_for(GetParam(), 3), options), expected))
          << kind.name << ": " << where;
      for (std::int64_t q = 0; q < 40; q += 7) {
        const Neighbors one = other.search(queries.view().slice(q, 1), 10, {}, options);
        EXPECT_TRUE(std::equal(one.indices.begin(), one.indices.end(), expected.indices_of(q).begin()))
            << kind.name << ": " << where << ", query " << q << " alone";
      }
    };
    expect_same(index, "the same index");
    for (const int threads : {2, 3, 5}) {
      if (size() == Size::brief && threads != 3) continue;
      expect_same(build(data, threads), fmt::format("{} threads", threads));
    }
    for (const InstructionSet set : usable_instruction_sets()) {
      if (size() == Size::brief && set != usable_instruction_sets().back()) continue;
      const Forced forced(set);
      expect_same(build(data, 2), std::string(name(set)));
      expect_same(index, "searched by " + std::string(name(set)));
    }
    const test::TemporaryFolder folder;
    index.save(folder / "index.kith");
    expect_same(AnyIndex::load(folder / "index.kith"), "saved and loaded");
  }
}

INSTANTIATE_TEST_SUITE_P(Supported, Approximate, testing::ValuesIn(all_chosen()), chosen_name);

}  // namespace
}  // namespace kith::conformance
