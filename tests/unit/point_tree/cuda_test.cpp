// Trees that a GPU has built: their shape, point by point, and the answers that the CPU's walk finds in them.
// Skipped where there is no GPU.
#ifdef KITH_CUDA_ENABLED

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "conformance/problem.hpp"
#include "core/visit_dtype.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "kith/kd_tree.hpp"
#include "kith/octree.hpp"
#include "kith/support.hpp"
#include "point_tree/backend.hpp"
#include "point_tree/build.hpp"
#include "point_tree/cuda/device_tree.hpp"
#include "point_tree/file.hpp"
#include "point_tree/tree.hpp"
#include "reference/oracle.hpp"
#include "support/device_memory.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/gpu_test.hpp"
#include "support/gpus.hpp"

namespace kith {
namespace {

using conformance::Random;
using conformance::Rows;
using point_tree::NodeLinks;
using point_tree::Tree;
using reference::Matrix;
using test::contains;
using test::gpus;
using test::message_of;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr point_tree::TreeType kd_trees = {.index = "kd_tree"};
constexpr point_tree::TreeType octrees = {.index = "octree"};

Execution on_gpu(int ordinal = 0) {
  Execution execution;
  execution.devices = {{Device::Kind::cuda, ordinal}};
  return execution;
}

class CudaTrees : public test::GpuTest {};

// A PointTree of any Tree.
struct Held : PointTree {
  explicit Held(std::shared_ptr<const Tree> tree) : PointTree(std::move(tree)) {}
};

std::shared_ptr<const Tree> built(const DatasetView& rows, std::int64_t leaf_size, bool cubes,
                                  const Execution& execution = on_gpu()) {
  auto tree = std::make_shared<Tree>(point_tree::cuda_backend().build(rows, leaf_size, cubes, execution));
  tree->index = cubes ? "octree" : "kd_tree";
  tree->leaf_size = leaf_size;
  return tree;
}

// Walks a tree that is on the host and checks everything a tree promises about the rows it was built of.
template <class T, class Id>
class Shape {
 public:
  Shape(const Tree& tree, const DatasetView& rows)
      : tree_(tree), rows_(rows), view_(tree.view<T, Id>()), seen_(static_cast<std::size_t>(rows.rows)) {}

  void check() {
    std::vector<T> lower, upper;
    if (tree_.nodes > 0) {
      std::int64_t next = 0;
      node(next, 0, tree_.points, 1, lower, upper);
      EXPECT_EQ(next, tree_.nodes);
      EXPECT_EQ(levels_, tree_.levels);
      for (std::int64_t j = 0; j < tree_.dim; ++j) {
        const auto at = static_cast<std::size_t>(j);
        EXPECT_EQ(static_cast<double>(lower[at]), tree_.lower[at]);
        EXPECT_EQ(static_cast<double>(upper[at]), tree_.upper[at]);
      }
    }
    std::int64_t nan_rows = 0;
    std::vector<std::int64_t> infinite;
    std::vector<T> x(static_cast<std::size_t>(tree_.dim));
    for (std::int64_t i = 0; i < rows_.rows; ++i) {
      read(i, x.data());
      const bool is_nan = std::any_of(x.begin(), x.end(), [](T v) { return std::isnan(v); });
      const bool is_infinite = std::any_of(x.begin(), x.end(), [](T v) { return std::isinf(v); });
      nan_rows += is_nan ? 1 : 0;
      if (is_infinite && !is_nan) {
        ASSERT_LT(infinite.size(), tree_.infinite.size());
        for (std::int64_t j = 0; j < tree_.dim; ++j) {
          const auto at = infinite.size() * static_cast<std::size_t>(tree_.dim) + static_cast<std::size_t>(j);
          EXPECT_EQ(tree_.infinite_values[at], static_cast<double>(x[static_cast<std::size_t>(j)]));
        }
        infinite.push_back(i);
      }
      ASSERT_EQ(seen_[static_cast<std::size_t>(i)], is_nan || is_infinite ? 0 : 1) << "row " << i;
    }
    EXPECT_EQ(tree_.nan_rows, nan_rows);
    EXPECT_TRUE(std::equal(infinite.begin(), infinite.end(), tree_.infinite.begin(), tree_.infinite.end()));
    EXPECT_EQ(tree_.points, rows_.rows - nan_rows - static_cast<std::int64_t>(infinite.size()));
  }

