// Calls on a number of threads, with so much memory.
#pragma once

#include <cstdint>

#include "kith/execution.hpp"

namespace kith::test {

inline Execution with_threads(int threads, std::uint64_t memory_limit = 0) {
  Execution execution;
  execution.threads = threads;
  execution.memory_limit = memory_limit;
  return execution;
}

}  // namespace kith::test
