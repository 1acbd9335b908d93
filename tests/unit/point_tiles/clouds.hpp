// Clouds that tiles might stumble over, and the answer in memory to compare with.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "conformance/problem.hpp"
#include "kith/io.hpp"
#include "kith/kd_tree.hpp"
#include "kith/point_tiles.hpp"
#include "support/files.hpp"
#include "support/sanitizers.hpp"

namespace kith::test {

enum class Cloud : std::uint8_t {
  uniform,
  surface,
  equal,
  line,
  dense_tile,
  lattice,
  nan_rows,
  infinite,
  huge,
  missing
};

inline const char* name(Cloud cloud) {
  switch (cloud) {
    case Cloud::uniform: return "uniform";
    case Cloud::surface: return "surface";
    case Cloud::equal: return "equal";
    case Cloud::line: return "line";
    case Cloud::dense_tile: return "dense_tile";
    case Cloud::lattice: return "lattice";
    case Cloud::nan_rows: return "nan_rows";
    case Cloud::infinite: return "infinite";
    case Cloud::huge: return "huge";
    case Cloud::missing: return "missing";
  }
  return "";
}

template <class T>
std::vector<T> make_cloud(Cloud cloud, std::int64_t rows, std::int64_t dim, std::uint64_t seed) {
  conformance::Random random(seed);
  std::vector<T> values;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < dim; ++j) {
      const double u = static_cast<double>(random.below(1 << 20)) / (1 << 20);
      double value = u;
      switch (cloud) {
        case Cloud::uniform: break;
        case Cloud::surface: value = j == dim - 1 ? 0.05 * u : 100 * u; break;
        case Cloud::equal: value = 0.25; break;
        case Cloud::line: value = j == 0 ? u : 3; break;
        case Cloud::dense_tile: value = i % 10 == 0 ? 1000 * u : 500 + 1e-3 * u; break;
        // Ties without number, also across the borders of tiles.
        case Cloud::lattice: value = static_cast<double>(random.below(6)); break;
        case Cloud::nan_rows:
          value = random.below(9) == 0 ? std::numeric_limits<double>::quiet_NaN() : u;
          break;
        case Cloud::infinite:
          value = random.below(40) == 0
                      ? (random.below(2) == 0 ? 1 : -1) * std::numeric_limits<double>::infinity()
                      : u;
          break;
        // Where a scanner sees nothing it writes the origin.
        case Cloud::missing: value = i % 2 == 0 ? 0 : 100 * u - 50; break;
        case Cloud::huge: value = (u - 0.5) * (sizeof(T) == 4 ? 3e38 : 1.7e308); break;
      }
      values.push_back(static_cast<T>(value));
    }
  }
  return values;
}

/// A cloud of points of one kind.
struct CloudCase {
  Cloud cloud;
  std::int64_t dim;
  bool doubles;
};

inline std::string label(const testing::TestParamInfo<CloudCase>& info) {
  return std::string(name(info.param.cloud)) + "_" + std::to_string(info.param.dim) + "d_" +
         (info.param.doubles ? "f64" : "f32");
}

inline std::vector<CloudCase> cloud_cases() {
  std::vector<CloudCase> list;
  for (const Cloud cloud : {Cloud::uniform, Cloud::surface, Cloud::equal, Cloud::line, Cloud::dense_tile,
                            Cloud::lattice, Cloud::nan_rows, Cloud::infinite, Cloud::huge, Cloud::missing}) {
    for (const std::int64_t dim : {2, 3}) {
      for (const bool doubles : {false, true}) {
        // The reduced suite has every kind in either dimension, in one of the types.
        const bool other = doubles != ((static_cast<int>(cloud) + dim) % 2 == 0);
        if (!reduced() || !other) list.push_back({cloud, dim, doubles});
      }
    }
  }
  return list;
}

/// The same bits, so that -0 is not 0 and an infinity is itself.
template <class T>
testing::AssertionResult same_lists(const Neighbors& expected, const std::vector<std::int64_t>& rows,
                                    const std::vector<T>& distances) {
  const auto held = expected.distances_as<T>();
  if (expected.indices.size() != rows.size() || held.size() != distances.size()) {
    return testing::AssertionFailure() << rows.size() << " rows, " << expected.indices.size() << " are right";
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == expected.indices[i] && std::memcmp(&held[i], &distances[i], sizeof(T)) == 0) continue;
    return testing::AssertionFailure()
           << "query " << i / static_cast<std::size_t>(expected.k) << ", rank "
           << i % static_cast<std::size_t>(expected.k) << ": row " << rows[i] << " at " << distances[i]
           << ", right is " << expected.indices[i] << " at " << held[i];
  }
  return testing::AssertionSuccess();
}

template <class T>
testing::AssertionResult same(const Neighbors& expected, const Neighbors& found) {
  const auto held = found.distances_as<T>();
  return same_lists(expected, found.indices, std::vector<T>(held.begin(), held.end()));
}

}  // namespace kith::test
