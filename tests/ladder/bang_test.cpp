// The rungs of graphs. On a GPU they must give the answer of the same steps taken here one after the other,
// bit for bit: nothing in them may depend on which thread comes first.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include "bang_parts.hpp"
#include "bang_steps.hpp"
#include "climb.hpp"
#include "graph_case.hpp"
#include "kith/kith.hpp"
#include "support/sanitizers.hpp"

namespace kith::ladder {
namespace {

struct Instance {
  Instance(std::int64_t points_, std::int64_t dim, std::int64_t queries_, std::int64_t k,
           std::int64_t list_size)
      : points(embeddings(points_, dim, 0)), queries(embeddings(queries_, dim, points_)) {
    problem = {dim,
               queries_,
               points_,
               k,
               static_cast<const float*>(queries.view().data),
               static_cast<const float*>(points.view().data)};
    graph.emplace(problem, list_size, std::vector<int>{}, Execution{});
    problem.graph = &*graph;
  }
  Answer truth() const {
    Answer answer(problem);
    knn_into({problem.point, problem.points, problem.dim}, {problem.query, problem.queries, problem.dim},
             {answer.indices.data(), answer.distances.data(), problem.queries, problem.k});
    return answer;
  }
  Dataset points, queries;
  Problem problem;
  std::optional<GraphCase> graph;
};

// BANG's steps for one query after the other, every array a vector.
class OnHost {
 public:
  OnHost(const Instance& instance, std::int64_t subspaces, bool bloom)
      : problem_(instance.problem), graph_(*instance.graph), bloom_(bloom) {
    if (subspaces > 0) pq_ = &graph_.pq(subspaces);
  }

  Answer search() {
    Answer answer(problem_);
    for (std::int64_t q = 0; q < problem_.queries; ++q) {
      const std::vector<Key> list = walk(problem_.query + q * problem_.dim);
      for (std::int64_t rank = 0; rank < std::min<std::int64_t>(problem_.k, std::ssize(list)); ++rank) {
        const auto at = static_cast<std::size_t>(q * problem_.k + rank);
        answer.indices[at] = row_of(list[static_cast<std::size_t>(rank)]);
        answer.distances[at] = distance_of(list[static_cast<std::size_t>(rank)]);
      }
    }
    return answer;
  }
  std::int64_t longest_walk() const { return longest_walk_; }

 private:
  // Eight shares, summed as the shuffles do.
  template <class Term>
  static float in_eight_shares(int count, const Term& term) {
    float share[8] = {};
    for (int j = 0; j < count; ++j) share[j % 8] = term(share[j % 8], j);
    for (int step = 4; step > 0; step /= 2) {
      for (int lane = 0; lane < step; ++lane) share[lane] += share[lane + step];
    }
    return share[0];
  }
  float full(std::uint32_t row) const {
    const float* its = problem_.point + std::int64_t{row} * problem_.dim;
    return in_eight_shares(static_cast<int>(problem_.dim),
                           [&](float sum, int c) { return add_square(sum, query_[c] - its[c]); });
  }
  float estimate(std::uint32_t row) const {
    if (pq_ == nullptr) return full(row);
    const auto* code =
        static_cast<const std::uint8_t*>(pq_->codes.view().data) + std::int64_t{row} * pq_->subspaces;
    return in_eight_shares(pq_->subspaces, [&](float sum, int part) {
      return sum + table_[static_cast<std::size_t>(part * pq_centroids + code[part])];
    });
  }
  void fill_table() {
    if (pq_ == nullptr) return;
    table_.assign(static_cast<std::size_t>(pq_->subspaces * pq_centroids), 0);
    for (int part = 0; part < pq_->subspaces; ++part) {
      for (int c = 0; c < pq_centroids; ++c) {
        float sum = 0;
        for (auto d = static_cast<std::size_t>(pq_->starts[static_cast<std::size_t>(part)]);
             d < static_cast<std::size_t>(pq_->starts[static_cast<std::size_t>(part) + 1]); ++d) {
          sum = add_square(
              sum, query_[d] - pq_->mean[d] - pq_->centroid[d * pq_centroids + static_cast<std::size_t>(c)]);
        }
        table_[static_cast<std::size_t>(part * pq_centroids + c)] = sum;
      }
    }
  }

