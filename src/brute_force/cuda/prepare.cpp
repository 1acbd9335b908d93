// From a dataset to shards on devices: what is copied, what is encoded, what stays in host memory.
#include <algorithm>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "brute_force/cuda/prepared.hpp"
#include "brute_force/cuda/tuning.hpp"
#include "brute_force/directions.hpp"
#include "codes/codes.hpp"
#include "codes/projection.hpp"
#include "core/parallel.hpp"
#include "core/sample.hpp"
#include "cuda/devices.hpp"
#include "cuda/fan_out.hpp"
#include "cuda/pool.hpp"

namespace kith::brute_force {

using cuda::code_tile_rows;

std::uint64_t CudaPrepared::memory_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& shard : shards) sum += shard->bytes();
  const std::scoped_lock lock(mutex);
  return sum + (of_all_values == nullptr ? 0 : of_all_values->memory_bytes());
}

std::uint64_t CudaPrepared::device_bytes() const noexcept {
  std::uint64_t most = 0;
  for (const int device : devices) {
    std::uint64_t sum = 0;
    for (const auto& shard : shards) sum += shard->device == device ? shard->bytes() : 0;
    most = std::max(most, sum);
  }
  const std::scoped_lock lock(mutex);
  return most + (of_all_values == nullptr ? 0 : of_all_values->device_bytes());
}

std::int64_t CudaPrepared::most_rows_of_a_device() const {
  std::int64_t most = 0;
  for (const int device : devices) {
    std::int64_t rows = 0;
    for (const auto& shard : shards) rows += shard->device == device ? shard->rows : 0;
    most = std::max(most, rows);
  }
  return most;
}

void CudaPrepared::code_anew(const CudaChoice& other) {
  choice = other;
  cuda::for_each_device(shards.size(), [&](std::size_t i) { shards[i]->code_anew(other); });
}

