// Uninitialised memory for codes, trees and records to sort: cache-line aligned, on huge pages where the
// system gives them.
#pragma once

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
  AlignedBuffer() = default;

  /// @throws std::bad_alloc: whoever knows what the memory is for says so
  explicit AlignedBuffer(std::int64_t count) : count_(count) {
    constexpr std::size_t huge_page = std::size_t{2} << 20U;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    const std::size_t alignment = bytes >= huge_page ? huge_page : 64;
    const std::size_t rounded = (bytes + alignment) / alignment * alignment;
    void* memory = std::aligned_alloc(alignment, rounded);
    if (memory == nullptr) throw std::bad_alloc();
    if (alignment == huge_page) (void)::madvise(memory, rounded, MADV_HUGEPAGE);
    data_.reset(static_cast<T*>(memory));
  }

  T* data() noexcept { return data_.get(); }
  const T* data() const noexcept { return data_.get(); }
  T& operator[](std::int64_t i) noexcept { return data_.get()[i]; }
  const T& operator[](std::int64_t i) const noexcept { return data_.get()[i]; }
  std::int64_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  std::uint64_t bytes() const noexcept { return static_cast<std::uint64_t>(count_) * sizeof(T); }

 private:
  struct Free {
    void operator()(T* p) const noexcept { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  std::int64_t count_ = 0;
};

}  // namespace kith
