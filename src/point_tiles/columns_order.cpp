// The pass that brings answers into the order of the input: a bucket of consecutive rows at a time, which in
// every tile are one run. All threads gather the runs of a bucket while the bucket before it is written.
#include <algorithm>
#include <cstring>
#include <future>

#include <fmt/format.h>

#include "core/aligned_buffer.hpp"
#include "core/beside.hpp"
#include "core/by_thread.hpp"
#include "core/fixed_size.hpp"
#include "core/parallel.hpp"
#include "io/manifest_text.hpp"
#include "point_tiles/columns.hpp"
#include "point_tiles/journal.hpp"
#include "point_tiles/pacer.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {

// Where the first row of a run that is not below `last` stands, and likewise where it begins.
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
  runs.resize(static_cast<std::size_t>(tiles()));
  constexpr std::int64_t part = 16;
  parallel_for(threads_, (tiles() + part - 1) / part, [&](std::int64_t p) {
    for (std::int64_t tile = p * part; tile < std::min(tiles(), (p + 1) * part); ++tile) {
      Run& run = runs[static_cast<std::size_t>(tile)];
      run.begin = follows ? run.end : lower_bound(place(tile), place(tile + 1), first);
      run.end = lower_bound(run.begin, place(tile + 1), last);
    }
  });
  std::int64_t found = 0;
  for (const Run& run : runs) found += run.end - run.begin;
  if (found != last - first) {
    throw DamagedWork(work_.path(), rows_.rows.name(),
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

// Rows [first, last) of every column, in memory as they will lie in the pages of its file.
struct Columns::Bucket {
  std::int64_t first = 0, last = 0;
  std::vector<AlignedBuffer<std::byte>> memory;
  std::vector<std::byte*> columns;

  void add(std::int64_t bytes) {
    memory.emplace_back(bytes + static_cast<std::int64_t>(OutputFile::direct_page));
    columns.push_back(nullptr);
  }
  void begin(std::int64_t first_row, std::int64_t last_row, const std::vector<RowFiles>& out) {
    first = first_row;
    last = last_row;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      columns[c] = memory[c].data() + out[c].offset(first) % OutputFile::direct_page;
    }
  }
};

// What a thread reads into.
struct Columns::Scratch {
  std::vector<std::int64_t> numbers;
  std::vector<std::byte> rows;
};

void Columns::gather(const Run& run, Bucket& bucket, Scratch& scratch) const {
  const std::int64_t count = run.end - run.begin;
  scratch.numbers.resize(static_cast<std::size_t>(count));
  read_rows(run.begin, count, bucket.first, bucket.last, scratch.numbers.data());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const auto bytes = static_cast<std::size_t>(columns_[c].bytes);
    scratch.rows.resize(std::max(scratch.rows.size(), static_cast<std::size_t>(count) * bytes));
    read(c, run.begin, count, scratch.rows.data());
    with_fixed_size(bytes, [&, to = bucket.columns[c], from = scratch.rows.data()](auto size) {
      for (std::int64_t i = 0; i < count; ++i) {
        const auto row =
            static_cast<std::size_t>(scratch.numbers[static_cast<std::size_t>(i)] - bucket.first);
        std::memcpy(to + row * size, from + static_cast<std::size_t>(i) * size, size);
      }
    });
  }
}

void Columns::write_in_order_of_input(std::int64_t memory, const Execution& execution) {
  std::int64_t row_bytes = 0;
  for (const Column& column : columns_) row_bytes += std::max<std::int64_t>(1, column.bytes);
  row_bytes = std::max<std::int64_t>(1, row_bytes);
  const std::int64_t all = rows();
  const std::int64_t scratch_bytes = std::min<std::int64_t>(tuning::block_bytes, memory / 4 / threads_);
  const std::int64_t piece = std::max<std::int64_t>(1, scratch_bytes / (row_bytes + 8));
  const std::int64_t bucket_bytes = std::min((memory - threads_ * scratch_bytes) / 2, tuning::bucket_bytes);
  const std::int64_t bucket_rows =
      std::clamp<std::int64_t>(bucket_bytes / row_bytes, 1, std::max<std::int64_t>(all, 1));

  std::int64_t first = 0;
  std::vector<RunningHash> hashes(columns_.size());
  if (const nlohmann::json* before = work_.last("ordered")) {
    first = whole(*before, "rows in order", 0, all);
    const nlohmann::json* noted = work_.last("ordered hashes");
    if (noted == nullptr) throw BadRecord("'ordered hashes' is missing");
    hashes = resume_ordered(*noted, first, execution);
  }
  std::vector<RowFiles> out;
  Bucket buckets[2];
  for (const Column& column : columns_) {
    out.emplace_back(work_, ordered(column.name), column.header(all), all, column.bytes);
    for (Bucket& bucket : buckets) bucket.add(std::min(bucket_rows, all) * column.bytes);
  }
  ProgressCounter progress(execution, "answer", all);
  progress.advance(first);
  Pacer pacer;
  const auto write = [&](const Bucket& bucket) {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const auto bytes = static_cast<std::size_t>((bucket.last - bucket.first) * columns_[c].bytes);
      std::future<void> hashing;
      if (kept_) {
        hashing = beside([&hash = hashes[c], from = bucket.columns[c], bytes] { hash.add(from, bytes); });
      }
      out[c].write_next(bucket.first, bucket.last - bucket.first, bucket.columns[c]);
      if (hashing.valid()) hashing.get();
    }
    if (!kept_ || !pacer.due()) return;  // what is in order is worth nothing without the rest
    const Pacer::Pause pause(pacer);
    nlohmann::json noted = nlohmann::json::array();
    for (RowFiles& column : out) column.sync(threads_);
    for (const RunningHash& hash : hashes) noted.push_back(io::hash_text(hash.value()));
    work_.note({{"ordered", bucket.last}, {"ordered hashes", noted}});
  };
  ByThread<Scratch> scratch;
  std::vector<Run> runs, pieces;
  std::future<void> writing;  // waits for its thread when it goes, before what that reads
  for (int which = 0; first < all; first += bucket_rows, which = 1 - which) {
    Bucket& bucket = buckets[which];
    bucket.begin(first, std::min(first + bucket_rows, all), out);
    find_runs(bucket.first, bucket.last, runs);
    pieces.clear();
    for (const Run& run : runs) {
      for (std::int64_t at = run.begin; at < run.end; at += piece) {
        pieces.push_back({at, std::min(at + piece, run.end)});
      }
    }
    parallel_for(threads_, static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i) {
      const Run& run = pieces[static_cast<std::size_t>(i)];
      gather(run, bucket, scratch.local());
      progress.advance(run.end - run.begin);
    });
    if (writing.valid()) writing.get();
    writing = beside([&write, &bucket] { write(bucket); });
  }
  if (writing.valid()) writing.get();
  for (RowFiles& column : out) column.sync(threads_);
  progress.finish();
}

}  // namespace kith::point_tiles
