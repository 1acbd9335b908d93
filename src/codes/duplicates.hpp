// Equal rows, collapsed: only the first of each group is filtered and evaluated, the others follow its
// distance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"

namespace kith::codes {

/// Groups of rows with the same bits. A flood of them would tie with any bound and defeat every filter.
class Duplicates {
 public:
  /// Takes a sample first and groups all rows only where enough of them are equal to be worth it.
  static Duplicates find(const DatasetView& data, const Execution& execution);

  /// Bytes a row that find() takes at most while it runs, its result included: a hash and a number, and where
  /// all rows come in pairs half a group of 40 bytes and half a row of 8.
  static constexpr std::uint64_t most_bytes_a_row = 40;

  /// Rows equal to `row` (a first of its group), ascending, without `row` itself; empty for most rows.
  std::span<const std::int64_t> of(std::int64_t row) const;

  /// All collapsed rows: those that are not the first of their group.
  std::span<const std::int64_t> collapsed() const { return rows_; }
  bool empty() const { return rows_.empty(); }
  std::uint64_t bytes() const {
    return (firsts_.size() + offsets_.size() + rows_.size()) * sizeof(std::int64_t);
  }

 private:
  std::vector<std::int64_t> firsts_;   // ascending
  std::vector<std::int64_t> offsets_;  // into rows_, one more than firsts_
  std::vector<std::int64_t> rows_;
};

}  // namespace kith::codes
