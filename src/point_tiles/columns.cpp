#include "point_tiles/columns.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/parallel.hpp"
#include "io/format.hpp"
#include "point_tiles/journal.hpp"
#include "point_tiles/pacer.hpp"
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

std::string hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace

std::string Column::header(std::int64_t rows) const {
  return io::npy_header(descr, matrix ? fmt::format("({}, {})", rows, per_row) : fmt::format("({},)", rows));
}

Columns::Columns(WorkFolder& work, std::vector<Column> columns, std::span<const std::int64_t> tile_rows,
                 std::int64_t width)
    : work_(work), columns_(std::move(columns)), width_(width) {
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

void Columns::write(Open& to, std::int64_t first, std::int64_t count, const void* from, bool again) {
  const auto* at = static_cast<const std::byte*>(from);
  const auto without = again ? std::span<const std::int64_t>(again_) : std::span<const std::int64_t>();
  // So many rows at a time that what is summed up is still in the cache when it is written.
  const std::int64_t piece = std::max<std::int64_t>(1, (256 << 10) / std::max<std::int64_t>(1, to.bytes));
  for (std::int64_t done = 0; done < count; done += piece) {
    const std::int64_t here = std::min(piece, count - done);
    const auto bytes = static_cast<std::size_t>(here * to.bytes);
    to.sum += sum_of(at, first + done, here, to.bytes, without);
    to.file.write(to.header + static_cast<std::uint64_t>((first + done) * to.bytes), at, bytes);
    at += bytes;
  }
}

void Columns::put_rows(std::int64_t tile, std::span<const std::int64_t> rows) {
  put_narrow(rows_, place(tile), static_cast<std::int64_t>(rows.size()), 1, rows.data(), false);
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
  put_narrow(open_[column], first, count, columns_[column].per_row, from, true);
}

void Columns::put_narrow(Open& to, std::int64_t first, std::int64_t count, std::int64_t per_row,
                         const std::int64_t* from, bool again) {
  if (width_ == 8) return write(to, first, count, from, again);
  const std::int64_t piece = std::max<std::int64_t>(1, (1 << 18) / std::max<std::int64_t>(1, per_row));
  for (std::int64_t done = 0; done < count; done += piece) {
    const std::int64_t here = std::min(piece, count - done);
    narrow_.clear();
    for (std::int64_t i = done * per_row; i < (done + here) * per_row; ++i) {
      narrow_.push_back(from[i] < 0 ? no_row : static_cast<std::uint32_t>(from[i]));
    }
    write(to, first + done, here, narrow_.data(), again);
  }
}

nlohmann::json Columns::sync() {
  nlohmann::json noted;
  const auto add = [&](Open& array) {
    array.file.sync();
    noted[array.name] = {array.file.size(), hex(array.sum)};
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

void Columns::find_runs(std::int64_t first, std::int64_t last, std::vector<Run>& runs) const {
  const auto lower_bound = [&](std::int64_t from, std::int64_t to, std::int64_t row) {
    while (from < to) {
      const std::int64_t middle = from + (to - from) / 2;
      std::int64_t its = 0;
      read_rows(middle, 1, &its);
      its < row ? from = middle + 1 : to = middle;
    }
    return from;
  };
  const bool follows = !runs.empty();
  std::int64_t found = 0;
  runs.resize(static_cast<std::size_t>(tiles()));
  for (std::int64_t tile = 0; tile < tiles(); ++tile) {
    Run& run = runs[static_cast<std::size_t>(tile)];
    run.begin = follows ? run.end : lower_bound(place(tile), place(tile + 1), first);
    run.end = lower_bound(run.begin, place(tile + 1), last);
    found += run.end - run.begin;
  }
  if (found != last - first) {
    throw DamagedWork(work_.path(), rows_file,
                      fmt::format("it has {} of the rows {} to {}", found, first, last - 1));
  }
}

// What a run before has brought into order, so many rows of each column.
std::vector<RunningHash> Columns::resume_ordered(const nlohmann::json& before, std::int64_t rows,
                                                 const Execution& execution) const {
  StopRequest stop(execution);
  std::vector<RunningHash> hashes(columns_.size());
  std::vector<std::byte> piece;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const std::string name = ordered(columns_[c].name);
    std::uint64_t at = columns_[c].header(this->rows()).size();
    const std::uint64_t end =
        at + static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(columns_[c].bytes);
    work_.check_file(name, end);
    const InputFile file(work_.path() / name);
    for (; at < end; at += piece.size()) {
      piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(tuning::block_bytes, end - at)));
      file.read(at, piece.data(), piece.size());
      hashes[c].add(piece.data(), piece.size());
      stop.check();
    }
    if (hashes[c].value() != checksum(entry(before, c))) {
      throw DamagedWork(work_.path(), name, "rows in it are not those that an interrupted run has noted");
    }
  }
  return hashes;
}

