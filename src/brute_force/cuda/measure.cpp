// What the filter keeps, measured by a search: it depends on how near neighbours lie beside how exact the
// codes are, which no small sample tells of data in clusters. It decides about the stages, and between int8
// and halves.
#include <algorithm>
#include <limits>
#include <utility>

#include "brute_force/cuda/plan.hpp"
#include "brute_force/cuda/prepared.hpp"
#include "brute_force/cuda/shard_search.hpp"
#include "brute_force/cuda/tuning.hpp"
#include "core/parallel.hpp"
#include "cuda/upload.hpp"

namespace kith::brute_force {
namespace {

// What the filter of a shard did for a query, on average.
struct MeasuredSearch {
  double evaluated = 0;  ///< rows evaluated exactly
  double surplus = 1;    ///< as in Shard
};

// One search in stages; its answer is thrown away.
template <class R>
MeasuredSearch measure_search(Shard& shard, Workspace& w, const void* queries, std::int64_t stride,
                              std::int64_t count, std::int64_t k, const Execution& execution,
                              std::uint64_t budget) {
  const std::int64_t list_k = std::clamp<std::int64_t>(k, 1, std::max<std::int64_t>(1, shard.rows));
  Plan plan = make_plan(shard, count, list_k, sizeof(R), budget, execution.device_memory_limit, 0);
  plan.one_pass = false;
  const cuda::Buffer<std::int64_t> indices(count * k, w.stream);
  const cuda::Buffer<R> distances(count * k, w.stream);
  ShardSearch<R> search(shard, w, plan, list_k, execution);
  (void)search.run(queries, stride, count, nullptr, k, indices.data(), distances.data(), false);
  w.stream.synchronize();
  // A stage that sees g times the rows of those before it keeps k (g - 1) by a filter without error.
  double expected = 0;
  if (plan.look || plan.runs) {
    expected +=
        static_cast<double>(list_k) *
        (static_cast<double>(plan.stage_ends[0] * cuda::code_tile_rows) / static_cast<double>(plan.sample) -
         1);
  }
  for (std::size_t i = 1; i < plan.stage_ends.size(); ++i) {
    expected += static_cast<double>(list_k) *
                (static_cast<double>(plan.stage_ends[i]) / static_cast<double>(plan.stage_ends[i - 1]) - 1);
  }
  const double kept = static_cast<double>(search.kept()) / static_cast<double>(count);
  const double surplus = expected > 0 ? (kept - static_cast<double>(plan.first_room)) / expected : 1;
  return {static_cast<double>(search.candidates()) / static_cast<double>(count),
          std::clamp(surplus, 1.0, tuning::most_surplus)};
}

MeasuredSearch measure(CudaPrepared& p, const DatasetView& queries, const Execution& execution) {
  const Execution quiet = without_progress(execution);
  Shard& shard = *p.shards.front();
  const cuda::DeviceGuard guard(shard.device);
  cuda::Borrowed<Workspace> w(shard.workspaces, shard.device);
  const cuda::PlacedRows placed =
      cuda::place(queries, shard.device, w->queries, w->uploader, w->stream, quiet);
  const std::int64_t k = tuning::measured_k + 1;  // each of them finds itself
  const auto search = queries.dtype == Dtype::f64 ? measure_search<double> : measure_search<float>;
  const MeasuredSearch found =
      search(shard, *w, placed.data, placed.stride, queries.rows, k, quiet, p.budget);
  w.done();  // the search that follows needs its memory, and new memory takes milliseconds
  for (const auto& each : p.shards) each->surplus = found.surplus;
  return found;
}

// Seconds a query of many: the look at all rows, what it keeps, and what is evaluated beyond what stages do
// anyway.
double seconds_a_query(const CudaPrepared& p, const MeasuredSearch& found) {
  const Shard& shard = *p.shards.front();
  const tuning::Policy& policy = shard.policy;
  const double look = p.choice.filter == Filter::fp16 ? p.choice.fp16_seconds : p.choice.int8_seconds;
  const double row_bytes =
      static_cast<double>(shard.space.dim) * static_cast<double>(size_of(shard.space.dtype));
  const double beyond = std::max(0.0, found.evaluated - tuning::usual_evaluations);
  return static_cast<double>(shard.rows) * look * 1e-9 +
         expected_seconds(shard, tuning::usual_queries, tuning::measured_k) /
             static_cast<double>(tuning::usual_queries) +
         beyond * (policy.evaluated_seconds + row_bytes * policy.evaluated_byte_seconds);
}

// Whether what is saved may repay a search or two, and codes made anew.
bool is_worth_measuring(const Shard& shard) {
  if (shard.rows >= tuning::least_rows_to_measure) return true;
  return shard.rows >= tuning::least_long_rows_to_measure &&
         shard.rows >= tuning::least_values_to_measure / shard.space.dim;
}

// Some rows of the sample.
DatasetView measured_queries_of(const DatasetView& sample) {
  const std::int64_t every = std::max<std::int64_t>(1, sample.rows / tuning::measured_queries);
  return DatasetView(sample.data, sample.dtype, sample.rows / every, sample.dim, every * sample.row_stride);
}

}  // namespace

double measure_filter(CudaPrepared& p, const DatasetView& sample, bool halves_fit,
                      const Execution& execution) {
  if (p.shards.empty() || !p.shards.front()->filtered() || !p.shards.front()->space.tiled() ||
      !is_worth_measuring(*p.shards.front())) {
    return 0;
  }
  const DatasetView queries = measured_queries_of(sample);
  const double seconds = seconds_a_query(p, measure(p, queries, execution));
  if (!p.choice.may_be_halves() || !halves_fit) return seconds;
  // With nothing kept halves would be no quicker than their look at all rows.
  if (seconds <= static_cast<double>(p.shards.front()->rows) * p.choice.fp16_seconds * 1e-9) {
    return seconds;
  }
  if (!std::all_of(p.devices.begin(), p.devices.end(), cuda::halves_are_summed_well)) return seconds;
  const CudaChoice int8 = p.choice;
  const double surplus = p.shards.front()->surplus;
  p.code_anew(int8.as_halves());
  const double of_halves = seconds_a_query(p, measure(p, queries, execution));
  if (of_halves < seconds) return of_halves;
  p.code_anew(int8);
  for (const auto& each : p.shards) each->surplus = surplus;
  return seconds;
}

void measure_directions(CudaPrepared& p, const DatasetView& data, const DatasetView& sample,
                        const CudaDirections& found, double seconds, std::uint64_t room,
                        const Execution& execution) {
  constexpr std::int64_t step = tuning::step_of_directions;
  constexpr double never = std::numeric_limits<double>::infinity();
  const DatasetView queries = measured_queries_of(sample);
  p.all_values = p.choice;
  p.all_values_surplus = p.shards.front()->surplus;
  CudaChoice best = p.choice;
  double best_surplus = p.all_values_surplus;
  double least = seconds;
  const std::int64_t share = p.most_rows_of_a_device();
  // Rows that are read from host memory take their time.
  int tries = p.mode == CudaPrepared::Mode::resident ? tuning::most_tries : 2;
  const auto seconds_along = [&](std::int64_t count) {
    if (count < 1 || count > found.most() || tries-- <= 0) return never;
    CudaChoice choice = found.along(count, p.shards.front()->policy);
    if (choice.projection == nullptr) return never;
    choice.fine = code_bytes_of(choice, data, share) <= room;
    if (!choice.fine && code_bytes_of(choice, data, share) > room) return never;
    encode_along(choice, [&](const CudaChoice& by) -> const Shard& {
      p.code_anew(by);
      return *p.shards.front();
    });
    const double taken = seconds_a_query(p, measure(p, queries, execution));
    if (taken < least) {
      least = taken;
      best = std::move(choice);
      best_surplus = p.shards.front()->surplus;
    }
    return taken;
  };
  const std::int64_t first = found.first();
  if (first == 0) return;
  const double at_first = seconds_along(first);
  // Whether going on by `by` helps, as long as it does.
  const auto climbs = [&](std::int64_t by) {
    double before = at_first;
    for (std::int64_t count = first + by;; count += by) {
      const double now = seconds_along(count);
      if (!(now < before)) return count != first + by;
      before = now;
    }
  };
  if (!climbs(step)) (void)climbs(-step);
  if (p.choice.projection != best.projection) p.code_anew(best);
  for (const auto& each : p.shards) each->surplus = best_surplus;
}

}  // namespace kith::brute_force
