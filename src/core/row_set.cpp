#include "kith/row_set.hpp"

#include <new>
#include <stdexcept>

#include <fmt/format.h>

#include "core/search_checks.hpp"
#include "kith/error.hpp"

namespace kith {

RowSet::RowSet(std::int64_t rows) : rows_(rows) {
  if (rows < 0) throw InvalidArgument(fmt::format("a set over {} rows; use 0 or more", rows));
  words_ =
      or_out_of_memory([&] { return fmt::format("a set over {} rows", rows); },
                       [&] { return std::vector<std::uint64_t>(static_cast<std::size_t>(rows) / 64 + 1); });
}

RowSet RowSet::from_flags(std::span<const std::uint8_t> flags) {
  RowSet set(static_cast<std::int64_t>(flags.size()));
  for (std::size_t row = 0; row < flags.size(); ++row) {
    if (flags[row] == 0) continue;
    set.words_[row / 64] |= std::uint64_t{1} << (row % 64);
    ++set.count_;
  }
  return set;
}

RowSet RowSet::from_indices(std::int64_t rows, std::span<const std::int64_t> indices) {
  RowSet set(rows);
  for (const std::int64_t row : indices) set.insert(row);
  return set;
}

void RowSet::insert(std::int64_t row) {
  if (row < 0 || row >= rows_) {
    throw InvalidArgument(
        rows_ == 0 ? fmt::format("row {} in a set over no rows; leave it empty", row)
                   : fmt::format("row {} in a set over {} rows; use 0 to {}", row, rows_, rows_ - 1));
  }
  if (contains(row)) return;
  words_[static_cast<std::size_t>(row) / 64] |= std::uint64_t{1} << (static_cast<std::uint64_t>(row) % 64);
  ++count_;
}

}  // namespace kith
