// Searches on the CPU: a thread walks for one query after the other and re-ranks what it found.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/instruction_set.hpp"
#include "core/parallel.hpp"
#include "distance/canonical.hpp"
#include "select_k/top_k.hpp"
#include "vamana/answer.hpp"
#include "vamana/backend.hpp"
#include "vamana/cpu/build.hpp"
#include "vamana/cpu/walk.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana {
namespace {

constexpr std::int64_t rows_at_once = 64;
/// The same where each may rule out those that follow.
constexpr std::int64_t rows_a_bound = 16;

struct Counters {
  std::atomic<std::int64_t> hops{0}, distances{0}, candidates{0}, nan_queries{0};
};

// Answers by a shorter list than the walk's.
struct Shorter {
  const SearchPlan& plan;
  const NeighborsView& out;
  std::int64_t hops = 0;
};

struct Job {
  const Built& built;
  const DatasetView& rows;
  const DatasetView& queries;
  const SearchPlan& plan;
  const NeighborsView& out;
  CanonicalFunction canonical;
  std::vector<std::int64_t>& unanswered;
  std::span<Shorter> shorter = {};  ///< where there are some, these are answered, and `out` is not
  Counters counters{};
  std::mutex mutex{};
};

// Some queries, a few side by side. R: the type of distances.
template <class R>
class Task {
 public:
  Task(Job& job, StopRequest& stop)
      : job_(job),
        stop_(stop),
        codec_(job.built.space),
        values_(static_cast<std::size_t>(canonical_padded(job.rows.dim))),
        shorter_hops_(job.shorter.size(), 0) {}

