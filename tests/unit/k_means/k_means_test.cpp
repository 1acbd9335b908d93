// k-means: the definition by a plain reference, the same bits from any number of threads, degenerate rows.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <stdexcept>
#include <vector>

#include "k_means/k_means.hpp"
#include "kith/generate.hpp"
#include "support/instruction_sets.hpp"

namespace kith {
namespace {

const std::function<void()> go_on = [] {};

std::vector<float> rows_of(std::int64_t n, std::int64_t dim, std::uint64_t seed) {
  const Dataset data =
      generate({.generator = Generator::clusters, .rows = n, .dim = dim, .seed = seed, .clusters = 9});
  const auto* values = static_cast<const float*>(data.view().data);
  return {values, values + n * dim};
}

float squared(const float* a, const float* b, std::int64_t dim) {
  float sum = 0;
  for (std::int64_t d = 0; d < dim; ++d) sum += (a[d] - b[d]) * (a[d] - b[d]);
  return sum;
}

std::int64_t nearest_of(const std::vector<float>& centroids, const float* row, std::int64_t dim) {
  std::int64_t best = 0;
  for (std::int64_t c = 1; c < std::int64_t(centroids.size()) / dim; ++c) {
    if (squared(row, centroids.data() + c * dim, dim) < squared(row, centroids.data() + best * dim, dim))
      best = c;
  }
  return best;
}

TEST(KMeans, ConvergesToMeansOfWhatIsNearest) {
  constexpr std::int64_t n = 3000, dim = 7, count = 20;
  const std::vector<float> rows = rows_of(n, dim, 1);
  const KMeans found = k_means(rows.data(), n, dim, dim, {count, 1000, 3}, 2, go_on);
  ASSERT_LT(found.iterations, 1000);  // no row changed any more
  std::vector<double> sums(count * dim, 0.0);
  std::vector<std::int64_t> members(count, 0);
  double error = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float* row = rows.data() + i * dim;
    const std::int64_t c = nearest_of(found.centroids, row, dim);
    ++members[static_cast<std::size_t>(c)];
    for (std::int64_t d = 0; d < dim; ++d) sums[static_cast<std::size_t>(c * dim + d)] += row[d];
    error += squared(row, found.centroids.data() + c * dim, dim);
  }
  for (std::int64_t c = 0; c < count; ++c) {
    ASSERT_GT(members[static_cast<std::size_t>(c)], 0);
    for (std::int64_t d = 0; d < dim; ++d) {
      const auto at = static_cast<std::size_t>(c * dim + d);
      EXPECT_NEAR(found.centroids[at], sums[at] / double(members[static_cast<std::size_t>(c)]),
                  1e-5 * std::abs(found.centroids[at]) + 1e-6);
    }
  }
  EXPECT_NEAR(found.error, error / n, 1e-4 * found.error);
}

TEST(KMeans, SeparateGroupsAreFound) {
  std::vector<float> rows;
  for (int i = 0; i < 900; ++i)
    rows.push_back(static_cast<float>(100 * (i % 9)) + static_cast<float>(i % 7) * 0.01F);
  const KMeans found = k_means(rows.data(), 900, 1, 1, {9, 50, 5}, 1, go_on);
  EXPECT_LT(found.error, 0.01);
}

TEST(KMeans, TheSameBitsFromAnyThreadsAndInstructionSet) {
  constexpr std::int64_t n = 5000, dim = 13, stride = 17, count = 40;
  const std::vector<float> rows = rows_of(n, stride, 2);
  const KMeansParameters parameters{count, 8, 11};
  const KMeans expected = k_means(rows.data() + 2, n - 1, dim, stride, parameters, 1, go_on);
  EXPECT_EQ(expected.iterations, 8);
  for (const int threads : {1, 2, 5}) {
    for (const InstructionSet set : usable_instruction_sets()) {
      const test::Forced forced(set);
      const KMeans again = k_means(rows.data() + 2, n - 1, dim, stride, parameters, threads, go_on);
      EXPECT_EQ(again.centroids, expected.centroids) << threads << " " << name(set);
      EXPECT_EQ(again.error, expected.error);
    }
  }
  EXPECT_NE(k_means(rows.data() + 2, n - 1, dim, stride, {count, 8, 12}, 1, go_on).centroids,
            expected.centroids);
}

TEST(KMeans, NearestIsTheLowestOfThoseEquallyNear) {
  for (const InstructionSet set : usable_instruction_sets()) {
    const test::Forced forced(set);
    for (const std::int64_t count : {1, 5, 32, 33, 100, 256}) {
      std::vector<float> centroids(static_cast<std::size_t>(count * 2), 9.0F);
      const std::int64_t first = count * 2 / 3;
      for (std::int64_t c = first; c < count; c += 2) centroids[static_cast<std::size_t>(2 * c)] = 1;
      const SideBySide side(centroids.data(), count, 2);
      const float row[] = {1, 9};
      float distance = -1;
      EXPECT_EQ(side.nearest(row, &distance), first) << name(set) << " " << count;
      EXPECT_EQ(distance, 0);
      std::vector<float> all(static_cast<std::size_t>(side.padded_count));
      side.distances(row, all.data());
      for (std::int64_t c = 0; c < count; ++c) {
        EXPECT_EQ(all[static_cast<std::size_t>(c)], squared(row, centroids.data() + 2 * c, 2));
      }
    }
  }
}

TEST(KMeans, FewDistinctRowsAndAsManyCentroidsAsRows) {
  std::vector<float> same(300, 4.5F);
  const KMeans one = k_means(same.data(), 100, 3, 3, {10, 20, 0}, 2, go_on);
  EXPECT_EQ(one.centroids, std::vector<float>(30, 4.5F));
  EXPECT_EQ(one.error, 0);
  std::vector<float> all;
  for (int i = 0; i < 50; ++i) all.push_back(static_cast<float>(i * i));
  const KMeans each = k_means(all.data(), 50, 1, 1, {50, 20, 0}, 2, go_on);
  EXPECT_EQ(std::set<float>(each.centroids.begin(), each.centroids.end()),
            std::set<float>(all.begin(), all.end()));
  EXPECT_EQ(each.error, 0);
}

TEST(KMeans, NoCentroidIsWithoutRows) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Dataset data = generate({.generator = Generator::uniform, .rows = 60, .dim = 2, .seed = seed});
    const auto* rows = static_cast<const float*>(data.view().data);
    const KMeans found = k_means(rows, 60, 2, 2, {20, 1000, seed}, 1, go_on);
    std::set<std::int64_t> used;
    for (int i = 0; i < 60; ++i) used.insert(nearest_of(found.centroids, rows + std::ptrdiff_t{2} * i, 2));
    EXPECT_EQ(used.size(), 20U) << seed;
  }
}

TEST(KMeans, StopsWhenAskedTo) {
  const std::vector<float> rows = rows_of(2000, 4, 3);
  EXPECT_THROW(k_means(rows.data(), 2000, 4, 4, {8, 10, 0}, 2, [] { throw std::runtime_error("stop"); }),
               std::runtime_error);
}

}  // namespace
}  // namespace kith
