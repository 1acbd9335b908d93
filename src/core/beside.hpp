// Work that another thread does meanwhile.
#pragma once

#include <future>
#include <system_error>
#include <type_traits>
#include <utility>

namespace kith {

/// Begins work on a thread of its own; where there is none to be had, it is done when somebody asks for it.
/// The future waits for the work when it goes.
template <class Work>
std::future<std::invoke_result_t<Work>> beside(Work work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, std::move(work));
  }
}

}  // namespace kith
