// Work on threads of its own: one piece after the other, and what it throws.
#include "core/beside.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace kith {
namespace {

TEST(OneBehind, PiecesFollowEachOther) {
  std::vector<int> done;  // no lock: a piece ends before the next begins
  std::atomic<bool> go{false};
  OneBehind work;
  work.begin([&] {
    go.wait(false);
    done.push_back(0);
  });
  EXPECT_FALSE(go.load()) << "the caller goes on meanwhile";
  go = true;
  go.notify_all();
  for (int i = 1; i < 50; ++i) work.begin([&done, i] { done.push_back(i); });
  work.wait();
  work.wait();  // nothing is left
  ASSERT_EQ(done.size(), 50U);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
}

TEST(OneBehind, WhatAPieceThrowsComesWithTheNext) {
  OneBehind work;
  bool begun = false;
  work.begin([] { throw std::runtime_error("disk full"); });
  try {
    work.begin([&] { begun = true; });
    ADD_FAILURE() << "the error is lost";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "disk full");
  }
  work.wait();
  EXPECT_FALSE(begun);
  work.begin([] { throw std::runtime_error("once more"); });
  EXPECT_THROW(work.wait(), std::runtime_error);
}

}  // namespace
}  // namespace kith
