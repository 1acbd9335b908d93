// Small searches of every kind on this machine, timed.
#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "brute_force/measure.hpp"
#include "core/aligned_buffer.hpp"
#include "core/cpu_device.hpp"
#include "core/instruction_set.hpp"
#include "core/parallel.hpp"
#include "core/shortest.hpp"
#include "cuda/device_memory.hpp"
#include "kith/any_index.hpp"
#include "kith/calibration.hpp"
#include "kith/error.hpp"
#include "kith/generate.hpp"

namespace kith {
namespace {

constexpr std::int64_t k = 10;
constexpr std::int64_t measured_bytes = std::int64_t{256} << 20U;  // more than caches of most machines hold

// How much work: enough that starting it is a small part, and that all of it takes seconds.
struct Sizes {
  std::int64_t low_rows, low_queries;    // of 3 values, by brute force
  std::int64_t long_rows, long_queries;  // of 256 values
  std::int64_t points, tree_queries;
  std::int64_t nodes, graph_queries;  // of 128 values
};
constexpr Sizes on_cpu = {50'000, 1000, 20'000, 500, 100'000, 20'000, 3000, 500};
constexpr Sizes on_gpu = {1'000'000, 10'000, 200'000, 10'000, 1'000'000, 100'000, 50'000, 10'000};

// Rows and answers where a device has them at hand, so that no copy is measured.
class Place {
 public:
  explicit Place(const Execution& execution) : execution_(execution), device_(execution.devices.front()) {}

  bool gpu() const { return device_.kind == Device::Kind::cuda; }

  Dataset uniform(std::int64_t rows, std::int64_t dim, std::int64_t first = 0) const {
    GenerateParameters parameters;
    parameters.rows = rows;
    parameters.dim = dim;
    parameters.first_row = first;
    Execution on_host = execution_;
    on_host.devices = {Device{}};
    on_host.device_memory_limit = 0;
    const Dataset data = generate(parameters, on_host);
    if (!gpu()) return data;
    const auto bytes = static_cast<std::uint64_t>(rows * dim) * sizeof(float);
    std::shared_ptr<void> memory = cuda::allocate(device_.ordinal, bytes);
    cuda::copy_to_device(data.view().data, memory.get(), device_.ordinal, bytes);
    DatasetView view(memory.get(), Dtype::f32, rows, dim, dim);
    view.space = MemorySpace::cuda;
    view.device = device_.ordinal;
    return Dataset::adopt(view, memory);
  }

  // Nanoseconds a query of a search for k.
  template <class Index>
  double search(const Index& index, const DatasetView& queries, const SearchOptions& options = {}) const {
    const auto places = static_cast<std::uint64_t>(queries.rows * k);
    std::vector<std::int64_t> host_indices;
    std::vector<float> host_distances;
    std::shared_ptr<void> indices;
    std::shared_ptr<void> distances;
    NeighborsView out;
    out.queries = queries.rows;
    out.k = k;
    if (gpu()) {
      indices = cuda::allocate(device_.ordinal, places * sizeof(std::int64_t));
      distances = cuda::allocate(device_.ordinal, places * sizeof(float));
      out.indices = static_cast<std::int64_t*>(indices.get());
      out.distances = distances.get();
      out.space = MemorySpace::cuda;
      out.device = device_.ordinal;
    } else {
      host_indices.resize(places);
      host_distances.resize(places);
      out.indices = host_indices.data();
      out.distances = host_distances.data();
    }
    return 1e9 * shortest(execution_, [&] { (void)index.search_into(queries, out, execution_, options); }) /
           static_cast<double>(queries.rows);
  }

