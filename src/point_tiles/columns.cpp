#include "point_tiles/columns.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/parallel.hpp"
#include "io/format.hpp"
#include "io/manifest_text.hpp"
#include "point_tiles/journal.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {
namespace {

constexpr std::uint32_t no_row = std::numeric_limits<std::uint32_t>::max();

const char* number_type(std::int64_t width) {
  return width == 4 ? "<u4" : "<i8";
}

// The sum of rows at places from `first` on, without those that are listed, ascending.
std::uint64_t sum_of(const void* rows, std::int64_t first, std::int64_t count, std::int64_t bytes,
                     std::span<const std::int64_t> without = {}) {
  const auto* row = static_cast<const std::byte*>(rows);
  auto next = std::ranges::lower_bound(without, first);
  std::uint64_t sum = 0;
  for (std::int64_t place = first; place < first + count; ++place, row += bytes) {
    if (next != without.end() && *next == place) {
      ++next;
    } else {
      sum += XXH3_64bits_withSeed(row, static_cast<std::size_t>(bytes), static_cast<std::uint64_t>(place));
    }
  }
  return sum;
}

std::int64_t own_width(std::int64_t rows, AnswerOrder order, std::int64_t width) {
  return order == AnswerOrder::input && std::cmp_less_equal(rows, no_row) ? sizeof(std::uint32_t) : width;
}

std::vector<std::int64_t> places_of(std::span<const std::int64_t> tile_rows) {
  std::vector<std::int64_t> places{0};
  for (const std::int64_t rows : tile_rows) places.push_back(places.back() + rows);
  return places;
}

}  // namespace

std::string Column::header(std::int64_t rows) const {
  return io::npy_header(descr, matrix ? fmt::format("({}, {})", rows, per_row) : fmt::format("({},)", rows));
}

Columns::Columns(WorkFolder& work, std::vector<Column> columns, std::span<const std::int64_t> tile_rows,
                 AnswerOrder order, std::int64_t width, int threads, bool kept)
    : work_(work),
      kept_(kept || order == AnswerOrder::tiles),
      early_(order == AnswerOrder::tiles),
      columns_(std::move(columns)),
      width_(width),
      places_(places_of(tile_rows)),
      own_width_(own_width(rows(), order, width)),
      rows_(open(rows_file, io::npy_header(number_type(own_width_), fmt::format("({},)", rows())), own_width_,
                 order)),
      threads_(threads) {
  for (const Column& column : columns_) {
    open_.push_back(open(column.name, column.header(rows()), column.bytes, order));
  }
}

std::int64_t Columns::bytes(std::span<const Column> columns, std::int64_t rows, std::int64_t width) {
  std::int64_t row = own_width(rows, AnswerOrder::input, width);
  for (const Column& column : columns) row += column.bytes;
  return rows * row;
}

Columns::Open Columns::open(const std::string& name, const std::string& header, std::int64_t bytes,
                            AnswerOrder order) const {
  if (!kept_) return {name, RowFiles(name, rows(), bytes)};
  std::uint64_t sum = 0;
  const nlohmann::json* noted = work_.last("columns");
  if (noted != nullptr) {
    const nlohmann::json& its = member(*noted, name.c_str());
    RowFiles::check(work_, name, entry(its, 0));
    sum = checksum(entry(its, 1));
  }
  RowFiles files = order == AnswerOrder::tiles ? RowFiles(work_, name, header, rows(), bytes)
                                               : RowFiles(work_, name, rows(), bytes);
  return {name, std::move(files), sum};
}

// A tile's rows may be put while rows of others are.
void Columns::count(Open& to, std::uint64_t sum, std::int64_t bytes) {
  std::atomic_ref<std::uint64_t>(to.sum).fetch_add(sum, std::memory_order_relaxed);
  to_note_.fetch_add(bytes, std::memory_order_relaxed);
}

