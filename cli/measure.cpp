// Medians, peak memory (Linux's VmHWM), the machine.
#include "measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include <malloc.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/atomic_file.hpp"
#include "kith/kith.hpp"

namespace kith::cli {

namespace fs = std::filesystem;

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void reset_peak_memory() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): resets the peak resident set size
}

std::uint64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

nlohmann::json describe_machine() {
  nlohmann::json out;
  for (const DeviceInfo& info : devices()) {
    if (info.device.kind != Device::Kind::cpu) continue;
    out = {{"cpu", info.description},
           {"cores", info.cores},
           {"memory_bytes", info.memory_bytes},
           {"instruction_sets", info.instruction_sets}};
  }
  if (utsname system{}; ::uname(&system) == 0) {
    out["system"] = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  }
  if (double load = 0; ::getloadavg(&load, 1) == 1) out["load_before"] = load;
  return out;
}

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

std::vector<std::string> published_command_line() {
  std::ifstream stream("/proc/self/cmdline");
  std::vector<std::string> line;
  for (std::string argument; std::getline(stream, argument, '\0');) {
    // A path, or an option and its path.
    const std::size_t equals = argument.starts_with("--") ? argument.find('=') : std::string::npos;
    const std::size_t from = equals == std::string::npos ? 0 : equals + 1;
    const std::string value = argument.substr(from);
    const bool shorten = line.empty() || value.starts_with('/') || value.starts_with("../");
    line.push_back(shorten ? argument.substr(0, from) + fs::path(value).filename().string() : argument);
  }
  return line;
}

void check_result_folder(const std::string& path) {
  if (!path.empty() && !fs::is_directory(fs::absolute(path).parent_path())) {
    throw IoError(fmt::format("cannot write '{}': its folder does not exist", path));
  }
}

void write_result(const std::string& path, const nlohmann::ordered_json& result) {
  AtomicFile file(path);
  file.write(result.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  file.write("\n");
  file.commit();
}

}  // namespace kith::cli
