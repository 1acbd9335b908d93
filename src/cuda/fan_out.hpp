// The same work on several devices at once.
#pragma once

#include <cstddef>
#include <exception>
#include <future>
#include <vector>

namespace kith::cuda {

/// Runs f(0), ..., f(count - 1) side by side, each on a thread of its own but the first, which is the
/// caller's; when all are over, the first failure is thrown.
template <class F>
void for_each_device(std::size_t count, F&& f) {
  std::vector<std::future<void>> running;
  for (std::size_t i = 1; i < count; ++i)
    running.push_back(std::async(std::launch::async, [&f, i] { f(i); }));
  std::exception_ptr failure;
  try {
    f(std::size_t{0});
  } catch (...) {
    failure = std::current_exception();
  }
  for (auto& one : running) {
    try {
      one.get();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace kith::cuda
