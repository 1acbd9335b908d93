// The temporary files there are, so that a process that is about to be killed can take them along.
#pragma once

#include <filesystem>
#include <utility>

namespace kith {

/// Keeps a temporary file, or a folder of them, on the list while it lives. Move-only.
class TemporaryFileNote {
 public:
  TemporaryFileNote() = default;
  /// Without effect where the list is full or the name too long: then only the owner removes the file.
  explicit TemporaryFileNote(const std::filesystem::path& path) noexcept;
  TemporaryFileNote(TemporaryFileNote&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}
  TemporaryFileNote& operator=(TemporaryFileNote&& other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~TemporaryFileNote();

 private:
  int slot_ = -1;
};

/// While one lives, files that belong together are being renamed: none is removed.
class RenamingTogether {
 public:
  RenamingTogether() noexcept;
  ~RenamingTogether();
  RenamingTogether(const RenamingTogether&) = delete;
  RenamingTogether& operator=(const RenamingTogether&) = delete;
};

/// Removes all that are on the list and were made by this process, not by its parent. For signal handlers
/// that end the process: it takes no lock and no memory. False while files are renamed together; nothing is
/// done then, and a moment later it may be asked again.
bool remove_temporary_files() noexcept;

}  // namespace kith
