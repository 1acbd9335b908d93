// The CPU engine: codes stream past the queries, what a filter keeps waits in a buffer, is evaluated exactly
// and tightens the bound. The distance matrix never exists.
//
// Many queries: a task owns a chunk of queries and sees all rows. Few queries: the rows are split as well,
// the tasks share each query's bound through an atomic, and their lists are merged by the contract's order.
// The answer does not depend on any of it, because a filter only ever keeps too many.
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "brute_force/backend.hpp"
#include "brute_force/cpu/filter.hpp"
#include "brute_force/cpu/prepared.hpp"
#include "brute_force/cpu/tuning.hpp"
#include "core/instruction_set.hpp"
#include "core/large_vector.hpp"
#include "core/parallel.hpp"
#include "distance/canonical.hpp"
#include "kith/error.hpp"
#include "select_k/top_k.hpp"

namespace kith::brute_force {
namespace {

struct Counters {
  std::atomic<std::int64_t> pairs{0};
  std::atomic<std::int64_t> candidates{0};
  std::atomic<std::int64_t> fallbacks{0};
  std::atomic<std::int64_t> nan_queries{0};
};

// What all tasks of one search share.
struct Job {
  const CpuPrepared& prepared;
  const DatasetView& data;
  const DatasetView& queries;
  Metric metric;
  std::int64_t list_k;  // k, but not more than there are rows
  CanonicalFunction canonical;
  TileFunction kernel;                       // null without codes
  std::int64_t chunk;                        // queries a task
  std::int64_t splits;                       // parts the rows are cut into
  std::vector<std::atomic<double>> bounds;   // one a query, when splits > 1
  std::vector<std::atomic<bool>> fell_back;  // likewise: parts leave the filter each, it counts once
  Counters counters;
};

// One chunk of queries against one part of the rows.
template <class R>
class Task {
 public:
  using List = TopK<R>;

  Task(Job& job, std::int64_t first, std::int64_t count, std::int64_t split, ProgressCounter& progress)
      : job_(job),
        progress_(progress),
        codes_(job.prepared.codes),
        first_(first),
        filter_(codes_, count),
        lists_(static_cast<std::size_t>(count), List(job.list_k)),
        padded_(canonical_padded(job.data.dim)),
        values_(static_cast<std::size_t>(count * padded_)),
        wait_(std::clamp<std::int64_t>(job.list_k, 16, tuning::largest_wait)),
        distances_(static_cast<std::size_t>(wait_ + tile_rows)),
        poll_after_(std::max<std::int64_t>(tile_rows, tuning::values_between_polls / job.data.dim)) {
    const std::int64_t tiles = codes_.tiles;
    begin_ = tiles * split / job.splits;
    end_ = tiles * (split + 1) / job.splits;
    for (std::int64_t i = 0; i < count; ++i) admit(i, split == 0);
  }

  void run() {
    // Without codes the rows themselves stream past.
    const std::int64_t codes_bytes = codes_.space.bytes_per_tile();
    const std::int64_t rows_bytes =
        tile_rows * job_.data.dim * static_cast<std::int64_t>(size_of(job_.data.dtype));
    const std::int64_t block =
        std::max<std::int64_t>(1, tuning::block_bytes / (codes_bytes > 0 ? codes_bytes : rows_bytes));
    const std::vector<std::int64_t> order = visiting_order(block);
    const std::int64_t bulk_from = sampled_blocks(block);
    slots_ = filter_.size();
    open_ = slots_;
    masks_.resize(static_cast<std::size_t>(slots_));
    buffers_.resize(static_cast<std::size_t>(slots_ * (wait_ + tile_rows)));
    waiting_.assign(static_cast<std::size_t>(slots_), 0);
    kept_.assign(static_cast<std::size_t>(slots_), 0);
    closed_.assign(static_cast<std::size_t>(slots_), false);

    std::int64_t rows_seen = 0;
    for (std::size_t b = 0; b < order.size(); ++b) {
      const std::int64_t from = order[b];
      const std::int64_t to = std::min(end_, from + block);
      if (static_cast<std::int64_t>(b) == bulk_from) flush_all();
      for (std::int64_t t = from; t < to && open_ > 0; ++t) visit(t);
      for (const std::int64_t i : exact_) scan(i, from, to);
      evaluate_special(from, to);
      const std::int64_t rows = std::min(to * tile_rows, job_.data.rows) - from * tile_rows;
      rows_seen += rows;
      pairs_ += open_ * rows;
      if (rows_seen >= tuning::fallback_after_rows) leave_useless_filter(rows_seen);
      if (job_.splits > 1) refresh_shared_bounds();
      progress_.advance((to - from) * static_cast<std::int64_t>(lists_.size()));
    }
    flush_all();
    job_.counters.pairs += pairs_;
    job_.counters.candidates += evaluated_;
  }

