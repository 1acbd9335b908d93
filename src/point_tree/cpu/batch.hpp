// A search of many queries: dealt out to threads in parts, each part in groups that share what they can. The
// tree's own rows come in tree order, which is as good as a curve's (query_order.hpp).
//
// Rows with an infinity are in no box. They, and queries with one, are infinitely far from everything, so an
// answer among them is a matter of row numbers alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "core/instruction_set.hpp"
#include "core/long_sort.hpp"
#include "core/parallel.hpp"
#include "core/rounding.hpp"
#include "point_tree/cpu/leaves.hpp"
#include "point_tree/cpu/query_order.hpp"
#include "point_tree/cpu/search.hpp"
#include "point_tree/cpu/task_scratch.hpp"
#include "point_tree/tuning.hpp"

namespace kith::point_tree {

// Each file that includes this has types of its own: what nobody else calls is inlined freely.
namespace {

template <class T, class Id>
TreeFunctionFor<T, Id> functions() {
  const TreeKernels& set = tree_kernels();
  if constexpr (sizeof(T) == 4) {
    if constexpr (sizeof(Id) == 4)
      return set.f32;
    else
      return set.f32_wide;
  } else {
    if constexpr (sizeof(Id) == 4)
      return set.f64;
    else
      return set.f64_wide;
  }
}

template <class T>
void select(Task<T>& task, Entry<T>* entries, std::int64_t count, std::int64_t k, bool sort) {
  if (k == 0) return;
  const auto pause = [&] { task.pause(task); };
  select_long(entries, entries + k - 1, entries + count, before<T>, pause);
  if (sort) sort_long(entries, entries + k, before<T>, pause);
}

// One call: its queries in order, and the scratch memory of its tasks.
template <class T, class Id>
class Batch {
 public:
  Batch(const Tree& tree, const Asked& asked, Kind kind, std::int64_t k, double radius,
        const Execution& execution, const char* stage, const std::function<void(const Part<T>&)>& take,
        MemoryBudget* budget)
      : tree_(tree),
        view_(tree.view<T, Id>()),
        asked_(asked),
        kind_(kind),
        list_k_(std::min(k, std::max<std::int64_t>(1, tree.rows))),
        radius_(radius),
        execution_(execution),
        threads_(resolve_threads(execution)),
        function_(functions<T, Id>()(kind, list_k_, tree.dim, tree.metric == Metric::manhattan)),
        stage_(stage),
        take_(take),
        budget_(budget) {}

  SearchStatistics run() {
    const auto started = std::chrono::steady_clock::now();
    if (asked_.queries != nullptr) {
      order_ = order_queries<T>(tree_, *asked_.queries, execution_, threads_);
    } else {
      order_.sorted = true;
      order_.walking = tree_.points;
    }
    const std::int64_t count = order_.walking;
    // At most what a task's results may take, at least what is worth a task.
    const std::int64_t most =
        tree_.dim <= tuning::easy_dim ? tuning::queries_a_task : tuning::hard_queries_a_task;
    std::int64_t part = std::min((count + 4 * threads_ - 1) / (4 * threads_), most);
    const std::int64_t a_query = kind_ == Kind::nearest ? list_k_ : 1;
    part = std::clamp<std::int64_t>(part, tuning::smallest_task / (a_query + 16) + 1,
                                    tuning::largest_task / a_query + 1);
    const std::int64_t parts = (count + part - 1) / part;
    ProgressCounter progress(
        execution_, stage_,
        std::max<std::int64_t>(1, count + static_cast<std::int64_t>(order_.endless.size())));
    parallel_for(threads_, parts, [&](std::int64_t p) {
      const std::int64_t first = p * part;
      const std::int64_t queries = std::min(part, count - first);
      walk(first, queries, progress);
      progress.advance(queries);
    });
    answer_endless(progress);
    answer_nan();
    progress.finish();

    SearchStatistics s;
    s.index = tree_.index;
    s.filter = sizeof(T) == 4 ? "fp32" : "none";
    s.instruction_set = std::string(name(active_instruction_set()));
    s.pairs = tested_;
    s.candidates = candidates_;
    s.nan_rows = tree_.nan_rows;
    s.nan_queries = static_cast<std::int64_t>(order_.nan.size());
    s.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    return s;
  }

 private:
  // Memory of a task that walks, and whose it is; memory of queries answered without a walk has no batch.
  struct Scratch : TaskScratch<T> {
    Scratch() : TaskScratch<T>(nullptr) {}
    explicit Scratch(const Batch* of) : TaskScratch<T>(of->budget_), batch(of) {}
    const Batch* batch = nullptr;
    std::vector<Leaf> leaves;  // of the tree's own rows, those of the task
  };

