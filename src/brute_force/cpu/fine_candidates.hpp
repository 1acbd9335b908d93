// Rows that a filter has kept, as their fine codes (codes/fine.hpp) see them: how near they are at most
// bounds the search, and in the end few of them need an exact distance.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "brute_force/cpu/filter.hpp"
#include "brute_force/cpu/kernels.hpp"
#include "brute_force/cpu/tuning.hpp"
#include "codes/fine.hpp"
#include "core/rounding.hpp"

namespace kith::brute_force {

// search.cpp alone includes this: what nobody else calls is inlined freely.
namespace {

// Those of one task, a slot a query.
template <class R>
class FineCandidates {
 public:
  struct Candidate {
    std::int32_t value;
    R most;  // its canonical distance is at most this
    std::int64_t row;
  };

  FineCandidates(const codes::FineCodes* codes, std::int64_t k)
      : codes_(codes), kernel_(fine_kernel()), k_(static_cast<std::size_t>(k)) {}

  /// Bytes that the candidates of a query may take.
  static std::uint64_t bytes(std::int64_t k) { return most_waiting(k) * sizeof(Candidate) + sizeof(Slot); }

  /// Opens the next slot. @param query as it was added to a filter last
  void add(const FilterQueries& filter) {
    if (codes_ == nullptr) return;
    Slot& slot = slots_.emplace_back();
    slot.query = filter.fine_query(codes_->space);
    slot.full_at = first_wait();
    if (slot.query.usable()) slot.waiting.reserve(most_waiting(static_cast<std::int64_t>(k_)));
  }

  bool speaks_of(std::int64_t s) const { return codes_ != nullptr && at(s).query.usable(); }

  /// Queues the rows of tile t in `mask` that have a code to be looked at; the others stay in it. Returns how
  /// many it queued.
  std::int64_t take(std::int64_t s, std::int64_t t, std::uint64_t& mask) {
    Slot& slot = at(s);
    const std::int64_t base = t * tile_rows;
    const std::int32_t* norms = codes_->norms.data() + base;
    std::uint64_t without = 0;
    std::int64_t seen = 0;
    for (std::uint64_t left = mask; left != 0; left &= left - 1) {
      const int row = std::countr_zero(left);
      if (norms[row] == codes::no_fine_code) {
        without |= std::uint64_t{1} << row;
        continue;
      }
      slot.kept[slot.count++] = base + row;
      ++seen;
      if (slot.count == looked_at_together) look(slot);
    }
    mask = without;
    return seen;
  }

  /// Whether as many wait as are worth a new bound; what is queued does not count.
  bool is_full(std::int64_t s) const { return at(s).waiting.size() >= at(s).full_at; }

  /// What k rows are known to be within.
  R bound(std::int64_t s) const {
    return codes_ == nullptr ? std::numeric_limits<R>::infinity() : at(s).bound;
  }
  /// Looks for a smaller one among the rows that wait. False where there are fewer than k.
  bool find_bound(std::int64_t s) {
    Slot& slot = at(s);
    look(slot);
    if (slot.waiting.size() < k_) return false;
    const auto kth = slot.waiting.begin() + static_cast<std::ptrdiff_t>(k_ - 1);
    std::ranges::nth_element(slot.waiting, kth, {}, &Candidate::most);
    slot.bound = std::min(slot.bound, kth->most);
    return true;
  }

  /// Rows farther than `real` (real_bound.hpp) do not wait from now on.
  void set_bound(std::int64_t s, double real) {
    if (speaks_of(s)) at(s).least = at(s).query.least_value(real);
  }
  /// Nor do those that already wait. False where hardly any has gone.
  bool drop(std::int64_t s) {
    Slot& slot = at(s);
    std::erase_if(slot.waiting, [&](const Candidate& its) { return its.value < slot.least; });
    slot.full_at = usual_wait(static_cast<std::int64_t>(k_));
    return slot.waiting.size() <= slot.full_at / 2;
  }

  /// Waiting rows in order, the one that looks nearest first, until the next one is too far away: calls
  /// evaluate(rows), which may set a bound. Then none waits.
  template <class Evaluate>
  void evaluate(std::int64_t s, const Evaluate& evaluate) {
    Slot& slot = at(s);
    look(slot);
    std::ranges::sort(slot.waiting, std::ranges::greater{}, &Candidate::value);
    std::int64_t rows[together];
    for (auto next = slot.waiting.begin(); next != slot.waiting.end();) {
      std::size_t count = 0;
      for (; next != slot.waiting.end() && count < together && next->value >= slot.least; ++next)
        rows[count++] = next->row;
      if (count == 0) break;
      evaluate(std::span<const std::int64_t>(rows, count));
    }
    slot.waiting.clear();
  }

 private:
  static constexpr std::size_t together = 16;  // rows that are evaluated on one bound
  // A filter keeps a row or two a tile: looked at together, their codes are fetched while others are
  // evaluated.
  static constexpr std::int64_t looked_at_together = 32;

  struct Slot {
    codes::FineQuery query;
    std::int32_t least = std::numeric_limits<std::int32_t>::min();
    R bound = std::numeric_limits<R>::infinity();
    std::size_t full_at = 0;
    std::vector<Candidate> waiting;
    std::int64_t kept[looked_at_together];  // rows that nobody has looked at yet
    std::int64_t count = 0;
  };

  // What has been kept waits where it may be near enough.
  void look(Slot& slot) {
    const std::int64_t width = codes_->space.width();
    const std::int16_t* codes = codes_->codes.data();
    std::int32_t values[looked_at_together];
    kernel_(codes, codes_->norms.data(), width, slot.query.code(), slot.kept, slot.count, values);
    for (std::int64_t i = 0; i < slot.count; ++i) {
      if (values[i] < slot.least) continue;
      const std::int64_t row = slot.kept[i];
      const double most = slot.query.most_distance(values[i], codes[row * width + codes_->space.values - 1]);
      slot.waiting.push_back({values[i], round_up<R>(most), row});
    }
    slot.count = 0;
  }

  static std::size_t usual_wait(std::int64_t k) {
    return static_cast<std::size_t>(k * tuning::fine_wait + tile_rows);
  }
  // The rows of one more tile, and what was queued before it, come on top.
  static std::size_t most_waiting(std::int64_t k) {
    return usual_wait(k) + static_cast<std::size_t>(tile_rows + looked_at_together);
  }
  std::size_t first_wait() const { return 2 * k_ + 16; }

  Slot& at(std::int64_t s) { return slots_[static_cast<std::size_t>(s)]; }
  const Slot& at(std::int64_t s) const { return slots_[static_cast<std::size_t>(s)]; }

  const codes::FineCodes* codes_;
  FineFunction kernel_;
  std::size_t k_;
  std::vector<Slot> slots_;
};

}  // namespace

}  // namespace kith::brute_force
