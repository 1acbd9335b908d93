// What trees do on a GPU is what they do on the CPU, bit for bit: self-joins, radius search, reductions, and
// memory of the device in and out. Skipped where there is no GPU; kNN against the oracle is the conformance
// suite's.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <variant>
#include <vector>

#include "conformance/problem.hpp"
#include "core/visit_dtype.hpp"
#include "cuda/device_memory.hpp"
#include "kith/any_index.hpp"
#include "kith/error.hpp"
#include "kith/support.hpp"
#include "support/errors.hpp"
#include "support/gpu_test.hpp"
#include "support/gpus.hpp"

namespace kith {
namespace {

using conformance::Random;
using test::contains;
using test::gpus;
using test::message_of;
using test::on_gpu;

constexpr double infinity = std::numeric_limits<double>::infinity();

// Those of NaN, too: a file of them is the same file.
std::vector<std::uint64_t> bits(const std::vector<double>& values) {
  std::vector<std::uint64_t> out;
  for (const double v : values) out.push_back(std::bit_cast<std::uint64_t>(v));
  return out;
}

// Clusters of different density with ties, duplicates, rows with a NaN and rows with an infinity.
reference::Matrix cloud(std::int64_t rows, std::int64_t dim, std::uint64_t seed, bool specials) {
  Random random(seed);
  reference::Matrix m{rows, dim, std::vector<double>(static_cast<std::size_t>(rows * dim))};
  for (std::int64_t i = 0; i < rows; ++i) {
    const double center = static_cast<double>(random.below(4));
    const double wide = std::exp2(static_cast<double>(random.below(5)) - 4);
    for (std::int64_t j = 0; j < dim; ++j) m.row(i)[j] = center * 3 + random.normal() * wide;
    if (i > 0 && random.below(16) == 0) std::copy_n(m.row(random.below(i)), dim, m.row(i));
    if (specials && i % 997 == 5) m.row(i)[random.below(dim)] = std::numeric_limits<double>::quiet_NaN();
    if (specials && i % 1499 == 7) m.row(i)[random.below(dim)] = random.sign() * infinity;
  }
  return m;
}

struct Case {
  const char* index;
  Dtype dtype;
  Metric metric;
  std::int64_t dim;
};

class CudaTreesOnAGpu : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (gpus() == 0) GTEST_SKIP() << "no usable CUDA device here";
    const Case& c = GetParam();
    const bool specials = c.dtype != Dtype::i8 && c.dtype != Dtype::u8;
    data_ = conformance::quantize(cloud(12'000, c.dim, 3, specials), c.dtype, 8);
    queries_ = conformance::quantize(cloud(700, c.dim, 4, specials), c.dtype, 8);
    rows_.emplace(data_, c.dtype);
    asked_.emplace(queries_, c.dtype, 2, 1);
    const Dataset rows = Dataset::adopt(rows_->view(), nullptr);
    host_.emplace(AnyIndex::build(c.index, rows, metric()));
    there_.emplace(AnyIndex::build(c.index, rows, metric(), on_gpu()));
    // A radius that some tens of rows are within.
    const Neighbors some = host().search(asked_->view(), 40);
    std::vector<double> reach;
    for (std::int64_t q = 0; q < some.queries; ++q) reach.push_back(some.distance(q, 39));
    std::nth_element(reach.begin(), reach.begin() + 350, reach.end());
    radius_ = reach[350];
  }

  Metric metric() const { return GetParam().metric; }
  const PointTree& host() const { return *host_->point_tree(); }
  const PointTree& there() const { return *there_->point_tree(); }

  static void same(const Neighbors& a, const Neighbors& b) {
    ASSERT_EQ(a.indices, b.indices);
    ASSERT_EQ(a.distances, b.distances);
  }

  reference::Matrix data_, queries_;
  std::optional<conformance::Rows> rows_, asked_;
  std::optional<AnyIndex> host_, there_;
  double radius_ = 0;
};

TEST_P(CudaTreesOnAGpu, SelfJoins) {
  for (const std::int64_t k : {1, 8, 20, 33, 100, 300}) {
    for (const bool include_self : {false, true}) {
      for (const double radius : {infinity, radius_}) {
        const Neighbors want = host().all_knn(k, include_self, {}, radius);
        same(there().all_knn(k, include_self, on_gpu(), radius), want);
        if (k == 20) {  // built on one side, searched on the other
          same(there().all_knn(k, include_self, {}, radius), want);
          same(host().all_knn(k, include_self, on_gpu(), radius), want);
        }
      }
    }
  }
  // Rows with infinities come last.
  const auto most = data_.rows + 3;
  same(there().search(asked_->view().slice(0, 40), most, on_gpu()),
       host().search(asked_->view().slice(0, 40), most));
}

TEST_P(CudaTreesOnAGpu, RadiusSearchAndCounts) {
  for (const double radius : {0.0, radius_, infinity}) {
    const DatasetView queries = asked_->view().slice(0, radius == infinity ? 20 : 700);
    const RadiusNeighbors want = host().radius_search(queries, radius);
    const RadiusNeighbors got = there().radius_search(queries, radius, {}, on_gpu());
    ASSERT_EQ(got.offsets, want.offsets);
    ASSERT_EQ(got.indices, want.indices);
    ASSERT_EQ(got.distances, want.distances);
    const RadiusNeighbors loose = there().radius_search(queries, radius, {false, 0}, on_gpu());
    ASSERT_EQ(loose.offsets, want.offsets);
    const RadiusNeighbors few = there().radius_search(queries, radius, {true, 4}, on_gpu());
    ASSERT_EQ(few.indices, host().radius_search(queries, radius, {true, 4}).indices);
    ASSERT_EQ(there().count_within(queries, radius, on_gpu()), host().count_within(queries, radius));
  }
}

TEST_P(CudaTreesOnAGpu, Reductions) {
  const bool manhattan = GetParam().metric == Metric::manhattan;
  for (const Neighborhood how :
       {Neighborhood{1}, Neighborhood{20}, Neighborhood{0, radius_}, Neighborhood{9, radius_}}) {
    const Outliers a = there().outliers(how, 2, on_gpu());
    const Outliers b = host().outliers(how, 2);
    ASSERT_EQ(bits(a.mean_distance), bits(b.mean_distance)) << how.k << " " << how.radius;
    ASSERT_EQ(a.outlier, b.outlier);
    if (manhattan) continue;
    ASSERT_EQ(bits(there().density(how, on_gpu())), bits(host().density(how)));
    if (GetParam().dim > 3) continue;
    std::vector<double> scanner(static_cast<std::size_t>(GetParam().dim), 7.5);
    for (const auto& viewpoint : {std::optional<std::vector<double>>{}, std::optional{scanner}}) {
      const Normals n = there().normals(how, viewpoint, on_gpu());
      const Normals m = host().normals(how, viewpoint);
      ASSERT_EQ(bits(n.normals), bits(m.normals)) << how.k << " " << how.radius;
      ASSERT_EQ(bits(n.curvature), bits(m.curvature));
    }
  }
}

// Rows, queries and answers in the memory of the device; a limit that cuts the work into pieces.
TEST_P(CudaTreesOnAGpu, MemoryOfTheDevice) {
  const Case& c = GetParam();
  const auto put = [](const DatasetView& rows) {
    const auto bytes = static_cast<std::uint64_t>(rows.rows * rows.row_stride) * size_of(rows.dtype);
    auto memory = cuda::allocate(0, bytes);
    // The gap behind the last row is not the caller's.
    const auto used = bytes - static_cast<std::uint64_t>(rows.row_stride - rows.dim) * size_of(rows.dtype);
    cuda::copy_to_device(rows.data, memory.get(), 0, used);
    DatasetView view = rows;
    view.data = memory.get();
    view.space = MemorySpace::cuda;
    return std::pair(memory, view);
  };
  const auto [row_memory, rows] = put(rows_->view());
  const auto [query_memory, queries] = put(asked_->view());
  const AnyIndex tree = AnyIndex::build(c.index, Dataset::adopt(rows, nullptr), metric(), on_gpu());
  constexpr std::int64_t k = 11;
  const auto check = [&](std::int64_t count, const Neighbors& want, auto&& search) {
    visit_dtype(distance_dtype(c.dtype), [&]<class T>(T /*tag*/) {
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        const auto cells = static_cast<std::uint64_t>(count * k);
        const auto memory = cuda::allocate(0, cells * (8 + sizeof(T)));
        auto* indices = static_cast<std::int64_t*>(memory.get());
        search(NeighborsView{indices, indices + cells, count, k, MemorySpace::cuda, 0});
        std::vector<std::int64_t> got(cells);
        std::vector<T> distances(cells);
        cuda::copy_to_host(indices, 0, got.data(), cells * 8);
        cuda::copy_to_host(indices + cells, 0, distances.data(), cells * sizeof(T));
        EXPECT_EQ(got, want.indices);
        EXPECT_EQ(distances, std::get<std::vector<T>>(want.distances));
      }
    });
  };
  const PointTree& point_tree = *tree.point_tree();
  check(queries.rows, host().search(asked_->view(), k),
        [&](const NeighborsView& out) { (void)point_tree.search_into(queries, out, on_gpu()); });
  check(queries.rows, host().search(asked_->view(), k, {}, radius_),
        [&](const NeighborsView& out) { (void)point_tree.search_into(queries, out, on_gpu(), radius_); });
  for (const bool include_self : {false, true}) {
    check(data_.rows, host().all_knn(k, include_self),
          [&](const NeighborsView& out) { (void)point_tree.all_knn_into(out, include_self, on_gpu()); });
  }
  same(point_tree.search(queries, k, on_gpu()), host().search(asked_->view(), k));
  EXPECT_EQ(point_tree.count_within(queries, radius_, on_gpu()),
            host().count_within(asked_->view(), radius_));
  EXPECT_EQ(point_tree.radius_search(queries, radius_, {}, on_gpu()).indices,
            host().radius_search(asked_->view(), radius_).indices);
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { (void)point_tree.search(queries, 1); }),
                       "the search is to run on the CPU"));
  DatasetView elsewhere = queries;
  elsewhere.device = 1;
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { (void)point_tree.search(elsewhere, 1, on_gpu()); }),
                       "cuda:1 but the search is to run on cuda:0"));
}

