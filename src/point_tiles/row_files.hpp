// Rows of one size on disk: one array behind a header; or, where nobody is to have them as they are, blocks
// of rows dealt out to several files. Of one file a file system lets one thread write at a time; of eight,
// eight copy at once into memory that the system may have to clear first. Or they are in memory, until the
// object goes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "core/positioned_file.hpp"
#include "point_tiles/work_folder.hpp"

namespace kith::point_tiles {

/// Move-only. Threads may read and write rows that are not each other's, but for write_next(), by one of
/// them.
class RowFiles {
 public:
  /// One array, "<name>" in a work folder: opens what a run before has left of it, or makes it.
  /// @throws IoError
  RowFiles(WorkFolder& work, const std::string& name, std::string_view header, std::int64_t rows,
           std::int64_t row_bytes);
  /// Dealt out to as many files as `rows` are worth, "<name>.0" and on.
  RowFiles(WorkFolder& work, const std::string& name, std::int64_t rows, std::int64_t row_bytes);
  /// In memory. @throws std::bad_alloc
  RowFiles(std::string name, std::int64_t rows, std::int64_t row_bytes);

  /// A row and those behind it; null where they are in files.
  const std::byte* in_memory(std::int64_t row) const noexcept {
    return files_.empty() ? memory_.data() + row * row_bytes_ : nullptr;
  }
  /// What messages call it: "<name>", or "<name>.*".
  const std::string& name() const noexcept { return name_; }
  std::int64_t row_bytes() const noexcept { return row_bytes_; }
  /// Rows from a multiple of this up to the next lie in one file.
  std::int64_t block_rows() const noexcept { return block_rows_; }
  /// Where a row begins in the file of one array.
  std::uint64_t offset(std::int64_t row) const noexcept { return offset_in(0, row); }

  /// To the size of so many rows: those that a run before has not put are zeros, not beyond the end.
  void extend(std::int64_t rows);
  void write(std::int64_t first, std::int64_t count, const void* from);
  /// Of one array, the next of many that lie in memory as they will in the pages of the file: so much of them
  /// goes past the page cache, see OutputFile::write_direct().
  void write_next(std::int64_t first, std::int64_t count, const void* from);
  /// What was written. @throws IoError
  void read(std::int64_t first, std::int64_t count, void* to) const;
  /// The disk begins to take these rows. Only a hint.
  void start_writing(std::int64_t first, std::int64_t count) const;
  /// All of it is on the disk.
  void sync(int threads);

  /// Bytes of each file; what check() of a later run asks for.
  std::vector<std::uint64_t> sizes() const;
  /// That the files of this name are at least as large as a run before has noted. @throws DamagedWork,
  /// BadRecord
  static void check(const WorkFolder& work, const std::string& name, const nlohmann::json& sizes);

 private:
  std::uint64_t offset_in(std::size_t file, std::int64_t row) const noexcept;
  template <class Use>
  void visit(std::int64_t first, std::int64_t count, const Use& use) const;

  std::string name_;
  std::vector<OutputFile> files_;  // none: in memory
  AlignedBuffer<std::byte> memory_;
  std::uint64_t header_bytes_ = 0;
  std::int64_t row_bytes_ = 0;
  std::int64_t block_rows_ = 1;
  bool large_ = false;
};

}  // namespace kith::point_tiles
