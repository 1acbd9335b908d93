// What the trees offer beyond kNN, against straight loops; the conformance suite covers kNN itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <limits>
#include <numeric>
#include <vector>

#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "kith/kd_tree.hpp"
#include "kith/octree.hpp"
#include "point_tree/build.hpp"
#include "point_tree/file.hpp"
#include "point_tree/neighborhoods.hpp"
#include "point_tree/tree.hpp"
#include "reference/oracle.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/gpus.hpp"
#include "support/sanitizers.hpp"
#include "support/threads.hpp"

namespace kith {
namespace {

using conformance::Random;
using conformance::Rows;
using reference::Matrix;
using test::contains;
using test::gpus;
using test::message_of;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Case {
  const char* index;
  Dtype dtype;
  Metric metric;
  InstructionSet set;
  Device::Kind built = Device::Kind::cpu;
  Device::Kind searched = Device::Kind::cpu;
};

Execution on(Device::Kind kind) {
  Execution execution;
  execution.devices = {Device{kind, 0}};
  return execution;
}

PointTree build(const Case& c, const DatasetView& rows, std::int64_t leaf_size = 0) {
  const Execution execution = on(c.built);
  if (std::string_view(c.index) == "octree") return Octree::build(rows, {c.metric, leaf_size}, execution);
  return KdTree::build(rows, {c.metric, leaf_size}, execution);
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const InstructionSet set : usable_instruction_sets()) {
    for (const char* index : {"kd_tree", "octree"}) {
      for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::u8}) {
        for (const Metric metric : {Metric::sqeuclidean, Metric::euclidean, Metric::manhattan}) {
          list.push_back({index, dtype, metric, set});
          if (set != usable_instruction_sets().front()) continue;
          constexpr auto cpu = Device::Kind::cpu;
          constexpr auto cuda = Device::Kind::cuda;
          list.push_back({index, dtype, metric, set, cuda, cuda});
          list.push_back({index, dtype, metric, set, cuda, cpu});
          list.push_back({index, dtype, metric, set, cpu, cuda});
        }
      }
    }
  }
  return list;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return std::string(c.index) + "_" + std::string(name(c.dtype)) + "_" + std::string(name(c.metric)) + "_" +
         (c.built == Device::Kind::cpu && c.searched == Device::Kind::cpu
              ? std::string(name(c.set))
              : std::string(c.built == Device::Kind::cpu ? "cpu" : "cuda") +
                    (c.searched == Device::Kind::cpu ? "_cpu" : "_cuda"));
}

// Clustered points on a coarse grid, so that there are ties, with some duplicates, NaN and infinite rows.
Matrix cloud(std::int64_t rows, std::int64_t dim, std::uint64_t seed, bool specials = true) {
  Random random(seed);
  Matrix m{rows, dim, std::vector<double>(static_cast<std::size_t>(rows * dim))};
  for (std::int64_t i = 0; i < rows; ++i) {
    const double center = static_cast<double>(random.below(3));
    for (std::int64_t j = 0; j < dim; ++j) m.row(i)[j] = center + std::round(random.normal() * 8) / 16;
    if (i > 0 && random.below(8) == 0) std::copy_n(m.row(random.below(i)), dim, m.row(i));
    if (specials && i % 37 == 5) m.row(i)[random.below(dim)] = nan;
    if (specials && i % 41 == 7) m.row(i)[random.below(dim)] = random.sign() * infinity;
  }
  return m;
}

class Trees : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const bool gpu = GetParam().built == Device::Kind::cuda || GetParam().searched == Device::Kind::cuda;
    if (gpu && gpus() == 0) GTEST_SKIP() << "no usable CUDA device here";
    force_instruction_set(GetParam().set);
  }
  void TearDown() override { force_instruction_set(std::nullopt); }

  // Data and queries that the dtype holds exactly.
  void make(std::int64_t rows, std::int64_t queries, std::int64_t dim, std::uint64_t seed) {
    const bool integers = GetParam().dtype == Dtype::u8;
    data_ = conformance::quantize(cloud(rows, dim, seed, !integers), GetParam().dtype, 20);
    queries_ = conformance::quantize(cloud(queries, dim, seed + 1, !integers), GetParam().dtype, 20);
    rows_.emplace(data_, GetParam().dtype, 1);
    asked_.emplace(queries_, GetParam().dtype);
    truth_.clear();
    for (std::int64_t i = 0; i < queries; ++i) truth_.push_back(all(queries_.row(i)));
  }

  reference::Answer all(const double* query) const {
    return reference::nearest(data_, query, data_.rows, GetParam().metric, GetParam().dtype != Dtype::f64);
  }

  std::vector<std::pair<double, std::int64_t>> within(const reference::Answer& answer, double radius) const {
    std::vector<std::pair<double, std::int64_t>> list;
    for (std::size_t j = 0; j < answer.indices.size() && answer.distances[j] <= radius; ++j) {
      list.emplace_back(answer.distances[j], answer.indices[j]);
    }
    return list;
  }

  // A distance in the middle of what there is: some rows are exactly this far.
  double some_radius(double share = 0.1) const {
    const reference::Answer& answer = truth_[2];
    return answer.distances[static_cast<std::size_t>(static_cast<double>(answer.distances.size()) * share)];
  }

  const Execution how_ = on(GetParam().searched);
  Matrix data_, queries_;
  std::optional<Rows> rows_, asked_;
  std::vector<reference::Answer> truth_;
};

