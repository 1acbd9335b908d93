#include "point_tiles/columns.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

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

}  // namespace

std::string Column::header(std::int64_t rows) const {
  return io::npy_header(descr, matrix ? fmt::format("({}, {})", rows, per_row) : fmt::format("({},)", rows));
}

Columns::Columns(WorkFolder& work, std::vector<Column> columns, std::span<const std::int64_t> tile_rows,
                 std::int64_t width, int threads)
    : work_(work), columns_(std::move(columns)), width_(width), threads_(threads) {
  places_.push_back(0);
  for (const std::int64_t rows : tile_rows) places_.push_back(places_.back() + rows);
  if (const nlohmann::json* noted = work_.last("columns")) {
    const auto check = [&](const std::string& name) {
      const std::int64_t bytes =
          whole(entry(member(*noted, name.c_str()), 0), "the bytes of a column", 0, most_bytes);
      work_.check_file(name, static_cast<std::uint64_t>(bytes));
    };
    for (const Column& column : columns_) check(column.name);
    check(rows_file);
  }
  for (const Column& column : columns_) {
    open_.push_back(open(column.name, column.header(rows()), column.bytes));
  }
  rows_ = open(rows_file, io::npy_header(number_type(width_), fmt::format("({},)", rows())), width_);
}

// Headers first, so that what stands in the order of tiles needs only its name.
Columns::Open Columns::open(const std::string& name, const std::string& header, std::int64_t bytes) const {
  Open opened{name, OutputFile::lasting(work_.file(name)), header.size(), bytes};
  opened.file.write(0, header.data(), header.size());
  const nlohmann::json* noted = work_.last("columns");
  // Those in the order of the input are not among them.
  if (noted != nullptr && noted->contains(name)) opened.sum = checksum(entry((*noted)[name], 1));
  return opened;
}

// A tile's rows may be put while rows of others are.
void Columns::add_to_sum(Open& to, std::uint64_t sum) {
  std::atomic_ref<std::uint64_t>(to.sum).fetch_add(sum, std::memory_order_relaxed);
}

// rows(at, count) gives `count` rows from the at-th on, so many that what is summed up is still in the cache
// when it is written. Threads take pieces as they come: a sum has no order.
template <class Rows>
void Columns::write(Open& to, std::int64_t first, std::int64_t count, bool again, const Rows& rows) {
  const auto without = again ? std::span<const std::int64_t>(again_) : std::span<const std::int64_t>();
  const std::int64_t piece = std::max<std::int64_t>(1, (256 << 10) / std::max<std::int64_t>(1, to.bytes));
  std::atomic<std::uint64_t> sum{0};
  parallel_for(threads_, (count + piece - 1) / piece, [&](std::int64_t p) {
    const std::int64_t at = p * piece;
    const std::int64_t here = std::min(piece, count - at);
    const auto use = [&](const void* from) {
      sum.fetch_add(sum_of(from, first + at, here, to.bytes, without), std::memory_order_relaxed);
      to.file.write(to.header + static_cast<std::uint64_t>((first + at) * to.bytes), from,
                    static_cast<std::size_t>(here * to.bytes));
    };
    rows(at, here, use);
  });
  add_to_sum(to, sum);
  // Of much the disk takes its time: it begins now, so that sync() has little left to wait for.
  const auto bytes = static_cast<std::uint64_t>(count * to.bytes);
  if (bytes >= static_cast<std::uint64_t>(tuning::block_bytes)) {
    to.file.start_writing(to.header + static_cast<std::uint64_t>(first * to.bytes), bytes);
  }
}

void Columns::write(Open& to, std::int64_t first, std::int64_t count, const void* from, bool again) {
  write(to, first, count, again, [&](std::int64_t at, std::int64_t /*count*/, const auto& use) {
    use(static_cast<const std::byte*>(from) + at * to.bytes);
  });
}

template <class Narrow, class Wide, class Convert>
void Columns::write_narrow(Open& to, std::int64_t first, std::int64_t count, const Wide* from, bool again,
                           const Convert& convert) {
  const std::int64_t per_row = to.bytes / static_cast<std::int64_t>(sizeof(Narrow));
  write(to, first, count, again, [&](std::int64_t at, std::int64_t here, const auto& use) {
    std::vector<Narrow> narrow(static_cast<std::size_t>(here * per_row));
    std::transform(from + at * per_row, from + (at + here) * per_row, narrow.begin(), convert);
    use(narrow.data());
  });
}

