// Answers that must be the same bits.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kith/neighbors.hpp"

namespace kith::test {

/// The suite goes on only where they are: look at HasFatalFailure().
inline void expect_same(const Neighbors& found, const Neighbors& expected, const std::string& what) {
  ASSERT_EQ(found.indices, expected.indices) << what;
  ASSERT_EQ(found.distances, expected.distances) << what;
}

}  // namespace kith::test