TEST_P(Trees, RadiusSearchIsTheOraclesPrefix) {
  for (const std::int64_t dim : {2, 3}) {
    make(350, 40, dim, 1 + static_cast<std::uint64_t>(dim));
    for (const std::int64_t leaf : {1, 7, 64}) {
      const PointTree tree = build(GetParam(), rows_->view(), leaf);
      EXPECT_EQ(tree.leaf_size(), leaf);
      for (const double radius : {0.0, some_radius(), infinity}) {
        for (const bool sorted : {true, false}) {
          const RadiusNeighbors found = tree.radius_search(asked_->view(), radius, {sorted, 0}, how_);
          ASSERT_EQ(found.offsets.size(), 41U);
          ASSERT_EQ(found.offsets.back(), static_cast<std::int64_t>(found.indices.size()));
          for (std::int64_t q = 0; q < 40; ++q) {
            auto want = within(truth_[static_cast<std::size_t>(q)], radius);
            std::vector<std::pair<double, std::int64_t>> got;
            for (std::size_t r = 0; r < found.indices_of(q).size(); ++r) {
              got.emplace_back(found.distance(q, static_cast<std::int64_t>(r)), found.indices_of(q)[r]);
            }
            if (!sorted) std::sort(got.begin(), got.end());
            ASSERT_EQ(got, want) << "query " << q << " radius " << radius << " leaf " << leaf;
          }
        }
        const auto counts = tree.count_within(asked_->view(), radius, how_);
        const RadiusNeighbors few = tree.radius_search(asked_->view(), radius, {false, 3}, how_);
        const Neighbors nearest = tree.search(asked_->view(), 5, how_, radius);
        for (std::int64_t q = 0; q < 40; ++q) {
          const auto want = within(truth_[static_cast<std::size_t>(q)], radius);
          ASSERT_EQ(counts[static_cast<std::size_t>(q)], static_cast<std::int64_t>(want.size()));
          ASSERT_EQ(few.indices_of(q).size(), std::min<std::size_t>(3, want.size()));
          for (std::size_t j = 0; j < 5; ++j) {
            const bool there = j < want.size();
            ASSERT_EQ(nearest.indices_of(q)[j], there ? want[j].second : -1);
            ASSERT_EQ(nearest.distance(q, static_cast<std::int64_t>(j)), there ? want[j].first : infinity);
            if (there && j < 3) {
              ASSERT_EQ(few.indices_of(q)[j], want[j].second);
            }
          }
        }
      }
    }
  }
}

TEST_P(Trees, AllKnnLeavesOutTheRowItselfUnlessAsked) {
  make(160, 3, 3, 11);
  const PointTree tree = build(GetParam(), rows_->view(), 8);
  for (const std::int64_t k : {1, 6, 20, 40, 100, 200}) {
    for (const bool include_self : {false, true}) {
      const Neighbors found = tree.all_knn(k, include_self, how_);
      ASSERT_EQ(found.queries, 160);
      // What was evaluated is at least what was returned; rows with an infinity need no evaluation.
      std::int64_t returned = 0;
      for (std::int64_t i = 0; i < 160; ++i) {
        for (std::int64_t r = 0; r < k; ++r) returned += found.distance(i, r) < infinity ? 1 : 0;
      }
      ASSERT_GE(found.statistics.candidates, returned) << "k " << k;
      for (std::int64_t i = 0; i < 160; ++i) {
        reference::Answer want = all(data_.row(i));
        if (!include_self) {
          const auto self = std::find(want.indices.begin(), want.indices.end(), i);
          if (self != want.indices.end()) {
            want.distances.erase(want.distances.begin() + (self - want.indices.begin()));
            want.indices.erase(self);
          }
        }
        for (std::int64_t j = 0; j < k; ++j) {
          const auto at = static_cast<std::size_t>(j);
          const bool there = at < want.indices.size();
          ASSERT_EQ(found.indices_of(i)[at], there ? want.indices[at] : -1)
              << "row " << i << " rank " << j << " k " << k;
          ASSERT_EQ(found.distance(i, j), there ? want.distances[at] : infinity);
        }
      }
    }
  }
}

