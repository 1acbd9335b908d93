#include "sharded/cells.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/int128.hpp"
#include "core/parallel.hpp"
#include "core/visit_dtype.hpp"

namespace kith::sharded {
namespace {

// Of 8 cells some 16,000 rows each are sampled, in 1,024 runs, since files are not read row by row. Rows that
// follow each other often lie beside each other, too, so many cells take more and shorter runs.
constexpr std::int64_t least_sample = std::int64_t{1} << 17U;
constexpr std::int64_t rows_a_cell = 64;
constexpr std::int64_t least_runs = 1024;
constexpr std::int64_t runs_a_cell = 16;

std::int64_t sample_of(std::int64_t rows, std::int64_t cells) {
  return std::min(rows, std::max(least_sample, rows_a_cell * cells));
}
constexpr std::int64_t rows_a_task = 1 << 14;
constexpr std::size_t block_bytes = std::size_t{16} << 20U;

template <class T>
bool is_finite(const T* values, std::int64_t dim) {
  return std::all_of(values, values + dim, [](T value) { return std::isfinite(to_double(value)); });
}

}  // namespace

// Finite rows: their values, [size, dim], and their numbers.
struct Cells::Sample {
  std::int64_t dim = 0;
  std::vector<double> values{};
  std::vector<std::int64_t> numbers{};

  double value(std::int64_t member, std::size_t j) const {
    return values[static_cast<std::size_t>(member * dim) + j];
  }
  std::int64_t number(std::int64_t member) const { return numbers[static_cast<std::size_t>(member)]; }

  void add(const DatasetView& block, std::int64_t first) {
    visit_dtype(block.dtype, [&]<class T>(T) {
      for (std::int64_t i = 0; i < block.rows; ++i) {
        const T* row = static_cast<const T*>(block.row(i));
        if (!is_finite(row, dim)) continue;
        for (std::int64_t j = 0; j < dim; ++j) values.push_back(to_double(row[j]));
        numbers.push_back(first + i);
      }
    });
  }
};

std::uint64_t Cells::bytes(std::int64_t rows, std::int64_t dim, std::int64_t cells) {
  // Values, a number and a place in the order of each.
  return static_cast<std::uint64_t>(sample_of(rows, cells)) *
         (static_cast<std::uint64_t>(dim) * sizeof(double) + 2 * sizeof(std::int64_t));
}

Cells::Cells(const RowSource& rows, std::int64_t cells, const Execution& execution)
    : rows_(rows.rows), dim_(rows.dim), cells_(cells) {
  StopRequest stop(execution);
  Sample sample{.dim = rows.dim};
  const std::int64_t wanted = sample_of(rows.rows, cells);
  sample.values.reserve(static_cast<std::size_t>(wanted * rows.dim));
  sample.numbers.reserve(static_cast<std::size_t>(wanted));
  const std::int64_t length = std::max<std::int64_t>(1, wanted / std::max(least_runs, runs_a_cell * cells));
  const std::int64_t runs = (wanted + length - 1) / length;
  for (std::int64_t run = 0; run < runs; ++run) {
    stop.check();
    // Where all rows are wanted, the runs follow each other.
    const std::int64_t first = wanted == rows.rows
                                   ? run * length
                                   : static_cast<std::int64_t>(static_cast<int128>(rows.rows) * run / runs);
    sample.add(rows.take(first, std::min(length, rows.rows - first)).view(), first);
  }
  std::vector<std::int64_t> members(sample.numbers.size());
  std::iota(members.begin(), members.end(), 0);
  root_ = cut(sample, members, 0, cells);
}

std::int32_t Cells::cut(const Sample& sample, std::span<std::int64_t> members, std::int64_t first_cell,
                        std::int64_t cells) {
  if (cells == 1) return ~static_cast<std::int32_t>(first_cell);
  Cut its;
  double longest = -1;
  for (std::size_t j = 0; j < static_cast<std::size_t>(dim_) && !members.empty(); ++j) {
    const auto [low, high] =
        std::ranges::minmax(members, {}, [&](std::int64_t member) { return sample.value(member, j); });
    // Halves: the difference of two finite numbers need not be finite.
    const double side = sample.value(high, j) / 2 - sample.value(low, j) / 2;
    if (side <= longest) continue;
    longest = side;
    its.dimension = j;
  }
  const std::int64_t left = cells / 2;
  const auto at = static_cast<std::size_t>(static_cast<int128>(members.size()) * left / cells);
  if (!members.empty()) {
    const auto key = [&](std::int64_t member) {
      return std::pair(sample.value(member, its.dimension), sample.number(member));
    };
    std::ranges::nth_element(members, members.begin() + static_cast<std::ptrdiff_t>(at), {}, key);
    std::tie(its.value, its.row) = key(members[at]);
  }
  const auto place = static_cast<std::int32_t>(cuts_.size());
  cuts_.push_back(its);
  const std::int32_t on_left = cut(sample, members.first(at), first_cell, left);
  const std::int32_t on_right = cut(sample, members.subspan(at), first_cell + left, cells - left);
  cuts_[static_cast<std::size_t>(place)].left = on_left;
  cuts_[static_cast<std::size_t>(place)].right = on_right;
  return place;
}

template <class T>
std::int32_t Cells::cell_of(const T* values, std::int64_t row) const {
  if (!is_finite(values, dim_)) {
    return static_cast<std::int32_t>(static_cast<int128>(row) * cells_ / rows_);
  }
  std::int32_t at = root_;
  while (at >= 0) {
    const Cut& its = cuts_[static_cast<std::size_t>(at)];
    at = std::pair(to_double(values[its.dimension]), row) < std::pair(its.value, its.row) ? its.left
                                                                                          : its.right;
  }
  return ~at;
}

std::vector<std::int32_t> Cells::of(const DatasetView& block, std::int64_t first,
                                    const Execution& execution) const {
  std::vector<std::int32_t> cells(static_cast<std::size_t>(block.rows));
  parallel_for(execution, (block.rows + rows_a_task - 1) / rows_a_task, [&](std::int64_t task) {
    const std::int64_t end = std::min((task + 1) * rows_a_task, block.rows);
    visit_dtype(block.dtype, [&]<class T>(T) {
      for (std::int64_t i = task * rows_a_task; i < end; ++i) {
        cells[static_cast<std::size_t>(i)] = cell_of(static_cast<const T*>(block.row(i)), first + i);
      }
    });
  });
  return cells;
}

void for_each_block(const RowSource& rows, const Execution& execution,
                    const std::function<void(const DatasetView&, std::int64_t)>& visit) {
  StopRequest stop(execution);
  const std::size_t row_bytes = static_cast<std::size_t>(rows.dim) * size_of(rows.dtype);
  // A small part of a small limit.
  const std::size_t bytes = execution.memory_limit > 0
                                ? std::min<std::size_t>(block_bytes, execution.memory_limit / 16)
                                : block_bytes;
  const auto block = static_cast<std::int64_t>(
      std::clamp<std::size_t>(bytes / (row_bytes + sizeof(std::int32_t)), 1, std::size_t{1} << 20U));
  for (std::int64_t first = 0; first < rows.rows; first += block) {
    stop.check();
    const Dataset some = rows.take(first, std::min(block, rows.rows - first));
    visit(some.view(), first);
  }
}

}  // namespace kith::sharded
