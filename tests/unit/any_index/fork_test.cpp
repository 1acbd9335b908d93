// Indexes in forked processes: built and searched there, or inherited, with the parent's bits.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "kith/any_index.hpp"
#include "kith/generate.hpp"
#include "kith/io.hpp"
#include "kith/kd_tree.hpp"
#include "support/files.hpp"
#include "support/forked.hpp"
#include "support/threads.hpp"

namespace kith {
namespace {

#if !defined(__SANITIZE_THREAD__)  // which ends a forked process that starts threads

using test::in_child;
using test::with_threads;

// Enough rows for builds by several threads, some of them equal.
Dataset points(std::int64_t rows = 40'000) {
  GenerateParameters parameters;
  parameters.generator = Generator::clusters;
  parameters.rows = rows;
  parameters.dim = 3;
  return generate(parameters, with_threads(4));
}

bool same_bits(const Neighbors& a, const Neighbors& b) {
  return a.indices == b.indices && a.distances == b.distances;
}

// Threads that build and search as long as this lives.
class Busy {
 public:
  explicit Busy(const Dataset& data) {
    for (int t = 0; t < 3; ++t) {
      threads_.emplace_back([this, &data, t] {
        const char* const types[] = {"brute_force", "kd_tree", "octree"};
        while (!stop_) {
          const auto index = AnyIndex::build(types[t], data, {}, with_threads(5));
          (void)index.search(data.view().slice(0, 100), 3, with_threads(5));
        }
      });
    }
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

class ForkedIndex : public testing::TestWithParam<std::string> {
 protected:
  // Whether a child of this process finds the parent's bits, in its index and in one of its own.
  int child() {
    return in_child([&] {
      const AnyIndex built = AnyIndex::build(GetParam(), data_, {}, with_threads(4));
      return same_bits(index_.search(queries_, 7, with_threads(4)), expected_) &&
             same_bits(built.search(queries_, 7, with_threads(4)), expected_);
    });
  }

  // A graph takes some hundred times a tree's time.
  const Dataset data_ = points(Indexes::get(GetParam()).guarantee == Guarantee::exact ? 40'000 : 2000);
  const DatasetView queries_ = data_.view().slice(100, 300);
  const AnyIndex index_ = AnyIndex::build(GetParam(), data_, {}, with_threads(4));
  const Neighbors expected_ = index_.search(queries_, 7, with_threads(4));
};

TEST_P(ForkedIndex, IsBuiltAndSearchedInChildren) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(child(), 0);  // threads have been at work
}

TEST_P(ForkedIndex, IsBuiltAndSearchedInChildrenWhileThreadsAreAtWork) {
  if (!test::forks_among_threads) GTEST_SKIP() << "AddressSanitizer's locks do not survive this fork";
  const Busy busy(data_);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(child(), 0);
}

INSTANTIATE_TEST_SUITE_P(Every, ForkedIndex, testing::ValuesIn(index_types()),
                         [](const auto& each) { return each.param; });

TEST(ForkedTree, HasItsOtherQueriesInChildren) {
  const Dataset data = points();
  const KdTree tree = KdTree::build(data, {}, with_threads(4));
  const DatasetView queries = data.view().slice(0, 2000);
  const auto near = tree.radius_search(queries, 0.02, {}, with_threads(4));
  const Neighbors all = tree.all_knn(4, {}, with_threads(4));
  for (int child = 0; child < 4; ++child) {
    EXPECT_EQ(in_child([&] {
                const auto again = tree.radius_search(queries, 0.02, {}, with_threads(4));
                return again.indices == near.indices && again.offsets == near.offsets &&
                       same_bits(tree.all_knn(4, {}, with_threads(4)), all);
              }),
              0);
  }
}

TEST(ForkedGenerator, MakesTheSameRows) {
  const Dataset data = points();
  EXPECT_EQ(in_child([&] {
              const Dataset again = points();
              return std::memcmp(data.view().data, again.view().data,
                                 static_cast<std::size_t>(data.rows()) * 3 * 4) == 0;
            }),
            0);
}

TEST(ForkedReader, ReadsHdf5WhileAThreadWritesIt) {
  if (!test::forks_among_threads) GTEST_SKIP() << "AddressSanitizer's locks do not survive this fork";
  const test::TemporaryFolder folder;
  const Dataset data = points();
  write_dataset(folder / "a.h5", data);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) write_dataset(folder / "b.h5", data);
  });
  for (int child = 0; child < 20; ++child) {
    EXPECT_EQ(in_child([&] { return read_dataset(folder / "a.h5").rows() == data.rows(); }), 0);
    EXPECT_EQ(read_dataset(folder / "a.h5").rows(), data.rows());  // by a helper process
  }
  stop = true;
  writer.join();
}

#endif

}  // namespace
}  // namespace kith
