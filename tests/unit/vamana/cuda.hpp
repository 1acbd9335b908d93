// What tests of graphs on a GPU share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "kith/vamana.hpp"
#include "support/gpu_test.hpp"
#include "support/gpus.hpp"

namespace kith::test {

inline void expect_same(const Neighbors& a, const Neighbors& b, const std::string& where) {
  EXPECT_EQ(a.indices, b.indices) << where;
  EXPECT_TRUE(a.distances == b.distances) << where;
}

/// Of a suite that needs a GPU.
class OnGpu : public GpuTest {
 protected:
  static void compare(const Vamana& index, const DatasetView& queries, std::int64_t k,
                      const SearchOptions& options, const std::string& where) {
    const Neighbors wanted = index.search(queries, k, {}, options);
    const Neighbors found = index.search(queries, k, on_gpu(), options);
    expect_same(found, wanted, where);
    EXPECT_EQ(found.statistics.hops, wanted.statistics.hops) << where;
    EXPECT_EQ(found.statistics.candidates, wanted.statistics.candidates) << where;
    EXPECT_EQ(found.statistics.nan_queries, wanted.statistics.nan_queries) << where;
    EXPECT_TRUE(found.statistics.instruction_set.starts_with("cuda")) << where;
  }
};

}  // namespace kith::test
