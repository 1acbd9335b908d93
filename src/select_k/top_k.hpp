// The k smallest (distance, row) pairs seen so far, in the contract's order: ties go to the lower row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace kith {

/// Small k keeps a heap, so that the bound is tight at once: O(log k) an accepted pair. Large k appends and
/// selects when the list is half over k: O(1) amortised, the bound a little behind.
template <class R>
class TopK {
 public:
  using Entry = std::pair<R, std::int64_t>;  // compares by distance, then by row

  explicit TopK(std::int64_t k = 1) : k_(static_cast<std::size_t>(k)), heap_(k <= largest_heap) {}

  /// No pair above this can enter; +inf until k pairs are known.
  R bound() const noexcept { return bound_; }
  bool full() const noexcept { return full_; }
  std::size_t size() const noexcept { return entries_.size(); }
  /// The k-th smallest of what was offered, where bound() may be behind; +inf until there are k.
  R kth() {
    if (full_ && entries_.size() > k_) compact();
    return bound_;
  }

  /// False when the pair cannot be among the k smallest.
  bool offer(R distance, std::int64_t row) {
    const Entry entry{distance, row};
    if (full_ && !(entry < worst_)) return false;
    if (!heap_ && entries_.size() == entries_.capacity()) {  // doubling, but never past what is needed
      entries_.reserve(std::min(std::max<std::size_t>(2 * entries_.size(), 64), longest()));
    }
    entries_.push_back(entry);
    if (heap_) {
      std::push_heap(entries_.begin(), entries_.end());
      if (entries_.size() > k_) {
        std::pop_heap(entries_.begin(), entries_.end());
        entries_.pop_back();
      }
      if (entries_.size() == k_) tighten(entries_.front());
    } else if (entries_.size() >= longest() || (!full_ && entries_.size() == k_)) {
      compact();
    }
    return true;
  }

  /// Sorts, cuts to k and gives the entries away.
  std::vector<Entry> take() {
    std::sort(entries_.begin(), entries_.end());
    if (entries_.size() > k_) entries_.resize(k_);
    return std::move(entries_);
  }

  /// Bytes one list of k may take.
  static std::uint64_t bytes(std::int64_t k) {
    return (static_cast<std::uint64_t>(k) + static_cast<std::uint64_t>(std::max<std::int64_t>(k, 64))) *
           sizeof(Entry);
  }

 private:
  static constexpr std::int64_t largest_heap = 256;

  // Entries a large list holds before it is cut to k.
  std::size_t longest() const noexcept { return k_ + std::max(k_ / 2, std::size_t{64}); }

  void tighten(const Entry& worst) {
    full_ = true;
    worst_ = worst;
    bound_ = worst.first;
  }

  void compact() {
    const auto last = entries_.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
    std::nth_element(entries_.begin(), last, entries_.end());
    tighten(*last);
    entries_.resize(k_);
  }

  std::size_t k_;
  bool heap_;
  bool full_ = false;
  Entry worst_{};
  R bound_ = std::numeric_limits<R>::infinity();
  std::vector<Entry> entries_;
};

}  // namespace kith
