// Calls on a number of threads.
#pragma once

#include "kith/execution.hpp"

namespace kith::test {

inline Execution with_threads(int threads) {
  Execution execution;
  execution.threads = threads;
  return execution;
}

}  // namespace kith::test
