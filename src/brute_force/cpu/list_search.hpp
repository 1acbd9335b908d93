// Queries through the lists of a partition: each through its nearest first, until the next one is too far
// away to matter. Queries that look at the same list do so together.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "brute_force/cpu/evaluation.hpp"
#include "brute_force/cpu/filter.hpp"
#include "brute_force/cpu/task.hpp"
#include "brute_force/partition.hpp"

namespace kith::brute_force {

// search.cpp alone includes this: what nobody else calls is inlined freely.
namespace {

CanonicalQuery load_query(const Job& job, std::int64_t query, double* values) {
  return prepare_canonical_query(job.queries.row(query), job.data.dtype, job.data.dim, job.metric, values);
}

// One thread's, for some queries at a time.
template <class R>
class ListSearch {
 public:
  ListSearch(Job& job, std::int64_t most, ProgressCounter& progress)
      : job_(job),
        partition_(*job.prepared.partition),
        distances_(partition_),
        filter_(job.prepared.codes, most),
        wait_(std::clamp<std::int64_t>(job.list_k, 16, tuning::largest_wait)),
        buffers_(static_cast<std::size_t>(most * (wait_ + tile_rows))),
        waiting_(static_cast<std::size_t>(most)),
        masks_(static_cast<std::size_t>(most)),
        evaluation_(job.data, job.canonical, job.prepared.duplicates, wait_ + tile_rows, progress) {}

  ListSearch(const ListSearch&) = delete;
  ListSearch& operator=(const ListSearch&) = delete;
  ~ListSearch() {
    job_.counters.pairs += pairs_;
    job_.counters.candidates += evaluation_.evaluated();
  }

  /// The answers to some queries, at most `most`, in their order.
  std::vector<TopK<R>> answer(std::span<const std::int64_t> queries) {
    asked_.clear();
    active_.clear();
    for (const std::int64_t query : queries) admit(query);
    while (!active_.empty()) {
      next_.clear();
      std::erase_if(active_, [&](std::int64_t i) { return !choose_next(i); });
      std::sort(next_.begin(), next_.end());
      for (auto from = next_.begin(); from != next_.end();) {
        const auto to =
            std::find_if(from, next_.end(), [&](const auto& its) { return its.first != from->first; });
        visit(from->first, std::span(from, to));
        from = to;
      }
    }
    std::vector<TopK<R>> lists;
    for (Asked& asked : asked_) lists.push_back(std::move(asked.nearest));
    return lists;
  }

 private:
  struct Asked {
    std::vector<double> values;
    CanonicalQuery query{};
    R known;  // rows beyond this need not be found
    TopK<R> nearest;
    // Lists that may matter, with how near their rows may be: in any order at first, later a heap, the
    // nearest on top.
    std::vector<std::pair<double, std::int64_t>> order;
    std::int64_t at_once = 0;  // lists of the last round, once it is a heap
  };

  void admit(std::int64_t query) {
    Asked& asked = asked_.emplace_back();
    asked.values.resize(static_cast<std::size_t>(canonical_padded(job_.data.dim)));
    asked.query = load_query(job_, query, asked.values.data());
    asked.nearest = TopK<R>(job_.list_k);
    asked.known = job_.bounds.empty() ? std::numeric_limits<R>::infinity()
                                      : static_cast<R>(job_.bounds[static_cast<std::size_t>(query)].load());
    const codes::RowKind kind = distances_.look(asked.values.data());
    if (kind == codes::RowKind::nan) {
      ++job_.counters.nan_queries;
      return;
    }
    evaluate(partition_.special.data(), std::ssize(partition_.special), asked);
    if (kind == codes::RowKind::special) {
      ++job_.counters.fallbacks;
      for (std::int64_t i = 0; i < partition_.lists(); ++i) evaluate_all(i, asked);
      return;
    }
    for (std::int64_t i = 0; i < partition_.lists(); ++i) asked.order.emplace_back(distances_.least(i), i);
    active_.push_back(std::ssize(asked_) - 1);
  }

  // False when no list is left that matters. As soon as k rows are known several lists are chosen at once, in
  // growing numbers: more queries then share one, for the price of lists that the next one would have ruled
  // out.
  bool choose_next(std::int64_t i) {
    Asked& asked = asked_[static_cast<std::size_t>(i)];
    auto& order = asked.order;
    const double reach = distances_.reach(real(asked));
    if (!asked.nearest.full()) {
      if (order.empty()) return false;
      const auto nearest = std::min_element(order.begin(), order.end());
      if (nearest->first > reach) return false;
      next_.emplace_back(nearest->second, i);
      *nearest = order.back();
      order.pop_back();
      return true;
    }
    if (asked.at_once == 0) {  // most lists are out of reach by now
      std::erase_if(order, [&](const auto& its) { return its.first > reach; });
      std::make_heap(order.begin(), order.end(), std::greater<>());
    }
    asked.at_once = asked.at_once * 4 + 1;
    std::int64_t chosen = 0;
    for (; chosen < asked.at_once && !order.empty() && order.front().first <= reach; ++chosen) {
      next_.emplace_back(order.front().second, i);
      std::pop_heap(order.begin(), order.end(), std::greater<>());
      order.pop_back();
    }
    return chosen > 0;
  }

