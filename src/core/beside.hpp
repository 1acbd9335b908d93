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

/// Pieces of work on a thread of their own, each begun when the one before has ended; the caller goes on
/// meanwhile. The last member of its owner, so that what it works with outlives it.
class OneBehind {
 public:
  /// @throws what the piece before has thrown
  template <class Work>
  void begin(Work work) {
    wait();
    last_ = beside(std::move(work));
  }
  void wait() {
    if (last_.valid()) last_.get();
  }
  /// Nothing is under way any more; wait() still throws what came of it.
  void rest() const noexcept {
    if (last_.valid()) last_.wait();
  }

 private:
  std::future<void> last_;
};

}  // namespace kith