 private:
  void read(std::int64_t row, T* to) const {
    visit_dtype(rows_.dtype, [&]<class From>(From /*tag*/) {
      const auto* from = static_cast<const From*>(rows_.row(row));
      for (std::int64_t j = 0; j < tree_.dim; ++j) to[j] = static_cast<T>(to_double(from[j]));
    });
  }

  void leaf(std::int64_t begin, std::int64_t count, bool identical, std::vector<T>& lower,
            std::vector<T>& upper) {
    const auto d = static_cast<std::size_t>(tree_.dim);
    EXPECT_TRUE(identical || count <= tree_.leaf_size) << count;
    std::vector<T> x(d);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto row = static_cast<std::int64_t>(view_.rows[begin + i]);
      ASSERT_TRUE(row >= 0 && row < rows_.rows);
      ++seen_[static_cast<std::size_t>(row)];
      read(row, x.data());
      for (std::size_t j = 0; j < d; ++j) {
        const T held = view_.coordinates[begin * tree_.dim + static_cast<std::int64_t>(j) * count + i];
        ASSERT_EQ(std::memcmp(&held, &x[j], sizeof held), 0) << "row " << row << " axis " << j;
        if (i == 0) lower[j] = upper[j] = x[j];
        lower[j] = std::min(lower[j], x[j]);
        upper[j] = std::max(upper[j], x[j]);
      }
      if (identical && i > 0) {
        ASSERT_LT(view_.rows[begin + i - 1], view_.rows[begin + i]);
      }
    }
    ASSERT_TRUE(!identical || lower == upper);
  }

  void node(std::int64_t& next, std::int64_t begin, std::int64_t end, std::int64_t level,
            std::vector<T>& lower, std::vector<T>& upper) {
    const auto d = static_cast<std::size_t>(tree_.dim);
    levels_ = std::max(levels_, level);
    const unsigned char* data = view_.node_data + next++ * view_.node_stride;
    const auto* boxes = reinterpret_cast<const T*>(data);
    const auto* links = reinterpret_cast<const NodeLinks*>(data + 2 * tree_.dim * point_tree::node_width *
                                                                      static_cast<std::int64_t>(sizeof(T)));
    ASSERT_TRUE(links->count >= 1 && links->count <= point_tree::node_width);
    ASSERT_EQ(links->begin[0], begin);
    ASSERT_EQ(links->begin[links->count], end);
    for (std::int64_t c = 0; c < links->count; ++c) {
      std::vector<T> lo(d), hi(d);
      ASSERT_LT(links->begin[c], links->begin[c + 1]);
      if (links->child[c] >= 0) {
        ASSERT_EQ(links->child[c], next);
        node(next, links->begin[c], links->begin[c + 1], level + 1, lo, hi);
      } else {
        leaf(links->begin[c], links->begin[c + 1] - links->begin[c],
             links->child[c] == point_tree::identical_child, lo, hi);
      }
      if (testing::Test::HasFatalFailure()) return;
      for (std::size_t j = 0; j < d; ++j) {
        const auto at = static_cast<std::int64_t>(j) * point_tree::node_width + c;
        ASSERT_EQ(boxes[at], lo[j]) << "axis " << j;
        ASSERT_EQ(boxes[tree_.dim * point_tree::node_width + at], hi[j]) << "axis " << j;
      }
      if (c == 0) {
        lower = lo;
        upper = hi;
      }
      for (std::size_t j = 0; j < d; ++j) {
        lower[j] = std::min(lower[j], lo[j]);
        upper[j] = std::max(upper[j], hi[j]);
      }
    }
  }

