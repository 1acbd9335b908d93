// Small searches of every kind on this machine, timed.
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <string>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "any_index/calibrate_gpu.hpp"
#include "brute_force/measure.hpp"
#include "core/aligned_buffer.hpp"
#include "core/calibration.hpp"
#include "core/cpu_device.hpp"
#include "core/instruction_set.hpp"
#include "core/parallel.hpp"
#include "core/shortest.hpp"
#include "cuda/device_choice.hpp"
#include "kith/any_index.hpp"
#include "kith/error.hpp"
#include "kith/generate.hpp"

namespace kith {
namespace {

constexpr std::int64_t k = 10;

Dataset uniform(std::int64_t rows, std::int64_t dim, const Execution& execution, std::int64_t first = 0) {
  return generate({.rows = rows, .dim = dim, .first_row = first}, execution);
}

// Nanoseconds a query of a search.
template <class Index>
double search_time(const Index& index, const DatasetView& queries, const Execution& execution,
                   const SearchOptions& options = {}) {
  return 1e9 * shortest(execution, [&] { (void)index.search(queries, k, execution, options); }) /
         static_cast<double>(queries.rows);
}

std::int64_t last_cache() {
  for (const int level : {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    if (const long bytes = ::sysconf(level); bytes > 0) return bytes;
  }
  return 0;
}

// More than caches hold.
std::int64_t bytes_to_read() {
  constexpr std::int64_t least = std::int64_t{256} << 20U;
  constexpr std::int64_t most = std::int64_t{1} << 30U;
  return std::clamp(2 * last_cache(), least, most);
}

// Bytes a second that all threads read, from memory that no cache holds.
double read_bandwidth(std::int64_t bytes, const Execution& execution) {
  constexpr std::int64_t part = std::int64_t{1} << 17U;
  const std::int64_t parts = bytes / static_cast<std::int64_t>(sizeof(std::uint64_t)) / part;
  AlignedBuffer<std::uint64_t> values(parts * part);
  AlignedBuffer<std::uint64_t> sums(parts);
  parallel_for(execution, parts,
               [&](std::int64_t i) { std::fill_n(values.data() + i * part, part, std::uint64_t{1}); });
  const double seconds = shortest(execution, [&] {
    parallel_for(execution, parts, [&](std::int64_t i) {
      const std::uint64_t* its = values.data() + i * part;
      std::uint64_t sum = 0;
      for (std::int64_t j = 0; j < part; ++j) sum += its[j];
      sums[i] = sum;
    });
  });
  return static_cast<double>(parts * part) * sizeof(std::uint64_t) / seconds;
}

// Whether it is a GPU that is to be measured.
bool check(const Execution& execution) {
  const bool gpu = cuda::kind_of_devices(execution) == Device::Kind::cuda;
  if (gpu && execution.devices.size() > 1) {
    throw InvalidArgument(
        fmt::format("{} GPUs cannot be calibrated at once; name one of them", execution.devices.size()));
  }
  if (gpu) (void)cuda::info_of(execution.devices.front());
  constexpr std::uint64_t of_a_gpu = std::uint64_t{2} << 30U;
  if (execution.device_memory_limit > 0 && execution.device_memory_limit < of_a_gpu) {
    throw OutOfMemory(
        fmt::format("a calibration takes up to {} bytes of the GPU's memory, the limit is {}; raise it",
                    of_a_gpu, execution.device_memory_limit));
  }
  constexpr std::uint64_t rows_for_a_gpu = std::uint64_t{300} << 20U;
  const auto most =
      gpu ? rows_for_a_gpu : static_cast<std::uint64_t>(bytes_to_read()) + (std::uint64_t{16} << 20U);
  if (execution.memory_limit > 0 && execution.memory_limit < most) {
    throw OutOfMemory(fmt::format("a calibration takes {} bytes, the memory limit is {}; raise it", most,
                                  execution.memory_limit));
  }
  return gpu;
}

void measure_indexes(WorkTimes& times, const Execution& execution, ProgressCounter& progress) {
  // So that each of many threads has something to do.
  const std::int64_t more = std::clamp(resolve_threads(execution) / 2, 1, 64);
  const std::int64_t larger = std::min<std::int64_t>(more, 8);
  {
    constexpr std::int64_t count = 50'000;
    const Dataset rows = uniform(count, 3, execution);
    const Dataset queries = uniform(1000 * more, 3, execution, count);
    // The codes that are chosen for such rows with built-in figures, on every instruction set.
    const auto index = [&](Filter filter) {
      return BruteForce::build(rows, {.filter = filter, .directions = false, .lists = 0}, execution);
    };
    times.scan_few = search_time(index(Filter::none), queries.view().slice(0, 1), execution) / count;
    times.scan = search_time(index(Filter::fp32), queries, execution);
  }
  progress.advance(1);
  {
    constexpr std::int64_t count = 20'000;
    times.scan_values =
        search_time(BruteForce::build(uniform(count, 256, execution),
                                      {.filter = Filter::int8, .directions = false, .lists = 0}, execution),
                    uniform(500 * more, 256, execution, count), execution);
  }
  progress.advance(1);
  {
    const std::int64_t count = 100'000 * larger;
    const Dataset points = uniform(count, 3, execution);
    times.tree_build = 1e9 * shortest(execution, [&] { (void)KdTree::build(points, {}, execution); }) /
                       static_cast<double>(count);
    times.tree_search = search_time(KdTree::build(points, {}, execution),
                                    uniform(20'000 * more, 3, execution, count), execution);
  }
  progress.advance(1);
  {
    const std::int64_t count = 3000 * larger;
    const Dataset rows = uniform(count, 128, execution);
    times.graph_build = 1e9 * shortest(execution, [&] { (void)Vamana::build(rows, {}, execution); }) /
                        static_cast<double>(count);
    SearchOptions options;
    options.list_size = 40;
    times.graph_search = search_time(Vamana::build(rows, {}, execution),
                                     uniform(500 * more, 128, execution, count), execution, options);
  }
}

Calibration measure_cpu(const Execution& asked) {
  const Execution execution = without_progress(asked);
  const DeviceInfo cpu = cpu_device();
  Calibration result;
  result.model = cpu.description;
  result.instruction_set = name(active_instruction_set());
  result.cores = cpu.cores;
  result.threads = resolve_threads(execution);
  result.cache_bytes = last_cache();
  ProgressCounter progress(asked, "calibrate", 6);
  result.bandwidth = read_bandwidth(bytes_to_read(), execution);
  progress.advance(1);
  brute_force::measure_filters(result.times, execution);
  progress.advance(1);
  measure_indexes(result.times, execution, progress);
  progress.finish();
  return result;
}

Calibration measure(const Execution& execution, bool gpu) {
  const CalibrationsAside aside;
  const std::time_t started = std::time(nullptr);
  Calibration result = gpu ? measure_gpu(execution) : measure_cpu(execution);
  result.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(started));
  return result;
}

}  // namespace

Calibration calibrate(const Execution& execution) {
  return measure(execution, check(execution));
}

Calibration calibrate(const std::filesystem::path& path, const Execution& execution) {
  if (path.empty()) {
    throw InvalidArgument(
        "there is no file to keep a calibration in: KITH_CALIBRATION is 'off', or HOME is not set; name a "
        "file with KITH_CALIBRATION");
  }
  const bool gpu = check(execution);
  try_calibration_file(path);
  Calibration result = measure(execution, gpu);
  keep_calibration(result, path);
  return result;
}

}  // namespace kith
