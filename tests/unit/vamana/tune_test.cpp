// Recall measured for queries of one's own, and searches that go by it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "kith/evaluate.hpp"
#include "kith/generate.hpp"
#include "kith/vamana.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;

Dataset thin(std::int64_t rows, std::int64_t first) {
  return generate({.generator = Generator::low_intrinsic_dimension,
                   .rows = rows,
                   .dim = 32,
                   .seed = 4,
                   .first_row = first,
                   .intrinsic_dim = 12});
}

// All over the space that the rows are a thin sheet of.
Dataset elsewhere(std::int64_t rows, std::uint64_t seed) {
  return generate({.generator = Generator::gaussian, .rows = rows, .dim = 32, .seed = seed});
}

class VamanaTune : public testing::Test {
 protected:
  const Dataset rows_ = thin(4000, 0);
  const Vamana index_ = Vamana::build(rows_, {.max_degree = 12, .build_list_size = 24});
};

TEST_F(VamanaTune, SaysWhatIsFound) {
  const Dataset queries = thin(400, 4000);
  const Tuning tuning = index_.tune(queries, {10, 3, 10});
  EXPECT_EQ(tuning.graph_hash, index_.graph_hash());
  EXPECT_EQ(tuning.curve.queries, 400);
  ASSERT_EQ(tuning.queries_per_second.size(), tuning.curve.points.size());
  const Neighbors truth = knn(rows_, queries, 10);
  for (const RecallPoint& point : tuning.curve.points) {
    EXPECT_TRUE(point.k == 3 || point.k == 10);
    const Neighbors found = index_.search(queries, point.k, {}, {.list_size = point.list_size});
    EXPECT_NEAR(point.recall.recall, evaluate(found, truth, point.k).recall_with_ties, 1e-12);
    EXPECT_LE(point.recall.lower, point.recall.recall);
  }
  // One neighbour of 4,000 that a list of 256 misses; longer ones would take longer than the exact engine.
  EXPECT_EQ(tuning.curve.points.back().list_size, 256);
  EXPECT_DOUBLE_EQ(tuning.curve.points.back().recall.recall, 0.99975);
  EXPECT_FALSE(tuning.distribution.other()) << tuning.distribution.difference;
  EXPECT_GT(tuning.distribution.p_value, 0.001);
}

TEST_F(VamanaTune, QueriesOfAnotherKindAreNamedAndGetWhatTheyNeed) {
  const Tuning tuning = index_.tune(elsewhere(400, 1), {10});
  EXPECT_TRUE(tuning.distribution.other());
  EXPECT_GT(tuning.distribution.queries_median, tuning.distribution.rows_median);
  const Dataset more = elsewhere(400, 2);
  const Neighbors truth = knn(rows_, more, 10);
  const Vamana tuned = index_.tuned(tuning);
  const Neighbors found = tuned.search(more, 10, {}, {.recall = 0.9});
  EXPECT_GE(evaluate(found, truth).recall_with_ties, 0.89);
  EXPECT_EQ(found.statistics.list_size, tuning.curve.reaching(0.9, 10)->list_size);
  EXPECT_NE(found.statistics.list_size, index_.search(more, 10, {}, {.recall = 0.9}).statistics.list_size);
  // It is kept with the index, and the first one still goes by its own.
  const test::TemporaryFolder folder;
  tuned.save(folder / "tuned.kith");
  EXPECT_EQ(Vamana::load(folder / "tuned.kith").search(more, 10, {}, {.recall = 0.9}).indices, found.indices);
  EXPECT_NE(index_.recall_curve().queries, tuned.recall_curve().queries);
}

TEST_F(VamanaTune, FilesHoldItAndDamageIsRefused) {
  const test::TemporaryFolder folder;
  const Tuning tuning = index_.tune(thin(200, 5000), {1, 10});
  const auto path = folder / "a.tune";
  write_tuning(path, tuning);
  const Tuning again = read_tuning(path);
  EXPECT_EQ(again.graph_hash, tuning.graph_hash);
  ASSERT_EQ(again.curve.points.size(), tuning.curve.points.size());
  for (std::size_t i = 0; i < again.curve.points.size(); ++i) {
    EXPECT_EQ(again.curve.points[i].list_size, tuning.curve.points[i].list_size);
    EXPECT_EQ(again.curve.points[i].recall.lower, tuning.curve.points[i].recall.lower);
  }
  EXPECT_EQ(again.queries_per_second, tuning.queries_per_second);
  EXPECT_EQ(again.distribution.difference, tuning.distribution.difference);
  const std::string text = test::read_file(path);
  const auto refusal = [&](const std::string& bytes) {
    test::write_file(path, bytes);
    return message_of<IoError>([&] { read_tuning(path); });
  };
  for (std::size_t size = 0; size + 1 < text.size(); size += 37) {
    EXPECT_TRUE(contains(refusal(text.substr(0, size)), "a.tune")) << size;
  }
  std::string other = text;
  other.replace(other.find("\"queries\": 200"), 14, "\"queries\": 300");
  EXPECT_TRUE(contains(refusal(other), "checksum"));
  other = text;
  other.replace(other.find("\"kith_tuning\": 1"), 16, "\"kith_tuning\": 2");
  EXPECT_TRUE(contains(refusal(other), "version 2"));
  EXPECT_TRUE(contains(refusal("{\"a\": 1}"), "no tuning"));
  EXPECT_TRUE(contains(refusal("[1, 2]"), "no tuning"));
  EXPECT_TRUE(contains(message_of<IoError>([&] { read_tuning(folder / "none"); }), "none"));
}

TEST_F(VamanaTune, Refuses) {
  const Dataset queries = thin(20, 4000);
  const Vamana other = Vamana::build(rows_.view().slice(0, 1000));
  const Tuning tuning = index_.tune(queries, {5});
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { (void)other.tuned(tuning); }), "graph of hash"));
  for (const std::int64_t k : {0, -3, 4001, 5000}) {
    EXPECT_TRUE(contains(message_of<InvalidArgument>([&] {
                           (void)index_.tune(queries, {1, k});
                         }),
                         "a k of " + std::to_string(k)));
  }
  EXPECT_THROW((void)index_.tune(queries, {}), InvalidArgument);
  EXPECT_THROW((void)index_.tune(queries.view().slice(0, 0)), InvalidArgument);
  EXPECT_THROW((void)index_.tune(generate({.rows = 20, .dim = 31})), InvalidArgument);
  EXPECT_EQ(other.tune(queries).curve.points.front().k, 1);
}

}  // namespace
}  // namespace kith
