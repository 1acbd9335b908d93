// Whether the rows of shards are divided into lists, and around which centres.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "brute_force/cuda/plan.hpp"
#include "brute_force/cuda/prepared.hpp"
#include "brute_force/cuda/shard_search.hpp"
#include "brute_force/cuda/tuning.hpp"
#include "brute_force/partition.hpp"
#include "codes/codes.hpp"
#include "core/parallel.hpp"
#include "cuda/fan_out.hpp"
#include "cuda/upload.hpp"
#include "kith/error.hpp"

namespace kith::brute_force {
namespace {

// Centres of about `count` lists in the code space of the shards.
std::vector<float> centres(const CudaPrepared& p, const DatasetView& data, std::int64_t count,
                           const Execution& execution) {
  const int home = data.space == MemorySpace::cuda ? data.device : p.devices.front();
  const Dataset sample = take_sample(data, home, count * sampled_rows_a_centre);
  const Execution quiet = without_progress(execution);
  const ListCentres found = centres_of_lists(sample.view(), p.metric, count, quiet);
  if (p.metric == Metric::cosine) return found.values;
  std::vector<float> values(found.values.size());
  const auto dim = static_cast<std::size_t>(data.dim);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t j = i % dim;
    const double there = found.space.mean.empty() ? 0 : found.space.mean[j];
    const double here = p.choice.mean.empty() ? 0 : p.choice.mean[j];
    const double value = static_cast<double>(found.values[i]) / found.space.unit + there;
    values[i] = static_cast<float>((value - here) * p.choice.unit);
  }
  return values;
}

void divide(CudaPrepared& p, const std::vector<float>& centres, const Execution& execution) {
  cuda::for_each_device(p.shards.size(), [&](std::size_t i) { p.shards[i]->divide(centres, execution); });
}

// Rows that some of the rows, as queries, could not leave out, on average.
template <class R>
double visited_rows(const CudaPrepared& p, const DatasetView& queries, const Execution& execution) {
  Shard& shard = *p.shards.front();
  const cuda::DeviceGuard guard(shard.device);
  cuda::Borrowed<Workspace> w(shard.workspaces, shard.device);
  const std::int64_t k = tried_neighbours + 1;  // each of them finds itself
  const cuda::PlacedRows placed =
      cuda::place(queries, shard.device, w->queries, w->uploader, w->stream, execution);
  const cuda::ListedQueries listed = order_queries(shard, *w, placed.data, placed.stride, queries.rows);
  const auto row_bytes = static_cast<std::int64_t>(size_of(queries.dtype)) * queries.dim;
  unsigned char* ordered = w->by_lists.queries.reserve(queries.rows * row_bytes, w->stream);
  cuda::gather_rows(placed.data, placed.stride * static_cast<std::int64_t>(size_of(queries.dtype)), row_bytes,
                    listed.ids, queries.rows, ordered, w->stream);
  const Plan plan =
      make_plan(shard, queries.rows, k, sizeof(R), p.budget, execution.device_memory_limit, 0, true);
  if (!plan.listed || plan.batch < queries.rows) return static_cast<double>(shard.rows);
  const cuda::Buffer<std::int64_t> indices(queries.rows * k, w->stream);
  const cuda::Buffer<R> distances(queries.rows * k, w->stream);
  ShardSearch<R> search(shard, *w, plan, k, execution, listed);
  (void)search.run(ordered, queries.dim, queries.rows, nullptr, k, indices.data(), distances.data(), true);
  const std::int64_t rows = search.visited();
  w.done();
  return static_cast<double>(rows) / static_cast<double>(queries.rows);
}

// Divides the rows, and says how many of them the queries then visit: all, where there is no memory for it.
double visited_when_divided(CudaPrepared& p, const DatasetView& data, std::int64_t count,
                            const DatasetView& queries, const Execution& execution) {
  const Execution quiet = without_progress(execution);
  try {
    divide(p, centres(p, data, count, execution), execution);
    return queries.dtype == Dtype::f64 ? visited_rows<double>(p, queries, quiet)
                                       : visited_rows<float>(p, queries, quiet);
  } catch (const OutOfMemory&) {
    return static_cast<double>(p.shards.front()->rows);
  }
}

// The sample that centres are found from, as it is and as float32.
std::uint64_t sample_bytes(const DatasetView& data, std::int64_t count) {
  const std::int64_t rows = std::min(data.rows, count * sampled_rows_a_centre);
  return static_cast<std::uint64_t>(rows * data.dim) * (size_of(data.dtype) + sizeof(float));
}

// Seconds, so far as anybody knows beforehand.
double seconds_to_make(const DatasetView& data, std::int64_t count) {
  const auto lists = static_cast<double>(count);
  const auto dim = static_cast<double>(data.dim);
  constexpr double rounds = 16;  // two levels of k-means
  return lists * static_cast<double>(sampled_rows_a_centre) * std::sqrt(lists) * rounds * dim *
             tuning::k_means_seconds +
         static_cast<double>(data.rows) * lists * dim * tuning::divide_seconds;
}

}  // namespace

