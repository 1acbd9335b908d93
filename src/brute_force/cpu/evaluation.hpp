// Canonical distances of rows that a filter kept, into a list.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "brute_force/cpu/kernels.hpp"
#include "brute_force/cpu/tuning.hpp"
#include "codes/duplicates.hpp"
#include "core/parallel.hpp"
#include "distance/canonical.hpp"
#include "select_k/top_k.hpp"

namespace kith::brute_force {

// search.cpp alone includes this: what nobody else calls is inlined freely.
namespace {

// One thread's.
template <class R>
class Evaluation {
 public:
  /// @param most rows at a time
  Evaluation(const DatasetView& data, CanonicalFunction canonical, const codes::Duplicates& duplicates,
             std::int64_t most, ProgressCounter& progress)
      : data_(data),
        canonical_(canonical),
        duplicates_(duplicates),
        progress_(progress),
        distances_(static_cast<std::size_t>(most)),
        poll_after_(std::max<std::int64_t>(tile_rows, tuning::values_between_polls / data.dim)) {}

  /// Offers some rows, and with each those that are equal to it. True when the bound became smaller.
  /// @throws Cancelled
  bool offer(const CanonicalQuery& query, const std::int64_t* rows, std::int64_t count, TopK<R>& list) {
    const R before = list.bound();
    canonical_(canonical_rows(data_), query, rows, count, distances_.data());
    evaluated_ += count;
    if (evaluated_ >= poll_at_) {
      progress_.check();
      poll_at_ = evaluated_ + poll_after_;
    }
    for (std::int64_t j = 0; j < count; ++j) {
      const auto distance = static_cast<R>(distances_[static_cast<std::size_t>(j)]);
      if (std::isnan(distance) || distance > list.bound()) continue;
      list.offer(distance, rows[j]);
      if (duplicates_.empty()) continue;
      for (const std::int64_t twin : duplicates_.of(rows[j])) {
        if (!list.offer(distance, twin)) break;  // later twins are only worse
      }
    }
    return list.bound() < before;
  }

  std::int64_t evaluated() const noexcept { return evaluated_; }

 private:
  const DatasetView& data_;
  CanonicalFunction canonical_;
  const codes::Duplicates& duplicates_;
  ProgressCounter& progress_;
  std::vector<double> distances_;
  std::int64_t evaluated_ = 0;
  std::int64_t poll_at_ = 0, poll_after_;
};

}  // namespace

}  // namespace kith::brute_force
