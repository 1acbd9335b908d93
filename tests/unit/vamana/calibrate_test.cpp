// One walk for lists of many sizes answers as a search with each of them.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "kith/generate.hpp"
#include "kith/vamana.hpp"
#include "support/threads.hpp"
#include "unit/vamana/cuda.hpp"
#include "unit/vamana/rows.hpp"
#include "vamana/answer.hpp"
#include "vamana/backend.hpp"
#include "vamana/parts.hpp"

namespace kith {
namespace {

using vamana::SearchPlan;

// With every node to be found, and without one a query, by each of some executions.
void expect_same_alone(const Dataset& rows, const Dataset& queries, const VamanaParameters& parameters,
                       const std::vector<Execution>& executions, const std::string& where) {
  const Vamana index = Vamana::build(rows, parameters);
  const vamana::Contents& contents = vamana::Parts::of(index);
  std::vector<std::uint32_t> own;
  for (std::int64_t q = 0; q < queries.rows(); ++q) {
    own.push_back(static_cast<std::uint32_t>(q * 7 % contents.built.nodes.count));
  }
  for (const bool left_out : {false, true}) {
    std::vector<SearchPlan> plans;
    for (const std::int64_t list : {1, 8, 12, 100, 101, 700}) {
      for (const std::int64_t k : {1, 7, 9, 100}) {
        if (k > list + 1) continue;  // one more than the list has is asked for, too
        plans.push_back({.k = k, .list_size = list});
        if (left_out) plans.back().left_out = own;
      }
    }
    for (const Execution& execution : executions) {
      const vamana::Backend& backend = vamana::backend_for(execution);
      const std::vector<Neighbors> answers =
          backend.search_by_plans(contents.built, contents.dataset, queries, plans, execution);
      ASSERT_EQ(answers.size(), plans.size());
      for (std::size_t i = 0; i < plans.size(); ++i) {
        std::vector<std::int64_t> unanswered;
        const Neighbors alone = vamana::answered(
            contents.dataset, queries.rows(), plans[i].k, execution, [&](const NeighborsView& out) {
              return backend.search_into(contents.built, contents.dataset, queries, plans[i], out, execution,
                                         unanswered);
            });
        const std::string its = where + ", list " + std::to_string(plans[i].list_size);
        EXPECT_EQ(answers[i].indices, alone.indices) << its;
        EXPECT_EQ(answers[i].distances, alone.distances) << its;
        EXPECT_EQ(answers[i].statistics.hops, alone.statistics.hops) << its;
      }
    }
  }
}

void compare_kinds(const std::vector<Execution>& executions) {
  const VamanaParameters usual{.max_degree = 16, .build_list_size = 40};
  const auto of = [&](Dtype dtype, Metric metric) {
    VamanaParameters parameters = usual;
    parameters.metric = metric;
    expect_same_alone(test::in_clusters(1000, 0, dtype), test::in_clusters(30, 1000, dtype), parameters,
                      executions, std::string(name(dtype)) + " " + std::string(name(metric)));
  };
  of(Dtype::f32, Metric::sqeuclidean);
  of(Dtype::f64, Metric::cosine);
  of(Dtype::bf16, Metric::inner_product);
  of(Dtype::u8, Metric::sqeuclidean);
  for (const CodeKind codes : {CodeKind::rabitq, CodeKind::pq}) {
    VamanaParameters parameters = usual;
    parameters.codes = codes;
    expect_same_alone(test::with_few_directions(1000), test::with_few_directions(30, 1000), parameters,
                      executions, std::string(name(codes)));
  }
}

void compare_equal_rows(const std::vector<Execution>& executions) {
  std::vector<float> values(static_cast<std::size_t>(900) * 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * i % 11);
  std::vector<float> asked(values.begin(), values.begin() + 60);
  asked[31] = std::numeric_limits<float>::quiet_NaN();
  expect_same_alone(Dataset::adopt(DatasetView(values.data(), Dtype::f32, 900, 3, 3), nullptr),
                    Dataset::adopt(DatasetView(asked.data(), Dtype::f32, 20, 3, 3), nullptr), {}, executions,
                    "equal rows");
}

TEST(SearchByPlans, AnswersAsASearchWithEach) {
  compare_kinds({test::with_threads(1), test::with_threads(3)});
}

TEST(SearchByPlans, TakesEqualRowsAndQueriesWithANan) {
  compare_equal_rows({test::with_threads(1), test::with_threads(3)});
}

#ifdef KITH_CUDA_ENABLED
using CudaSearchByPlans = test::OnGpu;

TEST_F(CudaSearchByPlans, AnswersAsASearchWithEach) {
  compare_kinds({test::on_gpu()});
}

// 600 queries: for most k their answers are too long for the page-locked memory that kernels write to.
TEST_F(CudaSearchByPlans, TakesEqualRowsAndQueriesWithANanAndManyQueries) {
  compare_equal_rows({test::on_gpu()});
  expect_same_alone(test::in_clusters(1000), test::in_clusters(600, 1000),
                    {.max_degree = 16, .build_list_size = 40}, {test::on_gpu()}, "many queries");
}
#endif

// Also where no rows are held out: too few are new.
TEST(Curve, SaysWhatWalksTake) {
  const Vamana index = Vamana::build(test::in_clusters(3000));
  const Vamana more = index.insert(test::in_clusters(20, 3000));
  for (const Vamana& its : {index, more}) {
    ASSERT_FALSE(its.recall_curve().points.empty());
    for (const RecallPoint& point : its.recall_curve().points) {
      EXPECT_GT(point.hops, 1) << point.list_size;
      EXPECT_GT(point.distances, point.hops) << point.list_size;
    }
  }
}

}  // namespace
}  // namespace kith
