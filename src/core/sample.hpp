// Row numbers that stand for all of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace kith {

/// At most `count` ascending rows of `rows`, one at a pseudo-random place in each of `count` equal parts:
/// spread like a stride, but blind to periods in the data. The same rows every time (splitmix64, Steele et
/// al. 2014).
inline std::vector<std::int64_t> sample_rows(std::int64_t rows, std::int64_t count) {
  std::vector<std::int64_t> sample(static_cast<std::size_t>(std::min(rows, count)));
  const auto parts = static_cast<std::int64_t>(sample.size());
  for (std::int64_t i = 0; i < parts; ++i) {
    std::uint64_t z = (static_cast<std::uint64_t>(i) + 1) * 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    z ^= z >> 31U;
    const std::int64_t part = rows / parts;  // the last part also holds the remainder
    const std::int64_t wide = i + 1 == parts ? rows - part * i : part;
    sample[static_cast<std::size_t>(i)] =
        part * i + static_cast<std::int64_t>(z % static_cast<std::uint64_t>(wide));
  }
  return sample;
}

}  // namespace kith
