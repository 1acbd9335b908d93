// memfd: a file without a name, of this process alone, gone with its last descriptor whatever ends it.
#include "io/stream_file.hpp"

#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kith/error.hpp"

namespace kith::io {
namespace {

constexpr std::string_view mark = "kith:";  // tells our anonymous files from those of others
constexpr std::size_t longest_name = 200;   // the kernel takes 249 bytes
constexpr std::size_t piece_bytes = std::size_t{1} << 20U;
constexpr std::uint64_t check_bytes = std::uint64_t{8} << 20U;

// The end of a name that is too long: its extension is there.
std::string kept(const std::string& name) {
  return name.size() <= longest_name ? name : "..." + name.substr(name.size() - longest_name + 3);
}

[[noreturn]] void no_memory(const std::string& name) {
  throw IoError(fmt::format("cannot keep '{}' in memory: {}; save it to a file and name that", name,
                            std::strerror(errno)));
}

void write_whole(int descriptor, const char* from, std::size_t bytes, const std::string& name) {
  while (bytes > 0) {
    const ssize_t count = ::write(descriptor, from, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) no_memory(name);
    from += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

}  // namespace

StreamFile::StreamFile(const std::string& name)
    : descriptor_(::memfd_create((std::string(mark) + kept(name)).c_str(), MFD_CLOEXEC)) {
  if (descriptor_ < 0) no_memory(name);
}

// The destructor runs for what is thrown here: the other constructor has then finished.
StreamFile::StreamFile(int descriptor, const std::string& name,
                       const std::function<void(std::uint64_t)>& check)
    : StreamFile(name) {
  std::vector<char> buffer(piece_bytes);
  std::uint64_t held = 0;
  std::uint64_t next_check = 0;
  while (true) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw IoError(fmt::format("cannot read '{}': {}", name, std::strerror(errno)));
    if (count == 0) break;
    held += static_cast<std::uint64_t>(count);
    if (check && held >= next_check) {
      check(held);
      next_check = held + check_bytes;
    }
    write_whole(descriptor_, buffer.data(), static_cast<std::size_t>(count), name);
  }
  if (check) check(held);
}

StreamFile::StreamFile(StreamFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

StreamFile::~StreamFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::filesystem::path StreamFile::path() const {
  return fmt::format("/proc/self/fd/{}", descriptor_);
}

std::string shown_name(const std::filesystem::path& path) {
  const std::string text = path.string();
  if (!text.starts_with("/proc/self/fd/")) return text;
  std::error_code error;
  const std::string target = std::filesystem::read_symlink(path, error).string();
  const std::string start = "/memfd:" + std::string(mark);
  constexpr std::string_view end = " (deleted)";
  if (error || !target.starts_with(start)) return text;
  std::string name = target.substr(start.size());
  if (name.ends_with(end)) name.resize(name.size() - end.size());
  return name;
}

}  // namespace kith::io