// Clouds that groups of queries search, which reductions read as columns.
class CudaColumns : public test::GpuTest, public testing::WithParamInterface<Case> {
 protected:
  // With NaN, without infinities, which groups do not search. `step`: of a lattice; 0: none.
  static reference::Matrix points(std::int64_t rows, std::int64_t dim, double step) {
    reference::Matrix m = cloud(rows, dim, 11, false);
    for (double& v : m.values) v = step > 0 ? std::round(v / step) * step : v;
    for (std::int64_t i = 5; i < rows; i += 997) m.row(i)[0] = std::numeric_limits<double>::quiet_NaN();
    return m;
  }

  static void same_reductions(const AnyIndex& there, const AnyIndex& host, const Neighborhood& how,
                              const Execution& execution) {
    const PointTree& a = *there.point_tree();
    const PointTree& b = *host.point_tree();
    ASSERT_EQ(bits(a.outliers(how, 2, execution).mean_distance), bits(b.outliers(how, 2).mean_distance));
    if (GetParam().metric == Metric::manhattan) return;
    ASSERT_EQ(bits(a.density(how, execution)), bits(b.density(how)));
    const std::vector<double> scanner(static_cast<std::size_t>(GetParam().dim), 7.5);
    const Normals n = a.normals(how, scanner, execution);
    const Normals m = b.normals(how, scanner);
    ASSERT_EQ(bits(n.normals), bits(m.normals));
    ASSERT_EQ(bits(n.curvature), bits(m.curvature));
  }
};