  const Tree& tree_;
  DatasetView rows_;
  point_tree::TreeView<T, Id> view_;
  std::vector<int> seen_;
  std::int64_t levels_ = 0;
};

void check_shape(const Tree& tree, const DatasetView& host_rows) {
  EXPECT_EQ(tree.rows, host_rows.rows);
  EXPECT_EQ(tree.dim, host_rows.dim);
  const Tree& held = point_tree::on_host(tree);
  EXPECT_EQ(held.node_data.size() + held.coordinates.size() + held.row_numbers.size() +
                held.infinite.size_bytes() + held.infinite_values.size_bytes(),
            tree.bytes());
  point_tree::visit_tree(tree, [&]<class T, class Id>() { Shape<T, Id>(held, host_rows).check(); });
}

// The answers of brute force, bit by bit.
void check_answers(const std::shared_ptr<const Tree>& tree, const DatasetView& rows, std::int64_t k) {
  const Neighbors want = BruteForce::build(rows).search(rows, k);
  const Neighbors got = Held(tree).all_knn(k, true);
  EXPECT_EQ(got.indices, want.indices);
  EXPECT_TRUE(std::visit(
      [](const auto& a, const auto& b) {
        if constexpr (std::is_same_v<decltype(a), decltype(b)>) {
          return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
        }
        return false;
      },
      got.distances, want.distances));
}

using Make = std::function<Matrix(std::int64_t rows, std::int64_t dim, Random& random)>;

Matrix empty(std::int64_t rows, std::int64_t dim) {
  return {rows, dim, std::vector<double>(static_cast<std::size_t>(rows * dim))};
}

Matrix uniform(std::int64_t rows, std::int64_t dim, Random& random) {
  Matrix m = empty(rows, dim);
  for (double& v : m.values) v = static_cast<double>(random.below(1 << 20)) / (1 << 16);
  return m;
}

// What is hard on a tree of cells. Values are exact in float.
const std::vector<std::pair<const char*, Make>>& kinds() {
  static const std::vector<std::pair<const char*, Make>> list = {
      {"uniform", uniform},
      {"special rows",
       [](std::int64_t rows, std::int64_t dim, Random& random) {
         Matrix m = uniform(rows, dim, random);
         for (std::int64_t i = 0; i < rows; ++i) {
           if (i % 37 == 5) m.row(i)[random.below(dim)] = nan;
           if (i % 41 == 7) m.row(i)[random.below(dim)] = random.sign() * infinity;
         }
         return m;
       }},
      {"all equal",
       [](std::int64_t rows, std::int64_t dim, Random& /*random*/) {
         Matrix m = empty(rows, dim);
         std::fill(m.values.begin(), m.values.end(), 0.75);
         return m;
       }},
      {"flood of one point",
       [](std::int64_t rows, std::int64_t dim, Random& random) {
         Matrix m = uniform(rows, dim, random);
         for (std::int64_t i = 0; i < rows; ++i) {
           if (random.below(2) == 0) std::fill_n(m.row(i), dim, 3.25);
         }
         return m;
       }},
      {"few places",
       [](std::int64_t rows, std::int64_t dim, Random& random) {
         Matrix m = empty(rows, dim);
         for (double& v : m.values) v = static_cast<double>(random.below(2));
         return m;
       }},
      {"outlier",
       [](std::int64_t rows, std::int64_t dim, Random& random) {
         Matrix m = uniform(rows, dim, random);
         std::fill_n(m.row(rows / 2), dim, 0x1p100);
         return m;
       }},
      // Powers of two: each octave is as far from the next as all below it are apart.
      {"octaves",
       [](std::int64_t rows, std::int64_t dim, Random& random) {
         Matrix m = empty(rows, dim);
         for (double& v : m.values)
           v = random.sign() * std::ldexp(1.0, static_cast<int>(random.below(200)) - 100);
         return m;
       }},
      {"clusters far apart",
       [](std::int64_t rows, std::int64_t dim, Random& random) {
         Matrix m = empty(rows, dim);
         for (std::int64_t i = 0; i < rows; ++i) {
           // 2^-30 apart beside 0, spread beside 2^20.
           const bool far = random.below(4) == 0;
           for (std::int64_t j = 0; j < dim; ++j) {
             m.row(i)[j] = far ? 0x1p20 + static_cast<double>(random.below(64))
                               : std::ldexp(static_cast<double>(random.below(1 << 10)), -40);
           }
         }
         return m;
       }},
      {"line",
       [](std::int64_t rows, std::int64_t dim, Random& random) {
         Matrix m = empty(rows, dim);
         for (std::int64_t i = 0; i < rows; ++i) std::fill_n(m.row(i), dim, random.below(1 << 20));
         return m;
       }},
      {"signed zeros",
       [](std::int64_t rows, std::int64_t dim, Random& random) {
         Matrix m = empty(rows, dim);
         for (double& v : m.values) v = random.below(2) == 0 ? 0.0 : -0.0;
         return m;
       }},
  };
  return list;
}

TEST_F(CudaTrees, EveryKindOfDataIsHeldWholeAndSearchedExactly) {
  std::uint64_t seed = 1;
  for (const auto& [kind, make] : kinds()) {
    for (const std::int64_t dim : {1, 2, 3, 7, 16}) {
      for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        for (const std::int64_t leaf : {1, 8, 32}) {
          for (const bool cubes : {false, true}) {
            if (cubes && dim != 2 && dim != 3) continue;
            SCOPED_TRACE(std::string(kind) + " dim " + std::to_string(dim) + " " + std::string(name(dtype)) +
                         " leaf " + std::to_string(leaf) + (cubes ? " octree" : " kd_tree"));
            Random random(seed++);
            const Rows rows(make(900, dim, random), dtype);
            const auto tree = built(rows.view(), leaf, cubes);
            check_shape(*tree, rows.view());
            if (leaf == 8) check_answers(tree, rows.view(), 5);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_F(CudaTrees, SizesAroundALeafAndLarger) {
  for (const std::int64_t count : {0, 1, 2, 31, 32, 33, 511, 512, 513, 5000, 70000}) {
    for (const std::int64_t dim : {1, 3, 16}) {
      SCOPED_TRACE(std::to_string(count) + " x " + std::to_string(dim));
      Random random(7);
      const Rows rows(uniform(count, dim, random), Dtype::f32);
      const auto tree = built(rows.view(), 32, dim == 3);
      check_shape(*tree, rows.view());
      if (count > 0 && count < 1000) check_answers(tree, rows.view(), 40);
    }
  }
}

TEST_F(CudaTrees, NoPointAtAll) {
  for (const double value : {nan, infinity}) {
    Matrix m = empty(100, 3);
    std::fill(m.values.begin(), m.values.end(), value);
    const Rows rows(m, Dtype::f32);
    const auto tree = built(rows.view(), 32, false);
    EXPECT_EQ(tree->points, 0);
    EXPECT_EQ(tree->nodes, 0);
    check_shape(*tree, rows.view());
    check_answers(tree, rows.view(), 3);
    const test::TemporaryFolder folder;
    point_tree::save(*tree, folder / "tree", {});
    EXPECT_EQ(point_tree::load(folder / "tree", kd_trees)->points, 0);
  }
}

TEST_F(CudaTrees, EveryElementType) {
  for (const Dtype dtype : all_dtypes) {
    for (const std::int64_t gap : {0, 3}) {
      Random random(11);
      const bool integers = dtype == Dtype::i8 || dtype == Dtype::u8;
      Matrix m = kinds()[integers ? 0 : 1].second(3000, 3, random);
      for (double& v : m.values) v = v * 8 - 40;
      const Rows rows(conformance::quantize(m, dtype, 1), dtype, gap);
      SCOPED_TRACE(std::string(name(dtype)) + " gap " + std::to_string(gap));
      const auto tree = built(rows.view(), 32, true);
      check_shape(*tree, rows.view());
      check_answers(tree, rows.view(), 4);
    }
  }
}

// Memory of the device with the rows of a view, stride and all.
class OnDevice {
 public:
  explicit OnDevice(const DatasetView& host)
      : memory_(host.data, static_cast<std::size_t>(host.rows * host.row_stride) * size_of(host.dtype)),
        view_(host) {
    view_.data = memory_.data();
    view_.space = MemorySpace::cuda;
    view_.device = memory_.device();
  }
  const DatasetView& view() const { return view_; }

 private:
  test::DeviceMemory memory_;
  DatasetView view_;
};

TEST_F(CudaTrees, RowsInDeviceMemory) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16}) {
    for (const std::int64_t gap : {0, 2}) {
      Random random(13);
      const Rows rows(conformance::quantize(kinds()[1].second(4000, 3, random), dtype, 1), dtype, gap);
      const OnDevice there(rows.view());
      const auto tree = built(there.view(), 16, false);
      check_shape(*tree, rows.view());
      check_answers(tree, rows.view(), 4);
    }
  }
}

TEST_F(CudaTrees, RowsInPageLockedMemory) {
  for (const std::int64_t gap : {0, 2}) {
    Random random(15);
    const Rows rows(kinds()[1].second(4000, 3, random), Dtype::f32, gap);
    void* pinned = nullptr;
    const auto bytes = static_cast<std::size_t>(4000 * (3 + gap)) * sizeof(float);
    ASSERT_EQ(cudaMallocHost(&pinned, bytes), cudaSuccess);
    std::memcpy(pinned, rows.view().data, bytes);
    DatasetView view = rows.view();
    view.data = pinned;
    const auto tree = built(view, 16, false);
    EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
    check_shape(*tree, rows.view());
  }
}

// Bytes of two trees on the host.
void expect_same(const Tree& a, const Tree& b) {
  const auto same = [](std::span<const std::byte> x, std::span<const std::byte> y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size()) == 0;
  };
  EXPECT_TRUE(same(a.node_data, b.node_data));
  EXPECT_TRUE(same(a.coordinates, b.coordinates));
  EXPECT_TRUE(same(a.row_numbers, b.row_numbers));
  EXPECT_EQ(a.levels, b.levels);
}

TEST_F(CudaTrees, ATreeIsTheSameEachTimeItIsBuilt) {
  for (const auto& [kind, make] : kinds()) {
    SCOPED_TRACE(kind);
    Random random(17);
    const Rows rows(make(20000, 3, random), Dtype::f32);
    const auto first = built(rows.view(), 32, false);
    const auto second = built(rows.view(), 32, false);
    expect_same(point_tree::on_host(*first), point_tree::on_host(*second));
  }
}

TEST_F(CudaTrees, ATreeOfTheCpuComesBackFromTheDeviceByteForByte) {
  Random random(19);
  const Rows rows(kinds()[1].second(5000, 3, random), Dtype::f32);
  struct Open : KdTree {
    explicit Open(const KdTree& tree) : KdTree(tree) {}
    const Tree& tree() const { return *tree_; }
  };
  const Open cpu(KdTree::build(rows.view()));
  const Tree& tree = cpu.tree();
  const auto there = point_tree::on_device(tree, 0);
  EXPECT_EQ(there, point_tree::on_device(tree, 0)) << "it is kept";
  const Tree copy = tree;
  EXPECT_EQ(there, point_tree::on_device(copy, 0)) << "copies share it";
  Tree moved = tree;
  moved.node_data = moved.coordinates = moved.row_numbers = {};
  moved.copies->download = point_tree::download;
  expect_same(tree, point_tree::on_host(moved));
}

TEST_F(CudaTrees, WideRowNumbers) {
  struct Narrow {
    std::int64_t before = point_tree::largest_narrow_tree();
    Narrow() { point_tree::set_largest_narrow_tree(100); }
    ~Narrow() { point_tree::set_largest_narrow_tree(before); }
  } const narrow;
  std::uint64_t seed = 23;
  for (const auto& [kind, make] : kinds()) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      SCOPED_TRACE(std::string(kind) + " " + std::string(name(dtype)));
      Random random(seed++);
      const Rows rows(make(3000, 3, random), dtype);
      const auto tree = built(rows.view(), 8, false);
      EXPECT_TRUE(tree->wide_rows);
      check_shape(*tree, rows.view());
      check_answers(tree, rows.view(), 3);
    }
  }
}

