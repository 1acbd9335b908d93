#include "core/memory_budget.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include <malloc.h>
#include <unistd.h>

namespace kith {

std::int64_t machine_memory() {
  std::int64_t bytes = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    std::int64_t limit = 0;
    if (file >> limit && limit > 0 && limit < bytes) bytes = limit;
  }
  return bytes;
}

std::int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    std::int64_t kibibytes = 0;
    if (word == "MemAvailable:" && file >> kibibytes) return std::min(machine_memory(), 1024 * kibibytes);
  }
  return machine_memory();
}

void return_freed_memory() {
#ifdef __GLIBC__
  (void)::malloc_trim(0);
#endif
}

}  // namespace kith
