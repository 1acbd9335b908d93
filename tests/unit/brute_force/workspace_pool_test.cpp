// Workspaces between searches, without a device.
#ifdef KITH_CUDA_ENABLED
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "cuda/workspace_pool.hpp"

namespace kith::cuda {
namespace {

struct Workspace {
  explicit Workspace(int ordinal) : device(ordinal) {}
  int device;
  cudaStream_t stream = nullptr;
  int searches = 0;
};

TEST(WorkspacePool, GivesTheLastOfADeviceAgain) {
  WorkspacePool<Workspace> pool;
  std::unique_ptr<Workspace> first = pool.take(0);
  std::unique_ptr<Workspace> second = pool.take(0);
  std::unique_ptr<Workspace> other = pool.take(1);
  EXPECT_EQ(first->device, 0);
  EXPECT_EQ(other->device, 1);
  const Workspace* const last = second.get();
  const Workspace* const elsewhere = other.get();
  pool.give(std::move(first));
  pool.give(std::move(second));
  pool.give(std::move(other));
  EXPECT_EQ(pool.take(0).get(), last);
  EXPECT_EQ(pool.take(1).get(), elsewhere);
}

TEST(WorkspacePool, KeepsNoMoreThanItMay) {
  WorkspacePool<Workspace> pool(1);
  std::unique_ptr<Workspace> first = pool.take(0);
  std::unique_ptr<Workspace> second = pool.take(0);
  const Workspace* const kept = first.get();
  pool.give(std::move(first));
  pool.give(std::move(second));
  const std::unique_ptr<Workspace> again = pool.take(0);
  EXPECT_EQ(again.get(), kept);
  EXPECT_NE(pool.take(0).get(), kept);
}

TEST(WorkspacePool, OneThatIsBorrowedComesBackWhenItIsDone) {
  WorkspacePool<Workspace> pool;
  {
    Borrowed<Workspace> borrowed(pool, 0);
    borrowed->searches = 1;
    borrowed.done();
  }
  EXPECT_EQ(pool.take(0)->searches, 1);
}

}  // namespace
}  // namespace kith::cuda
#endif
