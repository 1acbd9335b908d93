// Space in cells that hold about equally many rows each: whoever asks for neighbours then needs few of them.
//
// The cells are the leaves of a k-d tree (Bentley, 1975) with as many of them as are wanted: a box of rows is
// cut across its longest side, where the rows on either side are as many as its cells are, by a sample of
// rows. Rows at just the cut are told apart by their numbers, so that equal rows are divided, too.
// A row with a NaN or an infinity lies nowhere: it goes to the cell that its number falls into.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "sharded/build.hpp"

namespace kith::sharded {

class Cells {
 public:
  /// Reads a sample of the rows: all of them where they are few.
  /// @param cells 1 to the number of rows
  /// @throws IoError, Cancelled
  Cells(const RowSource& rows, std::int64_t cells, const Execution& execution);

  /// Bytes of host memory that the sample takes.
  static std::uint64_t bytes(std::int64_t rows, std::int64_t dim, std::int64_t cells);

  /// The cell of each row of a block. @param first the number of its first row @throws Cancelled
  std::vector<std::int32_t> of(const DatasetView& block, std::int64_t first,
                               const Execution& execution) const;

 private:
  struct Sample;
  /// Rows before (value, row) in a dimension go left. A child below 0 is the cell ~child.
  struct Cut {
    std::size_t dimension = 0;
    double value = 0;
    std::int64_t row = 0;
    std::int32_t left = 0;
    std::int32_t right = 0;
  };

  std::int32_t cut(const Sample& sample, std::span<std::int64_t> members, std::int64_t first_cell,
                   std::int64_t cells);
  template <class T>
  std::int32_t cell_of(const T* values, std::int64_t row) const;

  std::int64_t rows_;
  std::int64_t dim_;
  std::int64_t cells_;
  std::int32_t root_ = 0;
  std::vector<Cut> cuts_;
};

/// visit(block, its first row) for all rows in order, some at a time. @throws IoError, Cancelled
void for_each_block(const RowSource& rows, const Execution& execution,
                    const std::function<void(const DatasetView&, std::int64_t)>& visit);

}  // namespace kith::sharded
