// When work is to be made safe on the disk: often enough that little is done again, seldom enough that it
// costs little.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {

class Pacer {
 public:
  /// Tests make everything safe at once, so that small clouds are interrupted in many states.
  inline static std::atomic<bool> always{false};

  bool due() const { return always.load(std::memory_order_relaxed) || Clock::now() >= next_; }

  /// Takes the time that making it safe has taken.
  class Pause {
   public:
    explicit Pause(Pacer& pacer) : pacer_(pacer) {}
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause() {
      const Clock::time_point now = Clock::now();
      pacer_.next_ =
          now + std::max<Clock::duration>(tuning::least_pause, (now - start_) * tuning::pauses_apart);
    }

   private:
    using Clock = std::chrono::steady_clock;
    Pacer& pacer_;
    Clock::time_point start_ = Clock::now();
  };

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point next_ = Clock::now() + tuning::least_pause;
};

}  // namespace kith::point_tiles