// A bucket of consecutive rows at a time: in every tile those are one run.
void Columns::write_in_order_of_input(std::int64_t memory, const Execution& execution) {
  std::int64_t row_bytes = 0;
  for (const Column& column : columns_) row_bytes += std::max<std::int64_t>(1, column.bytes);
  const std::int64_t all = rows();
  const std::int64_t bucket_rows = std::clamp<std::int64_t>(memory / std::max<std::int64_t>(1, row_bytes), 1,
                                                            std::max<std::int64_t>(all, 1));
  const std::int64_t piece = std::max<std::int64_t>(1, tuning::block_bytes / (row_bytes + 8));

  std::int64_t first = 0;
  std::vector<RunningHash> hashes(columns_.size());
  if (const nlohmann::json* before = work_.last("ordered")) {
    first = whole(*before, "rows in order", 0, all);
    const nlohmann::json* noted = work_.last("ordered hashes");
    if (noted == nullptr) throw BadRecord("'ordered hashes' is missing");
    hashes = resume_ordered(*noted, first, execution);
  }
  std::vector<Open> out;
  std::vector<std::vector<std::byte>> buckets, some;
  for (const Column& column : columns_) {
    out.push_back(open(ordered(column.name), column.header(all), column.bytes));
    buckets.emplace_back(static_cast<std::size_t>(std::min(bucket_rows, all) * column.bytes));
    some.emplace_back(static_cast<std::size_t>(std::min(piece, all) * column.bytes));
  }
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(std::min(piece, all)));
  ProgressCounter progress(execution, "answer", all);
  progress.advance(first);
  Pacer pacer;
  std::vector<Run> runs;
  for (; first < all; first += bucket_rows) {
    const std::int64_t last = std::min(first + bucket_rows, all);
    find_runs(first, last, runs);
    for (const Run& run : runs) {
      for (std::int64_t at = run.begin; at < run.end; at += piece) {
        const std::int64_t here = std::min(piece, run.end - at);
        read_rows(at, here, first, last, numbers.data());
        for (std::size_t c = 0; c < columns_.size(); ++c) {
          const auto bytes = static_cast<std::size_t>(columns_[c].bytes);
          read(c, at, here, some[c].data());
          for (std::int64_t i = 0; i < here; ++i) {
            const auto to = static_cast<std::size_t>(numbers[static_cast<std::size_t>(i)] - first);
            std::memcpy(buckets[c].data() + to * bytes, some[c].data() + static_cast<std::size_t>(i) * bytes,
                        bytes);
          }
        }
        progress.advance(here);
      }
    }
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const auto bytes = static_cast<std::uint64_t>(columns_[c].bytes);
      const std::uint64_t at = out[c].header + static_cast<std::uint64_t>(first) * bytes;
      const std::uint64_t count = static_cast<std::uint64_t>(last - first) * bytes;
      out[c].file.write(at, buckets[c].data(), count);
      hashes[c].add(buckets[c].data(), count);
      out[c].file.start_writing(at, count);
    }
    if (pacer.due()) {
      const Pacer::Pause pause(pacer);
      nlohmann::json noted = nlohmann::json::array();
      for (Open& column : out) column.file.sync();
      for (const RunningHash& hash : hashes) noted.push_back(hex(hash.value()));
      work_.note({{"ordered", last}, {"ordered hashes", noted}});
    }
  }
  for (Open& column : out) column.file.sync();
  progress.finish();
}

}  // namespace kith::point_tiles
