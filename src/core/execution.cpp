// Devices and threads of a call.
#include "kith/execution.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "core/instruction_set.hpp"
#include "cuda/devices.hpp"
#include "kith/error.hpp"

namespace kith {

std::string name(const Device& device) {
  return device.kind == Device::Kind::cpu ? "cpu" : fmt::format("cuda:{}", device.ordinal);
}

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
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "CPU";
}

}  // namespace

int resolve_threads(const Execution& execution) {
  if (execution.threads < 0 || execution.threads > 4096) {
    throw InvalidArgument(fmt::format("{} threads; use 1 to 4096, or 0 for all cores", execution.threads));
  }
  return execution.threads == 0 ? usable_cores() : execution.threads;
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> list(1);
  list[0].description = cpu_model();
  list[0].cores = usable_cores();
  list[0].memory_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (InstructionSet set : usable_instruction_sets()) {
    if (!list[0].instruction_sets.empty()) list[0].instruction_sets += ' ';
    list[0].instruction_sets += name(set);
  }
  for (DeviceInfo& device : cuda::devices()) list.push_back(std::move(device));
  return list;
}

std::vector<Device> parse_devices(std::string_view text) {
  if (text == "cpu") return {Device{}};
  const auto gpus = cuda::devices();
  std::vector<Device> usable;
  for (const DeviceInfo& gpu : gpus) {
    if (gpu.usable) usable.push_back(gpu.device);
  }
  if (text == "auto") {
    return usable.empty() ? std::vector{Device{}} : std::vector{usable.front()};
  }
  const bool names_cuda = text == "cuda" || text == "all" || text.starts_with("cuda:");
  if (!names_cuda) {
    throw InvalidArgument(
        fmt::format("device '{}' is not one Kith knows; use cpu, cuda, cuda:0, cuda:0,1, all or auto", text));
  }
  std::vector<Device> chosen;
  if (text == "cuda") {
    chosen.push_back({Device::Kind::cuda, 0});
  } else if (text == "all") {
    chosen = usable;
  } else {
    std::string_view rest = text.substr(5);
    while (true) {
      int ordinal = -1;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), ordinal);
      if (error != std::errc{} || ordinal < 0) {
        throw InvalidArgument(
            fmt::format("device '{}': '{}' is not a list of device numbers such as 0,1", text, rest));
      }
      const Device device{Device::Kind::cuda, ordinal};
      for (const Device& other : chosen) {
        if (other == device)
          throw InvalidArgument(fmt::format("device '{}' names device {} twice", text, ordinal));
      }
      chosen.push_back(device);
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
      if (rest.empty()) break;
      if (rest.front() != ',') {
        throw InvalidArgument(fmt::format("device '{}': use a comma between device numbers", text));
      }
      rest.remove_prefix(1);
    }
  }
  for (const Device& device : chosen) {
    bool found = false;
    for (const DeviceInfo& gpu : gpus) {
      if (gpu.device == device) {
        if (!gpu.usable) throw DeviceError(fmt::format("{} cannot be used: {}", name(device), gpu.note));
        found = true;
      }
    }
    if (!found) {
      throw DeviceError(
          fmt::format("{} is not there: {}; use the device cpu", name(device), cuda::absence()));
    }
  }
  if (chosen.empty())
    throw DeviceError(fmt::format("no CUDA device: {}; use the device cpu", cuda::absence()));
  return chosen;
}

}  // namespace kith
