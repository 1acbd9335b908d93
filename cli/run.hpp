// Work under a progress bar that Ctrl-C can stop.
#pragma once

#include <utility>

#include "common.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "progress.hpp"

namespace kith::cli {

/// Runs `work(execution)` with a progress bar and cancellation. @throws Cancelled when a signal arrived
template <class Work>
auto run_cancellable(const Common& common, Execution execution, Work&& work) {
  ProgressBar bar(common);
  execution.progress = bar.callback();
  const CancellableScope scope;
  auto result = std::forward<Work>(work)(execution);
  stop_if_interrupted();
  return result;
}

}  // namespace kith::cli
