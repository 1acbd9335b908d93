#include "point_tiles/work_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/parallel.hpp"

namespace kith::point_tiles {
namespace {

namespace fs = std::filesystem;

constexpr int journal_version = 3;
constexpr const char* replaced_name = "replaced";
constexpr std::size_t hash_digits = 16;

std::string line_of(const nlohmann::json& record) {
  const std::string text = record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return fmt::format("{:016x} {}\n", XXH3_64bits(text.data(), text.size()), text);
}

// Null where the line is none that was written whole.
nlohmann::json parse_line(std::string_view line) {
  if (line.size() < hash_digits + 2 || line[hash_digits] != ' ') return nullptr;
  const std::string_view text = line.substr(hash_digits + 1);
  if (fmt::format("{:016x}", XXH3_64bits(text.data(), text.size())) != line.substr(0, hash_digits)) {
    return nullptr;
  }
  return is_shallow(text) ? nlohmann::json::parse(text, nullptr, false) : nullptr;
}

// A member of the header, of the type that Kith writes; null for another.
nlohmann::json header_member(const nlohmann::json& header, const char* key, nlohmann::json::value_t type) {
  return header.contains(key) && header[key].type() == type ? header[key] : nullptr;
}

nlohmann::json header_of(const nlohmann::json& task, bool resumable) {
  return {{"format", "kith work"}, {"version", journal_version}, {"task", task}, {"resumable", resumable}};
}

// The first thing in which two tasks differ: "k is 8 there, 16 here".
std::string difference(const nlohmann::json& there, const nlohmann::json& here) {
  if (!there.is_object()) return "its journal names none";
  for (const auto& [key, value] : here.items()) {
    const std::string other = there.contains(key) ? there[key].dump() : "missing";
    if (!there.contains(key) || there[key] != value) {
      return fmt::format("{} is {} there, {} here", key, other, value.dump());
    }
  }
  return "it names more than this call has";
}

// Whether a record says that `name` becomes `to`. Names of files may be of any encoding, of which the journal
// keeps what JSON can.
bool is_move(const nlohmann::json& pair, const std::string& name, const fs::path& to) {
  const auto same = [](const nlohmann::json& noted, const std::string& text) {
    if (!noted.is_string()) return false;
    const std::string kept =
        nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return fs::path(noted.get<std::string>()).lexically_normal() ==
           fs::path(nlohmann::json::parse(kept).get<std::string>()).lexically_normal();
  };
  return same(entry(pair, 0), name) && same(entry(pair, 1), to.string());
}

// To another file system, where nothing can be renamed to. A run that was killed here does it again, under
// the same name.
void copy_over(const fs::path& from, const fs::path& to) {
  fs::path beside = to;
  beside += ".kith-work.tmp";
  const TemporaryFileNote note(beside);
  OutputFile copy = OutputFile::lasting(beside);
  try {
    copy.truncate(0);
    const InputFile in(from);
    std::vector<std::byte> piece(std::size_t{4} << 20U);
    const std::uint64_t size = in.size();
    for (std::uint64_t at = 0; at < size; at += piece.size()) {
      piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), size - at)));
      in.read(at, piece.data(), piece.size());
      copy.write(at, piece.data(), piece.size());
    }
    copy.sync();
    copy.rename_to(to);
  } catch (...) {
    std::error_code ignored;
    fs::remove(beside, ignored);
    throw;
  }
  sync_folder(to.parent_path());  // no order between two file systems: first the answer, then the work's end
  std::error_code ignored;
  fs::remove(from, ignored);
}

}  // namespace

DamagedWork::DamagedWork(const fs::path& folder, const std::string& file, const std::string& why)
    : IoError(fmt::format("'{}' is damaged: {}; remove '{}', and run the same again from the beginning",
                          (folder / file).string(), why, folder.string())) {}

fs::path WorkFolder::place_of(fs::path answer) {
  if (!answer.has_filename()) answer = answer.parent_path();
  answer = behind_links(std::move(answer));
  answer += ".kith-work";
  return answer;
}

WorkFolder::WorkFolder(const fs::path& answer, const nlohmann::json& task, bool resumable)
    : path_(place_of(answer)) {
  lock(answer);
  try {
    open_journal(task, resumable);
  } catch (...) {
    ::close(lock_);
    throw;
  }
  notes_.emplace_back(path_);
}