  ~Task() {
    job_.counters.hops += walked_.hops;
    job_.counters.distances += walked_.distances;
    job_.counters.candidates += evaluated_;
    job_.counters.nan_queries += nan_queries_;
    const std::scoped_lock lock(job_.mutex);
    for (std::size_t i = 0; i < shorter_hops_.size(); ++i) job_.shorter[i].hops += shorter_hops_[i];
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // Queries [first, last).
  template <class Done>
  void answer(std::int64_t first, std::int64_t last, const Done& done) {
    const Graph& graph = job_.built.graph;
    const codes::ScalarSpace& space = job_.built.space;
    const WalkCodes* others = job_.built.walked.get();
    const std::uint8_t* codes = others != nullptr ? others->codes.data() : job_.built.nodes.codes.data();
    const WalkedGraph walked{graph.lists(),           graph.max_degree,           codes,
                             job_.built.code_bytes(), codes::estimates_of(space), graph.entries};
    std::vector<Lane> lanes;
    for (std::int64_t i = 0; i < std::min(last - first, tuning::walks_side_by_side); ++i) {
      lanes.push_back({Walk(walked), AlignedBuffer<std::uint8_t>(space.code_bytes()),
                       others != nullptr ? others->coding->worker(tuning::rerank_confidence) : nullptr});
      for (const Shorter& shorter : job_.shorter)
        lanes.back().shorter.sizes.push_back(shorter.plan.list_size);
    }
    const auto begin = [&](Lane& lane) {
      for (; first < last; done(first++)) {
        if (codec_.encode_query(job_.queries.row(first), lane.code.data())) {
          if (job_.built.nodes.count > 0) break;
        } else {
          ++nan_queries_;
        }
        write_nothing(first);
      }
      if (first == last) return false;
      lane.query = first++;
      begin_walk(lane);
      return true;
    };
    const auto end = [&](Lane& lane) {
      if (!job_.shorter.empty()) {
        end_with_shorter(lane);
      } else if (job_.plan.allowed == nullptr) {
        write(job_.out, lane.query, rerank(lane, job_.plan, lane.walk.list()));
      } else {
        end_among_allowed(lane);
      }
      done(lane.query);
    };
    walk_side_by_side(std::span(lanes), stop_, walked_, begin, end);
  }

 private:
  struct Lane {
    Walk walk;
    AlignedBuffer<std::uint8_t> code;
    std::unique_ptr<codes::Worker> worker;  // of codes that are not scalar
    std::int64_t query = 0;
    ShorterLists shorter{};
  };

  void begin_walk(Lane& lane) const {
    const SearchPlan& plan = job_.plan;
    if (lane.worker != nullptr) lane.worker->set_query(lane.code.data());
    lane.walk.begin(
        {.query = lane.code.data(),
         .worker = lane.worker.get(),
         .list_size = plan.list_size,
         .allowed = plan.allowed != nullptr ? &allowed_nodes_ : nullptr,
         .longest_list = plan.longest_list,
         .beam_width = plan.beam_width,
         .left_out = plan.left_out.empty() ? no_node : plan.left_out[static_cast<std::size_t>(lane.query)],
         .shorter = job_.shorter.empty() ? nullptr : &lane.shorter});
  }

  static void write(const NeighborsView& out, std::int64_t q,
                    const std::vector<typename TopK<R>::Entry>& found) {
    const std::int64_t k = out.k;
    std::int64_t* indices = out.indices + q * k;
    R* distances = static_cast<R*>(out.distances) + q * k;
    for (const auto& [distance, row] : found) {
      *distances++ = distance;
      *indices++ = row;
    }
    const auto missing = k - static_cast<std::int64_t>(found.size());
    std::fill_n(indices, missing, -1);
    std::fill_n(distances, missing, std::numeric_limits<R>::infinity());
  }

  void write_nothing(std::int64_t q) const {
    if (job_.shorter.empty()) write(job_.out, q, {});
    for (const Shorter& shorter : job_.shorter) write(shorter.out, q, {});
  }

  void end_with_shorter(Lane& lane) {
    for (std::size_t i = 0; i < job_.shorter.size(); ++i) {
      const Shorter& shorter = job_.shorter[i];
      write(shorter.out, lane.query, rerank(lane, shorter.plan, lane.shorter.lists[i]));
      shorter_hops_[i] += lane.shorter.hops[i];
    }
  }

  // Answers by the list's allowed nodes, or leaves the query to the exact engine.
  void end_among_allowed(Lane& lane) {
    if (!lane.walk.failed()) {
      write(job_.out, lane.query, rerank(lane, job_.plan, lane.walk.allowed()));
      return;
    }
    write_nothing(lane.query);
    const std::scoped_lock lock(job_.mutex);
    job_.unanswered.push_back(lane.query);
  }

  bool estimates_are_distances() const {
    return job_.built.walked == nullptr && job_.built.space.raw_integers();
  }

  // Whether RaBitQ's bound says which of the list's nodes are evaluated. A list of all nodes finds
  // everything.
  bool by_bound(const SearchPlan& plan) const {
    const Built& built = job_.built;
    return built.walked != nullptr && built.walked->coding->bounded() && plan.rerank == 0 &&
           plan.list_size < built.nodes.count;
  }

  // How many of the list's nodes are evaluated exactly, unless a bound rules them out.
  std::size_t to_evaluate(const SearchPlan& plan, std::span<const Key> list) const {
    if (plan.rerank > 0) return std::min(list.size(), static_cast<std::size_t>(plan.rerank));
    const auto k = static_cast<std::size_t>(plan.k);
    if (list.size() <= k || by_bound(plan)) return list.size();
    if (!estimates_are_distances()) {
      const std::int64_t factor = job_.built.rerank_factor;
      // A list of all nodes finds everything.
      if (factor == 0 || plan.list_size >= job_.built.nodes.count) return list.size();
      return std::min(list.size(), static_cast<std::size_t>(tuning::rerank_depth(factor, plan.k)));
    }
    // Estimates are the distances: after the k-th only what rounding may tie with it.
    const std::int64_t last = estimate_of(list[k - 1]);
    std::size_t count = k;
    while (count < list.size() && estimate_of(list[count]) <= last + (last >> 20U)) ++count;
    return count;
  }

  std::vector<typename TopK<R>::Entry> rerank(Lane& lane, const SearchPlan& plan, std::span<const Key> list) {
    const void* values = job_.queries.row(lane.query);
    const CanonicalQuery query = prepare_canonical_query(values, job_.rows.dtype, job_.rows.dim,
                                                         job_.built.space.metric, values_.data());
    const Nodes& nodes = job_.built.nodes;
    const RowSet* allowed = plan.allowed;
    const std::int64_t list_k =
        std::clamp<std::int64_t>(plan.k, 1, std::max<std::int64_t>(1, job_.rows.rows));
    // Rows that are their own codes are equal in a node: the first k of them are enough.
    const std::int64_t most_of_a_node =
        job_.built.space.raw_integers() ? list_k : std::numeric_limits<std::int64_t>::max();
    TopK<R> best(list_k);
    const std::size_t count = to_evaluate(plan, list);
    std::optional<RuledOut> ruled_out;
    if (by_bound(plan)) ruled_out.emplace(job_.built.space, *job_.built.walked, *lane.worker, values);
    double limit = std::numeric_limits<double>::infinity();
    std::int64_t waiting = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t node = node_of(list[i]);
      if (ruled_out) {
        // The limit falls with the k-th distance, known from k rows on.
        if (waiting >= (best.full() ? rows_a_bound : list_k)) {
          evaluate(query, waiting, best);
          if (best.full()) limit = ruled_out->limit(static_cast<double>(best.kth()));
        }
        if (limit < std::numeric_limits<double>::infinity() && (*ruled_out)(node, limit)) continue;
      }
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
  codes::ScalarCodec codec_;
  std::vector<double> values_;
  std::vector<std::int64_t> shorter_hops_;
  std::int64_t ids_[rows_at_once] = {};
  double exact_[rows_at_once] = {};
  Walk::Counters walked_;
  AllowedNodes allowed_nodes_{job_.built.nodes, job_.plan.allowed};
  std::int64_t evaluated_ = 0, poll_at_ = 4096, nan_queries_ = 0;
};

template <class R>
void search_of(Job& job, const Execution& execution) {
  const int threads = resolve_threads(execution);
  // Few queries: a thread has one.
  const std::int64_t part =
      std::clamp<std::int64_t>(job.queries.rows / (4 * threads), 1, tuning::queries_a_task);
  ProgressCounter progress(execution, "search", std::max<std::int64_t>(1, job.queries.rows));
  StopRequest stop(execution);
  parallel_for(threads, (job.queries.rows + part - 1) / part, [&](std::int64_t t) {
    Task<R> task(job, stop);
    const std::int64_t end = std::min(job.queries.rows, (t + 1) * part);
    task.answer(t * part, end, [&](std::int64_t) { progress.advance(1); });
  });
  progress.finish();
}

void search_as(Job& job, const Execution& execution) {
  if (job.rows.dtype == Dtype::f64) {
    search_of<double>(job, execution);
  } else {
    search_of<float>(job, execution);
  }
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
  search_as(job, execution);
  std::sort(unanswered.begin(), unanswered.end());
  SearchStatistics s;
  s.index = Vamana::index_type.name;
  s.filter = built.walked != nullptr ? std::string(name(built.walked->kind))
             : built.space.bits == 4 ? "int4"
                                     : "int8";
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

std::vector<Neighbors> search_by_plans(const Built& built, const DatasetView& rows,
                                       const DatasetView& queries, std::span<const SearchPlan> plans,
                                       const Execution& execution) {
  if (plans.empty()) return {};
  return answered_by_plans(rows, queries.rows, plans, execution, [&](std::span<const NeighborsView> views) {
    std::vector<Shorter> shorter;
    for (std::size_t i = 0; i < plans.size(); ++i) shorter.push_back({.plan = plans[i], .out = views[i]});
    std::vector<std::int64_t> unanswered;
    const NeighborsView none{};
    Job job{.built = built,
            .rows = rows,
            .queries = queries,
            .plan = plans.back(),
            .out = none,
            .canonical = canonical_function(rows.dtype, built.space.metric),
            .unanswered = unanswered,
            .shorter = shorter};
    search_as(job, execution);
    std::vector<SearchStatistics> statistics(plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      statistics[i].list_size = plans[i].list_size;
      statistics[i].hops = shorter[i].hops;
    }
    return statistics;
  });
}

// Of the workers of a thread's lanes: a rotated query, or a table of 256 entries a subspace.
std::uint64_t lane_bytes(const Built& built) {
  const auto dim = static_cast<std::uint64_t>(built.space.code_dim() + 32);
  const std::uint64_t table =
      built.walked->kind == CodeKind::pq ? static_cast<std::uint64_t>(built.code_bytes()) * 1024 : 0;
  return static_cast<std::uint64_t>(tuning::walks_side_by_side) * (dim * 24 + table);
}

std::uint64_t search_bytes(const Built& built, const SearchPlan& plan, int threads) {
  return static_cast<std::uint64_t>(threads) *
         (static_cast<std::uint64_t>(tuning::walks_side_by_side) *
              Walk::bytes(plan.list_size, plan.longest_list, plan.beam_width, built.graph.max_degree) +
          TopK<double>::bytes(std::min(plan.k, built.nodes.count + 1)) +
          static_cast<std::uint64_t>(canonical_padded(built.space.dim)) * 24 +
          (built.walked != nullptr ? lane_bytes(built) : 0));
}

std::optional<Dataset> place(const Built& /*built*/, const DatasetView& rows,
                             const VamanaParameters& /*parameters*/, const Execution& /*execution*/) {
  return Dataset::adopt(rows, nullptr);  // where they are
}

codes::KMeansOfParts by_threads(const Execution& /*execution*/) {
  return {};
}

}  // namespace

const Backend& cpu_backend() {
  static const Backend backend{.grow = grow_graph,
                               .k_means = by_threads,
                               .encode = encode_walk_codes,
                               .build_bytes = build_bytes,
                               .search_into = search_into,
                               .search_by_plans = search_by_plans,
                               .one_walk_for_all = true,
                               .place = place,
                               .search_bytes = search_bytes};
  return backend;
}

}  // namespace kith::vamana