  std::vector<List>& lists() { return lists_; }

 private:
  double* values(std::int64_t i) { return values_.data() + i * padded_; }

  // Sorts query i into: filtered (a slot), exact, or NaN.
  void admit(std::int64_t i, bool count_it) {
    const CanonicalQuery query = prepare_canonical_query(job_.queries.row(first_ + i), job_.data.dtype,
                                                         job_.data.dim, job_.metric, values(i));
    norms_.push_back(query.norm);
    for (std::int64_t j = 0; j < job_.data.dim; ++j) {
      if (std::isnan(values(i)[j])) {
        if (count_it) ++job_.counters.nan_queries;
        nan_.push_back(i);
        return;
      }
    }
    if (job_.kernel == nullptr || filter_.add(values(i)) != QueryCode::Kind::regular) {
      exact_.push_back(i);
      if (job_.kernel != nullptr && count_it) ++job_.counters.fallbacks;
      return;
    }
    query_of_slot_.push_back(i);
  }

  bool is_nan(std::int64_t i) const { return std::find(nan_.begin(), nan_.end(), i) != nan_.end(); }

  std::int64_t blocks(std::int64_t block) const { return (end_ - begin_ + block - 1) / block; }

  std::int64_t sampled_blocks(std::int64_t block) const {
    return (blocks(block) + tuning::sample_stride - 1) / tuning::sample_stride;
  }

  // First tile of every block: a thin sample over all the rows, then the rest in order.
  std::vector<std::int64_t> visiting_order(std::int64_t block) const {
    std::vector<std::int64_t> order;
    const std::int64_t n = blocks(block);
    order.reserve(static_cast<std::size_t>(n));
    for (std::int64_t b = 0; b < n; b += tuning::sample_stride) order.push_back(begin_ + b * block);
    for (std::int64_t b = 0; b < n; ++b) {
      if (b % tuning::sample_stride != 0) order.push_back(begin_ + b * block);
    }
    return order;
  }

  void visit(std::int64_t t) {
    const std::uint64_t valid = codes_.valid[static_cast<std::size_t>(t)];
    if (valid == 0) return;
    job_.kernel(tile_of(codes_, t), filter_.view(), 0, slots_, masks_.data());
    const std::int64_t base = t * tile_rows;
    for (std::int64_t s = 0; s < slots_; ++s) {
      std::uint64_t mask = masks_[static_cast<std::size_t>(s)] & valid;
      if (mask == 0) continue;
      std::int64_t* buffer = buffers_.data() + s * (wait_ + tile_rows);
      std::int64_t& count = waiting_[static_cast<std::size_t>(s)];
      while (mask != 0) {
        buffer[count++] = base + std::countr_zero(mask);
        mask &= mask - 1;
      }
      if (count >= wait_) flush(s);
    }
  }

  void flush(std::int64_t s) {
    std::int64_t& count = waiting_[static_cast<std::size_t>(s)];
    if (count == 0) return;
    const std::int64_t i = query_of_slot_[static_cast<std::size_t>(s)];
    kept_[static_cast<std::size_t>(s)] += count;
    if (evaluate(i, buffers_.data() + s * (wait_ + tile_rows), count) &&
        !closed_[static_cast<std::size_t>(s)]) {
      tighten(s);
    }
    count = 0;
  }

  void flush_all() {
    for (std::int64_t s = 0; s < slots_; ++s) flush(s);
  }

  // Exact distances of some rows into query i's list. True when its bound became smaller.
  bool evaluate(std::int64_t i, const std::int64_t* rows, std::int64_t count) {
    List& list = lists_[static_cast<std::size_t>(i)];
    const R before = list.bound();
    job_.canonical(canonical_rows(job_.data), {values(i), norms_[static_cast<std::size_t>(i)]}, rows, count,
                   distances_.data());
    evaluated_ += count;
    if (evaluated_ >= poll_at_) {
      progress_.check();
      poll_at_ = evaluated_ + poll_after_;
    }
    for (std::int64_t j = 0; j < count; ++j) {
      const auto distance = static_cast<R>(distances_[static_cast<std::size_t>(j)]);
      if (std::isnan(distance) || distance > list.bound()) continue;
      list.offer(distance, rows[j]);
      if (job_.prepared.duplicates.empty()) continue;
      for (const std::int64_t twin : job_.prepared.duplicates.of(rows[j])) {
        if (!list.offer(distance, twin)) break;  // later twins are only worse
      }
    }
    return list.bound() < before;
  }