  void gather(std::int64_t first, std::int64_t count, Scratch& scratch) const {
    scratch.values.resize(static_cast<std::size_t>(count * tree_.dim));
    scratch.numbers.resize(static_cast<std::size_t>(count));
    T* values = scratch.values.data();
    if (asked_.queries != nullptr) {
      for (std::int64_t i = 0; i < count; ++i) {
        constexpr std::int64_t ahead = 16;  // the order jumps through the caller's rows
        if (i + ahead < count) __builtin_prefetch(asked_.queries->row(order_.at(first + i + ahead)));
        scratch.numbers[static_cast<std::size_t>(i)] = order_.at(first + i);
        read_query(*asked_.queries, order_.at(first + i), values + i * tree_.dim);
      }
      for (std::int64_t end = tuning::queries_a_group; order_.sorted && end < count;
           end += tuning::queries_a_group) {
        scratch.group_ends.push_back(end);
      }
      scratch.group_ends.push_back(count);
      return;
    }
    scratch.leaves.clear();
    add_leaves(view_, 0, first, first + count, scratch.leaves);
    auto leaf = scratch.leaves.begin();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t in_group = i - (scratch.group_ends.empty() ? 0 : scratch.group_ends.back());
      const bool next_leaf = first + i == leaf->begin + leaf->count;
      // Whole leaves, but not too many points of one.
      if (in_group >= (next_leaf ? 1 : 2) * tuning::queries_a_group) scratch.group_ends.push_back(i);
      if (next_leaf) ++leaf;
      const T* x = view_.coordinates + leaf->begin * tree_.dim + (first + i - leaf->begin);
      for (std::int64_t j = 0; j < tree_.dim; ++j) values[i * tree_.dim + j] = x[j * leaf->count];
      scratch.numbers[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(view_.rows[first + i]);
    }
    scratch.group_ends.push_back(count);
  }

  // Scratch memory goes from task to task. It has a size that the allocator gives back to the system each
  // time, and the system would zero it for every task anew: a third of its time in normals of 10M points.
  std::unique_ptr<Scratch> take_scratch() {
    const std::scoped_lock lock(idle_mutex_);
    if (idle_.empty()) return std::make_unique<Scratch>(this);
    std::unique_ptr<Scratch> scratch = std::move(idle_.back());
    idle_.pop_back();
    return scratch;
  }

  void give_back(std::unique_ptr<Scratch> scratch) {
    scratch->begin_again();
    const std::scoped_lock lock(idle_mutex_);
    idle_.push_back(std::move(scratch));
  }

  void walk(std::int64_t first, std::int64_t count, ProgressCounter& progress) {
    std::unique_ptr<Scratch> scratch = take_scratch();
    scratch->progress = &progress;
    walk(first, count, *scratch);
    give_back(std::move(scratch));
  }

  void walk(std::int64_t first, std::int64_t count, Scratch& scratch) {
    gather(first, count, scratch);
    scratch.stack.resize(static_cast<std::size_t>(node_width * (tree_.levels + 2)));
    if (scratch.boxes.size() == 0) scratch.boxes = AlignedBuffer<T>(2 * tree_.dim * (node_width + 1));
    // Boxes that stay empty are computed with, too.
    std::fill_n(scratch.boxes.data(), scratch.boxes.size(), T{0});
    Task<T> task{};
    task.queries = scratch.values.data();
    task.count = count;
    task.exclude = excludes() ? scratch.numbers.data() : nullptr;
    task.rooted = tree_.metric == Metric::euclidean;
    task.radius = round_down<T>(radius_);
    task.group_ends = order_.sorted ? scratch.group_ends.data() : nullptr;
    task.stack = scratch.stack.data();
    task.boxes = scratch.boxes.data();
    task.k = list_k_;
    task.select = select<T>;
    task.owner = &scratch;
    task.pause = [](Task<T>& t) { static_cast<Scratch*>(t.owner)->progress->check(); };
    task.pause_after = std::max<std::int64_t>(64, tuning::values_between_polls / tree_.dim);
    task.grow = [](Task<T>& t) {
      auto& held = *static_cast<Scratch*>(t.owner);
      held.grow();
      t.entries = held.entries.data();
      t.capacity = static_cast<std::int64_t>(held.entries.size());
    };
    task.flush_after = tuning::collected_together;
    task.flush = [](Task<T>& t, std::int64_t done) {
      auto& held = *static_cast<Scratch*>(t.owner);
      held.batch->deliver(done, held);
      t.pause(t);
    };
    if (kind_ == Kind::nearest) {
      scratch.rows.resize(static_cast<std::size_t>(count * list_k_));
      scratch.distances.resize(static_cast<std::size_t>(count * list_k_));
      if (list_k_ > largest_short_list) scratch.entries.resize(static_cast<std::size_t>(2 * list_k_ + 64));
    } else if (kind_ == Kind::collect) {
      scratch.ends.assign(static_cast<std::size_t>(count), 0);
    } else {
      scratch.counts.assign(static_cast<std::size_t>(count), 0);
    }
    task.out_rows = scratch.rows.data();
    task.out_distances = scratch.distances.data();
    task.entries = scratch.entries.data();
    task.capacity = static_cast<std::int64_t>(scratch.entries.size());
    task.ends = scratch.ends.data();
    task.counts = scratch.counts.data();
    function_(view_, task);
    tested_ += task.tested;
    candidates_ += task.candidates;
    deliver(count, scratch);
  }

