// When work is to be made safe on the disk, often enough that little is done again, seldom enough that it
// costs little; and that the one who works does not wait for it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "core/beside.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {

class Pacer {
 public:
  /// Tests make everything safe whenever it is asked for, or every so many times, so that small clouds are
  /// interrupted in many states; 0: by the clock.
  inline static std::atomic<int> every{0};

  bool due() const {
    const int times = every.load(std::memory_order_relaxed);
    return times > 0 ? ++asked_ % times == 0 : Clock::now() >= next_.load();
  }

  /// Takes the time that making it safe has taken.
  class Pause {
   public:
    explicit Pause(Pacer& pacer) : pacer_(pacer) { pacer_.next_ = Clock::time_point::max(); }
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
  mutable int asked_ = 0;
  std::atomic<Clock::time_point> next_{Clock::now() + tuning::least_pause};
};

/// Makes one thing safe after the other, behind the back of the one who works. The last member of its owner,
/// so that what it works with outlives it.
class Saver {
 public:
  /// Tests that need to know what is safe when they interrupt have every begin() wait for it.
  inline static std::atomic<bool> waits{false};

  /// Never while something is under way, but where tests ask for that.
  bool due() const { return pacer_.due(); }
  /// @param save is begun with when what was begun with before is safe @throws what that has thrown
  template <class Save>
  void begin(const Save& save) {
    behind_.begin([this, save] {
      const Pacer::Pause pause(pacer_);
      save();
    });
    if (waits.load(std::memory_order_relaxed)) wait();
  }
  /// All of it is safe. @throws what making it so has thrown
  void wait() { behind_.wait(); }
  /// Nothing is under way any more, whatever came of it.
  void rest() const noexcept { behind_.rest(); }

 private:
  Pacer pacer_;
  OneBehind behind_;
};

}  // namespace kith::point_tiles
