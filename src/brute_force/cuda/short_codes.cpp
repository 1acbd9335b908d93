// Codes along still fewer directions, for few queries. One look at all rows by few queries takes as long as
// reading the codes, while many queries wait for what these keep: the shortest codes that suit many are about
// twice as long as those that suit few. So an index may hold both, where rows are many and a search for one
// query, timed by either, says so.
#include <algorithm>
#include <chrono>
#include <utility>

#include "brute_force/cuda/plan.hpp"
#include "brute_force/cuda/prepared.hpp"
#include "brute_force/cuda/shard_search.hpp"
#include "brute_force/cuda/tuning.hpp"
#include "core/parallel.hpp"
#include "cuda/fan_out.hpp"
#include "cuda/upload.hpp"
#include "kith/error.hpp"

namespace kith::brute_force {
namespace {

// Searches for one query each, one after the other.
struct Timed {
  double seconds = 0;     // on average
  double unanswered = 0;  // the share that one look did not answer
};

// search(query) says whether the query was answered.
template <class Search>
Timed time_each(const cuda::PlacedRows& queries, std::int64_t row_bytes, std::int64_t count,
                const Search& search) {
  Timed timed;
  for (int round = 0; round < 2; ++round) {  // kernels and memory are there from the second on
    std::int64_t unanswered = 0;
    const auto began = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < count; ++i) {
      if (!search(static_cast<const char*>(queries.data) + i * row_bytes)) ++unanswered;
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    timed = {seconds / static_cast<double>(count),
             static_cast<double>(unanswered) / static_cast<double>(count)};
  }
  return timed;
}

// By the codes of the shard, stages included where one look is not enough; by `short_codes`, one look alone.
template <class R>
Timed time_as(Shard& shard, Shard* short_codes, const DatasetView& queries, std::uint64_t budget,
              const Execution& execution) {
  const cuda::DeviceGuard guard(shard.device);
  cuda::Borrowed<Workspace> w(shard.workspaces, shard.device);
  const cuda::PlacedRows placed =
      cuda::place(queries, shard.device, w->queries, w->uploader, w->stream, execution);
  const std::int64_t k = std::min(tuning::measured_k, shard.rows);
  const cuda::Buffer<std::int64_t> indices(k, w->stream);
  const cuda::Buffer<R> distances(k, w->stream);
  const auto row_bytes = placed.stride * static_cast<std::int64_t>(size_of(shard.space.dtype));
  const Timed timed = time_each(placed, row_bytes, queries.rows, [&](const void* query) {
    SearchStatistics ignored;
    if (short_codes != nullptr) {
      return search_by_short_codes<R>(*short_codes, *w, query, placed.stride, 1, k, indices.data(),
                                      distances.data(), execution, budget, ignored);
    }
    search_shard<R>(shard, *w, query, placed.stride, 1, k, nullptr, indices.data(), distances.data(),
                    execution, budget, false, ignored);
    w->stream.synchronize();
    return true;
  });
  w->stream.synchronize();
  w.done();
  return timed;
}

Timed time_queries(Shard& shard, Shard* short_codes, const DatasetView& queries, std::uint64_t budget,
                   const Execution& execution) {
  return queries.dtype == Dtype::f64 ? time_as<double>(shard, short_codes, queries, budget, execution)
                                     : time_as<float>(shard, short_codes, queries, budget, execution);
}

}  // namespace

void add_short_codes(CudaPrepared& p, const CudaChoice& choice) {
  cuda::for_each_device(p.shards.size(), [&](std::size_t i) {
    Shard& shard = *p.shards[i];
    if (shard.short_codes == nullptr) shard.short_codes = shard.coded_by(choice);
  });
}

void add_short_codes_if_they_pay(CudaPrepared& p, const DatasetView& data, const DatasetView& sample,
                                 const CudaDirections& found, std::uint64_t room,
                                 const Execution& execution) {
  Shard& shard = *p.shards.front();
  if (p.mode != CudaPrepared::Mode::resident || shard.lists.count > 0 || !shard.space.int8()) return;
  const std::int64_t count = p.choice.directions();
  const std::int64_t most_bytes = shard.space.shape.row_bytes();
  const DatasetView queries = sample.slice(0, std::min(sample.rows, tuning::timed_queries));
  const Execution quiet = without_progress(execution);
  const std::int64_t share = p.most_rows_of_a_device();
  CudaChoice best;
  try {
    const double now = time_queries(shard, nullptr, queries, p.budget, quiet).seconds;
    double least = tuning::most_time_by_short_codes * now;
    for (std::int64_t fewer = count > 0 ? count - tuning::step_of_directions : found.first(); fewer > 0;
         fewer -= tuning::step_of_directions) {
      CudaChoice choice = found.along(fewer, shard.policy);
      choice.fine = false;
      if (choice.projection == nullptr) break;
      const std::int64_t bytes = cuda::CodeShape::of(choice.values(data.dim)).row_bytes();
      if (shard.rows * (most_bytes - bytes) < tuning::least_bytes_spared ||
          code_bytes_of(p.choice, data, share) + 2 * code_bytes_of(choice, data, share) > room)
        continue;
      if (execution.cancelled && execution.cancelled())
        throw Cancelled("stopped because the caller asked to; nothing was produced");
      std::unique_ptr<Shard> coded;
      encode_along(choice, [&](const CudaChoice& by) -> const Shard& {
        coded = nullptr;
        coded = shard.coded_by(by);
        return *coded;
      });
      const Timed timed = time_queries(shard, coded.get(), queries, p.budget, quiet);
      const double seconds = timed.seconds + timed.unanswered * now;
      if (!(seconds < least)) continue;
      least = seconds;
      shard.short_codes = std::move(coded);
      best = std::move(choice);
    }
    if (shard.short_codes != nullptr) add_short_codes(p, best);
  } catch (const OutOfMemory&) {  // a help, no need
    for (const auto& each : p.shards) each->short_codes = nullptr;
  }
}

template <class R>
bool search_by_short_codes(Shard& codes, Workspace& w, const void* queries, std::int64_t stride,
                           std::int64_t count, std::int64_t k, std::int64_t* indices, R* distances,
                           const Execution& execution, std::uint64_t budget, SearchStatistics& statistics) {
  if (count > cuda::few_queries || k > tuning::largest_one_pass_k) return false;
  try {
    const Plan plan = make_plan(codes, count, k, sizeof(R), budget, execution.device_memory_limit, 0);
    if (!plan.one_pass || plan.batch < count) return false;
    ShardSearch<R> search(codes, w, plan, k, execution);
    if (!search.one_pass(queries, stride, count, indices, distances)) return false;
    statistics.candidates += search.candidates();
    statistics.nan_queries += search.nan_queries();
    statistics.directions = codes.space.directions;
    return true;
  } catch (const OutOfMemory&) {  // the others may need less
    w.stream.synchronize();
    return false;
  }
}

template bool search_by_short_codes<float>(Shard&, Workspace&, const void*, std::int64_t, std::int64_t,
                                           std::int64_t, std::int64_t*, float*, const Execution&,
                                           std::uint64_t, SearchStatistics&);
template bool search_by_short_codes<double>(Shard&, Workspace&, const void*, std::int64_t, std::int64_t,
                                            std::int64_t, std::int64_t*, double*, const Execution&,
                                            std::uint64_t, SearchStatistics&);

}  // namespace kith::brute_force