  void tighten(std::int64_t s) {
    const std::int64_t i = query_of_slot_[static_cast<std::size_t>(s)];
    R bound = lists_[static_cast<std::size_t>(i)].bound();
    if (job_.splits > 1) {
      auto& shared = job_.bounds[static_cast<std::size_t>(first_ + i)];
      double seen = shared.load(std::memory_order_relaxed);
      while (static_cast<double>(bound) < seen &&
             !shared.compare_exchange_weak(seen, static_cast<double>(bound))) {
      }
      bound = std::min(bound, static_cast<R>(shared.load(std::memory_order_relaxed)));
    }
    filter_.set_bound(s, real_bound(bound, job_.metric, job_.data.dim));
  }

  void refresh_shared_bounds() {
    for (std::int64_t s = 0; s < slots_; ++s) {
      if (!closed_[static_cast<std::size_t>(s)]) tighten(s);
    }
  }

  // Rows of some tiles that no filter speaks for, for all queries.
  void evaluate_special(std::int64_t from, std::int64_t to) {
    const auto& special = codes_.special;
    const auto first = std::lower_bound(special.begin(), special.end(), from * tile_rows);
    const auto last = std::lower_bound(first, special.end(), to * tile_rows);
    if (first == last) return;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(lists_.size()); ++i) {
      if (is_nan(i)) continue;
      for (auto at = first; at != last;) {
        const auto count = std::min<std::int64_t>(last - at, tile_rows);
        evaluate(i, &*at, count);
        at += count;
      }
    }
  }

  // Every valid row of some tiles, without a filter.
  void scan(std::int64_t i, std::int64_t from, std::int64_t to) {
    std::int64_t rows[tile_rows];
    for (std::int64_t t = from; t < to; ++t) {
      std::uint64_t valid = codes_.valid[static_cast<std::size_t>(t)];
      std::int64_t count = 0;
      while (valid != 0) {
        rows[count++] = t * tile_rows + std::countr_zero(valid);
        valid &= valid - 1;
      }
      evaluate(i, rows, count);
    }
  }

  // A filter that keeps a large share of the rows costs more than it saves: evaluate the rest exactly.
  void leave_useless_filter(std::int64_t rows_seen) {
    for (std::int64_t s = 0; s < slots_; ++s) {
      const auto at = static_cast<std::size_t>(s);
      if (closed_[at] || kept_[at] * tuning::fallback_share <= rows_seen) continue;
      flush(s);
      closed_[at] = true;
      filter_.close(s);
      --open_;
      exact_.push_back(query_of_slot_[at]);
      const auto query = static_cast<std::size_t>(first_ + query_of_slot_[at]);
      if (job_.splits == 1 || !job_.fell_back[query].exchange(true)) ++job_.counters.fallbacks;
    }
  }

