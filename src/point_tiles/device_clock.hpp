// How long devices have had something to do.
#pragma once

#include <chrono>
#include <map>
#include <mutex>

#include "kith/execution.hpp"

namespace kith::point_tiles {

/// Counts the time in which some call was under way on a device, its copies and waits included: no device has
/// worked longer than that. Any thread may call.
class DeviceClock {
 public:
  /// A call on a device, for as long as it lives. Of the CPU nothing is counted.
  class Busy {
   public:
    Busy(DeviceClock& clock, const Device& device) : clock_(clock), device_(device) {
      clock_.add(device_, 1);
    }
    ~Busy() { clock_.add(device_, -1); }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    DeviceClock& clock_;
    Device device_;
  };

  /// Of all devices together.
  double seconds() const {
    const std::scoped_lock lock(mutex_);
    return seconds_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Calls {
    int count = 0;
    Clock::time_point since;
  };
  void add(const Device& device, int change) {
    if (device.kind == Device::Kind::cpu) return;
    const std::scoped_lock lock(mutex_);
    Calls& calls = calls_[device.ordinal];
    const Clock::time_point now = Clock::now();
    if (calls.count == 0) calls.since = now;
    calls.count += change;
    if (calls.count == 0) seconds_ += std::chrono::duration<double>(now - calls.since).count();
  }

  mutable std::mutex mutex_;
  std::map<int, Calls> calls_;
  double seconds_ = 0;
};

}  // namespace kith::point_tiles