namespace {

std::uint64_t bytes_a_row(const CudaChoice& choice, const DatasetView& data) {
  std::uint64_t each = 1;  // special rows
  if (choice.filter == Filter::int8 || choice.filter == Filter::fp16) {
    const std::int64_t bytes = choice.filter == Filter::fp16 ? 2 * data.dim : choice.values(data.dim);
    each += static_cast<std::uint64_t>(cuda::CodeShape::of(bytes).row_bytes()) + 5;
    if (choice.fine) each += static_cast<std::uint64_t>((choice.values(data.dim) + 7) / 8 * 8) * 2;
  } else if (choice.filter == Filter::fp32 && data.dtype != Dtype::f32) {
    each += static_cast<std::uint64_t>(data.dim) * 4;
  }
  return each;
}

// As many directions as a test demands, whatever they cost.
void force_along(CudaPrepared& p, const DatasetView& data, std::int64_t count, int device,
                 const Execution& execution) {
  if (count == 0 || !CudaDirections::are_possible(p.choice, data.dim)) return;
  const CudaDirections found(take_sample(data, device, tuning::direction_rows), p.metric, p.choice, count,
                             execution);
  p.all_values = p.choice;
  p.choice = found.along(std::min(count, data.dim), p.policies.front());
}

// The same of short codes.
void force_short_codes_along(CudaPrepared& p, const DatasetView& data, int device,
                             const Execution& execution) {
  const std::int64_t count = forced_short_codes().value_or(0);
  const CudaChoice& all_values = p.choice.projection == nullptr ? p.choice : p.all_values;
  if (count == 0 || p.shards.front()->lists.count > 0 || !CudaDirections::are_possible(all_values, data.dim))
    return;
  const CudaDirections found(take_sample(data, device, tuning::direction_rows), p.metric, all_values, count,
                             execution);
  CudaChoice choice = found.along(std::min(count, data.dim), p.policies.front());
  choice.fine = false;
  if (choice.projection != nullptr) add_short_codes(p, choice);
}

// Uploads (where needed) and encodes rows [first, first + count) of the dataset as one shard.
std::unique_ptr<Shard> make_shard(const CudaPrepared& prepared, const DatasetView& data, int device,
                                  std::int64_t first, std::int64_t count, ProgressCounter& progress,
                                  const Execution& execution) {
  const cuda::DeviceGuard guard(device);
  auto shard = std::make_unique<Shard>(device, prepared.choice, data, prepared.metric, count,
                                       prepared.policy_of(device));
  shard->base = first;
  const DatasetView rows = data.slice(first, count);
  const std::int64_t row_bytes = data.dim * static_cast<std::int64_t>(size_of(data.dtype));
  const cudaStream_t stream = shard->stream;
  if (count == 0) {
    shard->begin(0, stream);
    shard->finish(stream);
    return shard;
  }
  if (data.space == MemorySpace::cuda) {
    if (data.device == device) {
      shard->data = rows.data;
      shard->stride = data.row_stride;
    } else {
      shard->own_rows = cuda::Buffer<unsigned char>(count * row_bytes, stream);
      shard->data = shard->own_rows.data();
      shard->stride = data.dim;
      if (rows.contiguous()) {
        KITH_CUDA(cudaMemcpyPeerAsync(shard->own_rows.data(), device, rows.data, data.device,
                                      static_cast<std::size_t>(count * row_bytes), stream));
      } else {
        KITH_CUDA(cudaMemcpy2DAsync(shard->own_rows.data(), static_cast<std::size_t>(row_bytes), rows.data,
                                    static_cast<std::size_t>(rows.row_stride) * size_of(rows.dtype),
                                    static_cast<std::size_t>(row_bytes), static_cast<std::size_t>(count),
                                    cudaMemcpyDefault, stream));
      }
    }
    shard->encode(shard->data, shard->stride, count, stream);
    progress.advance(count);
    return shard;
  }

  cuda::Uploader uploader;
  const bool resident = prepared.mode == CudaPrepared::Mode::resident;
  const std::int64_t piece_rows =
      std::max<std::int64_t>(1, (std::int64_t{64} << 20) / row_bytes / code_tile_rows) * code_tile_rows;
  if (resident) {
    shard->own_rows = cuda::Buffer<unsigned char>(count * row_bytes, stream);
    shard->data = shard->own_rows.data();
    shard->stride = data.dim;
  } else {
    void* mapped = nullptr;
    KITH_CUDA(cudaHostGetDevicePointer(&mapped, const_cast<void*>(rows.data), 0));
    shard->data = mapped;
    shard->stride = data.row_stride;
  }
  cuda::Buffer<unsigned char> passing(resident ? 0 : std::min(piece_rows, count) * row_bytes, stream);
  shard->begin(count, stream);
  for (std::int64_t at = 0; at < count; at += piece_rows) {
    const std::int64_t piece = std::min(piece_rows, count - at);
    unsigned char* to = resident ? shard->own_rows.data() + at * row_bytes : passing.data();
    uploader.copy(rows.slice(at, piece), to, stream, execution);
    shard->encode_piece(to, data.dim, at, piece, stream);
    progress.advance(piece);
  }
  shard->finish(stream);
  return shard;
}

std::shared_ptr<const Prepared> prepare(const DatasetView& data, const BruteForceParameters& parameters,
                                        std::int64_t expected_queries, const Execution& execution) {
  auto prepared = std::make_shared<CudaPrepared>();
  CudaPrepared& p = *prepared;
  p.metric = parameters.metric;
  const auto known = cuda::devices();
  for (const Device& device : execution.devices) {
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const DeviceInfo& info) { return info.device == device; });
    if (found == known.end()) {
      throw DeviceError(
          fmt::format("{} is not there: {}; use the device cpu", name(device), cuda::absence()));
    }
    if (!found->usable)
      throw DeviceError(fmt::format("{} cannot be used: {}; use the device cpu", name(device), found->note));
    if (std::find(p.devices.begin(), p.devices.end(), device.ordinal) == p.devices.end())
      p.devices.push_back(device.ordinal);
  }
  for (const int device : p.devices) p.policies.push_back(tuning::policy_of(device));
  const int home = data.space == MemorySpace::cuda ? data.device : p.devices.front();
  const Dataset sample = take_sample(data, home, tuning::code_sample_rows);
  std::int64_t longest = cuda::largest_code_bytes;
  for (const int device : p.devices) longest = std::min(longest, cuda::longest_codes(device));
  p.choice = choose_cuda_codes(sample.view(), data.rows, parameters, p.policies.front(), longest);
  if (p.choice.filter == Filter::fp16 &&
      !std::all_of(p.devices.begin(), p.devices.end(), cuda::halves_are_summed_well)) {
    throw DeviceError(
        "this GPU sums products of halves less exactly than the fp16 filter needs; use filter auto");
  }
  const auto forced = parameters.directions.value_or(true) ? forced_directions() : 0;
  if (forced) force_along(p, data, *forced, home, execution);

  // What a device may be asked for: the limit that was set, or most of what is free.
  for (const int device : p.devices) {
    const cuda::DeviceGuard guard(device);
    cuda::keep_some_memory(device);
    std::size_t available = 0;
    std::size_t all = 0;
    KITH_CUDA(cudaMemGetInfo(&available, &all));
    std::uint64_t budget = available - available / 16;
    if (execution.device_memory_limit > 0) budget = std::min(budget, execution.device_memory_limit);
    p.budget = p.budget == 0 ? budget : std::min(p.budget, budget);
  }
  const auto count = static_cast<std::int64_t>(p.devices.size());
  const std::int64_t row_bytes = data.dim * static_cast<std::int64_t>(size_of(data.dtype));
  constexpr std::int64_t small_rows = std::int64_t{1} << 18;
  p.replicated = count > 1 && data.rows <= small_rows && (expected_queries == 0 || expected_queries >= 1024);
  const std::int64_t share = p.replicated ? data.rows : (data.rows + count - 1) / count;
  const std::uint64_t code_bytes = code_bytes_of(p.choice, data, share);
  const std::uint64_t whole =
      code_bytes + (data.space == MemorySpace::host ? static_cast<std::uint64_t>(share * row_bytes) : 0);
  const std::uint64_t working = p.budget / 4;
  if (whole + working > p.budget && data.space == MemorySpace::host) {
    // float32 rows are their own codes: without them on the device there is nothing to scan.
    const bool codes_help = p.choice.filter == Filter::int8 || p.choice.filter == Filter::fp16 ||
                            (p.choice.filter == Filter::fp32 && data.dtype != Dtype::f32);
    const bool pinned =
        p.pinned.add(data.data, static_cast<std::uint64_t>((data.rows - 1) * data.row_stride + data.dim) *
                                    size_of(data.dtype));
    p.mode = pinned && codes_help && code_bytes + working <= p.budget ? CudaPrepared::Mode::host_rows
                                                                      : CudaPrepared::Mode::streamed;
  } else if (code_bytes + working > p.budget) {
    throw OutOfMemory(fmt::format(
        "codes of {} rows need {} bytes of GPU memory, the limit is {}; raise the limit or name more devices",
        share, code_bytes, p.budget));
  }

  const std::int64_t lists = parameters.lists.value_or(0);
  check_lists_asked(p, lists);
  if (p.mode == CudaPrepared::Mode::streamed) {
    plan_stream(p, data);
    return prepared;
  }

  ProgressCounter progress(execution, "build",
                           std::max<std::int64_t>(1, p.replicated ? data.rows * count : data.rows));
  struct Share {
    int device;
    std::int64_t first, count;
  };
  std::vector<std::vector<Share>> shares(p.devices.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from = p.replicated ? 0 : data.rows * i / count;
    const std::int64_t to = p.replicated ? data.rows : data.rows * (i + 1) / count;
    std::int64_t at = from;
    do {  // also an empty dataset has a shard
      const std::int64_t n = std::min(to - at, cuda::most_shard_rows);
      shares[static_cast<std::size_t>(i)].push_back({p.devices[static_cast<std::size_t>(i)], at, n});
      at += n;
    } while (at < to);
  }
  std::vector<std::vector<std::unique_ptr<Shard>>> made(shares.size());
  cuda::for_each_device(shares.size(), [&](std::size_t i) {
    for (const Share& s : shares[i])
      made[i].push_back(make_shard(p, data, s.device, s.first, s.count, progress, execution));
  });
  for (auto& list : made) {
    for (auto& shard : list) p.shards.push_back(std::move(shard));
  }
  // What codes may take of a device.
  const std::uint64_t held = working + (p.mode == CudaPrepared::Mode::resident ? whole - code_bytes : 0);
  const std::uint64_t room = p.budget > held ? p.budget - held : 0;
  std::optional<CudaDirections> found;
  if (expected_queries == 0 || expected_queries >= tuning::least_queries_to_measure) {
    const CudaChoice first = p.choice;
    const std::uint64_t doubled = code_bytes_of(p.choice.as_halves(), data, share) + whole - code_bytes;
    const double seconds = measure_filter(p, sample.view(), doubled + working <= p.budget, execution);
    // What a build leaves to searches has room for coordinates.
    // What finding them takes of the host's memory.
    const std::uint64_t to_find =
        codes::directions_bytes(data.dim, std::min(data.dim / 2, codes::Projection::most_directions)) +
        static_cast<std::uint64_t>(std::min(data.rows, tuning::direction_rows)) *
            static_cast<std::uint64_t>(row_bytes);
    const bool fits = execution.memory_limit == 0 || to_find <= execution.memory_limit;
    // Rows in host memory would cross the bus again for every try.
    const bool wanted = parameters.directions.value_or(p.mode == CudaPrepared::Mode::resident &&
                                                       data.rows >= tuning::least_values_unasked / data.dim);
    if (wanted && fits && seconds > 0 && !forced && working >= 2 * tuning::coordinate_bytes &&
        CudaDirections::are_worth_a_look(first, sample.view(), p.metric, data.rows, expected_queries,
                                         p.policies.front())) {
      found.emplace(take_sample(data, home, tuning::direction_rows), p.metric, first, 0, execution);
      const double most = parameters.directions ? tuning::most_time_along : tuning::most_time_unasked;
      measure_directions(p, data, sample.view(), *found, most * seconds, room, execution);
    }
    if (!parameters.lists && !forced && seconds > 0)
      divide_if_it_pays(p, data, expected_queries, working / 2, execution);
  }
  divide_as_asked(p, data, lists, working / 2, execution);
  if (found && expected_queries == 0)
    add_short_codes_if_they_pay(p, data, sample.view(), *found, room, execution);
  if (parameters.directions.value_or(true)) force_short_codes_along(p, data, home, execution);
  progress.finish();
  return prepared;
}

