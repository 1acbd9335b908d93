// How long something takes when nothing comes between.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/parallel.hpp"
#include "kith/execution.hpp"

namespace kith {

/// The least of a few runs of `work` in seconds, after one that warms up: as many as fill 50 ms, from three
/// to a thousand. @throws Cancelled between two
template <class Work>
double shortest(const Execution& execution, const Work& work) {
  using Clock = std::chrono::steady_clock;
  constexpr int fewest = 3;
  constexpr int most = 1000;
  constexpr double enough = 0.05;
  StopRequest stop(execution);
  work();
  double least = std::numeric_limits<double>::infinity();
  double spent = 0;
  for (int i = 0; i < fewest || (i < most && spent < enough); ++i) {
    stop.check();
    const auto started = Clock::now();
    work();
    const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
    least = std::min(least, seconds);
    spent += seconds;
  }
  return least;
}

}  // namespace kith