  Job& job_;
  ProgressCounter& progress_;
  const Codes& codes_;
  std::int64_t first_;
  std::int64_t begin_ = 0, end_ = 0;  // tiles
  FilterQueries filter_;
  std::vector<List> lists_;
  std::int64_t padded_;
  std::vector<double> values_;
  std::vector<double> norms_;
  std::int64_t wait_;
  std::vector<double> distances_;
  std::vector<std::int64_t> nan_, exact_, query_of_slot_;
  std::int64_t slots_ = 0;
  std::int64_t open_ = 0;  // slots that have not left the filter
  std::vector<std::uint64_t> masks_;
  std::vector<std::int64_t> buffers_, waiting_, kept_;
  std::vector<bool> closed_;
  std::int64_t evaluated_ = 0;
  std::int64_t poll_at_ = 0, poll_after_;
  std::int64_t pairs_ = 0;
};

struct Plan {
  std::int64_t chunk;
  std::int64_t splits;
};

// Memory for the k-lists of all running tasks.
std::uint64_t list_memory(const Execution& execution) {
  return execution.memory_limit > 0 ? tuning::limited_list_bytes : tuning::list_bytes;
}

// How to cut queries x rows for this many threads.
Plan make_plan(const Codes& codes, std::int64_t queries, std::int64_t list_k, int threads,
               std::uint64_t list_bytes) {
  const auto round_up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b * b; };
  std::int64_t most = tuning::query_cache_bytes / std::max<std::int64_t>(1, codes.space.query_stride_bytes());
  const auto lists =
      static_cast<std::int64_t>(list_bytes / static_cast<unsigned>(threads) / TopK<double>::bytes(list_k));
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

template <class R>
Neighbors search_as(const CpuPrepared& prepared, const DatasetView& data, Metric metric,
                    const DatasetView& queries, std::int64_t k, const Execution& execution) {
  const auto started = std::chrono::steady_clock::now();
  Neighbors out;
  out.queries = queries.rows;
  out.k = k;
  const std::int64_t cells = queries.rows * k;
  out.indices = large_vector<std::int64_t>(cells, execution, -1);
  auto distances = large_vector<R>(cells, execution, std::numeric_limits<R>::infinity());

  const int threads = resolve_threads(execution);
  const std::int64_t list_k = std::clamp<std::int64_t>(k, 1, std::max<std::int64_t>(1, data.rows));
  const bool coded = prepared.filter() != Filter::none;
  const Plan plan = make_plan(prepared.codes, std::max<std::int64_t>(1, queries.rows), list_k, threads,
                              list_memory(execution));
  Job job{prepared,
          data,
          queries,
          metric,
          list_k,
          canonical_function(data.dtype, metric),
          coded ? filter_kernel(prepared.codes.space.choice) : nullptr,
          plan.chunk,
          plan.splits,
          std::vector<std::atomic<double>>(plan.splits > 1 ? static_cast<std::size_t>(queries.rows) : 0),
          std::vector<std::atomic<bool>>(plan.splits > 1 ? static_cast<std::size_t>(queries.rows) : 0),
          {}};
  for (auto& bound : job.bounds) bound.store(std::numeric_limits<double>::infinity());

  const std::int64_t chunks = queries.rows == 0 ? 0 : (queries.rows + plan.chunk - 1) / plan.chunk;
  ProgressCounter progress(execution, "search",
                           std::max<std::int64_t>(1, queries.rows * prepared.codes.tiles));
  std::vector<std::vector<TopK<R>>> parts(plan.splits > 1 ? static_cast<std::size_t>(chunks * plan.splits)
                                                          : 0);
  parallel_for(threads, chunks * plan.splits, [&](std::int64_t t) {
    const std::int64_t first = t / plan.splits * plan.chunk;
    const std::int64_t count = std::min(plan.chunk, queries.rows - first);
    Task<R> task(job, first, count, t % plan.splits, progress);
    task.run();
    if (plan.splits > 1) {
      parts[static_cast<std::size_t>(t)] = std::move(task.lists());
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      write_list(out, distances, first + i, task.lists()[static_cast<std::size_t>(i)].take());
      progress.check();
    }
  });
  if (plan.splits > 1) {
    parallel_for(threads, queries.rows, [&](std::int64_t q) {
      progress.check();
      TopK<R> merged(list_k);
      for (std::int64_t s = 0; s < plan.splits; ++s) {
        auto& part = parts[static_cast<std::size_t>(q / plan.chunk * plan.splits + s)];
        for (const auto& [distance, row] : part[static_cast<std::size_t>(q % plan.chunk)].take())
          merged.offer(distance, row);
      }
      write_list(out, distances, q, merged.take());
    });
  }
  progress.finish();

  out.distances = std::move(distances);
  SearchStatistics& s = out.statistics;
  s.index = BruteForce::index_type.name;
  s.filter = std::string(name(prepared.filter()));
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

Neighbors search(const Prepared& prepared, const DatasetView& data, Metric metric, const DatasetView& queries,
                 std::int64_t k, const Execution& execution) {
  const auto& cpu = static_cast<const CpuPrepared&>(prepared);
  return data.dtype == Dtype::f64 ? search_as<double>(cpu, data, metric, queries, k, execution)
                                  : search_as<float>(cpu, data, metric, queries, k, execution);
}

std::shared_ptr<const Prepared> prepare(const DatasetView& data, const BruteForceParameters& parameters,
                                        std::int64_t expected_queries, const Execution& execution) {
  auto prepared = std::make_shared<CpuPrepared>();
  prepared->codes = encode(data, choose_codes(data, parameters, expected_queries, execution), execution);
  const std::uint64_t grouping = static_cast<std::uint64_t>(data.rows) * Duplicates::most_bytes_a_row;
  const bool room =
      execution.memory_limit == 0 || prepared->codes.bytes() + grouping <= execution.memory_limit;
  if (prepared->filter() != Filter::none && room) prepared->duplicates = Duplicates::find(data, execution);
  for (const std::int64_t row : prepared->duplicates.collapsed()) {
    prepared->codes.valid[static_cast<std::size_t>(row / tile_rows)] &=
        ~(std::uint64_t{1} << (row % tile_rows));
  }
  auto& special = prepared->codes.special;
  if (!prepared->duplicates.empty() && !special.empty()) {
    std::vector<std::int64_t> collapsed(prepared->duplicates.collapsed().begin(),
                                        prepared->duplicates.collapsed().end());
    std::sort(collapsed.begin(), collapsed.end());
    std::erase_if(special, [&](std::int64_t row) {
      return std::binary_search(collapsed.begin(), collapsed.end(), row);
    });
  }
  return prepared;
}

}  // namespace

const Backend& cpu_backend() {
  static const Backend backend{prepare, search, nullptr};
  return backend;
}

}  // namespace kith::brute_force