TEST_F(CudaTrees, SavedAndLoaded) {
  Random random(29);
  const Rows rows(kinds()[3].second(6000, 3, random), Dtype::f32);
  const auto tree = built(rows.view(), 32, true);
  const test::TemporaryFolder folder;
  point_tree::save(*tree, folder / "tree", {});
  const auto loaded = point_tree::load(folder / "tree", octrees);
  expect_same(point_tree::on_host(*tree), *loaded);
  EXPECT_EQ(tree->lower, loaded->lower);
  EXPECT_EQ(tree->bytes(), loaded->bytes());
}

TEST_F(CudaTrees, LoadedForADevice) {
  Random random(30);
  const Rows rows(uniform(3000, 3, random), Dtype::f32);
  const test::TemporaryFolder folder;
  KdTree::build(rows.view()).save(folder / "tree");
  const KdTree loaded = KdTree::load(folder / "tree", on_gpu());
  const Neighbors want = loaded.all_knn(4);
  const Neighbors got = loaded.all_knn(4, false, on_gpu());
  EXPECT_EQ(got.indices, want.indices);
  EXPECT_TRUE(contains(message_of<DeviceError>([&] { (void)KdTree::load(folder / "tree", on_gpu(77)); }),
                       "cuda:77 is not there"));
}

