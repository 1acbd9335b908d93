// Searches on the CPU: a thread walks for one query after the other and re-ranks what it found.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "core/instruction_set.hpp"
#include "core/parallel.hpp"
#include "distance/canonical.hpp"
#include "select_k/top_k.hpp"
#include "vamana/backend.hpp"
#include "vamana/cpu/build.hpp"
#include "vamana/cpu/walk.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana {
namespace {

constexpr std::int64_t rows_at_once = 64;

struct Counters {
  std::atomic<std::int64_t> hops{0}, distances{0}, candidates{0}, nan_queries{0};
};

struct Job {
  const Built& built;
  const DatasetView& rows;
  const DatasetView& queries;
  const SearchPlan& plan;
  const NeighborsView& out;
  CanonicalFunction canonical;
  std::vector<std::int64_t>& unanswered;
  Counters counters{};
  std::mutex mutex{};
};

// Some queries, one after the other. R: the type of distances.
template <class R>
class Task {
 public:
  Task(Job& job, StopRequest& stop)
      : job_(job),
        stop_(stop),
        walk_({job.built.graph.edges.data(), job.built.graph.max_degree, job.built.nodes.codes.data(),
               job.built.space.code_bytes(), job.built.graph.entries}),
        coder_(job.built.space),
        code_(job.built.space.code_bytes()),
        values_(static_cast<std::size_t>(canonical_padded(job.rows.dim))),
        list_k_(std::clamp<std::int64_t>(job.plan.k, 1, std::max<std::int64_t>(1, job.rows.rows))) {}

  ~Task() {
    job_.counters.hops += walked_.hops;
    job_.counters.distances += walked_.distances;
    job_.counters.candidates += evaluated_;
    job_.counters.nan_queries += nan_queries_;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  void answer(std::int64_t q) {
    const SearchPlan& plan = job_.plan;
    std::int64_t* indices = job_.out.indices + q * plan.k;
    R* distances = static_cast<R*>(job_.out.distances) + q * plan.k;
    std::int64_t found = 0;
    if (!coder_.query(job_.queries.row(q), code_.data())) {
      ++nan_queries_;
    } else if (job_.built.nodes.count > 0) {
      const std::uint32_t left_out =
          plan.left_out.empty() ? no_node : plan.left_out[static_cast<std::size_t>(q)];
      const auto list = plan.allowed == nullptr ? walk_.run(code_.data(), plan.list_size, plan.beam_width,
                                                            left_out, stop_, walked_)
                                                : walk_to_allowed(q, left_out);
      for (const auto& [distance, row] : rerank(q, list)) {
        distances[found] = distance;
        indices[found++] = row;
      }
    }
    std::fill(indices + found, indices + plan.k, -1);
    std::fill(distances + found, distances + plan.k, std::numeric_limits<R>::infinity());
  }

 private:
  bool allows(std::int64_t node) const {
    const Nodes& nodes = job_.built.nodes;
    for (std::int64_t j = 0; j < nodes.rows_of(node); ++j) {
      if (job_.plan.allowed->contains(nodes.row(node, j))) return true;
    }
    return false;
  }

  // The nodes in view that hold allowed rows, of a list that is long enough for as many as the plan wants.
  std::span<const Key> walk_to_allowed(std::int64_t q, std::uint32_t left_out) {
    const SearchPlan& plan = job_.plan;
    for (std::int64_t size = plan.first_list;; size = std::min(2 * size, plan.longest_list)) {
      const auto list = walk_.run(code_.data(), size, plan.beam_width, left_out, stop_, walked_);
      allowed_.clear();
      for (const Key key : list) {
        if (allows(node_of(key))) allowed_.push_back(key);
        if (static_cast<std::int64_t>(allowed_.size()) == plan.list_size) return allowed_;
      }
      // A list with room to spare holds everything there is to reach.
      if (static_cast<std::int64_t>(list.size()) < size) return allowed_;
      if (size >= plan.longest_list) break;
    }
    const std::scoped_lock lock(job_.mutex);
    job_.unanswered.push_back(q);
    return {};
  }

  // How many of the list's nodes are evaluated exactly.
  std::size_t to_evaluate(std::span<const Key> list) const {
    const SearchPlan& plan = job_.plan;
    if (plan.rerank > 0) return std::min(list.size(), static_cast<std::size_t>(plan.rerank));
    const auto k = static_cast<std::size_t>(plan.k);
    if (!job_.built.space.raw_integers() || list.size() <= k) return list.size();
    // Estimates are the distances: after the k-th only what rounding may tie with it.
    const std::int64_t last = estimate_of(list[k - 1]);
    std::size_t count = k;
    while (count < list.size() && estimate_of(list[count]) <= last + (last >> 20U)) ++count;
    return count;
  }

  std::vector<typename TopK<R>::Entry> rerank(std::int64_t q, std::span<const Key> list) {
    const CanonicalQuery query = prepare_canonical_query(job_.queries.row(q), job_.rows.dtype, job_.rows.dim,
                                                         job_.built.space.metric, values_.data());
    const Nodes& nodes = job_.built.nodes;
    const RowSet* allowed = job_.plan.allowed;
    // Rows that are their own codes are equal in a node: the first k of them are enough.
    const std::int64_t most_of_a_node =
        job_.built.space.raw_integers() ? list_k_ : std::numeric_limits<std::int64_t>::max();
    TopK<R> best(list_k_);
    const std::size_t count = to_evaluate(list);
    std::int64_t waiting = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t node = node_of(list[i]);
      for (std::int64_t j = 0, taken = 0; j < nodes.rows_of(node) && taken < most_of_a_node; ++j) {
        const std::int64_t row = nodes.row(node, j);
        if (allowed != nullptr && !allowed->contains(row)) continue;
        ++taken;
        ids_[waiting++] = row;
        if (waiting == rows_at_once) evaluate(query, waiting, best);
      }
    }
    if (waiting > 0) evaluate(query, waiting, best);
    return best.take();
  }

