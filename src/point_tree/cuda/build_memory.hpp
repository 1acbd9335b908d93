// Device memory of a build, within the limit of its execution.
#pragma once

#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "cuda/runtime.hpp"
#include "kith/error.hpp"

namespace kith::point_tree::build_steps {

/// What a build has taken of its device so far.
class Ledger {
 public:
  explicit Ledger(std::uint64_t limit) : limit_(limit) {}

  void add(std::uint64_t bytes, std::int64_t rows) {
    used_ += bytes;
    if (limit_ > 0 && used_ > limit_) {
      throw OutOfMemory(fmt::format(
          "the tree of {} rows takes more than {} bytes of GPU memory while it is built, the limit "
          "is {}; raise the limit, or use fewer rows",
          rows, used_, limit_));
    }
  }
  void remove(std::uint64_t bytes) { used_ -= bytes; }

 private:
  std::uint64_t limit_;
  std::uint64_t used_ = 0;
};

/// Memory of a build. Give it back with `= {}` as soon as it is of no more use.
template <class V>
class Scratch {
 public:
  Scratch() = default;
  Scratch(std::int64_t count, Ledger& ledger, std::int64_t rows, cudaStream_t stream) : ledger_(&ledger) {
    const auto bytes = static_cast<std::uint64_t>(count) * sizeof(V);
    ledger.add(bytes, rows);
    buffer_ = cuda::Buffer<V>(count, stream);
  }
  Scratch(Scratch&& other) noexcept { swap(other); }
  Scratch& operator=(Scratch&& other) noexcept {
    Scratch before(std::move(*this));
    swap(other);
    return *this;
  }
  ~Scratch() {
    if (ledger_ != nullptr) ledger_->remove(buffer_.bytes());
  }
  V* data() const { return buffer_.data(); }
  std::int64_t size() const { return buffer_.size(); }
  std::uint64_t bytes() const { return buffer_.bytes(); }
  /// For good: it stays in the ledger.
  cuda::Buffer<V> keep() {
    ledger_ = nullptr;
    return std::move(buffer_);
  }

 private:
  void swap(Scratch& other) noexcept {
    std::swap(ledger_, other.ledger_);
    std::swap(buffer_, other.buffer_);
  }
  Ledger* ledger_ = nullptr;
  cuda::Buffer<V> buffer_;
};

}  // namespace kith::point_tree::build_steps
