#include "point_tiles/row_files.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "point_tiles/tuning.hpp"

namespace kith::point_tiles {
namespace {

std::int64_t rows_of_a_block(std::int64_t row_bytes) {
  return std::max<std::int64_t>(1, tuning::row_block_bytes / std::max<std::int64_t>(1, row_bytes));
}

std::string name_of(const std::string& name, std::size_t file, std::size_t files) {
  return files == 1 ? name : fmt::format("{}.{}", name, file);
}

}  // namespace

RowFiles::RowFiles(WorkFolder& work, const std::string& name, std::string_view header, std::int64_t rows,
                   std::int64_t row_bytes)
    : name_(name),
      header_bytes_(header.size()),
      row_bytes_(row_bytes),
      block_rows_(rows_of_a_block(row_bytes)),
      large_(rows * row_bytes >= tuning::least_direct) {
  files_.push_back(OutputFile::lasting(work.file(name)));
  // First, so that what stands in the right order already needs only its name.
  files_.front().write(0, header.data(), header.size());
}

RowFiles::RowFiles(WorkFolder& work, const std::string& name, std::int64_t rows, std::int64_t row_bytes)
    : name_(name), row_bytes_(row_bytes), block_rows_(rows_of_a_block(row_bytes)) {
  const std::int64_t files =
      std::clamp<std::int64_t>(rows * row_bytes / tuning::least_row_file, 1, tuning::row_files);
  if (files > 1) name_ += ".*";
  for (std::size_t file = 0; file < static_cast<std::size_t>(files); ++file) {
    files_.push_back(OutputFile::lasting(work.file(name_of(name, file, static_cast<std::size_t>(files)))));
  }
}

RowFiles::RowFiles(std::string name, std::int64_t rows, std::int64_t row_bytes)
    : name_(std::move(name)),
      memory_(rows * row_bytes),
      row_bytes_(row_bytes),
      block_rows_(rows_of_a_block(row_bytes)) {}

void RowFiles::extend(std::int64_t rows) {
  for (std::size_t file = 0; file < files_.size(); ++file) {
    const std::uint64_t bytes = offset_in(file, rows);
    if (files_[file].size() < bytes) files_[file].truncate(bytes);
  }
}

// Where a row begins in a file, or the next one that lies there: behind those before it.
std::uint64_t RowFiles::offset_in(std::size_t file, std::int64_t row) const noexcept {
  const auto files = static_cast<std::int64_t>(files_.size());
  const auto its = static_cast<std::int64_t>(file);
  const std::int64_t block = row / block_rows_, round = block / files, last = block % files;
  const std::int64_t before = round * block_rows_ + (last > its    ? block_rows_
                                                     : last == its ? row % block_rows_
                                                                   : 0);
  return header_bytes_ + static_cast<std::uint64_t>(before * row_bytes_);
}

// use(file, offset, rows, rows before these) of the parts of a range that lie together.
template <class Use>
void RowFiles::visit(std::int64_t first, std::int64_t count, const Use& use) const {
  const auto files = static_cast<std::int64_t>(files_.size());
  for (std::int64_t done = 0, here = 0; done < count; done += here) {
    const std::int64_t row = first + done;
    here = files == 1 ? count : std::min(count - done, block_rows_ - row % block_rows_);
    const auto file = static_cast<std::size_t>(row / block_rows_ % files);
    use(file, offset_in(file, row), here, done);
  }
}

void RowFiles::write(std::int64_t first, std::int64_t count, const void* from) {
  if (files_.empty()) {
    std::memcpy(memory_.data() + first * row_bytes_, from, static_cast<std::size_t>(count * row_bytes_));
    return;
  }
  visit(first, count, [&](std::size_t file, std::uint64_t offset, std::int64_t rows, std::int64_t done) {
    files_[file].write(offset, static_cast<const std::byte*>(from) + done * row_bytes_,
                       static_cast<std::size_t>(rows * row_bytes_));
  });
}

void RowFiles::write_next(std::int64_t first, std::int64_t count, const void* from) {
  OutputFile& file = files_.front();
  const auto bytes = static_cast<std::size_t>(count * row_bytes_);
  if (large_) {
    file.write_direct(offset(first), from, bytes);
  } else {
    file.write_through(offset(first), from, bytes);
  }
}

void RowFiles::read(std::int64_t first, std::int64_t count, void* to) const {
  if (files_.empty()) {
    std::memcpy(to, memory_.data() + first * row_bytes_, static_cast<std::size_t>(count * row_bytes_));
    return;
  }
  visit(first, count, [&](std::size_t file, std::uint64_t offset, std::int64_t rows, std::int64_t done) {
    files_[file].read(offset, static_cast<std::byte*>(to) + done * row_bytes_,
                      static_cast<std::size_t>(rows * row_bytes_));
  });
}

void RowFiles::start_writing(std::int64_t first, std::int64_t count) const {
  for (std::size_t file = 0; file < files_.size(); ++file) {
    const std::uint64_t begin = offset_in(file, first);
    files_[file].start_writing(begin, offset_in(file, first + count) - begin);
  }
}

void RowFiles::sync(int threads) {
  parallel_for(threads, static_cast<std::int64_t>(files_.size()),
               [&](std::int64_t file) { files_[static_cast<std::size_t>(file)].sync(); });
}

std::vector<std::uint64_t> RowFiles::sizes() const {
  std::vector<std::uint64_t> sizes;
  for (const OutputFile& file : files_) sizes.push_back(file.size());
  return sizes;
}

void RowFiles::check(const WorkFolder& work, const std::string& name, const nlohmann::json& sizes) {
  if (!sizes.is_array() || sizes.empty()) throw BadRecord(fmt::format("'{}' has no sizes", name));
  for (std::size_t file = 0; file < sizes.size(); ++file) {
    const std::int64_t bytes = whole(sizes[file], "the bytes of a column", 0, most_bytes);
    work.check_file(name_of(name, file, sizes.size()), static_cast<std::uint64_t>(bytes));
  }
}

}  // namespace kith::point_tiles