TEST_F(CudaTrees, TheFirstOfSeveralDevicesBuilds) {
  if (gpus() < 2) GTEST_SKIP() << "two CUDA devices are needed";
  Random random(33);
  const Rows rows(uniform(3000, 3, random), Dtype::f32);
  Execution execution = on_gpu(1);
  execution.devices.push_back({Device::Kind::cuda, 0});
  const auto tree = built(rows.view(), 32, false, execution);
  EXPECT_EQ(tree->copies->devices.begin()->first, 1);
  EXPECT_NE(point_tree::on_device(*tree, 0), nullptr);
  EXPECT_EQ(Held(tree).all_knn(4, false, on_gpu(0)).indices, Held(tree).all_knn(4).indices);
}

TEST_F(CudaTrees, ThePublicBuildersUseTheDevice) {
  Random random(31);
  const Rows rows(uniform(5000, 3, random), Dtype::f32);
  const KdTree kd = KdTree::build(rows.view(), {}, on_gpu());
  const Octree octree = Octree::build(rows.view(), {Metric::euclidean, 20}, on_gpu());
  EXPECT_EQ(kd.leaf_size(), 32);
  EXPECT_EQ(octree.leaf_size(), 20);
  EXPECT_EQ(octree.metric(), Metric::euclidean);
  const Neighbors want = BruteForce::build(rows.view()).search(rows.view(), 3);
  EXPECT_EQ(kd.all_knn(3, true).indices, want.indices);
  EXPECT_EQ(octree.all_knn(3, true).indices, want.indices);
}