  // What is known of the queries from scratch.taken on, up to `done`.
  void deliver(std::int64_t done, Scratch& scratch) const {
    const std::int64_t from = scratch.taken;
    const bool all = !tree_.infinite.empty() && radius_ == infinity && scratch.batch != nullptr;
    if (all) add_infinite(from, done, scratch);
    Part<T> part;
    part.k = list_k_;
    part.entries = (all ? scratch.with_infinite : scratch.entries).data();
    part.ends = scratch.ends.data() + (kind_ == Kind::collect ? from : 0);
    part.counts = scratch.counts.data();
    scratch.taken = done;
    const bool lists = kind_ == Kind::nearest;
    const std::int64_t most = lists ? tuning::answers_between_polls : done - from;
    for (std::int64_t first = from; first < done; first += most) {
      part.count = std::min(most, done - first);
      part.queries = scratch.numbers.data() + first;
      part.rows = lists ? scratch.rows.data() + first * list_k_ : nullptr;
      part.distances = lists ? scratch.distances.data() + first * list_k_ : nullptr;
      take_(part);
      if (scratch.progress != nullptr) scratch.progress->check();
    }
  }

  bool excludes() const { return asked_.queries == nullptr && !asked_.include_self; }

  // Every row with an infinity is at +inf from a finite query: behind all others, in order of rows among what
  // else is at +inf.
  void add_infinite(std::int64_t first, std::int64_t done, Scratch& scratch) const {
    const auto& extra = tree_.infinite;
    if (kind_ == Kind::count) {
      for (auto& c : scratch.counts) c += static_cast<std::int64_t>(extra.size());
      return;
    }
    if (kind_ == Kind::collect) {
      std::vector<Entry<T>>& all = scratch.with_infinite;
      all.clear();
      std::int64_t from = 0;
      for (std::int64_t i = first; i < done; ++i) {
        auto& end = scratch.ends[static_cast<std::size_t>(i)];
        all.insert(all.end(), scratch.entries.begin() + from, scratch.entries.begin() + end);
        from = end;
        for (const std::int64_t row : extra) all.push_back({std::numeric_limits<T>::infinity(), row});
        end = static_cast<std::int64_t>(all.size());
      }
      return;
    }
    for (std::int64_t i = first; i < done; ++i) {
      std::int64_t* rows = scratch.rows.data() + i * list_k_;
      T* distances = scratch.distances.data() + i * list_k_;
      std::int64_t near = 0;
      while (near < list_k_ && distances[near] < std::numeric_limits<T>::infinity()) ++near;
      if (near == list_k_) continue;
      std::vector<std::int64_t> far(extra.begin(), extra.end());
      for (std::int64_t j = near; j < list_k_ && rows[j] >= 0; ++j) far.push_back(rows[j]);
      std::sort(far.begin(), far.end());
      for (std::int64_t j = near; j < list_k_; ++j) {
        const auto at = static_cast<std::size_t>(j - near);
        rows[j] = at < far.size() ? far[at] : -1;
      }
    }
  }

  // Queries with a NaN have no neighbours.
  void answer_nan() {
    if (kind_ != Kind::nearest) return;  // counts and ends are zero before anything is found
    for (const std::int64_t query : order_.nan) {
      Scratch scratch;
      scratch.numbers = {query};
      scratch.rows.assign(static_cast<std::size_t>(list_k_), -1);
      scratch.distances.assign(static_cast<std::size_t>(list_k_), std::numeric_limits<T>::infinity());
      deliver(1, scratch);
    }
  }

