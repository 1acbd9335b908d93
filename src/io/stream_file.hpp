// Inputs that can be read only once (pipes, terminals, sockets) as files that can be opened again and again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace kith::io {

/// All that a descriptor gives, in an anonymous file in memory. Every reader takes its path, maps it and
/// shares its pages, so that what came through a pipe is held once.
class StreamFile {
 public:
  /// Empty, to be written by its path. @throws IoError
  explicit StreamFile(const std::string& name);
  /// Reads `descriptor` to its end.
  /// @param name for messages and, by its extension, for the format: /tmp/queries.npy, "standard input"
  /// @param check called with the bytes held so far, before more are taken; throws where that is too much
  /// @throws IoError
  StreamFile(int descriptor, const std::string& name, const std::function<void(std::uint64_t)>& check);
  StreamFile(StreamFile&& other) noexcept;
  StreamFile& operator=(StreamFile&&) = delete;
  ~StreamFile();

  /// Good in this process, and in its forks, while the object lives.
  std::filesystem::path path() const;

 private:
  int descriptor_ = -1;
};

/// What messages call a file, and whose extension counts: the name of the stream where `path` is that of a
/// StreamFile, else `path` itself.
std::string shown_name(const std::filesystem::path& path);

}  // namespace kith::io