// Squares of such values leave their type at both ends: distances become 0 and infinite while the rows are
// still apart. What a query's neighbours tell the next query about its own must know of that.
TEST_P(Trees, ValuesOfEveryMagnitude) {
  if (GetParam().dtype == Dtype::u8) GTEST_SKIP() << "integers have few magnitudes";
  const int octaves = GetParam().dtype == Dtype::f32 ? 100 : 700;
  for (const std::int64_t dim : {2, 3}) {
    for (std::uint64_t seed = 1; seed <= (test::reduced() ? 2U : 8U); ++seed) {
      Random random(seed);
      Matrix m{700, dim, std::vector<double>(static_cast<std::size_t>(700 * dim))};
      for (double& v : m.values)
        v = random.sign() * std::ldexp(1.0, static_cast<int>(random.below(2 * octaves)) - octaves);
      const Rows rows(m, GetParam().dtype);
      const Neighbors want = BruteForce::build(rows.view(), {GetParam().metric}).search(rows.view(), 5);
      const PointTree tree = build(GetParam(), rows.view(), 8);
      ASSERT_EQ(tree.all_knn(5, true, how_).indices, want.indices) << "dim " << dim << " seed " << seed;
      ASSERT_EQ(tree.search(rows.view(), 5, how_).indices, want.indices) << "dim " << dim << " seed " << seed;
    }
  }
}

// The kind of tree that more than 2^32 rows get, reached by lowering the limit.
TEST_P(Trees, WideRowNumbersGiveTheSameAnswers) {
  make(600, 80, 3, 21);
  const PointTree narrow = build(GetParam(), rows_->view());
  const std::int64_t limit = point_tree::largest_narrow_tree();
  point_tree::set_largest_narrow_tree(599);
  const PointTree wide = build(GetParam(), rows_->view());
  point_tree::set_largest_narrow_tree(limit);
  EXPECT_GT(wide.memory_bytes(), narrow.memory_bytes());
  for (const std::int64_t k : {1, 9, 33, 65, 700}) {
    const Neighbors a = narrow.search(asked_->view(), k, how_);
    const Neighbors b = wide.search(asked_->view(), k, how_);
    EXPECT_EQ(a.indices, b.indices);
    EXPECT_EQ(a.distances, b.distances);
  }
  EXPECT_EQ(narrow.all_knn(7, false, how_).indices, wide.all_knn(7, false, how_).indices);
  const test::TemporaryFolder folder;
  wide.save(folder / "wide.kith");
  const bool octree = std::string_view(GetParam().index) == "octree";
  const PointTree loaded = octree ? static_cast<PointTree>(Octree::load(folder / "wide.kith", how_))
                                  : static_cast<PointTree>(KdTree::load(folder / "wide.kith", how_));
  EXPECT_EQ(loaded.search(asked_->view(), 9, how_).indices, narrow.search(asked_->view(), 9, how_).indices);
}

