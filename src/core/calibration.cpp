// Calibrations in a file, and the copy of it that this process chooses by.
#include "core/calibration.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "core/atomic_file.hpp"
#include "core/cpu_device.hpp"
#include "core/instruction_set.hpp"
#include "core/mapped_file.hpp"
#include "kith/error.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;

// Files that hold a GPU have the second version, so that a program that knows none says so.
constexpr int version = 2;
constexpr int version_of_cpus = 1;
constexpr const char* key = "kith_calibrations";

using NamedTime = std::pair<const char*, double WorkTimes::*>;
constexpr std::array<NamedTime, 15> times_of_cpus = {{{"int8", &WorkTimes::int8},
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
constexpr std::array<NamedTime, 11> times_of_gpus = {{{"int8", &WorkTimes::int8},
                                                      {"fp16", &WorkTimes::fp16},
                                                      {"fp32", &WorkTimes::fp32},
                                                      {"exact_value", &WorkTimes::exact_value},
                                                      {"scan_few", &WorkTimes::scan_few},
                                                      {"scan", &WorkTimes::scan},
                                                      {"tree_build", &WorkTimes::tree_build},
                                                      {"tree_search", &WorkTimes::tree_search},
                                                      {"graph_build", &WorkTimes::graph_build},
                                                      {"graph_search", &WorkTimes::graph_search},
                                                      {"launch", &WorkTimes::launch}}};

std::span<const NamedTime> times_of(Device::Kind device) {
  if (device == Device::Kind::cpu) return times_of_cpus;
  return times_of_gpus;
}

bool is_gpu(const Calibration& c) {
  return c.device == Device::Kind::cuda;
}

std::string_view name_of(Device::Kind device) {
  return device == Device::Kind::cpu ? "cpu" : "cuda";
}

const char* variable() {
  const char* value = std::getenv("KITH_CALIBRATION");
  return value != nullptr && *value != '\0' ? value : nullptr;
}

nlohmann::json object_of(const Calibration& c) {
  nlohmann::json times = nlohmann::json::object();
  for (const auto& [name, time] : named(c.times, c.device)) times[name] = time;
  return {{"device", name_of(c.device)},
          {"model", c.model},
          {"instruction_set", c.instruction_set},
          {"cores", c.cores},
          {"threads", c.threads},
          {"cache_bytes", c.cache_bytes},
          {"bandwidth", c.bandwidth},
          {"date", c.date},
          {"nanoseconds", std::move(times)}};
}

std::string text_of(const nlohmann::json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

// No machine is outside these limits, and within them no cost is infinite.
double number(const nlohmann::json& json, const char* name, double least, double most) {
  const double value = json.at(name).get<double>();
  if (!(value >= least && value <= most)) {
    throw InvalidArgument(fmt::format("its {} is {}, not {} to {}", name, value, least, most));
  }
  return value;
}

std::int64_t integer(const nlohmann::json& json, const char* name, std::int64_t least, std::int64_t most) {
  const auto& value = json.at(name);
  if (!value.is_number_integer() || value < least || value > most) {
    throw InvalidArgument(
        fmt::format("its {} is {}, not an integer from {} to {}", name, text_of(value), least, most));
  }
  return value.get<std::int64_t>();
}

Calibration calibration_from(const nlohmann::json& json) {
  constexpr std::int64_t most_threads = 1 << 20;
  Calibration c;
  const auto device = json.at("device").get<std::string>();
  const bool gpu = device == name_of(Device::Kind::cuda);
  if (!gpu && device != name_of(Device::Kind::cpu))
    throw InvalidArgument(fmt::format("its device '{}' is neither cpu nor cuda", device));
  c.device = gpu ? Device::Kind::cuda : Device::Kind::cpu;
  c.model = json.at("model").get<std::string>();
  c.instruction_set = json.at("instruction_set").get<std::string>();
  c.cores = static_cast<int>(integer(json, "cores", 1, most_threads));
  c.threads = static_cast<int>(integer(json, "threads", gpu ? 0 : 1, gpu ? 0 : most_threads));
  c.cache_bytes = integer(json, "cache_bytes", 0, std::int64_t{1} << 50U);
  c.bandwidth = number(json, "bandwidth", gpu ? 0 : 1e6, gpu ? 0 : 1e15);
  c.date = json.at("date").get<std::string>();
  const auto& times = json.at("nanoseconds");
  for (const auto& [name, member] : times_of(c.device)) c.times.*member = number(times, name, 1e-9, 1e12);
  return c;
}

bool same_place(const Calibration& a, const Calibration& b) {
  return a.device == b.device && a.model == b.model && a.instruction_set == b.instruction_set &&
         a.cores == b.cores && a.threads == b.threads;
}

// 0, or why nothing can be known of a file; one that is not there is no fault.
int look_at(const fs::path& path, struct stat& about) {
  if (::stat(path.c_str(), &about) == 0) return 0;
  about = {};
  about.st_size = -1;
  return errno == ENOENT || errno == ENOTDIR ? 0 : errno;
}

[[noreturn]] void unreadable(const fs::path& path, int error) {
  throw IoError(fmt::format("cannot read '{}': {}", path.string(), std::strerror(error)));
}

// A file as it was when it was read; another one there is read anew.
struct State {
  fs::path path;
  timespec changed{};
  ino_t inode = 0;
  off_t size = -1;  // -1: no file
  int error = 0;

  static State of(const fs::path& path) {
    State state;
    state.path = path;
    if (path.empty()) return state;
    struct stat about {};
    state.error = look_at(path, about);
    state.changed = about.st_mtim;
    state.inode = about.st_ino;
    state.size = about.st_size;
    return state;
  }
  bool operator==(const State& other) const {
    return path == other.path && inode == other.inode && size == other.size && error == other.error &&
           changed.tv_sec == other.changed.tv_sec && changed.tv_nsec == other.changed.tv_nsec;
  }
};

struct Known {
  State state;
  std::vector<Calibration> list;
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
    read->list = read_calibrations(path);
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

std::atomic<int> aside = 0;

// Makes the folder of a file, and keeps other writers of it out while it lives.
class Turn {
 public:
  explicit Turn(const fs::path& path) {
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
      throw IoError(fmt::format("cannot make the folder '{}': {}", folder.string(), error.message()));
    fd_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // A file system without locks takes none.
    if (fd_ >= 0) (void)::flock(fd_, LOCK_EX);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  int fd_ = -1;
};

}  // namespace

CalibrationsAside::CalibrationsAside() {
  ++aside;
}

CalibrationsAside::~CalibrationsAside() {
  --aside;
}

void try_calibration_file(const fs::path& path) {
  (void)read_calibrations(path);
  const Turn turn(path);
  const AtomicFile out(path);
}

std::vector<std::pair<std::string, double>> named(const WorkTimes& times, Device::Kind device) {
  std::vector<std::pair<std::string, double>> list;
  for (const auto& [name, member] : times_of(device)) list.emplace_back(name, times.*member);
  return list;
}

std::string to_json(const Calibration& calibration) {
  return text_of(object_of(calibration));
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
  struct stat about {};
  if (const int error = look_at(path, about); error != 0) unreadable(path, error);
  if (about.st_size < 0) return {};
  if (!S_ISREG(about.st_mode)) {
    throw IoError(fmt::format("'{}' is no file of calibrations: it is {}", path.string(),
                              S_ISDIR(about.st_mode) ? "a folder" : "not a regular file"));
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
    if (const int has = json.at(key).get<int>(); has < 1 || has > version) {
      throw InvalidArgument(
          fmt::format("it has version {}; this Kith reads up to {}, use a newer one", has, version));
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
  try {
    (void)calibration_from(object_of(calibration));
  } catch (const nlohmann::json::exception& problem) {  // a number that is none
    throw InvalidArgument(fmt::format("a calibration that no file can hold: {}", problem.what()));
  }
  const Turn turn(path);
  std::vector<Calibration> list = read_calibrations(path);
  std::erase_if(list, [&](const Calibration& other) { return same_place(calibration, other); });
  list.push_back(calibration);
  const bool gpus = std::any_of(list.begin(), list.end(), is_gpu);
  nlohmann::json json = {{key, gpus ? version : version_of_cpus}, {"calibrations", nlohmann::json::array()}};
  for (const Calibration& c : list) json["calibrations"].push_back(object_of(c));
  AtomicFile out(path);
  out.write(text_of(json, 1) + "\n");
  out.commit();
}

std::vector<Calibration> known_calibrations(std::string* problem) {
  const auto all = known();
  if (problem != nullptr) *problem = all->problem;
  return all->list;
}

std::shared_ptr<const Calibration> cpu_calibration(int threads) {
  if (aside > 0) return nullptr;
  const auto all = known();
  if (all->list.empty()) return nullptr;
  static const std::string model = cpu_device().description;
  const std::string_view set = name(active_instruction_set());
  const int cores = resolve_threads({});
  const auto rank = [&](const Calibration& c) { return std::pair(c.threads == threads, c.threads); };
  const Calibration* best = nullptr;
  for (const Calibration& c : all->list) {
    if (is_gpu(c) || c.instruction_set != set || c.cores != cores || c.model != model) continue;
    if (best == nullptr || rank(c) > rank(*best)) best = &c;
  }
  return best == nullptr ? nullptr : std::shared_ptr<const Calibration>(all, best);
}

std::shared_ptr<const Calibration> gpu_calibration(const std::function<DeviceInfo()>& describe) {
  if (aside > 0) return nullptr;
  const auto all = known();
  if (std::none_of(all->list.begin(), all->list.end(), is_gpu)) return nullptr;
  const DeviceInfo info = describe();
  for (const Calibration& c : all->list) {
    if (is_gpu(c) && c.model == info.description && c.cores == info.cores)
      return std::shared_ptr<const Calibration>(all, &c);
  }
  return nullptr;
}

}  // namespace kith
