// Sorts a vector on several threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include <oneapi/tbb/parallel_sort.h>

#include "core/fork.hpp"
#include "core/parallel.hpp"

namespace kith {

/// Sorts by operator<, on `threads` threads; equal values may change places.
template <class Value>
void parallel_sort(int threads, std::vector<Value>& values) {
  if (threads == 1) {
    std::sort(values.begin(), values.end());
    return;
  }
  if (!forked()) {
    in_arena(threads, [&] { tbb::parallel_sort(values.begin(), values.end()); });
    return;
  }
  // Runs, one a thread, then merged two and two.
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t run = std::max<std::int64_t>(1024, (count + threads - 1) / threads);
  const auto at = [&](std::int64_t i) { return std::next(values.begin(), std::min(i, count)); };
  parallel_for(threads, (count + run - 1) / run,
               [&](std::int64_t r) { std::sort(at(r * run), at((r + 1) * run)); });
  for (std::int64_t width = run; width < count; width *= 2) {
    parallel_for(threads, (count + 2 * width - 1) / (2 * width), [&](std::int64_t m) {
      const std::int64_t begin = 2 * width * m;
      std::inplace_merge(at(begin), at(begin + width), at(begin + 2 * width));
    });
  }
}

}  // namespace kith