TEST_P(CudaColumns, ReductionsAreTheHosts) {
  const Case& c = GetParam();
  constexpr std::int64_t rows = 50'000;
  // Leaves of one point make walks longer than a group can number: their queries are handed on.
  std::int64_t handed_on = 0;
  for (const std::int64_t leaf_size : {0, 1}) {
    for (const double step : {0.0, 0.25}) {
      const reference::Matrix data = conformance::quantize(points(rows, c.dim, step), c.dtype, 8);
      const conformance::Rows held(data, c.dtype);
      const Dataset dataset = Dataset::adopt(held.view(), nullptr);
      IndexParameters parameters = Indexes::parameters(c.index, c.metric);
      ASSERT_TRUE(set_leaf_size(parameters, leaf_size));
      const AnyIndex host = AnyIndex::build(dataset, parameters);
      const AnyIndex there = AnyIndex::build(dataset, parameters, on_gpu());
      for (const Neighborhood how :
           {Neighborhood{1}, Neighborhood{8}, Neighborhood{20, 0.3}, Neighborhood{32}}) {
        SCOPED_TRACE(testing::Message() << "leaf " << leaf_size << " step " << step << " k " << how.k);
        same_reductions(there, host, how, on_gpu());
        if (how.k != 32) continue;
        handed_on += there.point_tree()->all_knn(how.k, true, on_gpu()).statistics.fallbacks;
        // Progress counts points, whoever has searched for them, and ends once.
        std::vector<std::int64_t> done;
        Execution watched = on_gpu();
        watched.progress = [&](const Progress& p) {
          EXPECT_EQ(p.total, rows - rows / 997 - 1);
          done.push_back(p.done);
        };
        (void)there.point_tree()->outliers(how, 2, watched);
        EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
        EXPECT_EQ(done.back(), rows - rows / 997 - 1);
        Execution stopped = on_gpu();
        stopped.cancelled = [] { return true; };
        EXPECT_THROW((void)there.point_tree()->outliers(how, 2, stopped), Cancelled);
        // All at once and in batches; too little is refused.
        same_reductions(there, host, how, on_gpu(32U << 20U));
        same_reductions(there, host, how, on_gpu(9U << 20U));
        EXPECT_THROW((void)there.point_tree()->outliers(how, 2, on_gpu(1U << 20U)), OutOfMemory);
      }
    }
  }
  EXPECT_GT(handed_on, 0);
}

