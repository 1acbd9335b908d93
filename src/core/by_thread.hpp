// A value for each thread that asks for one.
#pragma once

#include <map>
#include <mutex>
#include <thread>

namespace kith {

/// Values are made when a thread first asks and live as long as this does. Asking takes a lock: do so for
/// thousands of rows at a time. (oneTBB has such a type, too, but its allocator does not survive a fork.)
template <class Value>
class ByThread {
 public:
  Value& local() {
    const std::scoped_lock lock(mutex_);
    return values_[std::this_thread::get_id()];
  }

  /// Destroys all values, which no thread uses any more.
  void clear() {
    const std::scoped_lock lock(mutex_);
    values_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<std::thread::id, Value> values_;
};

}  // namespace kith