TEST_P(Trees, FloodsOfDuplicatesEnd) {
  // Half of the rows at one place, the others each twice: ties everywhere, and leaves of equal points.
  make(300, 60, 3, 31);
  Matrix flood{3000, 3, {}};
  for (std::int64_t i = 0; i < 3000; ++i) {
    const double* from = data_.row(i % 2 == 0 ? 0 : i / 4 % 300);
    flood.values.insert(flood.values.end(), from, from + 3);
  }
  data_ = flood;
  rows_.emplace(data_, GetParam().dtype);
  const PointTree tree = build(GetParam(), rows_->view(), 4);
  for (const std::int64_t k : {1, 12, 70, 1600}) {
    const Neighbors found = tree.search(asked_->view(), k, how_);
    for (std::int64_t q = 0; q < 60; q += 7) {
      const reference::Answer want = all(queries_.row(q));
      for (std::int64_t j = 0; j < k; ++j) {
        const auto at = static_cast<std::size_t>(j);
        ASSERT_EQ(found.indices_of(q)[at], at < want.indices.size() ? want.indices[at] : -1) << q << " " << j;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Trees, testing::ValuesIn(cases()), case_name);

TEST(PointTree, BuildsAndAnswersDoNotDependOnThreads) {
  const Matrix data = cloud(150'000, 3, 41);
  const Rows rows(data, Dtype::f32);
  Execution one;
  one.threads = 1;
  Execution three;
  three.threads = 3;
  const test::TemporaryFolder folder;
  const auto bytes = [&](const PointTree& tree) {
    tree.save(folder / "t");
    return test::read_file(folder / "t");
  };
  EXPECT_EQ(bytes(KdTree::build(rows.view(), {}, one)), bytes(KdTree::build(rows.view(), {}, three)));
  EXPECT_EQ(bytes(Octree::build(rows.view(), {}, one)), bytes(Octree::build(rows.view(), {}, three)));
  const KdTree tree = KdTree::build(rows.view());
  const Neighbors a = tree.all_knn(4, false, one);
  const Neighbors b = tree.all_knn(4, false, three);
  EXPECT_EQ(a.indices, b.indices);
  EXPECT_EQ(a.distances, b.distances);
  EXPECT_EQ(a.indices, Octree::build(rows.view()).all_knn(4, false, three).indices);
}

TEST(PointTree, TheTreeTakesNoMoreThanTwiceThePoints) {
  for (const double power : {1.0, 4.0}) {  // evenly spread, and crowded at a corner
    Random random(5);
    Matrix data{50'000, 3, std::vector<double>(150'000)};
    for (double& v : data.values) v = std::pow(random.uniform(), power);
    const Rows rows(data, Dtype::f32);
    EXPECT_LE(KdTree::build(rows.view()).memory_bytes(), 2U * 50'000U * 12U);
    EXPECT_LE(Octree::build(rows.view()).memory_bytes(), 2U * 50'000U * 12U);
  }
}

// Points of a plane in space: the normal is known.
TEST(PointTree, NormalsOfAPlane) {
  Random random(51);
  Matrix data{500, 3, {}};
  for (std::int64_t i = 0; i < 500; ++i) {
    const double u = random.uniform();
    const double v = random.uniform();
    data.values.insert(data.values.end(), {1e6 + u, 2e6 + v, 30 - 0.5 * u + 0.25 * v});
  }
  data.row(3)[1] = nan;
  const Rows rows(data, Dtype::f64);
  const KdTree tree = KdTree::build(rows.view());
  const double length = std::sqrt(0.25 + 0.0625 + 1);
  const std::vector<double> normal = {0.5 / length, -0.25 / length, 1 / length};
  for (const Neighborhood how : {Neighborhood{12}, Neighborhood{0, 0.04}, Neighborhood{20, 0.04}}) {
    const Normals up = tree.normals(how);
    const Normals down = tree.normals(how, std::vector<double>{1e6, 2e6, -1e5});
    for (std::int64_t i = 0; i < 500; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (i == 3) {
        EXPECT_TRUE(std::isnan(up.normals[3 * at]) && std::isnan(up.curvature[at]));
        continue;
      }
      EXPECT_NEAR(up.curvature[at], 0, 1e-9);
      for (std::size_t j = 0; j < 3; ++j) {
        ASSERT_NEAR(up.normals[3 * at + j], normal[j], 1e-6);
        ASSERT_NEAR(down.normals[3 * at + j], -normal[j], 1e-6);
      }
    }
  }
  EXPECT_THROW((void)tree.normals({}), InvalidArgument);
  EXPECT_THROW((void)tree.normals({8}, std::vector<double>{1, 2}), InvalidArgument);
  for (const double none : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(contains(message_of<InvalidArgument>([&] {
                           (void)tree.normals({8}, std::vector<double>{0, none, 0});
                         }),
                         "coordinate 1 of the viewpoint is"));
  }
  EXPECT_THROW((void)KdTree::build(rows.view(), {Metric::manhattan}).normals({8}), InvalidArgument);
}

// What finished() names is as it stays, every row at most once, and with lists of k all of them.
TEST(PointTree, NormalsTellWhichRowsAreFinished) {
  Random random(53);
  constexpr std::size_t count = 40'000;
  Matrix data{count, 3, {}};
  for (std::size_t i = 0; i < 3 * count; ++i) data.values.push_back(random.uniform());
  data.values[3 * 77] = std::nan("");
  data.values[3 * 99] = std::numeric_limits<double>::infinity();
  const Rows rows(data, Dtype::f64);
  const KdTree tree = KdTree::build(rows.view());
  for (const Neighborhood how : {Neighborhood{9}, Neighborhood{9, 0.01}, Neighborhood{0, 0.01}}) {
    std::vector<double> table(4 * count, 7);
    std::vector<double> then(4 * count, 7);
    std::vector<std::atomic<int>> told(count);
    NormalsView out{table.data(), table.data() + 3, count, 3};
    out.stride = 4;
    out.finished = [&](std::span<const std::int64_t> finished) {
      for (const std::int64_t row : finished) {
        ++told[static_cast<std::size_t>(row)];
        std::copy_n(table.data() + 4 * row, 4, then.data() + 4 * row);
      }
    };
    tree.normals_into(out, how, {}, test::with_threads(3), rows.view());
    std::size_t all = 0;
    for (std::size_t row = 0; row < count; ++row) {
      ASSERT_LE(told[row], 1);
      all += static_cast<std::size_t>(told[row]);
      if (told[row] == 0) continue;
      ASSERT_EQ(std::memcmp(table.data() + 4 * row, then.data() + 4 * row, 4 * sizeof(double)), 0) << row;
    }
    if (active_instruction_set() != InstructionSet::portable && how.k > 0) {
      EXPECT_EQ(all, count);
    }
    for (const std::size_t row : {77U, 99U}) {
      for (std::size_t j = 0; j < 4; ++j) EXPECT_TRUE(std::isnan(table[4 * row + j])) << row;
    }
    out.finished = [](std::span<const std::int64_t> /*rows*/) { throw IoError("the disk is full"); };
    if (all > 0) {
      EXPECT_THROW(tree.normals_into(out, how), IoError);
    }
  }
}

TEST(PointTree, NormalsIntoMemoryOfTheCallers) {
  Random random(52);
  Matrix data{300, 3, {}};
  for (int i = 0; i < 900; ++i) data.values.push_back(random.uniform());
  const Rows rows(data, Dtype::f32);
  const Octree tree = Octree::build(rows.view());
  for (const Neighborhood how : {Neighborhood{9}, Neighborhood{0, 0.03}}) {
    const Normals want = tree.normals(how, std::vector<double>{0, 0, 9});
    Normals got{std::vector<double>(900, 7), std::vector<double>(300, 7)};
    const auto same = [](const std::vector<double>& a, const std::vector<double>& b) {
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])));
    };
    tree.normals_into({got.normals.data(), got.curvature.data(), 300, 3}, how, std::vector<double>{0, 0, 9});
    same(got.normals, want.normals);
    same(got.curvature, want.curvature);
    got = {std::vector<double>(900, 7), std::vector<double>(300, 7)};
    tree.normals_into({got.normals.data(), nullptr, 300, 3}, how, std::vector<double>{0, 0, 9});
    same(got.normals, want.normals);
    EXPECT_EQ(got.curvature, std::vector<double>(300, 7));
    // A row of five doubles each, the last one not theirs, from the rows at hand and from the tree's own.
    for (const DatasetView& built_from : {DatasetView(), rows.view()}) {
      std::vector<double> table(1500, 7);
      NormalsView apart{table.data(), table.data() + 3, 300, 3};
      apart.stride = 5;
      tree.normals_into(apart, how, std::vector<double>{0, 0, 9}, {}, built_from);
      got = {};
      for (std::size_t i = 0; i < 300; ++i) {
        const auto row = table.begin() + static_cast<std::ptrdiff_t>(5 * i);
        got.normals.insert(got.normals.end(), row, row + 3);
        got.curvature.push_back(row[3]);
        ASSERT_EQ(row[4], 7);
      }
      same(got.normals, want.normals);
      same(got.curvature, want.curvature);
    }
  }
  double room[900];
  const auto refuse = [&](const DatasetView& built_from, const char* part) {
    const NormalsView view{room, nullptr, 300, 3};
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { tree.normals_into(view, {9}, {}, {}, built_from); }), part));
  };
  refuse(rows.view().slice(0, 299), "[299, 3]");
  refuse(Rows(data, Dtype::f64).view(), "of f64");
  data.values[450] += 1;
  refuse(Rows(data, Dtype::f32).view(), "not those that it was built from");
  NormalsView narrow{room, nullptr, 300, 3};
  narrow.stride = 2;
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { tree.normals_into(narrow, {9}); }), "a stride of 2"));
  const auto expect = [&](const NormalsView& view, const char* part) {
    EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { tree.normals_into(view, {9}); }), part));
  };
  expect({room, nullptr, 299, 3}, "[299, 3]");
  expect({room, nullptr, 300, 2}, "[300, 2]");
  expect({nullptr, nullptr, 300, 3}, "null pointer");
  expect({room, nullptr, 300, 3, MemorySpace::cuda, 0}, "the search is to run on the CPU");
}