  double real(const Asked& asked) const {
    return real_bound(std::min(asked.nearest.bound(), asked.known), job_.metric, job_.data.dim);
  }

  void evaluate(const std::int64_t* rows, std::int64_t count, Asked& asked) {
    for (std::int64_t from = 0; from < count; from += tile_rows) {
      (void)evaluation_.offer(asked.query, rows + from, std::min<std::int64_t>(tile_rows, count - from),
                              asked.nearest);
    }
  }

  void evaluate_all(std::int64_t list, Asked& asked) {
    evaluate(partition_.rows_of(list), partition_.size_of(list), asked);
  }

  // Some queries, by their number in asked_, through one list.
  void visit(std::int64_t list, std::span<const std::pair<std::int64_t, std::int64_t>> queries) {
    const codes::Codes& codes = partition_.codes[static_cast<std::size_t>(list)];
    const std::int64_t* rows = partition_.rows_of(list);
    filter_.start_over(codes);
    slots_.clear();
    for (const auto& [its, i] : queries) {
      Asked& asked = asked_[static_cast<std::size_t>(i)];
      if (filter_.add(asked.values.data()) != codes::RowKind::regular) {
        evaluate_all(list, asked);
        continue;
      }
      filter_.set_bound(std::ssize(slots_), real(asked));
      slots_.push_back(&asked);
    }
    const std::int64_t count = std::ssize(slots_);
    std::fill_n(waiting_.begin(), count, 0);
    for (std::int64_t t = 0; count > 0 && t < codes.tiles; ++t) {
      job_.kernel(tile_of(codes, t), filter_.view(), 0, count, masks_.data());
      const std::uint64_t valid = codes.valid[static_cast<std::size_t>(t)];
      for (std::int64_t s = 0; s < count; ++s) {
        std::int64_t& waiting = waiting_[static_cast<std::size_t>(s)];
        std::int64_t* buffer = buffer_of(s);
        for (std::uint64_t mask = masks_[static_cast<std::size_t>(s)] & valid; mask != 0; mask &= mask - 1)
          buffer[waiting++] = rows[t * tile_rows + std::countr_zero(mask)];
        if (waiting >= wait_) flush(s);
      }
    }
    for (std::int64_t s = 0; s < count; ++s) flush(s);
    pairs_ += codes.rows * count;
  }

  std::int64_t* buffer_of(std::int64_t s) { return buffers_.data() + s * (wait_ + tile_rows); }

  void flush(std::int64_t s) {
    std::int64_t& waiting = waiting_[static_cast<std::size_t>(s)];
    Asked& asked = *slots_[static_cast<std::size_t>(s)];
    if (waiting > 0 && evaluation_.offer(asked.query, buffer_of(s), waiting, asked.nearest))
      filter_.set_bound(s, real(asked));
    waiting = 0;
  }

  Job& job_;
  const Partition& partition_;
  ListDistances distances_;
  FilterQueries filter_;
  std::int64_t wait_;
  std::vector<std::int64_t> buffers_, waiting_;
  std::vector<std::uint64_t> masks_;
  Evaluation<R> evaluation_;
  std::vector<Asked> asked_;
  std::vector<std::int64_t> active_;                         // numbers in asked_ that go on
  std::vector<std::pair<std::int64_t, std::int64_t>> next_;  // list, and who looks at it
  std::vector<Asked*> slots_;
  std::int64_t pairs_ = 0;
};

// All queries, those of the same nearest list side by side.
std::vector<std::int64_t> by_nearest_list(const Job& job, int threads, ProgressCounter& progress) {
  constexpr std::int64_t queries_a_task = 64;
  const Partition& partition = *job.prepared.partition;
  const std::int64_t queries = job.queries.rows;
  std::vector<std::int64_t> order(static_cast<std::size_t>(queries));
  std::iota(order.begin(), order.end(), 0);
  if (queries <= threads) return order;
  std::vector<std::int64_t> nearest(order.size(), -1);  // none for those that look at all rows or none
  parallel_for(threads, (queries + queries_a_task - 1) / queries_a_task, [&](std::int64_t task) {
    ListDistances distances(partition);
    std::vector<double> values(static_cast<std::size_t>(canonical_padded(job.data.dim)));
    const std::int64_t end = std::min(queries, (task + 1) * queries_a_task);
    for (std::int64_t q = task * queries_a_task; q < end; ++q) {
      (void)load_query(job, q, values.data());
      if (distances.look(values.data()) != codes::RowKind::regular) continue;
      std::int64_t& its = nearest[static_cast<std::size_t>(q)];
      for (std::int64_t i = 0; i < partition.lists(); ++i) {
        if (its < 0 || distances.least(i) < distances.least(its)) its = i;
      }
    }
    progress.check();
  });
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return nearest[static_cast<std::size_t>(a)] < nearest[static_cast<std::size_t>(b)];
  });
  return order;
}

}  // namespace

}  // namespace kith::brute_force
