// Loops on threads of Kith's own, for processes in which oneTBB cannot run (fork.hpp).
#pragma once

#include <cstdint>
#include <functional>

namespace kith::own_threads {

/// Runs body(i) for i in [0, count) on the calling thread and up to `threads` - 1 others; the first exception
/// stops the rest and is rethrown. Loops may be nested, and run at once from several threads.
void run(int threads, std::int64_t count, const std::function<void(std::int64_t)>& body);

}  // namespace kith::own_threads