template <int dim>
void check_eigenvector(Random& random) {
  double a[dim][dim];
  for (int i = 0; i < dim; ++i) {
    for (int j = i; j < dim; ++j) a[i][j] = a[j][i] = random.normal();
  }
  double rotated[dim][dim];
  std::copy_n(&a[0][0], dim * dim, &rotated[0][0]);
  double vector[dim];
  double values[dim];
  point_tree::smallest_eigenvector<dim>(rotated, vector, values);
  double norm = 0;
  for (int i = 0; i < dim; ++i) {
    double product = 0;
    for (int j = 0; j < dim; ++j) product += a[i][j] * vector[j];
    EXPECT_NEAR(product, values[0] * vector[i], 1e-12);
    norm += vector[i] * vector[i];
  }
  EXPECT_NEAR(norm, 1, 1e-12);
  EXPECT_TRUE(std::is_sorted(values, values + dim));
}

TEST(PointTree, EigenvectorsOfSmallMatrices) {
  double diagonal[3][3] = {{3, 0, 0}, {0, 1, 0}, {0, 0, 2}};
  double vector[3];
  double values[3];
  point_tree::smallest_eigenvector<3>(diagonal, vector, values);
  EXPECT_EQ(std::fabs(vector[1]), 1);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[2], 3);
  Random random(6);
  for (int trial = 0; trial < 100; ++trial) {
    check_eigenvector<2>(random);
    check_eigenvector<3>(random);
  }
}

