// What one thread of a search does at a time: codes stream past some queries, what a filter keeps waits in a
// buffer, is evaluated exactly and tightens the bound. The distance matrix never exists.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "brute_force/cpu/evaluation.hpp"
#include "brute_force/cpu/filter.hpp"
#include "brute_force/cpu/fine_candidates.hpp"
#include "brute_force/cpu/prepared.hpp"
#include "brute_force/cpu/tuning.hpp"
#include "core/aligned_buffer.hpp"
#include "core/parallel.hpp"
#include "distance/canonical.hpp"
#include "select_k/top_k.hpp"

namespace kith::brute_force {

// search.cpp alone includes this: what nobody else calls is inlined freely.
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
  const codes::FineCodes* fine;              // null where candidates are evaluated as they come
  std::int64_t chunk;                        // queries a task
  std::int64_t splits;                       // parts the rows are cut into
  std::vector<std::atomic<double>> bounds;   // one a query, when splits > 1 or the caller knows some
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
        fine_(job.fine, job.list_k),
        lists_(static_cast<std::size_t>(count), List(job.list_k)),
        padded_(canonical_padded(job.data.dim)),
        values_(static_cast<std::size_t>(count * padded_)),
        wait_(std::clamp<std::int64_t>(job.list_k, 16, tuning::largest_wait)),
        evaluation_(job.data, job.canonical, job.prepared.duplicates, wait_ + tile_rows, progress) {
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
    buffers_ = AlignedBuffer<std::int64_t>(slots_ * (wait_ + tile_rows));
    waiting_.assign(static_cast<std::size_t>(slots_), 0);
    kept_.assign(static_cast<std::size_t>(slots_), 0);
    closed_.assign(static_cast<std::size_t>(slots_), false);
    refresh_shared_bounds();

    std::int64_t rows_seen = 0;
    for (std::size_t b = 0; b < order.size(); ++b) {
      const std::int64_t from = order[b];
      const std::int64_t to = std::min(end_, from + block);
      if (static_cast<std::int64_t>(b) == bulk_from) {
        for (std::int64_t s = 0; s < slots_; ++s) {
          flush(s);
          look_again(s);
        }
      }
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
    job_.counters.candidates += evaluation_.evaluated();
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
    if (job_.kernel == nullptr || filter_.add(values(i)) != codes::RowKind::regular) {
      exact_.push_back(i);
      if (job_.kernel != nullptr && count_it) ++job_.counters.fallbacks;
      return;
    }
    query_of_slot_.push_back(i);
    fine_.add(filter_);
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
      if (fine_.speaks_of(s) && !closed_[static_cast<std::size_t>(s)]) {
        kept_[static_cast<std::size_t>(s)] += fine_.take(s, t, mask);
        if (fine_.is_full(s)) look_again(s);
      }
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
    if (evaluate(i, buffers_.data() + s * (wait_ + tile_rows), count)) tighten(s);
    count = 0;
  }

  void flush_all() {
    for (std::int64_t s = 0; s < slots_; ++s) flush(s);
    for (std::int64_t s = 0; s < slots_; ++s) evaluate_waiting(s);
  }

  // What waits tightens the bound, and leaves what the bound rules out.
  void look_again(std::int64_t s) {
    if (!fine_.speaks_of(s) || !fine_.find_bound(s)) return;
    tighten(s);
    if (!fine_.drop(s)) evaluate_waiting(s);
  }

  void evaluate_waiting(std::int64_t s) {
    if (!fine_.speaks_of(s)) return;
    const std::int64_t i = query_of_slot_[static_cast<std::size_t>(s)];
    fine_.evaluate(s, [&](std::span<const std::int64_t> rows) {
      if (evaluate(i, rows.data(), std::ssize(rows))) tighten(s);
    });
  }

  // Exact distances of some rows into query i's list. True when its bound became smaller.
  bool evaluate(std::int64_t i, const std::int64_t* rows, std::int64_t count) {
    return evaluation_.offer({values(i), norms_[static_cast<std::size_t>(i)]}, rows, count,
                             lists_[static_cast<std::size_t>(i)]);
  }

  // A query that has left the filter stays out of it.
  void tighten(std::int64_t s) {
    if (closed_[static_cast<std::size_t>(s)]) return;
    const std::int64_t i = query_of_slot_[static_cast<std::size_t>(s)];
    R bound = std::min(lists_[static_cast<std::size_t>(i)].bound(), fine_.bound(s));
    if (!job_.bounds.empty()) {
      auto& shared = job_.bounds[static_cast<std::size_t>(first_ + i)];
      double seen = shared.load(std::memory_order_relaxed);
      while (static_cast<double>(bound) < seen &&
             !shared.compare_exchange_weak(seen, static_cast<double>(bound))) {
      }
      bound = std::min(bound, static_cast<R>(shared.load(std::memory_order_relaxed)));
    }
    const double real = real_bound(bound, job_.metric, job_.data.dim);
    filter_.set_bound(s, real);
    fine_.set_bound(s, real);
  }

  void refresh_shared_bounds() {
    if (job_.bounds.empty()) return;
    for (std::int64_t s = 0; s < slots_; ++s) tighten(s);
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
      evaluate_waiting(s);
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
  const codes::Codes& codes_;
  std::int64_t first_;
  std::int64_t begin_ = 0, end_ = 0;  // tiles
  FilterQueries filter_;
  FineCandidates<R> fine_;
  std::vector<List> lists_;
  std::int64_t padded_;
  std::vector<double> values_;
  std::vector<double> norms_;
  std::int64_t wait_;
  Evaluation<R> evaluation_;
  std::vector<std::int64_t> nan_, exact_, query_of_slot_;
  std::int64_t slots_ = 0;
  std::int64_t open_ = 0;  // slots that have not left the filter
  std::vector<std::uint64_t> masks_;
  AlignedBuffer<std::int64_t> buffers_;
  std::vector<std::int64_t> waiting_, kept_;
  std::vector<bool> closed_;
  std::int64_t pairs_ = 0;
};

}  // namespace

}  // namespace kith::brute_force
