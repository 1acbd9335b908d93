// The CPU engine: how a search is cut into tasks (task.hpp), and their answers put together.
//
// Many queries: a task owns a chunk of queries and sees all rows. Few queries: the rows are split as well,
// the tasks share each query's bound through an atomic, and their lists are merged by the contract's order.
// The answer does not depend on any of it, because a filter only ever keeps too many.
#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include "brute_force/backend.hpp"
#include "brute_force/cpu/list_search.hpp"
#include "brute_force/cpu/prepared.hpp"
#include "brute_force/cpu/task.hpp"
#include "brute_force/cpu/tuning.hpp"
#include "core/instruction_set.hpp"
#include "core/large_vector.hpp"
#include "core/parallel.hpp"
#include "core/rounding.hpp"
#include "select_k/top_k.hpp"

namespace kith::brute_force {
namespace {

struct Plan {
  std::int64_t chunk;
  std::int64_t splits;
};

// Memory for the k-lists of all running tasks.
std::uint64_t list_memory(const Execution& execution) {
  return execution.memory_limit > 0 ? tuning::limited_list_bytes : tuning::list_bytes;
}

// How to cut queries x rows for this many threads.
// @param waiting bytes of what waits for a query beside its list, while a task runs
Plan make_plan(const codes::Codes& codes, std::int64_t queries, std::int64_t list_k, std::uint64_t waiting,
               int threads, std::uint64_t list_bytes) {
  const auto round_up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b * b; };
  std::int64_t most = tuning::query_cache_bytes / std::max<std::int64_t>(1, codes.space.query_stride_bytes());
  const auto lists = static_cast<std::int64_t>(list_bytes / static_cast<unsigned>(threads) /
                                               (TopK<double>::bytes(list_k) + waiting));
  most = std::clamp<std::int64_t>(std::min(most, lists), 1, tuning::largest_chunk);
  if (most > tuning::query_group) most = most / tuning::query_group * tuning::query_group;
  Plan plan{};
  plan.chunk = std::min(
      most, round_up((queries + tuning::tasks_a_thread * threads - 1) / (tuning::tasks_a_thread * threads),
                     tuning::query_group));
  const std::int64_t chunks = (queries + plan.chunk - 1) / plan.chunk;
  plan.splits = 1;
  if (chunks < tuning::tasks_a_thread * threads && threads > 1) {
    // The lists of all parts live until they are merged.
    const auto affordable = static_cast<std::int64_t>(
        list_bytes / (TopK<double>::bytes(list_k) * static_cast<unsigned>(queries)));
    plan.splits =
        std::clamp<std::int64_t>((tuning::splits_a_thread * threads + chunks - 1) / chunks, 1,
                                 std::max<std::int64_t>(1, codes.tiles / tuning::smallest_split_tiles));
    plan.splits = std::clamp<std::int64_t>(affordable, 1, plan.splits);
  }
  return plan;
}

template <class R>
void write_list(Neighbors& out, std::vector<R>& distances, std::int64_t query,
                const std::vector<std::pair<R, std::int64_t>>& list) {
  const auto at = static_cast<std::size_t>(query * out.k);
  for (std::size_t j = 0; j < list.size(); ++j) {
    distances[at + j] = list[j].first;
    out.indices[at + j] = list[j].second;
  }
}

// Queries through the lists that are near enough.
template <class R>
void search_lists(Job& job, Neighbors& out, std::vector<R>& distances, int threads,
                  const Execution& execution) {
  const std::int64_t queries = job.queries.rows;
  const std::int64_t even = queries / (tuning::tasks_a_thread * std::int64_t{threads});
  // No more than leave room for their lists of k, as chunks do.
  const std::int64_t a_task =
      std::clamp<std::int64_t>(even, 1, std::min(tuning::queries_through_lists, job.chunk));
  ProgressCounter progress(execution, "search", std::max<std::int64_t>(1, queries));
  const std::vector<std::int64_t> order = by_nearest_list(job, threads, progress);
  parallel_for(threads, (queries + a_task - 1) / a_task, [&](std::int64_t task) {
    const std::int64_t first = task * a_task;
    const std::span<const std::int64_t> its(order.data() + first,
                                            static_cast<std::size_t>(std::min(a_task, queries - first)));
    ListSearch<R> search(job, a_task, progress);
    std::vector<TopK<R>> lists = search.answer(its);
    for (std::size_t i = 0; i < its.size(); ++i) write_list(out, distances, its[i], lists[i].take());
    progress.advance(std::ssize(its));
  });
  progress.finish();
}

// Chunks of queries past the codes of all rows.
template <class R>
void search_codes(Job& job, Neighbors& out, std::vector<R>& distances, int threads,
                  const Execution& execution) {
  const std::int64_t chunks = job.queries.rows == 0 ? 0 : (job.queries.rows + job.chunk - 1) / job.chunk;
  ProgressCounter progress(execution, "search",
                           std::max<std::int64_t>(1, job.queries.rows * job.prepared.codes.tiles));
  std::vector<std::vector<TopK<R>>> parts(job.splits > 1 ? static_cast<std::size_t>(chunks * job.splits) : 0);
  parallel_for(threads, chunks * job.splits, [&](std::int64_t t) {
    const std::int64_t first = t / job.splits * job.chunk;
    const std::int64_t count = std::min(job.chunk, job.queries.rows - first);
    Task<R> task(job, first, count, t % job.splits, progress);
    task.run();
    if (job.splits > 1) {
      parts[static_cast<std::size_t>(t)] = std::move(task.lists());
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      write_list(out, distances, first + i, task.lists()[static_cast<std::size_t>(i)].take());
      progress.check();
    }
  });
  if (job.splits > 1) {
    parallel_for(threads, job.queries.rows, [&](std::int64_t q) {
      progress.check();
      TopK<R> merged(job.list_k);
      for (std::int64_t s = 0; s < job.splits; ++s) {
        auto& part = parts[static_cast<std::size_t>(q / job.chunk * job.splits + s)];
        for (const auto& [distance, row] : part[static_cast<std::size_t>(q % job.chunk)].take())
          merged.offer(distance, row);
      }
      write_list(out, distances, q, merged.take());
    });
  }
  progress.finish();
}

template <class R>
Neighbors search_as(const CpuPrepared& prepared, const DatasetView& data, Metric metric,
                    const DatasetView& queries, std::int64_t k, std::span<const double> bounds,
                    const Execution& execution) {
  const auto started = std::chrono::steady_clock::now();
  Neighbors out;
  out.queries = queries.rows;
  out.k = k;
  const std::int64_t cells = queries.rows * k;
  out.indices = large_vector<std::int64_t>(cells, execution, -1);
  auto distances = large_vector<R>(cells, execution, std::numeric_limits<R>::infinity());

  const int threads = resolve_threads(execution);
  const std::int64_t list_k = std::clamp<std::int64_t>(k, 1, std::max<std::int64_t>(1, data.rows));
  const bool filtered = prepared.filter() != Filter::none;
  const std::uint64_t list_bytes = list_memory(execution);
  const std::int64_t some = std::max<std::int64_t>(1, queries.rows);
  const codes::FineCodes* fine =
      list_k <= tuning::most_k_of_fine_codes && prepared.fine ? &prepared.fine : nullptr;
  const auto plan_with = [&](std::uint64_t beside) {
    return make_plan(prepared.codes, some, list_k, beside, threads, list_bytes);
  };
  Plan plan = plan_with(0);
  if (fine != nullptr) {
    const Plan with_fine = plan_with(FineCandidates<R>::bytes(list_k));
    // Codes are not to stream past few queries because others' candidates take the room.
    if (with_fine.chunk < std::min(plan.chunk, tuning::fewest_queries_of_fine_codes))
      fine = nullptr;
    else
      plan = with_fine;
  }
  Job job{prepared,
          data,
          queries,
          metric,
          list_k,
          canonical_function(data.dtype, metric),
          filtered ? filter_kernel(prepared.codes.space.choice) : nullptr,
          fine,
          plan.chunk,
          plan.splits,
          std::vector<std::atomic<double>>(
              plan.splits > 1 || !bounds.empty() ? static_cast<std::size_t>(queries.rows) : 0),
          std::vector<std::atomic<bool>>(plan.splits > 1 ? static_cast<std::size_t>(queries.rows) : 0),
          {}};
  const bool from_zero = metric != Metric::inner_product && metric != Metric::cosine;
  for (std::size_t q = 0; q < job.bounds.size(); ++q) {
    double bound = std::numeric_limits<double>::infinity();
    if (!bounds.empty()) bound = round_up<R>(from_zero ? std::max(bounds[q], 0.0) : bounds[q]);
    job.bounds[q].store(bound);
  }

  if (prepared.partition != nullptr) {
    search_lists(job, out, distances, threads, execution);
  } else {
    search_codes(job, out, distances, threads, execution);
  }

  out.distances = std::move(distances);
  SearchStatistics& s = out.statistics;
  s.index = BruteForce::index_type.name;
  s.filter = std::string(name(prepared.filter()));
  s.directions = prepared.directions();
  s.lists = prepared.partition == nullptr ? 0 : prepared.partition->lists();
  s.instruction_set = std::string(name(active_instruction_set()));
  s.pairs = job.counters.pairs;
  s.candidates = job.counters.candidates;
  s.fallbacks = job.counters.fallbacks;
  s.nan_rows = prepared.codes.nan_rows;
  s.nan_queries = job.counters.nan_queries;
  s.collapsed_rows = static_cast<std::int64_t>(prepared.duplicates.collapsed().size());
  s.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return out;
}

Neighbors search_bounded(const Prepared& prepared, const DatasetView& data, Metric metric,
                         const DatasetView& queries, std::int64_t k, std::span<const double> bounds,
                         const Execution& execution) {
  const auto suited = suiting(static_cast<const CpuPrepared&>(prepared), data, metric, queries, execution);
  return data.dtype == Dtype::f64 ? search_as<double>(*suited, data, metric, queries, k, bounds, execution)
                                  : search_as<float>(*suited, data, metric, queries, k, bounds, execution);
}

Neighbors search(const Prepared& prepared, const DatasetView& data, Metric metric, const DatasetView& queries,
                 std::int64_t k, const Execution& execution) {
  return search_bounded(prepared, data, metric, queries, k, {}, execution);
}

}  // namespace

const Backend& cpu_backend() {
  static const Backend backend{prepare_on_cpu, search, nullptr, search_bounded};
  return backend;
}

}  // namespace kith::brute_force