// Of planes and lines of points the least variances are many magnitudes below the largest.
TEST(PointTree, EigenvectorsOfGradedMatrices) {
  double vector[3];
  double values[3];
  for (const double tiny : {1e-12, 1e-40, 1e-81, 1e-120, 1e-162, 1e-250}) {
    double a[3][3] = {{1, 0, 0}, {0, 2 * tiny, tiny}, {0, tiny, 2 * tiny}};
    point_tree::smallest_eigenvector<3>(a, vector, values);
    EXPECT_NEAR(values[0] / tiny, 1, 1e-14) << tiny;
    EXPECT_NEAR(values[1] / tiny, 3, 1e-14) << tiny;
    EXPECT_NEAR(std::fabs(vector[1]), std::sqrt(0.5), 1e-14) << tiny;
    EXPECT_NEAR(vector[1], -vector[2], 1e-14) << tiny;
    EXPECT_EQ(values[2], 1);
  }
  // [1, g; g, g^2 (1 + e)]: the least value is g^2 e, in relative terms, too.
  const double g = 0x1p-20;
  const double e = 0x1p-10;
  double b[2][2] = {{1, g}, {g, g * g * (1 + e)}};
  double two[2];
  double least[2];
  point_tree::smallest_eigenvector<2>(b, two, least);
  EXPECT_NEAR(least[0] / (g * g * e), 1, 1e-9);
  EXPECT_NEAR(two[0], -g * two[1], 1e-9);
}

// However small or large the coordinates, a plane is a plane.
TEST(PointTree, NormalsOfPlanesOfAnyScale) {
  for (const double scale : {1e-160, 1e-157, 1e-100, 1e-20, 1e20, 1e150}) {
    Random random(53);
    Matrix data{60, 3, {}};
    for (int i = 0; i < 60; ++i) {
      const double u = random.normal();
      const double v = random.normal();
      data.values.insert(data.values.end(), {scale * u, scale * v, scale * (u - v)});
    }
    const Rows rows(data, Dtype::f64);
    const Normals found = Octree::build(rows.view()).normals({60});
    for (std::size_t i = 0; i < 180; i += 3) {
      ASSERT_NEAR(std::fabs(found.normals[i]), std::sqrt(1.0 / 3), 1e-3) << scale;
      ASSERT_NEAR(found.normals[i], -found.normals[i + 1], 1e-3) << scale;
    }
  }
}

TEST(PointTree, OutliersAreTheFarOnes) {
  Random random(61);
  Matrix data{1000, 2, std::vector<double>(2000)};
  for (double& v : data.values) v = random.uniform();
  data.row(7)[0] = 9;
  data.row(8)[1] = -7;
  data.row(9)[0] = nan;
  const Rows rows(data, Dtype::f64);
  const Octree tree = Octree::build(rows.view(), {Metric::euclidean});
  const Outliers found = tree.outliers({6}, 3);
  for (std::size_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(found.outlier[i], !(found.mean_distance[i] <= found.threshold)) << i;
  }
  EXPECT_TRUE(found.outlier[7] && found.outlier[8] && found.outlier[9]);
  EXPECT_LE(std::count(found.outlier.begin(), found.outlier.end(), true), 6);
  const Neighbors near = tree.all_knn(6);
  double mean = 0;
  for (std::int64_t j = 0; j < 6; ++j) mean += near.distance(20, j) / 6;
  EXPECT_NEAR(found.mean_distance[20], mean, 1e-15);
  EXPECT_NEAR(found.threshold, found.mean + 3 * found.deviation, 1e-15);
  EXPECT_THROW((void)tree.outliers({6}, -1), InvalidArgument);
}

