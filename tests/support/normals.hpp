// Normally distributed values.
#pragma once

#include <cstdint>
#include <vector>

#include "conformance/problem.hpp"

namespace kith::test {

inline std::vector<double> normals(std::int64_t count, conformance::Random& random) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = random.normal();
  return values;
}

}  // namespace kith::test