// Between open() and flock() whoever had the folder may have finished and removed it, and another have made
// one of the same name: the lock must be that of the folder which is there.
void WorkFolder::lock(const fs::path& answer) {
  for (;;) {
    if (::mkdir(path_.c_str(), 0777) != 0 && errno != EEXIST) {
      throw IoError(fmt::format("cannot write '{}': {}", answer.string(), std::strerror(errno)));
    }
    const int fd = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
      if (errno == ENOENT) continue;  // removed meanwhile
      throw IoError(fmt::format("cannot use '{}', where the work on '{}' is to lie: {}", path_.string(),
                                answer.string(), std::strerror(errno)));
    }
    if (before_lock) before_lock();
    // A file system without locks has none to wait for.
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(fd);
      throw IoError(
          fmt::format("'{}' is in use: another process is at work on '{}'; wait for it, or give another name",
                      path_.string(), answer.string()));
    }
    struct stat locked {
    }, there{};
    if (::fstat(fd, &locked) == 0 && ::stat(path_.c_str(), &there) == 0 && locked.st_dev == there.st_dev &&
        locked.st_ino == there.st_ino && locked.st_nlink > 0) {
      lock_ = fd;
      return;
    }
    ::close(fd);
  }
}

WorkFolder::~WorkFolder() {
  journal_ = {};
  if (!keep_) {
    try {
      remove();
    } catch (...) {
      keep_ = true;  // what is left is for the next run to find
    }
  }
  ::close(lock_);
}

fs::path WorkFolder::file(const std::string& name) {
  notes_.emplace_back(path_ / name);
  return path_ / name;
}

void WorkFolder::check_file(const std::string& name, std::uint64_t bytes) const {
  std::error_code error;
  const std::uintmax_t there = fs::file_size(path_ / name, error);
  if (error)
    throw DamagedWork(path_, name, fmt::format("the journal notes {} bytes, and it is missing", bytes));
  if (there < bytes) {
    throw DamagedWork(path_, name, fmt::format("the journal notes {} bytes, it has {}", bytes, there));
  }
}

void WorkFolder::open_journal(const nlohmann::json& task, bool resumable) {
  const fs::path journal = path_ / journal_name;
  std::error_code ignored;
  const bool there = fs::exists(journal, ignored);
  if (!there && !fs::is_empty(path_, ignored)) {
    // Removed last, so what is left without it is nobody's, if it was ever Kith's.
    throw IoError(
        fmt::format("'{}' is in the way: it is not empty, and has no journal; remove it", path_.string()));
  }
  notes_.emplace_back(journal);
  if (there && read_journal(task) && resumable) return;
  records_.clear();
  if (there) clear();
  begin_journal(task, resumable);
}

void WorkFolder::begin_journal(const nlohmann::json& task, bool resumable) {
  journal_ = OutputFile::lasting(path_ / journal_name);
  journal_.truncate(0);
  const std::string line = line_of(header_of(task, resumable));
  journal_.write(0, line.data(), line.size());
  journal_.sync();
  sync_folder(path_);
  sync_folder(path_.parent_path());
  end_ = line.size();
}

// False where no run has come to its first record, or none could go on from it, so that nothing is lost by
// beginning again.
bool WorkFolder::read_journal(const nlohmann::json& task) {
  const fs::path name = path_ / journal_name;
  std::string text;
  {
    const InputFile file(name);
    text.resize(file.size());
    file.read(0, text.data(), text.size());
  }
  const auto damaged = [&] { return DamagedWork(path_, journal_name, "a line does not match its checksum"); };
  std::vector<nlohmann::json> lines;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find('\n', at);
    nlohmann::json line =
        end == std::string::npos ? nullptr : parse_line(std::string_view(text).substr(at, end - at));
    if (!line.is_object()) {
      // The last line may have been under way when the process ended; what it speaks of counts as not done.
      if (end != std::string::npos && end + 1 < text.size()) throw damaged();
      break;
    }
    lines.push_back(std::move(line));
    at = end + 1;
  }
  if (lines.empty()) return false;
  const nlohmann::json& header = lines.front();
  using Type = nlohmann::json::value_t;
  if (header_member(header, "format", Type::string) != "kith work") throw damaged();
  const nlohmann::json version = header_member(header, "version", Type::number_unsigned);
  if (version != journal_version) {
    throw IoError(fmt::format(
        "'{}' is of version {} of Kith's journals; this Kith goes on with {}; use the other Kith, "
        "or remove '{}'",
        name.string(), version.dump(), journal_version, path_.string()));
  }
  if (lines.size() == 1 || header_member(header, "resumable", Type::boolean) == false) return false;
  const nlohmann::json there = header_member(header, "task", Type::object);
  if (there != task) {
    throw IoError(
        fmt::format("'{}' holds the work of another call: {}; run that one again, or remove the folder",
                    path_.string(), difference(there, task)));
  }
  lines.erase(lines.begin());
  records_ = std::move(lines);
  journal_ = OutputFile::lasting(name);
  journal_.truncate(at);
  end_ = at;
  return true;
}

