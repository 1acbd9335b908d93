// Suites that need a GPU.
#pragma once

#include <gtest/gtest.h>

#include "support/gpus.hpp"

namespace kith::test {

/// Skipped where there is none.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpus() == 0) GTEST_SKIP() << "no usable CUDA device here";
  }
};

}  // namespace kith::test
