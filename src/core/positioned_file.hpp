// Files that are read or written at given offsets, without a map: what is read this way counts as nobody's
// memory but the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/temporary_files.hpp"

namespace kith {

/// A name beside `path` that nobody else takes: "<path>.<pid>.<number>.work.tmp".
std::filesystem::path temporary_name(const std::filesystem::path& path);

/// What a symbolic link leads to in the end, there or not; `path` itself where it is none. Whoever renames
/// onto that leaves the link what it is.
std::filesystem::path behind_links(std::filesystem::path path);

/// A file to read at any offset, by any number of threads. Move-only.
class InputFile {
 public:
  InputFile() = default;
  /// @param name what messages call it; empty: its path
  /// @throws IoError when it is missing, a folder or unreadable
  explicit InputFile(const std::filesystem::path& path, std::string name = {});
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  std::uint64_t size() const;
  /// @throws IoError, also where the file ends before
  void read(std::uint64_t offset, void* to, std::size_t bytes) const;
  /// Reads will jump: nothing is to be read ahead of them. Only a hint.
  void expect_jumps(bool jumps) const noexcept;
  /// These bytes will be read soon: the system may begin with that. Only a hint.
  void expect(std::uint64_t offset, std::uint64_t bytes) const noexcept;

  /// Opens it past the page cache as well, where the file system lets it; see direct().
  void open_direct() noexcept;
  /// For aligned reads past the page cache: a descriptor, or -1.
  int direct() const noexcept { return direct_fd_; }
  int descriptor() const noexcept { return fd_; }

 private:
  std::string name_;
  int fd_ = -1;
  int direct_fd_ = -1;
};

/// The entries of a folder reach the disk.
void sync_folder(const std::filesystem::path& folder) noexcept;

/// A file to write at any offset, which is removed with the object unless it was renamed. Move-only.
class OutputFile {
 public:
  OutputFile() = default;
  /// Makes the file, which must not be there yet. @throws IoError
  explicit OutputFile(std::filesystem::path path);
  /// Opens a file that stays when the object goes, and makes it where there is none: its folder's owner
  /// decides what becomes of it. @throws IoError
  static OutputFile lasting(std::filesystem::path path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  /// @throws IoError (disk full, ...)
  void write(std::uint64_t offset, const void* from, std::size_t bytes);
  /// The same by parts, each of which the disk begins to take as it comes. @throws IoError
  void write_through(std::uint64_t offset, const void* from, std::size_t bytes);
  /// The same past the page cache, where the file system lets it and memory and offset lie alike in their
  /// pages (direct_page): large files at the disk's rate, by one thread. Pages that are not whole go through
  /// the cache. @throws IoError
  void write_direct(std::uint64_t offset, const void* from, std::size_t bytes);
  static constexpr std::size_t direct_page = 4096;
  /// What was written. @throws IoError
  void read(std::uint64_t offset, void* to, std::size_t bytes) const;
  /// Gives it its name; what was written is synced by whoever wants it to last. @throws IoError
  void rename_to(const std::filesystem::path& path);
  void sync();
  /// The disk begins to take what lies there, so that sync() has little left to wait for. Only a hint.
  void start_writing(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  std::uint64_t size() const;
  /// Cuts what is behind `bytes`, or extends the file by zeros. @throws IoError
  void truncate(std::uint64_t bytes);

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  bool open_direct() noexcept;
  void close_direct() noexcept;

  std::filesystem::path path_;
  bool lasting_ = false;
  bool refused_direct_ = false;
  TemporaryFileNote note_;
  int fd_ = -1;
  int direct_fd_ = -1;
};

}  // namespace kith