// rows(at, count) gives `count` rows from the at-th on, so many that what is summed up is still in the cache
// when it is written. Threads take blocks as they come, each of one file: a sum has no order.
template <class Rows>
void Columns::write(Open& to, std::int64_t first, std::int64_t count, bool again, const Rows& rows) {
  if (count == 0) return;
  const auto without = again ? std::span<const std::int64_t>(again_) : std::span<const std::int64_t>();
  const std::int64_t block = to.rows.block_rows(), begin = first / block;
  std::atomic<std::uint64_t> sum{0};
  parallel_for(threads_, (first + count - 1) / block + 1 - begin, [&](std::int64_t b) {
    const std::int64_t place = std::max(first, (begin + b) * block);
    const std::int64_t here = std::min(first + count, (begin + b + 1) * block) - place;
    const auto use = [&](const void* from) {
      sum.fetch_add(sum_of(from, place, here, to.rows.row_bytes(), without), std::memory_order_relaxed);
      to.rows.write(place, here, from);
    };
    rows(place - first, here, use);
  });
  const std::int64_t bytes = count * to.rows.row_bytes();
  this->count(to, sum, bytes);
  if (early_.load(std::memory_order_relaxed) && bytes >= tuning::block_bytes)
    to.rows.start_writing(first, count);
}

void Columns::write(Open& to, std::int64_t first, std::int64_t count, const void* from, bool again) {
  write(to, first, count, again, [&](std::int64_t at, std::int64_t /*count*/, const auto& use) {
    use(static_cast<const std::byte*>(from) + at * to.rows.row_bytes());
  });
}

template <class Narrow, class Wide, class Convert>
void Columns::write_narrow(Open& to, std::int64_t first, std::int64_t count, const Wide* from, bool again,
                           const Convert& convert) {
  const std::int64_t per_row = to.rows.row_bytes() / static_cast<std::int64_t>(sizeof(Narrow));
  write(to, first, count, again, [&](std::int64_t at, std::int64_t here, const auto& use) {
    std::vector<Narrow> narrow(static_cast<std::size_t>(here * per_row));
    std::transform(from + at * per_row, from + (at + here) * per_row, narrow.begin(), convert);
    use(narrow.data());
  });
}

void Columns::put_rows(std::int64_t tile, std::span<const std::int64_t> rows) {
  put_narrow(rows_, own_width_, place(tile), static_cast<std::int64_t>(rows.size()), rows.data(), false);
}

void Columns::put(std::size_t column, std::int64_t first, std::int64_t count, const void* from) {
  write(open_[column], first, count, from, true);
}

void Columns::read(std::size_t column, std::int64_t first, std::int64_t count, void* to) const {
  open_[column].rows.read(first, count, to);
}

void Columns::put_numbers(std::size_t column, std::int64_t first, std::int64_t count,
                          const std::int64_t* from) {
  put_narrow(open_[column], width_, first, count, from, true);
}

void Columns::put_doubles(std::size_t column, std::int64_t first, std::int64_t count, const double* from) {
  if (columns_[column].bytes == columns_[column].per_row * static_cast<std::int64_t>(sizeof(double))) {
    return write(open_[column], first, count, from, true);
  }
  write_narrow<float>(open_[column], first, count, from, true,
                      [](double value) { return static_cast<float>(value); });
}

void Columns::put_doubles_at(std::size_t column, std::span<const std::int64_t> places, const double* from) {
  Open& to = open_[column];
  const std::int64_t per_row = columns_[column].per_row;
  const bool narrow = to.rows.row_bytes() < per_row * static_cast<std::int64_t>(sizeof(double));
  constexpr std::int64_t part = 1 << 10;
  const auto count = static_cast<std::int64_t>(places.size());
  std::atomic<std::uint64_t> sum{0};
  parallel_for(threads_, (count + part - 1) / part, [&](std::int64_t p) {
    std::vector<float> floats;
    const std::int64_t last = std::min(count, (p + 1) * part);
    for (std::int64_t i = p * part, end = i; i < last; i = end) {
      const std::int64_t place = places[static_cast<std::size_t>(i)];
      // Where places follow each other, one call writes many.
      do ++end;
      while (end < last && places[static_cast<std::size_t>(end)] == place + (end - i));
      const double* doubles = from + i * per_row;
      const void* rows = doubles;
      if (narrow) {
        floats.resize(static_cast<std::size_t>((end - i) * per_row));
        std::transform(doubles, from + end * per_row, floats.begin(),
                       [](double v) { return static_cast<float>(v); });
        rows = floats.data();
      }
      sum.fetch_add(sum_of(rows, place, end - i, to.rows.row_bytes()), std::memory_order_relaxed);
      to.rows.write(place, end - i, rows);
    }
  });
  this->count(to, sum, count * to.rows.row_bytes());
}

