#include "unpacked.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/positioned_file.hpp"
#include "core/stream.hpp"
#include "io/format.hpp"
#include "kith/error.hpp"
#include "point_tiles/running_hash.hpp"
#include "python.hpp"
#include "stream.hpp"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view suffix = ".unpacked.npy";
constexpr std::array<std::string_view, 5> tables = {".parquet", ".pq", ".arrow", ".feather", ".ipc"};

std::vector<std::string> modules_of(Reader reader) {
  switch (reader) {
    case Reader::laz: return {"laspy", "lazrs"};
    case Reader::e57: return {"pye57"};
    case Reader::table: return {"pyarrow"};
  }
  return {};
}

// What is unpacked of the file as it is now.
std::string identity_of(const std::string& path) {
  struct stat status {};
  if (::stat(file_of(path).c_str(), &status) != 0) return path;  // its reader says why
  std::error_code ignored;
  return fmt::format("{}\n{}\n{}.{}", fs::absolute(path, ignored).lexically_normal().string(), status.st_size,
                     status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

// Where files beside an output go.
fs::path stem_of(const std::string& output) {
  std::error_code ignored;
  if (output.empty() || is_stream(output))
    return fs::temp_directory_path(ignored) / fmt::format("kith-{}", ::getuid());
  fs::path stem = output;
  return stem.has_filename() ? stem : stem.parent_path();
}

// A descriptor that holds the lock of a file, which is made where there is none; -1 where another has it, or
// it is somebody else's.
int locked(const fs::path& path, int flags) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
  if (file < 0 && (flags & O_CREAT) != 0) {
    throw IoError(fmt::format("cannot write '{}': {}", path.string(), std::strerror(errno)));
  }
  struct stat status {};
  if (file >= 0 &&
      (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid())) {
    ::close(file);
    return -1;
  }
  if (file >= 0 && ::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(file);
    return -1;
  }
  return file;
}

}  // namespace

std::string file_of(const std::string& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return path;
  std::string lower = path;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const std::string_view table : tables) {
    const auto at = lower.rfind(std::string(table) + ':');
    if (at != std::string::npos) return path.substr(0, at + table.size());
  }
  return path;
}

Reader reader_of(const std::string& path) {
  const std::string extension = io::lower_extension(file_of(path));
  if (std::ranges::find(tables, extension) != tables.end()) return Reader::table;
  return extension == ".e57" ? Reader::e57 : Reader::laz;
}

bool is_packed(const std::string& path) {
  if (reader_of(path) != Reader::laz) return true;
  const std::string extension = io::lower_extension(path);
  std::error_code ignored;
  if (is_stream(path) || !fs::is_regular_file(path, ignored)) return extension == ".laz";
  std::array<char, 105> start{};
  std::ifstream(path, std::ios::binary).read(start.data(), start.size());
  const bool las = std::string_view(start.data(), 4) == "LASF";
  return las ? (static_cast<unsigned char>(start[104]) & 0xC0U) != 0 : extension == ".laz";
}

std::string program_of(const std::string& name) {
  std::error_code error;
  const fs::path bin = program_folder();
  for (const fs::path& folder :
       {bin.parent_path() / "share/kith", bin.parent_path().parent_path() / "python/kith",
        bin.parent_path().parent_path().parent_path() / "python/kith"}) {
    if (fs::exists(folder / name, error)) return (folder / name).string();
  }
  throw IoError(fmt::format("'{}' is missing, which kith runs for LAZ, E57 and tables; install kith again",
                            (bin.parent_path() / "share/kith" / name).string()));
}

std::string python_for(const std::string& path, Reader reader, const std::string& verb) {
  const char* named = std::getenv("KITH_PYTHON");
  const std::vector<std::string> modules = modules_of(reader);
  const char* const them = modules.size() > 1 ? "them" : "it";
  return find_python(
      named == nullptr ? "" : named, modules, fmt::format("'{}' is {} by", path, verb),
      fmt::format("install {} (python3 -m pip install {}), or name a Python that has {} with KITH_PYTHON",
                  them, fmt::join(modules, " "), them));
}

void run_packer(const std::vector<std::string>& arguments, const std::string& path) {
  const Ended ended = run_program(arguments);
  if (ended.status == 0) return;
  const std::string said = ended.out.substr(0, ended.out.find('\n'));
  throw IoError(said.empty()
                    ? fmt::format("cannot convert '{}': Python ended with status {}", path, ended.status)
                    : said);
}

