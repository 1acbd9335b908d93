// Calibrations in a file, and the copy of it that this process chooses by.
#include "core/calibration.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include "core/atomic_file.hpp"
#include "core/cpu_device.hpp"
#include "core/instruction_set.hpp"
#include "core/mapped_file.hpp"
#include "kith/error.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;

constexpr int version = 1;
constexpr const char* key = "kith_calibrations";

constexpr std::size_t times_of_filters = 8;  // the first so many, of the CPU alone
constexpr std::array<std::pair<const char*, double WorkTimes::*>, 15> times_by_name = {
    {{"int8", &WorkTimes::int8},
     {"int7", &WorkTimes::int7},
     {"fp16", &WorkTimes::fp16},
     {"fp32", &WorkTimes::fp32},
     {"exact_value", &WorkTimes::exact_value},
     {"exact_row", &WorkTimes::exact_row},
     {"directions", &WorkTimes::directions},
     {"projection", &WorkTimes::projection},
     {"scan_few", &WorkTimes::scan_few},
     {"scan", &WorkTimes::scan},
     {"scan_values", &WorkTimes::scan_values},
     {"tree_build", &WorkTimes::tree_build},
     {"tree_search", &WorkTimes::tree_search},
     {"graph_build", &WorkTimes::graph_build},
     {"graph_search", &WorkTimes::graph_search}}};

const char* variable() {
  const char* value = std::getenv("KITH_CALIBRATION");
  return value != nullptr && *value != '\0' ? value : nullptr;
}

nlohmann::json object_of(const Calibration& c) {
  nlohmann::json times = nlohmann::json::object();
  for (const auto& [name, time] : named(c.times)) times[name] = time;
  return {{"device", c.kind == Device::Kind::cuda ? "cuda" : "cpu"},
          {"model", c.model},
          {"instruction_set", c.instruction_set},
          {"cores", c.cores},
          {"threads", c.threads},
          {"cache_bytes", c.cache_bytes},
          {"bandwidth", c.bandwidth},
          {"date", c.date},
          {"nanoseconds", std::move(times)}};
}

double number(const nlohmann::json& json, const char* name) {
  const double value = json.at(name).get<double>();
  if (!std::isfinite(value) || value < 0) {
    throw InvalidArgument(fmt::format("its {} is {}, not a number from 0 on", name, value));
  }
  return value;
}

Calibration calibration_from(const nlohmann::json& json) {
  Calibration c;
  const auto device = json.at("device").get<std::string>();
  if (device != "cpu" && device != "cuda")
    throw InvalidArgument(fmt::format("its device '{}' is neither cpu nor cuda", device));
  c.kind = device == "cuda" ? Device::Kind::cuda : Device::Kind::cpu;
  c.model = json.at("model").get<std::string>();
  c.instruction_set = json.at("instruction_set").get<std::string>();
  c.cores = json.at("cores").get<int>();
  c.threads = json.at("threads").get<int>();
  c.cache_bytes = json.at("cache_bytes").get<std::int64_t>();
  c.bandwidth = number(json, "bandwidth");
  c.date = json.at("date").get<std::string>();
  const auto& times = json.at("nanoseconds");
  std::size_t position = 0;
  for (const auto& [name, member] : times_by_name) {
    c.times.*member = number(times, name);
    const bool measured = c.kind == Device::Kind::cpu || position >= times_of_filters;
    if (measured && c.times.*member == 0) throw InvalidArgument(fmt::format("its {} is 0", name));
    ++position;
  }
  if (c.cores < 1 || c.threads < 1) throw InvalidArgument("it was measured by no thread");
  return c;
}

bool same_place(const Calibration& a, const Calibration& b) {
  return a.kind == b.kind && a.model == b.model && a.instruction_set == b.instruction_set &&
         a.cores == b.cores;
}

// A file as it was when it was read; another one there is read anew.
struct State {
  fs::path path;
  timespec changed{};
  ino_t inode = 0;
  off_t size = -1;  // -1: no file

  static State of(const fs::path& path) {
    State state;
    state.path = path;
    struct stat about {};
    if (!path.empty() && ::stat(path.c_str(), &about) == 0) {
      state.changed = about.st_mtim;
      state.inode = about.st_ino;
      state.size = about.st_size;
    }
    return state;
  }
  bool operator==(const State& other) const {
    return path == other.path && inode == other.inode && size == other.size &&
           changed.tv_sec == other.changed.tv_sec && changed.tv_nsec == other.changed.tv_nsec;
  }
};

struct Known {
  State state;
  std::vector<std::shared_ptr<const Calibration>> list;
  std::string problem;
};