const nlohmann::json* WorkFolder::last(const char* key) const {
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    if (record->contains(key)) return &(*record)[key];
  }
  return nullptr;
}

void WorkFolder::note_all(const std::vector<nlohmann::json>& records) {
  if (!noted_ && records_.empty()) sync_folder(path_);  // the files that it speaks of are in it by now
  std::string lines;
  for (const nlohmann::json& record : records) lines += line_of(record);
  journal_.write(end_, lines.data(), lines.size());
  journal_.sync();
  end_ += lines.size();
  noted_ = true;
}

std::string WorkFolder::keep() {
  if (!has_records()) return "";
  keep_ = true;
  return fmt::format("; what is done stays in '{}': run the same again to go on, or remove it",
                     path_.string());
}

WorkFolder::Moves WorkFolder::behind_links_of(const Moves& moves) {
  Moves behind;
  for (const auto& [name, to] : moves) behind.emplace_back(name, behind_links(fs::absolute(to)));
  return behind;
}

void WorkFolder::finish(const Moves& asked, const nlohmann::json& result) {
  nlohmann::json list = nlohmann::json::array();
  const Moves moves = behind_links_of(asked);
  for (const auto& [name, to] : moves) list.push_back({name, to.string()});
  note({{"moves", list}, {"result", result}});
  keep_ = true;  // from here on it is done, whatever fails
  move(moves);
  remove();
  keep_ = false;
}

bool WorkFolder::was_finished(const Moves& asked, nlohmann::json& result) {
  const nlohmann::json* list = last("moves");
  if (list == nullptr) return false;
  const Moves moves = behind_links_of(asked);
  std::error_code ignored;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const auto& [name, to] = moves[i];
    if (list->size() != moves.size() || !is_move(entry(*list, i), name, to)) {
      throw BadRecord(
          fmt::format("what was finished is not to become '{}', or lay in another folder then", to.string()));
    }
    if (fs::exists(path_ / name, ignored) || fs::exists(to, ignored)) continue;
    // It was in place, and somebody has removed it since.
    throw IoError(
        fmt::format("'{}' says that '{}' was finished, and it is gone; remove the folder, and run "
                    "the same again",
                    path_.string(), to.string()));
  }
  const nlohmann::json* given = last("result");
  if (given == nullptr) throw BadRecord("'result' is missing");
  result = *given;
  keep_ = true;
  move(moves);
  remove();
  keep_ = false;
  return true;
}

void WorkFolder::move(const Moves& moves) {
  const RenamingTogether together;
  std::error_code ignored;
  for (const auto& [name, to] : moves) {
    const fs::path from = path_ / name;
    if (!fs::exists(from, ignored)) continue;  // a run before has
    if (fs::is_directory(from, ignored) && fs::exists(to, ignored)) {
      fs::remove_all(path_ / replaced_name, ignored);
      if (::rename(to.c_str(), (path_ / replaced_name).c_str()) != 0) {
        throw IoError(fmt::format("cannot write '{}': {}", to.string(), std::strerror(errno)));
      }
    }
    if (::rename(from.c_str(), to.c_str()) != 0) {
      if (errno != EXDEV || fs::is_directory(from, ignored)) {
        throw IoError(fmt::format("cannot write '{}': {}", to.string(), std::strerror(errno)));
      }
      copy_over(from, to);
    }
    sync_folder(to.parent_path());
  }
}

// All but the journal, by several threads: to remove gigabytes takes one of them seconds.
void WorkFolder::clear() {
  std::error_code ignored;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(path_, ignored)) {
    if (entry.path().filename() != journal_name) entries.push_back(entry.path());
  }
  const auto remove = [&](std::int64_t i) {
    std::error_code left;
    fs::remove_all(entries[static_cast<std::size_t>(i)], left);
  };
  const auto count = static_cast<std::int64_t>(entries.size());
  constexpr int threads = 8;
  try {
    parallel_for(threads, count, remove);
  } catch (const std::exception&) {  // the answer may be in place already: no threads to be had is no failure
    for (std::int64_t i = 0; i < count; ++i) remove(i);
  }
}

void WorkFolder::remove() {
  clear();
  std::error_code ignored;
  fs::remove(path_ / journal_name, ignored);
  fs::remove(path_, ignored);
}

}  // namespace kith::point_tiles
