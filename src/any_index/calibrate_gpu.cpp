// Rows, queries and answers lie on the device, but a graph's rows. What a piece of work takes is the
// difference between much of it and a quarter of that: launches, and what else does not grow with it, drop
// out.
#include "any_index/calibrate_gpu.hpp"

#include <memory>

#include "core/parallel.hpp"
#include "core/shortest.hpp"
#include "cuda/device_choice.hpp"
#include "cuda/device_memory.hpp"
#include "kith/any_index.hpp"
#include "kith/error.hpp"
#include "kith/generate.hpp"

namespace kith {
namespace {

constexpr std::int64_t k = 10;
constexpr std::int64_t parts = 4;  // of the larger amount of work

int ordinal_of(const Execution& execution) {
  return execution.devices.front().ordinal;
}

// Uniform rows in host memory.
Dataset host_rows(const GenerateParameters& parameters, const Execution& execution) {
  Execution on_host = execution;
  on_host.devices = {Device{}};
  on_host.device_memory_limit = 0;
  return generate(parameters, on_host);
}

/// In a device's memory.
class DeviceRows {
 public:
  DeviceRows(const GenerateParameters& parameters, const Execution& execution) {
    const Dataset rows = host_rows(parameters, execution);
    view_ = rows.view();
    const auto bytes = static_cast<std::uint64_t>(view_.rows * view_.dim) * size_of(view_.dtype);
    const int device = ordinal_of(execution);
    memory_ = cuda::allocate(device, bytes);
    cuda::copy_to_device(rows.view().data, memory_.get(), device, bytes);
    view_.data = memory_.get();
    view_.space = MemorySpace::cuda;
    view_.device = device;
  }
  DatasetView first(std::int64_t rows) const { return view_.slice(0, rows); }
  const DatasetView& all() const { return view_; }

 private:
  std::shared_ptr<void> memory_;
  DatasetView view_;
};

/// An answer in a device's memory.
class DeviceAnswer {
 public:
  DeviceAnswer(std::int64_t queries, int device)
      : indices_(cuda::allocate(device, bytes_of<std::int64_t>(queries))),
        distances_(cuda::allocate(device, bytes_of<float>(queries))),
        view_{static_cast<std::int64_t*>(indices_.get()),
              distances_.get(),
              queries,
              k,
              MemorySpace::cuda,
              device} {}
  const NeighborsView& view() const { return view_; }