Neighbors search(const Prepared& prepared, const DatasetView& data, Metric /*metric*/,
                 const DatasetView& queries, std::int64_t k, const Execution& execution) {
  Neighbors out;
  out.queries = queries.rows;
  out.k = k;
  const auto cells = static_cast<std::size_t>(queries.rows * k);
  out.indices.resize(cells);
  NeighborsView view{out.indices.data(), nullptr, queries.rows, k};
  if (data.dtype == Dtype::f64) {
    out.distances = std::vector<double>(cells);
    view.distances = std::get<std::vector<double>>(out.distances).data();
  } else {
    out.distances = std::vector<float>(cells);
    view.distances = std::get<std::vector<float>>(out.distances).data();
  }
  out.statistics = search_cuda(static_cast<const CudaPrepared&>(prepared), data, queries, view, execution);
  return out;
}

SearchStatistics search_into(const Prepared& prepared, const DatasetView& data, Metric /*metric*/,
                             const DatasetView& queries, const NeighborsView& out,
                             const Execution& execution) {
  return search_cuda(static_cast<const CudaPrepared&>(prepared), data, queries, out, execution);
}

}  // namespace

Dataset take_sample(const DatasetView& data, int device, std::int64_t most) {
  const std::int64_t count = std::min(data.rows, most);
  if (count == 0) return Dataset::allocate(data.dtype, 0, data.dim);
  Dataset sample = Dataset::allocate(data.dtype, count, data.dim);
  const auto row_bytes = static_cast<std::size_t>(data.dim) * size_of(data.dtype);
  auto* out = static_cast<unsigned char*>(sample.mutable_data());
  if (data.space == MemorySpace::host) {
    for (const std::int64_t row : sample_rows(data.rows, count)) {
      std::memcpy(out, data.row(row), row_bytes);
      out += row_bytes;
    }
    return sample;
  }
  const cuda::DeviceGuard guard(device);
  const cuda::Stream stream;
  const std::int64_t step = data.rows / count;
  KITH_CUDA(cudaMemcpy2DAsync(out, row_bytes, data.data,
                              static_cast<std::size_t>(step * data.row_stride) * size_of(data.dtype),
                              row_bytes, static_cast<std::size_t>(count), cudaMemcpyDeviceToHost, stream));
  stream.synchronize();
  return sample;
}

