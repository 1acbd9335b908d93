// Threads of a call, and the CPU they run on.
#include "kith/execution.hpp"

#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "core/cpu_device.hpp"
#include "core/instruction_set.hpp"
#include "kith/error.hpp"

namespace kith {
namespace {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) {
      const auto colon = line.find(": ");
      if (colon == std::string::npos) continue;
      std::string model = line.substr(colon + 2);
      // It goes into JSON and onto terminals.
      std::ranges::replace_if(
          model, [](char c) { return c < ' ' || c > '~'; }, '?');
      return model;
    }
  }
  return "CPU";
}

}  // namespace

std::string name(const Device& device) {
  return device.kind == Device::Kind::cpu ? "cpu" : fmt::format("cuda:{}", device.ordinal);
}

int resolve_threads(const Execution& execution) {
  if (execution.threads < 0 || execution.threads > 4096) {
    throw InvalidArgument(fmt::format("{} threads; use 1 to 4096, or 0 for all cores", execution.threads));
  }
  return execution.threads == 0 ? usable_cores() : execution.threads;
}

DeviceInfo cpu_device() {
  DeviceInfo cpu;
  cpu.description = cpu_model();
  cpu.cores = usable_cores();
  cpu.memory_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                     static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (InstructionSet set : usable_instruction_sets()) {
    if (!cpu.instruction_sets.empty()) cpu.instruction_sets += ' ';
    cpu.instruction_sets += name(set);
  }
  return cpu;
}

}  // namespace kith