TEST_P(CudaColumns, NormalsIntoMemoryOfTheDevice) {
  const Case& c = GetParam();
  if (c.metric == Metric::manhattan) GTEST_SKIP() << "manhattan has no normals";
  constexpr std::int64_t rows = 20'000;
  const conformance::Rows held(conformance::quantize(points(rows, c.dim, 0), c.dtype, 8), c.dtype);
  const AnyIndex there = AnyIndex::build(c.index, Dataset::adopt(held.view(), nullptr), c.metric, on_gpu());
  const PointTree& tree = *there.point_tree();
  const auto normal_bytes = static_cast<std::uint64_t>(rows * c.dim) * sizeof(double);
  const std::uint64_t curvature_bytes = rows * sizeof(double);
  for (const Neighborhood how : {Neighborhood{12}, Neighborhood{0, 0.2}, Neighborhood{40, 0.4}}) {
    const Normals want = tree.normals(how);
    for (const bool with_curvature : {true, false}) {
      const auto memory = cuda::allocate(0, normal_bytes + curvature_bytes);
      auto* normals = static_cast<double*>(memory.get());
      const std::vector<double> seven(static_cast<std::size_t>(rows * (c.dim + 1)), 7);
      cuda::copy_to_device(seven.data(), normals, 0, normal_bytes + curvature_bytes);
      double* curvature = normals + rows * c.dim;
      NormalsView view{normals, with_curvature ? curvature : nullptr, rows, c.dim, MemorySpace::cuda, 0};
      tree.normals_into(view, how, {}, on_gpu());
      Normals got{std::vector<double>(static_cast<std::size_t>(rows * c.dim)), std::vector<double>(rows)};
      cuda::copy_to_host(normals, 0, got.normals.data(), normal_bytes);
      ASSERT_EQ(bits(got.normals), bits(want.normals));
      cuda::copy_to_host(curvature, 0, got.curvature.data(), curvature_bytes);
      ASSERT_EQ(bits(got.curvature), bits(with_curvature ? want.curvature : std::vector<double>(rows, 7)));
      EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { tree.normals_into(view, how); }),
                           "the search is to run on the CPU"));
    }
    // And to the host.
    Normals got{std::vector<double>(static_cast<std::size_t>(rows * c.dim)), {}};
    tree.normals_into({got.normals.data(), nullptr, rows, c.dim}, how, {}, on_gpu());
    ASSERT_EQ(bits(got.normals), bits(want.normals));
    const std::int64_t stride = c.dim + 1;
    std::vector<double> table(static_cast<std::size_t>(rows * stride));
    NormalsView apart{table.data(), table.data() + c.dim, rows, c.dim};
    apart.stride = stride;
    tree.normals_into(apart, how, {}, on_gpu());
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::vector<double> row(table.begin() + i * stride, table.begin() + (i + 1) * stride);
      const auto its = want.normals.begin() + i * c.dim;
      std::vector<double> expected(its, its + c.dim);
      expected.push_back(want.curvature[static_cast<std::size_t>(i)]);
      ASSERT_EQ(bits(row), bits(expected));
    }
  }
}