void Columns::put_narrow(Open& to, std::int64_t width, std::int64_t first, std::int64_t count,
                         const std::int64_t* from, bool again) {
  if (width == 8) return write(to, first, count, from, again);
  write_narrow<std::uint32_t>(to, first, count, from, again, [](std::int64_t row) {
    return row < 0 ? no_row : static_cast<std::uint32_t>(row);
  });
}

void Columns::keep(std::int64_t end, const Execution& execution) {
  const auto move = [&](Open& array) {
    RowFiles files(work_, array.name, rows(), array.rows.row_bytes());
    const std::int64_t block = files.block_rows();
    parallel_for(execution, (end + block - 1) / block, [&](std::int64_t b) {
      files.write(b * block, std::min(block, end - b * block), array.rows.in_memory(b * block));
    });
    array.rows = std::move(files);
  };
  for (Open& array : open_) move(array);
  move(rows_);
  kept_ = true;
}

nlohmann::json Columns::noted() {
  nlohmann::json noted;
  const auto add = [&](Open& array) { noted[array.name] = {array.rows.sizes(), io::hash_text(array.sum)}; };
  for (Open& array : open_) add(array);
  add(rows_);
  to_note_.store(0, std::memory_order_relaxed);
  return noted;
}

void Columns::sync() {
  for (Open& array : open_) array.rows.sync(threads_);
  rows_.rows.sync(threads_);
}

void Columns::extend() {
  for (Open& array : open_) array.rows.extend(rows());
  rows_.rows.extend(rows());
}

void Columns::leave_out(std::int64_t place) {
  std::vector<std::byte> row;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const std::int64_t bytes = open_[c].rows.row_bytes();
    row.resize(static_cast<std::size_t>(bytes));
    read(c, place, 1, row.data());
    open_[c].left_out += sum_of(row.data(), place, 1, bytes);
  }
}

void Columns::check(std::int64_t end, const Execution& execution) const {
  StopRequest stop(execution);
  std::vector<std::byte> some;
  const auto check = [&](const Open& array) {
    const std::int64_t bytes = array.rows.row_bytes();
    const std::int64_t piece =
        std::max<std::int64_t>(1, tuning::block_bytes / std::max<std::int64_t>(1, bytes));
    std::uint64_t sum = 0;
    for (std::int64_t at = 0; at < end; at += piece) {
      const std::int64_t here = std::min(piece, end - at);
      some.resize(static_cast<std::size_t>(here * bytes));
      array.rows.read(at, here, some.data());
      sum += sum_of(some.data(), at, here, bytes);
      stop.check();
    }
    if (sum - array.left_out == array.sum) return;
    throw DamagedWork(work_.path(), array.rows.name(),
                      "answers in it are not those that an interrupted run has noted");
  };
  for (const Open& array : open_) check(array);
  check(rows_);
}

void Columns::read_rows(std::int64_t first, std::int64_t count, std::int64_t* to) const {
  const auto width = static_cast<std::size_t>(own_width_);
  auto* bytes = reinterpret_cast<std::byte*>(to);
  // Narrow numbers to the end of the memory, and from there widened front to back: none is overwritten early.
  std::byte* at = bytes + static_cast<std::size_t>(count) * (sizeof(std::int64_t) - width);
  rows_.rows.read(first, count, at);
  if (width == sizeof(std::int64_t)) return;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t number = 0;
    std::memcpy(&number, at + static_cast<std::size_t>(i) * width, width);
    to[i] = number;
  }
}

// They say where answers go in memory, so one that was changed on the disk must not be taken.
void Columns::read_rows(std::int64_t first, std::int64_t count, std::int64_t low, std::int64_t high,
                        std::int64_t* to) const {
  read_rows(first, count, to);
  const auto* found =
      std::find_if(to, to + count, [&](std::int64_t row) { return row < low || row >= high; });
  if (found == to + count) return;
  throw DamagedWork(
      work_.path(), rows_.rows.name(),
      fmt::format("row {} at place {}, among rows {} to {}", *found, first + (found - to), low, high - 1));
}

}  // namespace kith::point_tiles
