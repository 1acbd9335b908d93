// Hands bytes to every reader of one format. Anything but an answer or an exception of Kith is a fault.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "io/format.hpp"
#include "io/point_copy.hpp"

namespace kith::fuzz {

inline void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

/// Reads every byte of the rows, so that a view beyond the file is noticed.
inline std::uint64_t touch(const DatasetView& data) {
  std::uint64_t sum = 0;
  const std::size_t row_bytes = static_cast<std::size_t>(data.dim) * size_of(data.dtype);
  for (std::int64_t i = 0; i < data.rows; ++i) {
    const auto* row = static_cast<const std::uint8_t*>(data.row(i));
    for (std::size_t b = 0; b < row_bytes; ++b) sum = sum * 31 + row[b];
  }
  return sum;
}

/// The rows of a source by blocks, from the front and from the middle, are those of its reader.
inline void try_stream(const io::Format& format, const io::Source& source, const Dataset* all) {
  try {
    const auto stream = io::stream_source(source, format, std::uint64_t{64} << 20U);
    require(stream->rows() >= 0 && stream->dim() >= 1, "a stream has rows of at least 0, dim of at least 1");
    require(all == nullptr || (stream->rows() == all->rows() && stream->dim() == all->dim() &&
                               stream->dtype() == all->dtype()),
            "stream and read_dataset agree");
    const std::size_t row_bytes = static_cast<std::size_t>(stream->dim()) * size_of(stream->dtype());
    if (row_bytes > (std::size_t{1} << 20U)) return;
    constexpr std::int64_t block = 7;
    std::vector<std::byte> rows(block * row_bytes);
    const auto check = [&](std::int64_t first) {
      const std::int64_t count = std::min(block, stream->rows() - first);
      stream->read(rows.data(), count);
      for (std::int64_t i = 0; all != nullptr && i < count; ++i) {
        require(std::memcmp(rows.data() + static_cast<std::size_t>(i) * row_bytes, all->view().row(first + i),
                            row_bytes) == 0,
                "a stream gives the rows that read_dataset gives");
      }
    };
    for (const std::int64_t row : {stream->rows() / 2, stream->rows() / 3}) {
      stream->seek(row);
      check(row);
    }
    stream->seek(0);
    for (std::int64_t first = 0; first < stream->rows(); first += block) check(first);
    stream->seek(stream->rows());
    require(all != nullptr, "what can be streamed can be read");
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error says something");
    require(all == nullptr, "what can be read can be streamed");
  }
}

/// A file of points once more, with a column: its points are the same.
inline void try_copy(const io::Format& format, const io::Source& source, const Dataset* all) {
  const int file = ::memfd_create("copy", 0);
  require(file >= 0, "a file in memory");
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  try {
    const auto columns = io::stream_rows(Dataset::allocate(Dtype::f32, all == nullptr ? 1 : all->rows(), 1));
    io::PointChanges changes;
    changes.names = {"added"};
    changes.values = columns.get();
    AtomicFile out(path);
    (format.format == FileFormat::las ? io::copy_las : io::copy_ply)(out, source, changes);
    out.commit();
    if (all == nullptr) throw InvalidArgument("a copy keeps words that are no numbers");
    const Dataset copy = format.read(io::open_source(path), {});
    require(copy.rows() == all->rows() && touch(copy) == touch(*all), "a copy has the same points");
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error says something");
  }
  ::close(file);
}

/// What came of one input; for the tests that count.
struct Outcome {
  bool inspected = false;
  bool read = false;
  bool neighbors = false;
};

inline Outcome try_readers(const io::Format& format, std::span<const std::byte> bytes) {
  io::Source source;
  source.bytes = bytes;
  source.name = "input";
  int file = -1;
  if (format.format == FileFormat::index || format.format == FileFormat::npy) {  // opened by name
    file = ::memfd_create("input", 0);
    require(file >= 0 && ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "a file in memory");
    source.path = "/proc/self/fd/" + std::to_string(file);
  }
  Outcome outcome;
  std::int64_t rows = -1;
  try {
    const FileInfo info = format.inspect(source);
    require(info.rows >= 0 && info.dim >= 1, "inspect says rows of at least 0, dim of at least 1");
    rows = info.rows;
    outcome.inspected = true;
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error says something");
  }
  if (format.read != nullptr) {
    std::optional<Dataset> whole;
    try {
      const Dataset all = format.read(source, {});
      require(all.rows() >= 0 && all.dim() >= 1, "read_dataset gives rows of at least 0, dim of at least 1");
      require(!outcome.inspected || rows == all.rows(), "inspect and read_dataset agree");
      const std::uint64_t sum = touch(all);
      whole = all;
      outcome.read = true;
      if (all.rows() > 1) {
        ReadOptions options;
        options.first_row = all.rows() / 2;
        options.max_rows = 1;
        const Dataset one = format.read(source, options);
        require(one.rows() == 1 && one.dim() == all.dim(), "a slice has the rows asked for");
        require(touch(one) == touch(all.view().slice(options.first_row, 1)), "a slice holds the same values");
      }
      require(sum == touch(all), "rows do not change");
    } catch (const Error&) {
    }
    if (format.format != FileFormat::hdf5) try_stream(format, source, whole ? &*whole : nullptr);
    if (format.format == FileFormat::las || format.format == FileFormat::ply) {
      try_copy(format, source, whole ? &*whole : nullptr);
    }
  }
  if (format.format == FileFormat::npy || format.format == FileFormat::xyz) {  // what sets of rows look like
    try {
      constexpr std::int64_t rows_of_the_set = 100;
      const RowSet set = io::read_row_set(source, rows_of_the_set);
      require(set.rows() == rows_of_the_set && set.count() >= 0 && set.count() <= rows_of_the_set,
              "a set of rows has the rows there are");
    } catch (const Error& error) {
      require(error.what()[0] != '\0', "an error says something");
    }
  }
  if (format.read_neighbors != nullptr) {
    try {
      const Neighbors result = format.read_neighbors(source);
      require(result.indices.size() == static_cast<std::size_t>(result.queries * result.k), "a whole result");
      outcome.neighbors = true;
    } catch (const Error&) {
    }
  }
  if (file >= 0) ::close(file);
  return outcome;
}

inline Outcome try_readers(const io::Format& format, const std::string& bytes) {
  return try_readers(format, std::as_bytes(std::span(bytes)));
}

}  // namespace kith::fuzz