 private:
  template <class T>
  static std::uint64_t bytes_of(std::int64_t queries) {
    return static_cast<std::uint64_t>(queries * k) * sizeof(T);
  }
  std::shared_ptr<void> indices_, distances_;
  NeighborsView view_;
};

// Seconds of a search.
template <class Index>
double search_time(const Index& index, const DatasetView& queries, const Execution& execution,
                   const SearchOptions& options = {}) {
  const DeviceAnswer answer(queries.rows, ordinal_of(execution));
  return shortest(execution, [&] { (void)index.search_into(queries, answer.view(), execution, options); });
}

// Nanoseconds a unit of what grows by `units` from the first time to the second. Where other work on the
// machine hides the growth, all of the second is taken: too much, and no nonsense.
double growth(double less, double more, double units) {
  return 1e9 * (more > less ? more - less : more) / units;
}

// Of so many units, those that the smaller amount of work lacks.
double added(std::int64_t all) {
  const std::int64_t more = all - all / parts;
  return static_cast<double>(more);
}

// Nanoseconds a pair of a query and a row by brute force.
double pair_time(const DeviceRows& rows, const DeviceRows& queries, Filter filter,
                 const Execution& execution) {
  const auto time = [&](std::int64_t count) {
    const auto index =
        BruteForce::build(rows.first(count), {.filter = filter, .directions = false, .lists = 0}, execution);
    return search_time(index, queries.all(), execution);
  };
  const std::int64_t all = rows.all().rows;
  const double pairs = added(all) * static_cast<double>(queries.all().rows);
  return growth(time(all / parts), time(all), pairs);
}

void measure_codes(WorkTimes& times, const Execution& execution) {
  constexpr std::int64_t dim = 512;
  constexpr std::int64_t count = std::int64_t{1} << 18U;
  constexpr std::int64_t few = std::int64_t{1} << 14U;
  const auto bytes = [&](std::int64_t rows, std::int64_t from) {
    return DeviceRows({.rows = rows, .dim = dim, .dtype = Dtype::u8, .first_row = from}, execution);
  };
  const DeviceRows rows = bytes(count, 0);
  const DeviceRows queries = bytes(4096, count);
  times.int8 = pair_time(rows, queries, Filter::int8, execution) / dim;
  try {
    times.fp16 = pair_time(rows, queries, Filter::fp16, execution) / dim;
  } catch (const DeviceError&) {  // a GPU whose sums of halves are not trusted has no use for them
    times.fp16 = 2 * times.int8;
  }
  times.exact_value = pair_time(bytes(few, 0), bytes(1024, few), Filter::none, execution) / dim;
}

void measure_short_rows(WorkTimes& times, const Execution& execution) {
  constexpr std::int64_t count = std::int64_t{1} << 20U;
  const auto uniform = [&](std::int64_t rows, std::int64_t dim, std::int64_t from) {
    return DeviceRows({.rows = rows, .dim = dim, .first_row = from}, execution);
  };
  {
    constexpr std::int64_t dim = 16;
    times.fp32 = pair_time(uniform(count, dim, 0), uniform(4096, dim, count), Filter::fp32, execution) / dim;
  }
  const DeviceRows points = uniform(4 * count, 3, 0);
  const DeviceRows queries = uniform(count, 3, 4 * count);
  {
    const DeviceRows one = uniform(1, 3, 5 * count);
    times.scan_few = pair_time(points, one, Filter::fp32, execution);
    const DeviceRows few = uniform(1000, 3, 0);
    times.launch = 1e9 * search_time(BruteForce::build(few.all(), {.filter = Filter::fp32}, execution),
                                     one.all(), execution);
  }
  {
    const DeviceRows many = uniform(10'000, 3, 5 * count);
    const DeviceRows some = uniform(count, 3, 0);
    constexpr double usual_rows = 50'000;  // as on the CPU
    times.scan = usual_rows * pair_time(some, many, Filter::fp32, execution);
  }
  const auto build_time = [&](std::int64_t some) {
    return shortest(execution, [&] { (void)KdTree::build(points.first(some), {}, execution); });
  };
  times.tree_build = growth(build_time(count), build_time(4 * count), static_cast<double>(3 * count));
  const KdTree tree = KdTree::build(points.first(count), {}, execution);
  const auto tree_time = [&](std::int64_t some) { return search_time(tree, queries.first(some), execution); };
  times.tree_search = growth(tree_time(count / parts), tree_time(count), added(count));
}

void measure_graphs(WorkTimes& times, const Execution& execution) {
  constexpr std::int64_t count = 100'000;
  constexpr std::int64_t dim = 128;
  const Dataset rows = host_rows({.rows = count, .dim = dim}, execution);
  const DeviceRows queries({.rows = 16'384, .dim = dim, .first_row = count}, execution);
  const auto build_time = [&](std::int64_t some) {
    return shortest(execution, [&] { (void)Vamana::build(rows.view().slice(0, some), {}, execution); });
  };
  times.graph_build = growth(build_time(count / parts), build_time(count), added(count));
  const Vamana graph = Vamana::build(rows.view().slice(0, count / parts), {}, execution);
  SearchOptions options;
  options.list_size = 40;
  const std::int64_t all = queries.all().rows;
  const auto time = [&](std::int64_t some) {
    return search_time(graph, queries.first(some), execution, options);
  };
  times.graph_search = growth(time(all / parts), time(all), added(all));
}

}  // namespace

Calibration measure_gpu(const Execution& asked) {
  const Execution execution = without_progress(asked);
  Calibration result;
  result.device = Device::Kind::cuda;
  const DeviceInfo gpu = cuda::info_of(execution.devices.front());
  result.model = gpu.description;
  result.instruction_set = gpu.instruction_sets;
  result.cores = gpu.cores;
  ProgressCounter progress(asked, "calibrate", 3);
  measure_codes(result.times, execution);
  progress.advance(1);
  measure_short_rows(result.times, execution);
  progress.advance(1);
  measure_graphs(result.times, execution);
  progress.finish();
  return result;
}

}  // namespace kith
