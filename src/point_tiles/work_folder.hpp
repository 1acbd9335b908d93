// A folder beside an answer, "<answer>.kith-work", that outlives a process which is killed: what has been
// done lies in it, and a journal says how much of it is safe on the disk.
//
//   journal   a line each: the XXH3-64 of the rest, a space, a JSON object. The first names the task, all of
//             it that an answer depends on; the others are appended, and synced, after what they speak of
//
// The same call finds the folder and goes on. Another one refuses it by name, as one process does what
// another is at work on. What is made here is put in place by renames, which a last record lists before they
// begin.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/positioned_file.hpp"
#include "core/temporary_files.hpp"
#include "kith/error.hpp"
#include "point_tiles/journal.hpp"

namespace kith::point_tiles {

/// What lies in a work folder is not what its journal says. The folder stays, and is refused until it is
/// removed.
class DamagedWork : public IoError {
 public:
  /// @param why "it is missing"
  DamagedWork(const std::filesystem::path& folder, const std::string& file, const std::string& why);
};

/// What the work is done from has changed meanwhile: no run can go on with it, and it goes.
class StaleWork : public IoError {
 public:
  using IoError::IoError;
};

class WorkFolder {
 public:
  static constexpr const char* journal_name = "journal";
  /// Tests do here what another process might between open() and flock().
  inline static std::function<void()> before_lock;

  /// Where the work on `answer` lies: beside it, or beside what it leads to where it is a symbolic link, so
  /// that it is put in place there and the link stays one. "cloud/" is the folder "cloud".
  static std::filesystem::path place_of(std::filesystem::path answer);

  /// Takes up the work there is, or begins it.
  /// @param task all that the answer depends on
  /// @param resumable false: no run to come can go on with it, of this task or another, and begins anew
  /// @throws IoError where the folder cannot be made, is at work, damaged, or another task's
  WorkFolder(const std::filesystem::path& answer, const nlohmann::json& task, bool resumable = true);
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  /// Removes it, unless a run to come is to go on: see keep().
  ~WorkFolder();

  const std::filesystem::path& path() const noexcept { return path_; }
  /// A file in it, which goes with it whatever ends the process but SIGKILL.
  std::filesystem::path file(const std::string& name);

  /// What a run before has noted must be there: writing would begin a lost file again, with zeros before
  /// what is new. @throws DamagedWork where it is missing, or has fewer bytes
  void check_file(const std::string& name, std::uint64_t bytes) const;

  /// Those of the runs before, in order.
  const std::vector<nlohmann::json>& records() const noexcept { return records_; }
  /// The last of them that has this key; null for none.
  const nlohmann::json* last(const char* key) const;
  /// Appends one; it is on the disk when the call returns. What it speaks of must be there before.
  void note(const nlohmann::json& record) { note_all({record}); }
  void note_all(const std::vector<nlohmann::json>& records);
  bool has_records() const noexcept { return !records_.empty() || noted_; }

  /// Leaves the folder behind. @return what to tell the user, to end a message with; empty: nothing was worth
  /// it, it goes
  std::string keep();

  /// Puts files or folders of it in place, all of them even where the process is killed meanwhile and runs
  /// again, and removes the rest. A folder in the way gives way; a symbolic link stays one, and what it leads
  /// to is written. @param result kept for that other run
  using Moves = std::vector<std::pair<std::string, std::filesystem::path>>;
  void finish(const Moves& moves, const nlohmann::json& result = nullptr);
  /// Whether a run before has come to finish(); its moves, which must be these, are then made, and `result`
  /// is what it gave.
  bool was_finished(const Moves& moves, nlohmann::json& result);

 private:
  static Moves behind_links_of(const Moves& moves);
  void lock(const std::filesystem::path& answer);
  void open_journal(const nlohmann::json& task, bool resumable);
  bool read_journal(const nlohmann::json& task);
  void begin_journal(const nlohmann::json& task, bool resumable);
  void clear();
  void move(const Moves& moves);
  void remove();

  std::filesystem::path path_;
  int lock_ = -1;
  OutputFile journal_;
  std::uint64_t end_ = 0;
  std::vector<nlohmann::json> records_;
  std::vector<TemporaryFileNote> notes_;
  bool noted_ = false;
  bool keep_ = false;
};

/// Runs work(). A failure that leaves something to go on with says where it lies; what the runs before have
/// left outlives every failure, and goes only where the call is cancelled.
template <class Work>
decltype(auto) resumably(WorkFolder& folder, const Work& work) {
  try {
    return work();
  } catch (const DamagedWork&) {
    (void)folder.keep();
    throw;
  } catch (const BadRecord& error) {
    (void)folder.keep();
    throw DamagedWork(folder.path(), WorkFolder::journal_name,
                      fmt::format("it says what no run notes ({})", error.what()));
  } catch (const StaleWork&) {
    throw;
  } catch (const IoError& error) {
    throw IoError(error.what() + folder.keep());
  } catch (const Cancelled&) {
    throw;
  } catch (const OutOfMemory& error) {
    if (folder.records().empty()) throw;
    throw OutOfMemory(error.what() + folder.keep());
  } catch (...) {
    if (!folder.records().empty()) (void)folder.keep();
    throw;
  }
}

}  // namespace kith::point_tiles