void check_lists_asked(const CudaPrepared& p, std::int64_t count) {
  if (count == 0) return;
  const auto refuse = [&](std::string_view needed) {
    throw InvalidArgument(fmt::format("{} lists on a GPU need {}; or leave lists out", count, needed));
  };
  if (const char* lacked = lacked_by_lists(p.metric)) refuse(lacked);
  if (count > tuning::most_lists) refuse(fmt::format("to be at most {}", tuning::most_lists));
  if (p.choice.filter != Filter::int8 && p.choice.filter != Filter::fp16)
    refuse("codes: the filter int8 or fp16, which auto takes for rows of five and more dimensions");
  if (p.mode != CudaPrepared::Mode::resident) refuse("room for all rows and codes in its memory");
}

void divide_as_asked(CudaPrepared& p, const DatasetView& data, std::int64_t count, std::uint64_t room,
                     const Execution& execution) {
  if (count == 0 || data.rows == 0) return;
  const std::int64_t lists = std::min(count, data.rows);
  const std::uint64_t needed = lists_bytes(data.dim, p.shards.front()->rows, lists);
  if (needed > room) {
    throw OutOfMemory(fmt::format(
        "{} lists take {} bytes of GPU memory, {} are left for them; raise the limit, or ask for fewer lists",
        lists, needed, room));
  }
  if (execution.memory_limit > 0 && sample_bytes(data, lists) > execution.memory_limit) {
    throw OutOfMemory(fmt::format(
        "the sample that {} lists are found from takes {} bytes, the memory limit is {}; raise it, "
        "or ask for fewer lists",
        lists, sample_bytes(data, lists), execution.memory_limit));
  }
  divide(p, centres(p, data, lists, execution), execution);
}

void divide_if_it_pays(CudaPrepared& p, const DatasetView& data, std::int64_t expected_queries,
                       std::uint64_t room, const Execution& execution) {
  const Shard& shard = *p.shards.front();
  const std::int64_t count = std::min(usual_lists(shard.rows), tuning::most_usual_lists);
  if (lacked_by_lists(p.metric) != nullptr || p.mode != CudaPrepared::Mode::resident ||
      !shard.space.tiled() || data.dim < tuning::fewest_listed_dim || shard.rows == 0 ||
      lists_bytes(data.dim, shard.rows, count) > room) {
    return;
  }
  if (execution.memory_limit > 0 && sample_bytes(data, count) > execution.memory_limit) return;
  const double look = p.choice.filter == Filter::fp16
                          ? p.choice.fp16_seconds
                          : int8_look_seconds(shard.policy, p.choice.values(data.dim));
  const double rows = static_cast<double>(shard.rows);
  const double taken = 2 * (tuning::least_listed_seconds +
                            tuning::listed_value_seconds * static_cast<double>(count * data.dim));
  const double to_make =
      expected_queries == 0 ? 0 : seconds_to_make(data, count) / static_cast<double>(expected_queries);
  // Seconds a query, if it visits so many rows.
  const auto saves = [&](double visited) { return (rows - visited) * look * 1e-9 > taken + to_make; };
  if (!saves(0)) return;
  const int home = data.space == MemorySpace::cuda ? data.device : p.devices.front();
  const Dataset sample = take_sample(data, home, rows_of_a_trial);
  if (!lie_in_clusters(sample.view(), data.rows, space_of_lists(sample.view(), p.metric), execution)) return;
  const Dataset queries = take_sample(data, home, tuning::measured_queries);
  const double visited = visited_when_divided(p, data, count, queries.view(), execution);
  if (visited > tuning::most_visited * rows || !saves(visited)) {
    cuda::for_each_device(p.shards.size(), [&](std::size_t i) { p.shards[i]->undivide(); });
    return;
  }
  for (const auto& each : p.shards) each->lists.visited = visited;
}

}  // namespace kith::brute_force