TEST_F(CudaTrees, TheMemoryLimitHolds) {
  Random random(37);
  const Rows rows(uniform(100000, 3, random), Dtype::f32);
  Execution execution = on_gpu();
  execution.device_memory_limit = 2'000'000;
  EXPECT_THROW((void)KdTree::build(rows.view(), {}, execution), OutOfMemory);
  EXPECT_TRUE(contains(message_of<OutOfMemory>([&] { (void)KdTree::build(rows.view(), {}, execution); }),
                       "the limit is 2000000"));
  execution.device_memory_limit = 100000 * 76 + (1 << 20);  // 64 bytes a point, and the rows themselves
  EXPECT_NO_THROW((void)KdTree::build(rows.view(), {}, execution));
}

TEST_F(CudaTrees, ACopyCountsTowardsTheLimitOfTheSearchThatMakesIt) {
  Random random(41);
  const Rows rows(uniform(100000, 3, random), Dtype::f32);
  const KdTree tree = KdTree::build(rows.view());
  Execution execution = on_gpu();
  execution.device_memory_limit = tree.memory_bytes();
  EXPECT_TRUE(
      contains(message_of<OutOfMemory>([&] { (void)tree.count_within(rows.view(), 0.01, execution); }),
               "a copy of the index kd_tree"));
  (void)tree.count_within(rows.view(), 0.01, on_gpu());  // now it is there
  EXPECT_NO_THROW((void)tree.count_within(rows.view(), 0.01, execution));
}