UnpackedClouds::UnpackedClouds(const Common& common, const std::vector<std::string*>& paths,
                               const std::string& output, const std::string& format) {
  if (!format.empty() && format != "las") return;
  std::vector<std::string*> packed;
  std::ranges::copy_if(paths, std::back_inserter(packed), [&](const std::string* path) {
    return is_packed(*path) && (format.empty() || reader_of(*path) == Reader::laz);
  });
  if (packed.empty()) return;
  const fs::path stem = stem_of(output);
  try {
    for (std::string* path : packed) {
      auto made = std::ranges::find(made_, *path, &Made::source);
      if (made == made_.end()) {
        fs::path place = stem;
        point_tiles::RunningHash hash;
        const std::string identity = identity_of(*path);
        hash.add(identity.data(), identity.size());
        place += fmt::format(".{:016x}{}", hash.value(), suffix);
        made_.push_back({*path, std::move(place), -1, {}});
        made = std::prev(made_.end());
        unpack(common, *made);
      }
      show_as(made->place.string(), *path);
      *path = made->place.string();
    }
    remove_older(stem);
  } catch (...) {
    remove();
    throw;
  }
}

std::vector<fs::path> UnpackedClouds::sources_of(const std::vector<fs::path>& paths) const {
  std::vector<fs::path> sources = paths;
  for (fs::path& path : sources) {
    const auto made = std::ranges::find(made_, path, &Made::place);
    if (made != made_.end()) path = made->source;
  }
  return sources;
}

void UnpackedClouds::unpack(const Common& common, Made& made) const {
  const Reader reader = reader_of(made.source);
  const std::string python = python_for(made.source, reader, "read");
  const auto busy = [&] {
    return IoError(fmt::format(
        "'{}' is in use by another run of kith, or somebody else's; wait for it, or name another output",
        made.place.string()));
  };
  std::error_code ignored;
  if (fs::exists(made.place, ignored)) {  // whole: it was given its name at the end
    made.lock = locked(made.place, 0);
    if (made.lock < 0) throw busy();
    made.note = TemporaryFileNote(made.place);
    note(common, fmt::format("'{}' had been unpacked by a run that was interrupted", made.source));
    return;
  }
  fs::path temporary = made.place;
  temporary += ".tmp";
  made.lock = locked(temporary, O_CREAT);
  if (made.lock < 0) throw busy();
  const TemporaryFileNote unfinished(temporary);
  made.note = TemporaryFileNote(made.place);
  try {
    run_packer({python, "-B", program_of(reader == Reader::table ? "_arrow.py" : "_unpack.py"), "unpack",
                made.source, temporary.string(), std::to_string(std::max<std::int64_t>(0, common.threads))},
               made.source);
    // The time of what it is made of: tiles of it are those of a run to come as well.
    fs::last_write_time(temporary, fs::last_write_time(file_of(made.source)));
    if (::fsync(made.lock) != 0) {
      throw IoError(fmt::format("cannot write '{}': {}", made.place.string(), std::strerror(errno)));
    }
    fs::rename(temporary, made.place);
    sync_folder(made.place.has_parent_path() ? made.place.parent_path() : ".");
  } catch (const fs::filesystem_error& error) {
    fs::remove(temporary, ignored);
    throw IoError(fmt::format("cannot write '{}': {}", made.place.string(), error.code().message()));
  } catch (...) {
    fs::remove(temporary, ignored);
    throw;
  }
}

// What runs that were killed have left of other files.
void UnpackedClouds::remove_older(const fs::path& stem) const {
  std::error_code ignored;
  const std::string start = stem.filename().string() + '.';
  const fs::path folder = stem.has_parent_path() ? stem.parent_path() : ".";
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(".tmp")) name.resize(name.size() - 4);
    constexpr std::size_t digits = 16;
    if (!name.starts_with(start) || !name.ends_with(suffix) ||
        name.size() != start.size() + digits + suffix.size()) {
      continue;
    }
    const auto ours = [&](const Made& made) { return made.place.filename() == entry.path().filename(); };
    if (std::ranges::any_of(made_, ours)) continue;
    const int lock = locked(entry.path(), 0);
    if (lock < 0) continue;
    fs::remove(entry.path(), ignored);
    ::close(lock);
  }
}

void UnpackedClouds::remove() noexcept {
  std::error_code ignored;
  for (const Made& made : made_) {
    if (made.lock < 0) continue;
    fs::remove(made.place, ignored);
    ::close(made.lock);
  }
}

}  // namespace kith::cli