std::uint64_t code_bytes_of(const CudaChoice& choice, const DatasetView& data, std::int64_t rows) {
  return static_cast<std::uint64_t>(rows) * bytes_a_row(choice, data) +
         directions_bytes(choice, data.dim, rows) + (1U << 20U);
}

void plan_stream(CudaPrepared& p, const DatasetView& data) {
  // Two pieces are on the device at once, rows and codes each, and half is left for the search.
  const std::int64_t row_bytes = data.dim * static_cast<std::int64_t>(size_of(data.dtype));
  const std::uint64_t each =
      (code_bytes_of(p.choice, data, 1024) - directions_bytes(p.choice, data.dim, 0)) / 1024 +
      static_cast<std::uint64_t>(row_bytes);
  const std::uint64_t map = directions_bytes(p.choice, data.dim, 0);
  const std::uint64_t least = each * code_tile_rows + map;
  if (p.budget / 4 < least) {
    throw OutOfMemory(
        fmt::format("the limit of {} bytes of GPU memory is too little to stream rows of {} bytes; at "
                    "least {} are needed",
                    p.budget, row_bytes, least * 4));
  }
  const auto fit = static_cast<std::int64_t>((p.budget / 4 - map) / each);
  const std::int64_t useful = std::max<std::int64_t>(code_tile_rows, (std::int64_t{256} << 20) / row_bytes);
  p.stream_rows = std::min(fit, useful) / code_tile_rows * code_tile_rows;
  p.stream_bytes = 2 * (static_cast<std::uint64_t>(p.stream_rows) * each + map);
}