TEST(PointTree, DensityIsRowsAVolume) {
  Matrix data{1000, 3, {}};
  for (int i = 0; i < 1000; ++i) {
    data.values.insert(data.values.end(), {double(i % 10), double(i / 10 % 10), double(i / 100)});
  }
  const Rows rows(data, Dtype::f32);
  const double ball = 4.0 / 3 * 3.14159265358979323846;
  const std::size_t inner = 555;
  // Seven points of the grid within 1, itself included; squared radii for the squared metric.
  EXPECT_NEAR(KdTree::build(rows.view(), {Metric::euclidean}).density({0, 1.0})[inner], 7 / ball, 1e-12);
  EXPECT_NEAR(KdTree::build(rows.view()).density({0, 2.0})[inner], 19 / (ball * std::pow(2.0, 1.5)), 1e-12);
  EXPECT_NEAR(KdTree::build(rows.view()).density({6})[inner], 6 / ball, 1e-12);
}

TEST(PointTree, BadArgumentsAreRefusedWithTheirValue) {
  const Matrix data = cloud(50, 3, 71, false);
  const Rows rows(data, Dtype::f32);
  const auto expect = [](auto call, const std::string& part) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown; expected '" << part << "'";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const KdTree tree = KdTree::build(rows.view());
  expect([&] { (void)KdTree::build(rows.view(), {Metric::cosine}); }, "cosine");
  expect([&] { (void)KdTree::build(rows.view(), {Metric::sqeuclidean, -1}); }, "-1");
  expect([&] { (void)KdTree::build(rows.view(), {Metric::sqeuclidean, 4097}); }, "4097");
  expect([&] { (void)tree.search(rows.view(), 0); }, "k is 0");
  expect([&] { (void)tree.search(rows.view(), 1, {}, -2); }, "-2");
  expect([&] { (void)tree.radius_search(rows.view(), nan); }, "nan");
  expect([&] { (void)tree.radius_search(rows.view(), 1, {true, -3}); }, "-3");
  const Rows flat(cloud(4, 2, 72, false), Dtype::f32);
  expect([&] { (void)tree.search(flat.view(), 1); }, "dimension 2");
  const Rows wide(cloud(4, 4, 73, false), Dtype::f32);
  expect([&] { (void)Octree::build(wide.view()); }, "dimension 2 or 3");
  const Rows other(cloud(4, 3, 74, false), Dtype::f64);
  expect([&] { (void)tree.search(other.view(), 1); }, "f64");
  Execution cuda;
  cuda.devices = {Device{Device::Kind::cuda, 0}};
  if (gpus() == 0) {
    expect([&] { (void)KdTree::build(rows.view(), {}, cuda); }, "cuda");
    expect([&] { (void)tree.all_knn(1, false, cuda); }, "cuda");
  }
  Execution both;
  both.devices = {Device{}, Device{Device::Kind::cuda, 0}};
  expect([&] { (void)tree.all_knn(1, false, both); }, "not on both");
  DatasetView there = rows.view();
  there.space = MemorySpace::cuda;
  expect([&] { (void)tree.search(there, 1); }, "cuda:0 but the search is to run on the CPU");
  NeighborsView out{nullptr, nullptr, 50, 1};
  expect([&] { (void)tree.all_knn_into(out); }, "null pointer");
  std::int64_t cell = 0;
  out = {&cell, &cell, 49, 1};
  expect([&] { (void)tree.all_knn_into(out); }, "room for 49 queries, the call has 50");
  out = {&cell, &cell, 50, 0};
  expect([&] { (void)tree.all_knn_into(out); }, "k is 0");
  out = {&cell, &cell, 50, 1, MemorySpace::cuda};
  expect([&] { (void)tree.all_knn_into(out); }, "cannot leave its answer in GPU memory");
  expect([&] { (void)tree.search_into(rows.view(), out); }, "cannot leave its answer in GPU memory");
  Execution small;
  small.memory_limit = 64;
  expect([&] { (void)KdTree::build(rows.view(), {}, small); }, "64");
  expect([&] { (void)tree.all_knn(5, false, small); }, "64");
  expect([&] { (void)tree.radius_search(rows.view(), infinity, {}, small); }, "64");
  expect([&] { (void)tree.count_within(rows.view(), infinity, small); }, "64");
  expect([&] { (void)tree.normals({3}, {}, small); }, "64");
  expect([&] { (void)tree.outliers({3}, 2, small); }, "64");
  expect([&] { (void)tree.density({3}, small); }, "64");
}

TEST(PointTree, AnswersIntoTheCallersMemory) {
  const Matrix data = cloud(200, 3, 75);
  const Rows rows(data, Dtype::f32);
  const KdTree tree = KdTree::build(rows.view());
  std::vector<std::int64_t> indices(200 * 4, 77);
  std::vector<float> distances(200 * 4, 77);
  const NeighborsView out{indices.data(), distances.data(), 200, 4};
  for (const double radius : {infinity, 0.05}) {
    for (const bool include_self : {false, true}) {
      const Neighbors want = tree.all_knn(4, include_self, {}, radius);
      (void)tree.all_knn_into(out, include_self, {}, radius);
      EXPECT_EQ(indices, want.indices);
      EXPECT_EQ(distances, std::get<0>(want.distances));
    }
    const Neighbors want = tree.search(rows.view(), 4, {}, radius);
    (void)tree.search_into(rows.view(), out, {}, radius);
    EXPECT_EQ(indices, want.indices);
    EXPECT_EQ(distances, std::get<0>(want.distances));
  }
}