  std::vector<Key> walk(const float* query) {
    query_ = query;
    fill_table();
    std::vector<std::uint32_t> words(static_cast<std::size_t>(bloom_words), 0);
    const auto set = [&](std::uint32_t bit) { words[bit / 32] |= 1U << bit % 32; };
    const auto longest = static_cast<std::size_t>(graph_.list_size());
    std::vector<Key> list;
    std::unordered_set<std::uint32_t> candidates;
    std::vector<std::uint32_t> fresh = {graph_.entry()};
    const std::int64_t most_steps = 4 * graph_.list_size() + 64;
    std::int64_t step = 0;
    while (step < most_steps) {
      for (const std::uint32_t row : fresh) {
        set(first_bit(row));
        set(second_bit(row));
      }
      std::vector<Key> keys;
      for (const std::uint32_t row : fresh) keys.push_back(make_key(estimate(row), row));
      list = merged(list, merge_sorted(keys), longest);
      ++step;
      const auto next = std::find_if(list.begin(), list.end(), [](Key key) { return !expanded(key); });
      if (next == list.end()) break;
      const std::uint32_t row = row_of(*next);
      for (Key& key : list) key |= row_of(key) == row ? 1U : 0U;
      candidates.insert(row);
      fresh.clear();
      const std::uint32_t* neighbors = graph_.list_of(row);
      for (std::int64_t j = 0; j < graph_.degree() && neighbors[j] != no_row; ++j) {
        if (!bloom_ || !maybe_met(words.data(), neighbors[j])) fresh.push_back(neighbors[j]);
      }
    }
    longest_walk_ = std::max(longest_walk_, step);
    if (pq_ == nullptr) return list;
    std::vector<Key> exact;
    for (const std::uint32_t row : candidates) exact.push_back(make_key(full(row), row));
    std::sort(exact.begin(), exact.end());
    return exact;
  }