void Columns::put_rows(std::int64_t tile, std::span<const std::int64_t> rows) {
  put_narrow(rows_, place(tile), static_cast<std::int64_t>(rows.size()), rows.data(), false);
}

void Columns::put(std::size_t column, std::int64_t first, std::int64_t count, const void* from) {
  write(open_[column], first, count, from, true);
}

void Columns::read(std::size_t column, std::int64_t first, std::int64_t count, void* to) const {
  const auto bytes = static_cast<std::uint64_t>(columns_[column].bytes);
  open_[column].file.read(open_[column].header + static_cast<std::uint64_t>(first) * bytes, to,
                          static_cast<std::size_t>(count) * bytes);
}

void Columns::put_numbers(std::size_t column, std::int64_t first, std::int64_t count,
                          const std::int64_t* from) {
  put_narrow(open_[column], first, count, from, true);
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
  const bool narrow = to.bytes < per_row * static_cast<std::int64_t>(sizeof(double));
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
      sum.fetch_add(sum_of(rows, place, end - i, to.bytes), std::memory_order_relaxed);
      to.file.write(to.header + static_cast<std::uint64_t>(place * to.bytes), rows,
                    static_cast<std::size_t>((end - i) * to.bytes));
    }
  });
  add_to_sum(to, sum);
}

void Columns::put_narrow(Open& to, std::int64_t first, std::int64_t count, const std::int64_t* from,
                         bool again) {
  if (width_ == 8) return write(to, first, count, from, again);
  write_narrow<std::uint32_t>(to, first, count, from, again, [](std::int64_t row) {
    return row < 0 ? no_row : static_cast<std::uint32_t>(row);
  });
}

nlohmann::json Columns::sync() {
  nlohmann::json noted;
  const auto add = [&](Open& array) {
    array.file.sync();
    noted[array.name] = {array.file.size(), io::hash_text(array.sum)};
  };
  for (Open& array : open_) add(array);
  add(rows_);
  return noted;
}

void Columns::leave_out(std::int64_t place) {
  std::vector<std::byte> row;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    row.resize(static_cast<std::size_t>(open_[c].bytes));
    read(c, place, 1, row.data());
    open_[c].left_out += sum_of(row.data(), place, 1, open_[c].bytes);
  }
}

void Columns::check(std::int64_t end, const Execution& execution) const {
  StopRequest stop(execution);
  std::vector<std::byte> some;
  const auto check = [&](const Open& array) {
    const std::int64_t piece =
        std::max<std::int64_t>(1, tuning::block_bytes / std::max<std::int64_t>(1, array.bytes));
    std::uint64_t sum = 0;
    for (std::int64_t at = 0; at < end; at += piece) {
      const std::int64_t here = std::min(piece, end - at);
      some.resize(static_cast<std::size_t>(here * array.bytes));
      array.file.read(array.header + static_cast<std::uint64_t>(at * array.bytes), some.data(), some.size());
      sum += sum_of(some.data(), at, here, array.bytes);
      stop.check();
    }
    if (sum - array.left_out == array.sum) return;
    throw DamagedWork(work_.path(), array.name,
                      "answers in it are not those that an interrupted run has noted");
  };
  for (const Open& array : open_) check(array);
  check(rows_);
}

void Columns::read_rows(std::int64_t first, std::int64_t count, std::int64_t* to) const {
  const auto width = static_cast<std::size_t>(width_);
  auto* bytes = reinterpret_cast<std::byte*>(to);
  // Narrow numbers to the end of the memory, and from there widened front to back: none is overwritten early.
  std::byte* at = bytes + static_cast<std::size_t>(count) * (sizeof(std::int64_t) - width);
  rows_.file.read(rows_.header + static_cast<std::uint64_t>(first) * width, at,
                  static_cast<std::size_t>(count) * width);
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
      work_.path(), rows_file,
      fmt::format("row {} at place {}, among rows {} to {}", *found, first + (found - to), low, high - 1));
}

}  // namespace kith::point_tiles