// What the file holds. Choices are made from many threads; two that find it changed both read it.
std::shared_ptr<const Known> last_known() {
  static std::mutex mutex;  // of the pointer alone, so that hardly a fork finds it held
  static std::shared_ptr<const Known> last;
  const fs::path path = calibration_file();
  const State state = State::of(path);
  {
    const std::scoped_lock lock(mutex);
    if (last != nullptr && last->state == state) return last;
  }
  const auto read = std::make_shared<Known>();
  read->state = state;
  try {
    if (state.size >= 0) {
      for (Calibration& c : read_calibrations(path))
        read->list.push_back(std::make_shared<const Calibration>(std::move(c)));
    }
  } catch (const IoError& error) {
    read->problem = error.what();
  }
  const std::scoped_lock lock(mutex);
  last = read;
  return read;
}

// Whoever names a file means it. @throws IoError
std::shared_ptr<const Known> known() {
  auto found = last_known();
  if (!found->problem.empty() && variable() != nullptr) throw IoError(found->problem);
  return found;
}

const DeviceInfo& this_cpu() {
  static const DeviceInfo cpu = cpu_device();
  return cpu;
}

}  // namespace

std::vector<std::pair<std::string, double>> named(const WorkTimes& times) {
  std::vector<std::pair<std::string, double>> list;
  for (const auto& [name, member] : times_by_name) list.emplace_back(name, times.*member);
  return list;
}

std::string to_json(const Calibration& calibration) {
  return object_of(calibration).dump();
}

fs::path calibration_file() {
  if (const char* named = variable()) return std::string_view(named) == "off" ? fs::path() : fs::path(named);
  const auto under = [](const char* name) {
    const char* folder = std::getenv(name);
    // The XDG Base Directory Specification leaves relative paths aside.
    return folder != nullptr && *folder == '/' ? fs::path(folder) : fs::path();
  };
  fs::path cache = under("XDG_CACHE_HOME");
  if (cache.empty()) {
    const fs::path home = under("HOME");
    if (home.empty()) return {};
    cache = home / ".cache";
  }
  return cache / "kith" / "calibration.json";
}

std::vector<Calibration> read_calibrations(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error) && !error) return {};
  if (!fs::is_regular_file(path, error)) {
    throw IoError(fmt::format("'{}' is no file of calibrations: it is {}", path.string(),
                              fs::is_directory(path, error) ? "a folder" : "not a regular file"));
  }
  const auto file = MappedFile::open(path);
  const char* text = reinterpret_cast<const char*>(file->bytes().data());
  const nlohmann::json json = nlohmann::json::parse(text, text + file->size(), nullptr, false);
  if (!json.is_object() || !json.contains(key)) {
    throw IoError(fmt::format(
        "'{}' is no file of calibrations, or corrupt; remove it, and kith devices --calibrate makes one",
        path.string()));
  }
  try {
    if (const int has = json.at(key).get<int>(); has != version) {
      throw InvalidArgument(
          fmt::format("it has version {}; this Kith reads {}, use a newer one", has, version));
    }
    std::vector<Calibration> list;
    for (const auto& entry : json.at("calibrations")) list.push_back(calibration_from(entry));
    return list;
  } catch (const nlohmann::json::exception& problem) {
    throw IoError(
        fmt::format("'{}' is corrupt: it lacks what a calibration has ({})", path.string(), problem.what()));
  } catch (const InvalidArgument& problem) {
    throw IoError(fmt::format("'{}' cannot be used: {}", path.string(), problem.what()));
  }
}

void keep_calibration(const Calibration& calibration, const fs::path& path) {
  std::vector<Calibration> list = read_calibrations(path);
  std::erase_if(list, [&](const Calibration& other) { return same_place(calibration, other); });
  list.push_back(calibration);
  nlohmann::json json = {{key, version}, {"calibrations", nlohmann::json::array()}};
  for (const Calibration& c : list) json["calibrations"].push_back(object_of(c));
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) {
    throw IoError(
        fmt::format("cannot make the folder '{}': {}", path.parent_path().string(), error.message()));
  }
  AtomicFile out(path);
  out.write(json.dump(1) + "\n");
  out.commit();
}

std::vector<Calibration> known_calibrations(std::string* problem) {
  const auto all = known();
  if (problem != nullptr) *problem = all->problem;
  std::vector<Calibration> list;
  for (const auto& c : all->list) list.push_back(*c);
  return list;
}

std::shared_ptr<const Calibration> cpu_calibration() {
  const std::string_view set = name(active_instruction_set());
  for (const auto& c : known()->list) {
    if (c->kind == Device::Kind::cpu && c->instruction_set == set && c->cores == this_cpu().cores &&
        c->model == this_cpu().description) {
      return c;
    }
  }
  return nullptr;
}

std::shared_ptr<const Calibration> gpu_calibration(std::string_view model) {
  for (const auto& c : known()->list) {
    if (c->kind == Device::Kind::cuda && c->model == model) return c;
  }
  return nullptr;
}

}  // namespace kith