  void evaluate(const CanonicalQuery& query, std::int64_t& waiting, TopK<R>& best) {
    job_.canonical(canonical_rows(job_.rows), query, ids_, waiting, exact_);
    for (std::int64_t i = 0; i < waiting; ++i) {
      const auto distance = static_cast<R>(exact_[i]);
      if (!std::isnan(distance)) best.offer(distance, ids_[i]);
    }
    evaluated_ += waiting;
    if (evaluated_ >= poll_at_) {
      stop_.check();
      poll_at_ = evaluated_ + 4096;
    }
    waiting = 0;
  }

  Job& job_;
  StopRequest& stop_;
  Walk walk_;
  ScalarCoder coder_;
  AlignedBuffer<std::uint8_t> code_;
  std::vector<double> values_;
  std::int64_t list_k_;
  std::int64_t ids_[rows_at_once] = {};
  double exact_[rows_at_once] = {};
  Walk::Counters walked_;
  std::vector<Key> allowed_;
  std::int64_t evaluated_ = 0, poll_at_ = 4096, nan_queries_ = 0;
};

template <class R>
void search_as(Job& job, const Execution& execution) {
  const int threads = resolve_threads(execution);
  // Few queries: a thread has one.
  const std::int64_t part =
      std::clamp<std::int64_t>(job.queries.rows / (4 * threads), 1, tuning::queries_a_task);
  ProgressCounter progress(execution, "search", std::max<std::int64_t>(1, job.queries.rows));
  StopRequest stop(execution);
  parallel_for(threads, (job.queries.rows + part - 1) / part, [&](std::int64_t t) {
    Task<R> task(job, stop);
    const std::int64_t end = std::min(job.queries.rows, (t + 1) * part);
    for (std::int64_t q = t * part; q < end; ++q) {
      task.answer(q);
      progress.advance(1);
    }
  });
  progress.finish();
}

SearchStatistics search_into(const Built& built, const DatasetView& rows, const DatasetView& queries,
                             const SearchPlan& plan, const NeighborsView& out, const Execution& execution,
                             std::vector<std::int64_t>& unanswered) {
  const auto started = std::chrono::steady_clock::now();
  Job job{.built = built,
          .rows = rows,
          .queries = queries,
          .plan = plan,
          .out = out,
          .canonical = canonical_function(rows.dtype, built.space.metric),
          .unanswered = unanswered};
  if (rows.dtype == Dtype::f64) {
    search_as<double>(job, execution);
  } else {
    search_as<float>(job, execution);
  }
  std::sort(unanswered.begin(), unanswered.end());
  SearchStatistics s;
  s.index = Vamana::index_type.name;
  s.filter = "int8";
  s.instruction_set = std::string(name(active_instruction_set()));
  s.candidates = job.counters.candidates;
  s.hops = job.counters.hops;
  s.distances = job.counters.distances;
  s.list_size = plan.list_size;
  s.nan_rows = built.nodes.nan_rows;
  s.nan_queries = job.counters.nan_queries;
  s.collapsed_rows = rows.rows - built.nodes.nan_rows - built.nodes.count;
  s.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return s;
}

std::uint64_t search_bytes(const Built& built, const SearchPlan& plan, int threads) {
  return static_cast<std::uint64_t>(threads) *
         (Walk::bytes(std::max(plan.list_size, plan.longest_list), plan.beam_width, built.graph.max_degree) +
          TopK<double>::bytes(std::min(plan.k, built.nodes.count + 1)) +
          static_cast<std::uint64_t>(canonical_padded(built.space.dim)) * 24);
}

}  // namespace

const Backend& cpu_backend() {
  static const Backend backend{grow_graph, build_bytes, search_into, search_bytes};
  return backend;
}

}  // namespace kith::vamana
