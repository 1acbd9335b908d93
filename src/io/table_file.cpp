// A table that goes to its file while it is made.
#include "io/table_file.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>

#include "core/beside.hpp"
#include "io/format.hpp"

namespace kith::io {
namespace {

constexpr std::uint64_t part_bytes = std::uint64_t{8} << 20U;
// So much goes to the disk together while there is nothing to write.
constexpr std::uint64_t synced_together = 4 * part_bytes;
static_assert(part_bytes % AtomicFile::direct_page == 0);
static_assert(part_bytes % AlignedBuffer<char>::huge_page == 0);

std::int64_t part_of(std::uint64_t byte) {
  return static_cast<std::int64_t>(byte / part_bytes);
}

}  // namespace

TableFile::TableFile(std::filesystem::path path, std::int64_t rows, std::int64_t columns,
                     std::function<bool()> cancelled)
    : file_(std::move(path), std::move(cancelled)) {
  const std::string header = npy_header(npy_descr(Dtype::f64), fmt::format("({}, {})", rows, columns));
  header_bytes_ = header.size();
  row_bytes_ = static_cast<std::uint64_t>(columns) * sizeof(double);
  const std::uint64_t bytes = header_bytes_ + static_cast<std::uint64_t>(rows) * row_bytes_;
  image_ = AlignedBuffer<char>(static_cast<std::int64_t>(bytes));
  std::memcpy(image_.data(), header.data(), header.size());
  missing_ = std::vector<std::atomic<std::int64_t>>((bytes + part_bytes - 1) / part_bytes);
  for (std::size_t part = 0; part < missing_.size(); ++part) {
    const std::uint64_t begin = std::max(part * part_bytes, header_bytes_) - header_bytes_;
    const std::uint64_t end = std::min((part + 1) * part_bytes, bytes) - header_bytes_;
    missing_[part] = static_cast<std::int64_t>((end + row_bytes_ - 1) / row_bytes_ - begin / row_bytes_);
  }
  // The end, which is no whole page, goes through the page cache, and so would what comes behind it.
  ++missing_.back();
  file_.expect(bytes);
  writer_ = beside([this] { write_parts(); });
}

TableFile::~TableFile() {
  {
    const std::scoped_lock lock(mutex_);
    abandoned_ = true;
    changed_.notify_one();
  }
  if (writer_.valid()) writer_.get();
}

void TableFile::finished(std::span<const std::int64_t> rows) {
  if (failed_) std::rethrow_exception(failure_);
  std::int64_t part = -1;
  std::int64_t count = 0;
  for (const std::int64_t row : rows) {
    const std::uint64_t begin = header_bytes_ + static_cast<std::uint64_t>(row) * row_bytes_;
    const std::int64_t first = part_of(begin);
    if (first != part) {
      leave(part, std::exchange(count, 0));
      part = first;
    }
    ++count;
    if (const std::int64_t last = part_of(begin + row_bytes_ - 1); last != first) leave(last, 1);
  }
  leave(part, count);
}

void TableFile::leave(std::int64_t part, std::int64_t rows) {
  if (rows == 0) return;
  if (missing_[static_cast<std::size_t>(part)].fetch_sub(rows, std::memory_order_acq_rel) != rows) return;
  const std::scoped_lock lock(mutex_);
  ready_.push_back(part);
  changed_.notify_one();
}

void TableFile::close() {
  const std::scoped_lock lock(mutex_);
  if (closed_) return;
  for (std::size_t part = 0; part < missing_.size(); ++part) {
    if (missing_[part] != 0) ready_.push_back(static_cast<std::int64_t>(part));
  }
  closed_ = true;
  changed_.notify_one();
}

void TableFile::commit() {
  close();
  if (writer_.valid()) writer_.get();
  if (failed_) std::rethrow_exception(failure_);
  file_.commit();
}

// @return bytes
std::uint64_t TableFile::write_part(std::int64_t part) {
  const std::uint64_t begin = static_cast<std::uint64_t>(part) * part_bytes;
  const std::uint64_t bytes = std::min(part_bytes, image_.bytes() - begin);
  file_.write_at(begin, image_.data() + begin, bytes);
  // Its pages are free for the parts that come next.
  if (bytes == part_bytes) (void)::madvise(image_.data() + begin, bytes, MADV_DONTNEED);
  return bytes;
}

void TableFile::write_parts() {
  std::uint64_t unsynced = 0;
  try {
    for (std::unique_lock lock(mutex_); !abandoned_;) {
      if (!ready_.empty()) {
        const std::int64_t part = ready_.front();
        ready_.pop_front();
        lock.unlock();
        unsynced += write_part(part);
        lock.lock();
      } else if (closed_) {
        lock.unlock();
        file_.finish();
        return;
      } else if (unsynced >= synced_together) {
        lock.unlock();
        file_.sync_written();
        unsynced = 0;
        lock.lock();
      } else {
        changed_.wait(lock);
      }
    }
  } catch (...) {
    failure_ = std::current_exception();
    failed_ = true;
  }
}

}  // namespace kith::io
