// How many leading directions codes have while a test wants it so.
#pragma once

#include <cstdint>
#include <optional>

#include "brute_force/directions.hpp"

namespace kith::test {

/// Indexes that are built meanwhile have codes along so many; 0: of all values.
struct ForcedDirections {
  explicit ForcedDirections(std::int64_t count) { brute_force::force_directions(count); }
  ForcedDirections(const ForcedDirections&) = delete;
  ForcedDirections& operator=(const ForcedDirections&) = delete;
  ~ForcedDirections() { brute_force::force_directions(std::nullopt); }
};

}  // namespace kith::test