 private:
  const Execution& execution_;
  Device device_;
};

// Bytes a second that all threads read, from memory that no cache holds.
double read_bandwidth(const Execution& execution) {
  constexpr std::int64_t count = measured_bytes / static_cast<std::int64_t>(sizeof(std::uint64_t));
  constexpr std::int64_t part = std::int64_t{1} << 17U;
  AlignedBuffer<std::uint64_t> values(count);
  AlignedBuffer<std::uint64_t> sums(count / part);
  parallel_for(execution, count / part,
               [&](std::int64_t i) { std::fill_n(values.data() + i * part, part, std::uint64_t{1}); });
  const double seconds = shortest(execution, [&] {
    parallel_for(execution, count / part, [&](std::int64_t i) {
      const std::uint64_t* its = values.data() + i * part;
      std::uint64_t a = 0, b = 0, c = 0, d = 0;
      for (std::int64_t j = 0; j < part; j += 4) {
        a += its[j], b += its[j + 1], c += its[j + 2], d += its[j + 3];
      }
      sums[i] = a + b + c + d;
    });
  });
  return static_cast<double>(measured_bytes) / seconds;
}

std::int64_t last_cache() {
  for (const int level : {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    if (const long bytes = ::sysconf(level); bytes > 0) return bytes;
  }
  return 0;
}

std::string now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

void check_memory(const Execution& execution) {
  constexpr std::uint64_t most = measured_bytes + (std::uint64_t{16} << 20U);
  static_assert(most > brute_force::measuring_bytes);
  if (execution.memory_limit == 0 || execution.memory_limit >= most) return;
  throw OutOfMemory(fmt::format("a calibration takes {} bytes, the memory limit is {}; raise it", most,
                                execution.memory_limit));
}

}  // namespace

Calibration calibrate(const Execution& asked) {
  if (asked.devices.empty()) throw InvalidArgument("there is no device to calibrate; name the CPU or a GPU");
  check_memory(asked);
  Execution execution = without_progress(asked);
  execution.devices = {asked.devices.front()};
  const Place place(execution);
  const Sizes& sizes = place.gpu() ? on_gpu : on_cpu;
  Calibration result;
  result.kind = execution.devices.front().kind;
  result.threads = resolve_threads(execution);
  result.date = now();
  ProgressCounter progress(asked, "calibrate", 6);
  WorkTimes& times = result.times;

  if (place.gpu()) {
    for (const DeviceInfo& info : devices()) {
      if (!(info.device == execution.devices.front())) continue;
      result.model = info.description;
      result.cores = info.cores;
    }
  } else {
    const DeviceInfo cpu = cpu_device();
    result.model = cpu.description;
    result.cores = cpu.cores;
    result.instruction_set = name(active_instruction_set());
    result.cache_bytes = last_cache();
    result.bandwidth = read_bandwidth(execution);
    progress.advance(1);
    brute_force::measure_filters(times, execution);
  }
  progress.advance(1);
  {
    const Dataset rows = place.uniform(sizes.low_rows, 3);
    const Dataset queries = place.uniform(sizes.low_queries, 3, sizes.low_rows);
    times.scan_few = place.search(BruteForce::build(rows, {.filter = Filter::none}, execution),
                                  queries.view().slice(0, 1)) /
                     static_cast<double>(sizes.low_rows);
    times.scan = place.search(BruteForce::build(rows, {}, execution), queries);
  }
  progress.advance(1);
  {
    const Dataset rows = place.uniform(sizes.long_rows, 256);
    times.scan_values = place.search(BruteForce::build(rows, {.directions = false}, execution),
                                     place.uniform(sizes.long_queries, 256, sizes.long_rows));
  }
  progress.advance(1);
  {
    const Dataset points = place.uniform(sizes.points, 3);
    times.tree_build = 1e9 * shortest(execution, [&] { (void)KdTree::build(points, {}, execution); }) /
                       static_cast<double>(sizes.points);
    times.tree_search = place.search(KdTree::build(points, {}, execution),
                                     place.uniform(sizes.tree_queries, 3, sizes.points));
  }
  progress.advance(1);
  {
    // Rows on the host, where graphs are built from on every device.
    Execution on_host = execution;
    on_host.devices = {Device{}};
    on_host.device_memory_limit = 0;
    GenerateParameters parameters;
    parameters.rows = sizes.nodes;
    parameters.dim = 128;
    const Dataset rows = generate(parameters, on_host);
    times.graph_build = 1e9 * shortest(execution, [&] { (void)Vamana::build(rows, {}, execution); }) /
                        static_cast<double>(sizes.nodes);
    SearchOptions options;
    options.list_size = 40;
    times.graph_search = place.search(Vamana::build(rows, {}, execution),
                                      place.uniform(sizes.graph_queries, 128, sizes.nodes), options);
  }
  progress.finish();
  return result;
}

}  // namespace kith