TEST_F(CudaTrees, ATreeIsAtMostTwiceItsPoints) {
  // Of every size between two powers of 16, clusters of several densities.
  for (std::int64_t count = 40000; count < 700000; count = count * 5 / 4) {
    Random random(39);
    Matrix m = empty(count, 3);
    for (std::int64_t i = 0; i < count; ++i) {
      const double spread = std::ldexp(1.0, -static_cast<int>(i % 8));
      for (std::int64_t j = 0; j < 3; ++j)
        m.row(i)[j] = static_cast<double>(i % 8 * j) + spread * random.uniform();
    }
    const Rows rows(m, Dtype::f32);
    const KdTree tree = KdTree::build(rows.view(), {}, on_gpu());
    EXPECT_LE(tree.memory_bytes(), static_cast<std::uint64_t>(2 * count * 12)) << count << " points";
  }
}

TEST_F(CudaTrees, CancelledAndReported) {
  Random random(41);
  const Rows rows(uniform(50000, 3, random), Dtype::f32);
  Execution execution = on_gpu();
  execution.cancelled = [] { return true; };
  EXPECT_THROW((void)KdTree::build(rows.view(), {}, execution), Cancelled);
  execution.cancelled = nullptr;
  std::int64_t done = -1;
  execution.progress = [&](const Progress& progress) {
    EXPECT_STREQ(progress.stage, "build");
    EXPECT_GT(progress.done, done);
    done = progress.done;
    EXPECT_EQ(progress.total, 50000);
  };
  (void)KdTree::build(rows.view(), {}, execution);
  EXPECT_EQ(done, 50000);
}

TEST_F(CudaTrees, RowsElsewhereAreRefused) {
  Random random(43);
  const Rows rows(uniform(100, 3, random), Dtype::f32);
  const OnDevice there(rows.view());
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { (void)KdTree::build(there.view()); }),
                       "copy them to the host"));
  EXPECT_TRUE(contains(message_of<DeviceError>([&] { (void)KdTree::build(there.view(), {}, on_gpu(77)); }),
                       "cuda:77 is not there"));
  DatasetView other = there.view();
  other.device = 5;
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { (void)KdTree::build(other, {}, on_gpu()); }),
                       "the rows lie in the memory of cuda:5"));
}

TEST_F(CudaTrees, TheStreamComesFirst) {
  // The rows are written on a stream while the build is called.
  Random random(47);
  const Rows rows(uniform(1 << 20, 3, random), Dtype::f32);
  const auto bytes = static_cast<std::size_t>(rows.view().rows) * 12;
  const OnDevice there(rows.view());
  EXPECT_EQ(cudaMemset(const_cast<void*>(there.view().data), 0, bytes), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(const_cast<void*>(there.view().data), rows.view().data, bytes,
                            cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  Execution execution = on_gpu();
  execution.stream = stream;
  const auto tree = built(there.view(), 32, false, execution);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  check_shape(*tree, rows.view());
}

}  // namespace
}  // namespace kith

#endif
