// Memory that the tasks of one call share.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

namespace kith {

/// Bytes that may still be taken. Any thread may ask.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::int64_t bytes) : left_(bytes) {}

  /// False where they are not there; nothing is taken then.
  bool take(std::int64_t bytes) {
    if (left_.fetch_sub(bytes, std::memory_order_relaxed) >= bytes) return true;
    give_back(bytes);
    return false;
  }
  void give_back(std::int64_t bytes) { left_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> left_;
};

/// A budget did not suffice. Inside the library only: callers learn of it as OutOfMemory, with the numbers.
struct OverBudget : std::exception {};

/// The machine's memory, or the control group's share of it, in bytes.
std::int64_t machine_memory();

/// What of it nobody uses, or only to spare reading files again.
std::int64_t available_memory();

/// Gives the system what was freed: the C library keeps freed blocks of up to 32 MiB for itself.
void return_freed_memory();

}  // namespace kith