TEST_P(CudaColumns, TreesWithoutPoints) {
  const Case& c = GetParam();
  for (const std::int64_t rows : {0, 5}) {
    reference::Matrix data{rows, c.dim, {}};
    data.values.assign(static_cast<std::size_t>(rows * c.dim), std::numeric_limits<double>::quiet_NaN());
    const conformance::Rows held(data, c.dtype);
    const Dataset dataset = Dataset::adopt(held.view(), nullptr);
    const AnyIndex host = AnyIndex::build(c.index, dataset, c.metric);
    const AnyIndex there = AnyIndex::build(c.index, dataset, c.metric, on_gpu());
    same_reductions(there, host, {3}, on_gpu());
    // In host memory, and in the device's, which holds what was there before.
    const Neighbors want = host.point_tree()->all_knn(4, true);
    const Neighbors got = there.point_tree()->all_knn(4, true, on_gpu());
    EXPECT_EQ(got.indices, want.indices);
    EXPECT_EQ(got.distances, want.distances);
    const auto cells = static_cast<std::uint64_t>(rows * 4);
    const auto memory = cuda::allocate(0, std::max<std::uint64_t>(1, cells * 12));
    auto* indices = static_cast<std::int64_t*>(memory.get());
    const std::vector<char> seven(cells * 12, 7);
    cuda::copy_to_device(seven.data(), indices, 0, seven.size());
    (void)there.point_tree()->all_knn_into({indices, indices + cells, rows, 4, MemorySpace::cuda, 0}, true,
                                           on_gpu());
    std::vector<std::int64_t> left(cells);
    cuda::copy_to_host(indices, 0, left.data(), cells * 8);
    EXPECT_EQ(left, want.indices);
  }
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::i8}) {
    for (const Metric metric : tree_metrics) {
      list.push_back({"kd_tree", dtype, metric, 3});
      list.push_back({"octree", dtype, metric, 2});
    }
  }
  list.push_back({"octree", Dtype::f32, Metric::euclidean, 3});
  list.push_back({"kd_tree", Dtype::f16, Metric::sqeuclidean, 5});
  list.push_back({"kd_tree", Dtype::f32, Metric::euclidean, 9});
  return list;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::string(c.index) + "_" + std::string(name(c.dtype)) + "_" + std::string(name(c.metric)) + "_" +
         std::to_string(c.dim);
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaTreesOnAGpu, testing::ValuesIn(cases()), case_name);

INSTANTIATE_TEST_SUITE_P(Cases, CudaColumns,
                         testing::Values(Case{"kd_tree", Dtype::f32, Metric::sqeuclidean, 3},
                                         Case{"octree", Dtype::f32, Metric::euclidean, 3},
                                         Case{"octree", Dtype::f32, Metric::manhattan, 3},
                                         Case{"kd_tree", Dtype::f32, Metric::sqeuclidean, 2},
                                         Case{"octree", Dtype::f16, Metric::euclidean, 2}),
                         case_name);

}  // namespace
}  // namespace kith