  const Problem& problem_;
  const GraphCase& graph_;
  const PqTables* pq_ = nullptr;
  bool bloom_;
  const float* query_ = nullptr;
  std::vector<float> table_;
  std::int64_t longest_walk_ = 0;
};

const Instance& instance() {
  static const Instance made(20'000, 96, 100, 10, 64);
  return made;
}

TEST(GraphCase, AnswersAreJudged) {
  const Problem& problem = instance().problem;
  const Answer truth = instance().truth();
  EXPECT_EQ(untrue_cells(problem, truth), 0);
  EXPECT_EQ(recall_of(problem, truth, truth), 1);
  Answer answer = truth;
  answer.indices[9] = -1;
  answer.distances[9] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(untrue_cells(problem, answer), 0);  // fewer found, and nothing untrue
  EXPECT_NEAR(recall_of(problem, answer, truth), 1 - 1e-3, 1e-9);
  answer = truth;
  answer.distances[5] = std::nextafter(answer.distances[5], 0.0F);
  EXPECT_EQ(untrue_cells(problem, answer), 1);
  answer = truth;
  answer.indices[1] = answer.indices[0];
  answer.distances[1] = answer.distances[0];
  EXPECT_EQ(untrue_cells(problem, answer), 1);  // repeated
  answer = truth;
  std::swap(answer.indices[2], answer.indices[3]);
  std::swap(answer.distances[2], answer.distances[3]);
  EXPECT_GE(untrue_cells(problem, answer), 1);  // out of order
  answer = truth;
  answer.indices[0] = problem.points;
  EXPECT_EQ(untrue_cells(problem, answer), 1);
  answer = truth;
  answer.indices[0] = -1;
  answer.distances[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(untrue_cells(problem, answer), 9);  // something after the padding
}

TEST(GraphCase, DataAreWholeNumbersAndQueriesOthersOfTheSameKind) {
  Dataset all = embeddings(70'000, 5, 0);  // more than are made at once
  Dataset part = embeddings(100, 5, 65'500);
  const auto values = all.mutable_values<float>();
  const auto its = part.mutable_values<float>();
  EXPECT_TRUE(std::equal(its.begin(), its.end(), values.begin() + 65'500 * 5));
  for (const float value : values) ASSERT_TRUE(value == std::round(value) && value >= 0 && value <= 1023);
}

TEST(GraphCase, WalkOnTheHostIsTheRungsWalk) {
  ladder::Run run;
  const Answer walked = vamana_walk(instance().problem, run);
  const Answer stepwise = OnHost(instance(), 0, true).search();
  // But for what the filter takes for met.
  EXPECT_EQ(untrue_cells(instance().problem, walked), 0);
  std::int64_t same = 0;
  for (std::size_t i = 0; i < walked.indices.size(); ++i) same += walked.indices[i] == stepwise.indices[i];
  EXPECT_GE(same, 990);
  EXPECT_GE(recall_of(instance().problem, walked, instance().truth()), 0.97);
}

// {rows, dim, queries, k, list size}: odd sizes, more neighbours than rows, one row, lists as short and as
// long as they may be.
constexpr std::array<std::int64_t, 5> limits[] = {{300, 97, 33, 1, 1},
                                                  {1, 74, 3, 5, 5},
                                                  {70, 75, 1, 100, 100},
                                                  {600, 77, 5, 33, 4096},
                                                  {900, 64, 130, 3, 37}};

TEST(GraphCase, LimitsAreWalkedOnTheHost) {
  for (const auto& [points, dim, queries, k, list_size] : limits) {
    SCOPED_TRACE(std::to_string(points) + " rows of " + std::to_string(dim));
    const Instance at(points, dim, queries, k, list_size);
    for (const std::int64_t subspaces : {std::int64_t{0}, std::int64_t{8}, default_subspaces(at.problem)}) {
      const Answer answer = OnHost(at, subspaces, true).search();
      EXPECT_EQ(untrue_cells(at.problem, answer), 0);
      if (list_size >= points) {
        EXPECT_GE(recall_of(at.problem, answer, at.truth()), 0.99);
      }
    }
    ladder::Run run;
    EXPECT_EQ(untrue_cells(at.problem, vamana_walk(at.problem, run)), 0);
    EXPECT_EQ(untrue_cells(at.problem, engine_graph_cpu(at.problem, run)), 0);
  }
}

TEST(GraphCase, CodesFindWhatTheirRungsMustFind) {
  const Answer truth = instance().truth();
  for (const Rung& rung : rungs()) {
    const std::string id = rung.id;
    const std::size_t digits = id.find_first_of("0123456789");
    if (!id.starts_with("bang-") || digits == std::string::npos) continue;
    OnHost host(instance(), std::stoi(id.substr(digits)), true);
    const Answer answer = host.search();
    EXPECT_EQ(untrue_cells(instance().problem, answer), 0) << id;
    const double recall = recall_of(instance().problem, answer, truth);
    RecordProperty(id, std::to_string(recall));
    EXPECT_GE(recall, rung.recall_floor) << id;
    EXPECT_LT(host.longest_walk(), 4 * 64 + 64) << id;
    if (test::reduced()) break;
  }
}

// Rows that were expanded come back and push others off the list.
TEST(GraphCase, WithoutTheFilterFewerAreFound) {
  if (test::reduced()) GTEST_SKIP() << "reduced";
  const std::int64_t subspaces = default_subspaces(instance().problem);
  const Answer truth = instance().truth();
  const double with = recall_of(instance().problem, OnHost(instance(), subspaces, true).search(), truth);
  const Answer answer = OnHost(instance(), subspaces, false).search();
  const double without = recall_of(instance().problem, answer, truth);
  RecordProperty("with", std::to_string(with));
  RecordProperty("without", std::to_string(without));
  EXPECT_EQ(untrue_cells(instance().problem, answer), 0);
  EXPECT_GE(with, 0.97);
  EXPECT_LT(without, with);
}

// --- on a GPU

std::vector<int> usable_gpus() {
  std::vector<int> out;
  for (const DeviceInfo& info : devices()) {
    if (info.device.kind == Device::Kind::cuda && info.usable) out.push_back(info.device.ordinal);
  }
  return out;
}

const Rung& rung_named(const std::string& id) {
  return *std::find_if(rungs().begin(), rungs().end(), [&](const Rung& rung) { return id == rung.id; });
}

class Bang : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (rung().search == nullptr || usable_gpus().empty()) GTEST_SKIP() << "no usable CUDA device";
  }
  static const Rung& rung() { return rung_named(GetParam()); }
  static Answer go(const Problem& problem, ladder::Run& run) {
    run.gpus = usable_gpus();
    run.threads = 2;
    return rung().search(problem, run);
  }
  // Bytes a code; 0: full rows.
  static std::int64_t subspaces(const Problem& problem) {
    const std::string id = GetParam();
    const std::size_t digits = id.find_first_of("0123456789");
    if (id == "bang-exact") return 0;
    return digits == std::string::npos ? default_subspaces(problem) : std::stoi(id.substr(digits));
  }
  static void expect_as_on_the_host(const Instance& at) {
    ladder::Run run;
    const Answer answer = go(at.problem, run);
    EXPECT_EQ(run.devices, 1);
    EXPECT_EQ(untrue_cells(at.problem, answer), 0);
    const std::string id = GetParam();
    const Answer expected = OnHost(at, subspaces(at.problem), id != "bang-no-bloom").search();
    if (id == "bang-atomic-add") {  // sums in any order
      const Answer truth = at.truth();
      EXPECT_NEAR(recall_of(at.problem, answer, truth), recall_of(at.problem, expected, truth), 0.01);
    } else {
      EXPECT_EQ(cells_that_differ(answer, expected), 0);
    }
  }
};

TEST_P(Bang, CudaGivesTheAnswerOfTheSameStepsOnTheHost) {
  expect_as_on_the_host(instance());
}

TEST_P(Bang, CudaGivesItAtTheLimits) {
  for (const auto& [points, dim, queries, k, list_size] : limits) {
    SCOPED_TRACE(std::to_string(points) + " rows of " + std::to_string(dim));
    // Without the filter such a list is filled by 16,000 steps.
    if (list_size == longest_worklist && std::string(GetParam()) == "bang-no-bloom") continue;
    expect_as_on_the_host(Instance(points, dim, queries, k, list_size));
  }
}

TEST_P(Bang, CudaGivesItAgainAndInBatches) {
  const Problem& problem = instance().problem;
  ladder::Run run;
  run.repeat = 3;
  run.seconds = 100;
  const Answer whole = go(problem, run);
  EXPECT_EQ(run.times.size(), 3U);
  EXPECT_EQ(run.fallback.find("batches"), std::string::npos);
  // The least memory, to a quarter of a MiB, that holds all but the queries' own and those of one.
  ladder::Run small;
  Answer parts(problem);
  for (std::uint64_t quarters = 2;; ++quarters) {
    ASSERT_LT(quarters, 1000U);
    small.device_memory_limit = quarters << 18U;
    try {
      parts = go(problem, small);
      break;
    } catch (const OutOfMemory&) {
      continue;
    }
  }
  EXPECT_NE(small.fallback.find("batches"), std::string::npos);
  if (std::string(GetParam()) == "bang-atomic-add") return;
  EXPECT_EQ(cells_that_differ(whole, parts), 0);
}

TEST_P(Bang, CudaStopsWhenCancelled) {
  ladder::Run run;
  run.cancelled = [] { return true; };
  EXPECT_THROW((void)go(instance().problem, run), Cancelled);
}

std::string name_of(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Bang,
                         testing::Values("bang-base", "bang-in-memory", "bang-exact", "bang-no-prefetch",
                                         "bang-no-async", "bang-no-bloom", "bang-atomic-add", "bang-one-size",
                                         "bang-8-bytes", "bang-16-bytes", "bang-32-bytes", "bang-64-bytes"),
                         name_of);

}  // namespace
}  // namespace kith::ladder
