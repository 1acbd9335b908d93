/// @file
/// A set of rows, for searches that may find only some of an index's rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kith {

/// A set of row numbers below rows(), as a bitset: row r is bit r % 64 of word r / 64.
class RowSet {
 public:
  /// No row of `rows`.
  /// @throws InvalidArgument when rows is negative; OutOfMemory
  explicit RowSet(std::int64_t rows);

  /// The rows whose flag is not 0.
  /// @param flags [rows]
  /// @throws OutOfMemory
  static RowSet from_flags(std::span<const std::uint8_t> flags);

  /// The rows listed, in any order, repetitions allowed.
  /// @throws InvalidArgument for a number below 0 or not below `rows`; OutOfMemory
  static RowSet from_indices(std::int64_t rows, std::span<const std::int64_t> indices);

  /// @throws InvalidArgument for a row below 0 or not below rows()
  void insert(std::int64_t row);

  /// Rows that could be in the set.
  std::int64_t rows() const noexcept { return rows_; }
  /// Rows that are.
  std::int64_t count() const noexcept { return count_; }
  /// @param row 0 to rows() - 1
  bool contains(std::int64_t row) const noexcept {
    return (words_[static_cast<std::size_t>(row) / 64] >> (static_cast<std::uint64_t>(row) % 64) & 1U) != 0;
  }
  std::span<const std::uint64_t> words() const noexcept { return words_; }

 private:
  std::int64_t rows_ = 0;
  std::int64_t count_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace kith
