// Uninitialised memory for codes, trees and records to sort: cache-line aligned, on huge pages where the
// system gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include <sys/mman.h>

namespace kith {

/// Owns `count` values of a plain type.
template <class T>
class AlignedBuffer {
 public:
  /// Of so many bytes or more, memory comes from the system as huge pages, and is zeros.
  static constexpr std::size_t huge_page = std::size_t{2} << 20U;

  AlignedBuffer() = default;

  /// @throws std::bad_alloc: whoever knows what the memory is for says so
  explicit AlignedBuffer(std::int64_t count) : count_(count) {
    if (static_cast<std::uint64_t>(count) > most_bytes / sizeof(T)) throw std::bad_alloc();
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes >= huge_page) {
      const std::size_t mapped = bytes / page * page + page;
      data_ = {static_cast<T*>(map(mapped)), Free{mapped}};
      return;
    }
    constexpr std::size_t line = 64;
    void* memory = std::aligned_alloc(line, bytes / line * line + line);
    if (memory == nullptr) throw std::bad_alloc();
    data_.reset(static_cast<T*>(memory));
  }

  T* data() noexcept { return data_.get(); }
  const T* data() const noexcept { return data_.get(); }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + count_; }
  T& operator[](std::int64_t i) noexcept { return data_.get()[i]; }
  const T& operator[](std::int64_t i) const noexcept { return data_.get()[i]; }
  std::int64_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  std::uint64_t bytes() const noexcept { return static_cast<std::uint64_t>(count_) * sizeof(T); }

 private:
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 62U;
  static constexpr std::size_t page = std::size_t{64} << 10U;  // the largest of any Linux

  struct Free {
    std::size_t mapped = 0;  ///< bytes; 0: from the heap
    void operator()(T* p) const noexcept {
      if (mapped == 0)
        std::free(p);
      else
        (void)::munmap(p, mapped);
    }
  };

  // A mapping of its own goes back to the system when it is freed, where the heap of a thread keeps what it
  // had. It begins with a huge page; only whole ones become huge, so that the last takes what it holds.
  static void* map(std::size_t bytes) {
    const std::size_t reserved = bytes + huge_page;
    void* memory = ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    auto* const begin = static_cast<std::byte*>(memory);
    const std::size_t before = (huge_page - reinterpret_cast<std::uintptr_t>(memory) % huge_page) % huge_page;
    if (before != 0) (void)::munmap(begin, before);
    (void)::munmap(begin + before + bytes, huge_page - before);
    (void)::madvise(begin + before, bytes, MADV_HUGEPAGE);
    return begin + before;
  }

  std::unique_ptr<T, Free> data_;
  std::int64_t count_ = 0;
};

}  // namespace kith
