// A table that goes to its file while it is made.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "core/atomic_file.hpp"

namespace kith::io {

/// Doubles [rows, columns] that become an npy file: a thread of its own writes parts whose rows are finished
/// while others are not, and gives their memory back. The file appears with commit(), whole or not at all.
class TableFile {
 public:
  /// @param path a file to be, not a stream
  /// @param cancelled polled for each part; true makes finished() and commit() throw Cancelled
  /// @throws IoError when the folder is missing or not writable, std::bad_alloc
  TableFile(std::filesystem::path path, std::int64_t rows, std::int64_t columns,
            std::function<bool()> cancelled = {});
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;
  ~TableFile();

  /// [rows, columns], not initialised. Rows are there until they are finished, or close() is called.
  double* values() noexcept { return reinterpret_cast<double*>(image_.data() + header_bytes_); }

  /// Rows that nobody changes any more, each at most once. Any thread. @throws IoError, Cancelled: what
  /// writing has met
  void finished(std::span<const std::int64_t> rows);

  /// No row changes any more: the rest is written, and all of it brought to the disk, meanwhile.
  void close();

  /// close(), waits and gives the file its name. @throws IoError, Cancelled; the target is then untouched
  void commit();

 private:
  void leave(std::int64_t part, std::int64_t rows);
  void write_parts();
  std::uint64_t write_part(std::int64_t part);

  AtomicFile file_;
  AlignedBuffer<char> image_;  ///< of the file: what begins a page of it begins one of memory
  std::uint64_t header_bytes_ = 0;
  std::uint64_t row_bytes_ = 0;
  std::vector<std::atomic<std::int64_t>> missing_;  ///< rows of each part that are not finished
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::int64_t> ready_;  ///< parts to write
  bool closed_ = false;             ///< no further part comes
  bool abandoned_ = false;
  std::atomic<bool> failed_ = false;
  std::exception_ptr failure_;
  std::future<void> writer_;  ///< last: it works with all others
};

}  // namespace kith::io
