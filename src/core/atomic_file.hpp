// Output files that appear whole or not at all: temporary file, fsync, rename.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "core/temporary_files.hpp"

namespace kith {

/// Writes into "<path>.<pid>.<number>.tmp" beside the target; commit() puts it in place, destruction without
/// commit removes it. A target that is a stream (stream.hpp: a device, a pipe, /dev/stdout) is written
/// directly, from where it stands.
/// Move-only.
class AtomicFile {
 public:
  /// @param cancelled polled once per MiB, or per 8 MiB of a large file; true makes write() and finish()
  /// throw Cancelled
  /// @throws IoError when the folder is missing or not writable
  explicit AtomicFile(std::filesystem::path path, std::function<bool()> cancelled = {});
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  /// Appends. @throws IoError (disk full, ...)
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Announces how many bytes will be appended; call it before the first write. Large files then go past the
  /// page cache, where the file system lets them: free memory is what the system has least of, and they are
  /// synced anyway.
  void expect(std::uint64_t bytes);

  /// Writes at an offset, for whoever writes a whole file in parts that come in any order, and appends
  /// nothing; one thread. A large file (see expect()) takes whole pages past the page cache, from memory that
  /// begins with one. @throws IoError (disk full, ...), Cancelled
  void write_at(std::uint64_t offset, const void* data, std::size_t bytes);
  static constexpr std::size_t direct_page = 4096;
  /// What was written at offsets reaches the disk, so that commit() has less to wait for. @throws IoError
  void sync_written() const;

  /// Bytes appended so far.
  std::uint64_t size() const noexcept { return written_; }

  /// The temporary file, for libraries that write by name (HDF5); do not mix with write(). Empty where
  /// the target is a stream.
  const std::filesystem::path& temporary() const noexcept { return temporary_; }

  /// Flushes, syncs and renames, which within a CommitTogether waits for that. @throws IoError; the target is
  /// then untouched
  void commit();

  /// The part of commit() before the rename; nothing can be written after it. @throws IoError
  void finish();

 private:
  friend class CommitTogether;
  void flush();
  bool set_direct(bool on) noexcept;
  void rename();
  void stop_if_cancelled() const;
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  TemporaryFileNote note_;
  std::function<bool()> cancelled_;
  AlignedBuffer<char> buffer_;
  std::size_t filled_ = 0;
  bool direct_ = false;
  std::uint64_t written_ = 0;
  std::uint64_t flushed_ = 0;
  int fd_ = -1;
};

/// While one lives, files that its thread commits wait, complete on the disk, for its commit(): what several
/// functions write appears together, or, where one of them fails, not at all.
class CommitTogether {
 public:
  CommitTogether() noexcept;
  CommitTogether(const CommitTogether&) = delete;
  CommitTogether& operator=(const CommitTogether&) = delete;
  ~CommitTogether();

  /// @throws IoError
  void commit();

 private:
  friend class AtomicFile;
  std::vector<AtomicFile> waiting_;
  CommitTogether* outer_;
};

/// Commits several files that belong together; on an error none of the not yet renamed ones appears.
void commit_all(std::vector<AtomicFile>& files);

}  // namespace kith
