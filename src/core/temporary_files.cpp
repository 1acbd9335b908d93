// A table of fixed size: a signal handler can neither lock nor allocate.
#include "core/temporary_files.hpp"

#include <array>
#include <atomic>
#include <cstring>

#include <unistd.h>

namespace kith {
namespace {

enum State : int { unused, changing, listed };

struct Slot {
  std::atomic<int> state{unused};
  pid_t owner = 0;  // a forked child inherits the table, not the files
  std::array<char, 4096> name{};
};

constexpr std::size_t slots = 128;  // tiles at work have some forty files
std::array<Slot, slots> table;
std::atomic<int> renaming{0};
static_assert(std::atomic<int>::is_always_lock_free);

}  // namespace

TemporaryFileNote::TemporaryFileNote(const std::filesystem::path& path) noexcept {
  const auto& name = path.native();
  if (name.size() >= table[0].name.size()) return;
  for (std::size_t i = 0; i < slots; ++i) {
    int expected = unused;
    if (!table[i].state.compare_exchange_strong(expected, changing)) continue;
    std::memcpy(table[i].name.data(), name.c_str(), name.size() + 1);
    table[i].owner = ::getpid();
    table[i].state.store(listed);
    slot_ = static_cast<int>(i);
    return;
  }
}

TemporaryFileNote::~TemporaryFileNote() {
  if (slot_ >= 0) table[static_cast<std::size_t>(slot_)].state.store(unused);
}

RenamingTogether::RenamingTogether() noexcept {
  ++renaming;
}
RenamingTogether::~RenamingTogether() {
  --renaming;
}

bool remove_temporary_files() noexcept {
  if (renaming.load() > 0) return false;
  const pid_t self = ::getpid();
  for (Slot& slot : table) {
    // A file that has just been renamed is still listed: its temporary name is then nobody's.
    if (slot.state.load() == listed && slot.owner == self) ::unlink(slot.name.data());
  }
  // Folders, once they are empty; one may lie in another.
  for (int depth = 0; depth < 2; ++depth) {
    for (Slot& slot : table) {
      if (slot.state.load() == listed && slot.owner == self) ::rmdir(slot.name.data());
    }
  }
  return true;
}

}  // namespace kith