std::shared_ptr<const CudaPrepared> with_all_values(const CudaPrepared& p, const DatasetView& data,
                                                    Execution& execution) {
  const std::scoped_lock lock(p.mutex);
  if (p.of_all_values != nullptr) return p.of_all_values;
  auto other = std::make_shared<CudaPrepared>();
  other->choice = other->all_values = p.all_values;
  other->metric = p.metric;
  other->mode = p.mode;
  other->replicated = p.replicated;
  other->devices = p.devices;
  other->policies = p.policies;
  other->budget = p.budget;
  try {
    if (p.mode == CudaPrepared::Mode::streamed) {
      plan_stream(*other, data);
      p.of_all_values = std::move(other);
      return p.of_all_values;
    }
    std::uint64_t needed = 0;
    for (const int device : p.devices) {
      const cuda::DeviceGuard guard(device);
      std::uint64_t codes = 0;
      for (const auto& shard : p.shards) {
        if (shard->device == device) codes += code_bytes_of(p.all_values, data, shard->rows);
      }
      std::size_t available = 0;
      std::size_t all = 0;
      KITH_CUDA(cudaMemGetInfo(&available, &all));
      std::uint64_t may_take = available;
      if (execution.device_memory_limit > 0) may_take = std::min(may_take, execution.device_memory_limit);
      if (codes > may_take / 2) return nullptr;
      needed = std::max(needed, codes);
    }
    other->shards.resize(p.shards.size());
    cuda::for_each_device(p.shards.size(), [&](std::size_t i) {
      if (execution.cancelled && execution.cancelled()) {
        throw Cancelled("stopped because the caller asked to; nothing was produced");
      }
      other->shards[i] = p.shards[i]->coded_by(p.all_values);
      other->shards[i]->surplus = p.all_values_surplus;
    });
    if (execution.device_memory_limit > 0) execution.device_memory_limit -= needed;
  } catch (const OutOfMemory&) {
    return nullptr;
  }
  p.of_all_values = std::move(other);
  return p.of_all_values;
}

const Backend& cuda_backend() {
  static const Backend backend{prepare, search, search_into};
  return backend;
}

}  // namespace kith::brute_force