TEST(PointTree, CancelStopsBuildAndSearch) {
  const Matrix data = cloud(60'000, 3, 81);
  const Rows rows(data, Dtype::f32);
  Execution stopped;
  stopped.cancelled = [] { return true; };
  EXPECT_THROW((void)KdTree::build(rows.view(), {}, stopped), Cancelled);
  EXPECT_THROW((void)Octree::build(rows.view(), {}, stopped), Cancelled);
  const KdTree tree = KdTree::build(rows.view());
  EXPECT_THROW((void)tree.all_knn(3, false, stopped), Cancelled);
  EXPECT_THROW((void)tree.radius_search(rows.view(), 0.1, {}, stopped), Cancelled);
  std::int64_t last = 0;
  std::int64_t total = 0;
  Execution watched;
  watched.progress = [&](const Progress& p) {
    EXPECT_GE(p.done, last);
    last = p.done;
    total = p.total;
  };
  (void)tree.all_knn(3, false, watched);
  EXPECT_EQ(last, total);
}

// Every byte of a small file changed in turn: refused, or, where the change is in a coordinate's padding or
// the like, harmless. Sections are checksummed, so a changed byte in them is always seen.
TEST(PointTree, DamagedFilesAreRefused) {
  const Matrix data = cloud(90, 3, 91);
  const Rows rows(data, Dtype::f32);
  const test::TemporaryFolder folder;
  const auto path = folder / "t.kith";
  KdTree::build(rows.view(), {Metric::sqeuclidean, 4}).save(path);
  EXPECT_THROW((void)Octree::load(path), IoError);
  const std::string bytes = test::read_file(path);
  for (std::size_t i = 0; i < bytes.size(); i += 97) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x41);
    std::ofstream(folder / "bad.kith", std::ios::binary) << changed;
    try {
      const KdTree tree = KdTree::load(folder / "bad.kith");
      EXPECT_EQ(tree.rows(), 90);
      EXPECT_EQ(tree.all_knn(3).indices, KdTree::load(path).all_knn(3).indices) << "byte " << i;
    } catch (const IoError&) {
    }
  }
  std::ofstream(folder / "short.kith", std::ios::binary) << bytes.substr(0, bytes.size() - 100);
  EXPECT_THROW((void)KdTree::load(folder / "short.kith"), IoError);
}

// A file whose checksums are right and whose points are not: one row twice, another not at all.
TEST(PointTree, FilesWithARowTwiceAreRefused) {
  const Matrix data = cloud(90, 3, 91);
  const Rows rows(data, Dtype::f32);
  const test::TemporaryFolder folder;
  const auto path = folder / "t.kith";
  KdTree::build(rows.view()).save(path);
  static constexpr point_tree::TreeType type = {.index = KdTree::index_type.name};
  point_tree::Tree tree = *point_tree::load(path, type);
  std::vector<std::byte> numbers(tree.row_numbers.begin(), tree.row_numbers.end());
  std::copy_n(numbers.begin(), sizeof(std::uint32_t), numbers.begin() + 5 * sizeof(std::uint32_t));
  tree.row_numbers = numbers;
  point_tree::save(tree, path, {});
  EXPECT_TRUE(contains(message_of<IoError>([&] { (void)KdTree::load(path); }), "is there twice"));
}

TEST(PointTree, EmptyAndTinyTrees) {
  const std::vector<float> values = {1, 2, 3};
  for (const std::int64_t n : {0, 1}) {
    const DatasetView rows(values.data(), n, 3);
    const DatasetView query(values.data(), 1, 3);
    const KdTree tree = KdTree::build(rows);
    const Neighbors found = tree.search(query, 2);
    EXPECT_EQ(found.indices, (std::vector<std::int64_t>{n == 1 ? 0 : -1, -1}));
    EXPECT_EQ(tree.all_knn(2).indices, std::vector<std::int64_t>(static_cast<std::size_t>(2 * n), -1));
    EXPECT_EQ(tree.radius_search(query, 1).indices.size(), static_cast<std::size_t>(n));
    EXPECT_EQ(tree.count_within(query, 1)[0], n);
    EXPECT_EQ(tree.density({1}).size(), static_cast<std::size_t>(n));
  }
}

}  // namespace
}  // namespace kith