  // Queries with an infinity: every row is at +inf, or at NaN where both have the same infinity.
  void answer_endless(ProgressCounter& progress) {
    if (asked_.queries == nullptr) order_.endless.assign(tree_.infinite.begin(), tree_.infinite.end());
    if (order_.endless.empty()) return;
    std::vector<bool> in_tree;
    if (radius_ == infinity && kind_ != Kind::count) {
      in_tree.assign(static_cast<std::size_t>(tree_.rows), false);
      for (std::int64_t i = 0; i < tree_.points; ++i) in_tree[static_cast<std::size_t>(view_.rows[i])] = true;
    }
    for (std::size_t e = 0; e < order_.endless.size(); ++e) {
      const std::int64_t query = order_.endless[e];
      Scratch scratch;
      scratch.numbers = {query};
      scratch.values.resize(static_cast<std::size_t>(tree_.dim));
      if (asked_.queries != nullptr) {
        read_query(*asked_.queries, query, scratch.values.data());
      } else {
        std::transform(tree_.infinite_values.begin() + static_cast<std::ptrdiff_t>(e) * tree_.dim,
                       tree_.infinite_values.begin() + static_cast<std::ptrdiff_t>(e + 1) * tree_.dim,
                       scratch.values.begin(), [](double v) { return static_cast<T>(v); });
      }
      answer_one_endless(query, in_tree, scratch);
      deliver(1, scratch);
      progress.advance(1);
    }
  }

  void answer_one_endless(std::int64_t query, const std::vector<bool>& in_tree, Scratch& scratch) const {
    std::vector<bool> apart;  // rows with an infinity, but not the same
    for (std::size_t e = 0; e < tree_.infinite.size(); ++e) {
      bool same = false;
      for (std::int64_t j = 0; j < tree_.dim; ++j) {
        const double v =
            tree_.infinite_values[e * static_cast<std::size_t>(tree_.dim) + static_cast<std::size_t>(j)];
        same =
            same || (std::isinf(v) && v == static_cast<double>(scratch.values[static_cast<std::size_t>(j)]));
      }
      apart.push_back(!same && !(excludes() && tree_.infinite[e] == query));
    }
    if (kind_ == Kind::count) {
      scratch.counts = {radius_ == infinity ? tree_.points + static_cast<std::int64_t>(
                                                                 std::count(apart.begin(), apart.end(), true))
                                            : 0};
      return;
    }
    const std::int64_t most = kind_ == Kind::nearest ? list_k_ : tree_.rows;
    if (radius_ == infinity) {
      auto next = tree_.infinite.begin();
      for (std::int64_t row = 0; row < tree_.rows && static_cast<std::int64_t>(scratch.rows.size()) < most;
           ++row) {
        const bool infinite = next != tree_.infinite.end() && *next == row;
        const auto at = static_cast<std::size_t>(next - tree_.infinite.begin());
        if (infinite ? apart[at] : in_tree[static_cast<std::size_t>(row)]) scratch.rows.push_back(row);
        if (infinite) ++next;
      }
    }
    if (kind_ == Kind::nearest) {
      scratch.rows.resize(static_cast<std::size_t>(list_k_), -1);
      scratch.distances.assign(static_cast<std::size_t>(list_k_), std::numeric_limits<T>::infinity());
    } else {
      for (const std::int64_t row : scratch.rows)
        scratch.entries.push_back({std::numeric_limits<T>::infinity(), row});
      scratch.ends = {static_cast<std::int64_t>(scratch.rows.size())};
    }
  }

  static constexpr double infinity = std::numeric_limits<double>::infinity();
  const Tree& tree_;
  const TreeView<T, Id> view_;
  const Asked& asked_;
  Kind kind_;
  std::int64_t list_k_;
  double radius_;
  const Execution& execution_;
  int threads_;
  TreeFunction<T, Id> function_;
  const char* stage_;
  const std::function<void(const Part<T>&)>& take_;
  MemoryBudget* budget_;
  QueryOrder order_;
  std::atomic<std::int64_t> tested_{0}, candidates_{0};
  std::mutex idle_mutex_;
  std::vector<std::unique_ptr<Scratch>> idle_;
};

}  // namespace

template <class T>
SearchStatistics run(const Tree& tree, const Asked& asked, Kind kind, std::int64_t k, double radius,
                     const Execution& execution, const char* stage,
                     const std::function<void(const Part<T>&)>& take, MemoryBudget* budget) {
  const Tree& held = on_host(tree);
  const auto run_as = [&]<class Id>(Id /*tag*/) {
    return Batch<T, Id>(held, asked, kind, k, radius, execution, stage, take, budget).run();
  };
  return tree.wide_rows ? run_as(std::int64_t{}) : run_as(std::uint32_t{});
}

}  // namespace kith::point_tree
