// Searches on devices, the host's part: which queries at once, what goes up and what comes down. On the
// device a batch takes three launches, without a word from the host in between: queries are encoded, a warp
// walks for each, a block re-ranks what it found and the last of the blocks tells the host.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "cuda/caller_stream.hpp"
#include "cuda/fan_out.hpp"
#include "cuda/pool.hpp"
#include "cuda/upload.hpp"
#include "cuda/workspace_pool.hpp"
#include "distance/canonical.hpp"
#include "kith/error.hpp"
#include "vamana/answer.hpp"
#include "vamana/cuda/backend.hpp"
#include "vamana/cuda/device_graph.hpp"
#include "vamana/cuda/encoded_queries.hpp"
#include "vamana/cuda/tuning.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana {
namespace {

enum Counter : int { hops, distances, hot_hops, evaluated, nan_queries, counters };

// What a search borrows on a device and leaves for the next.
struct Workspace {
  explicit Workspace(int ordinal) : device(ordinal), counts(counters + 1, stream) {
    KITH_CUDA(cudaMemsetAsync(counts.data(), 0, counts.bytes(), stream));
  }
  int device;
  cuda::Stream stream;
  cuda::Buffer<unsigned long long> counts;
  cuda::PinnedBuffer<unsigned long long> seen{counters + 1};
  cuda::Uploader uploader;
  cuda::PinnedBuffer<unsigned char> queries_here{cuda::constants.little_host_bytes};
  cuda::PinnedBuffer<unsigned char> answers_here{cuda::constants.little_host_bytes};
  EncodedQueries queries;
  cuda::Buffer<unsigned char> uploaded, marks, room, found_distances;
  cuda::Buffer<double> nearest;
  cuda::Buffer<std::uint32_t> left_out;
  cuda::Buffer<unsigned long long> allowed;
  cuda::Buffer<Key> lists;
  cuda::Buffer<std::int32_t> found;
  cuda::Buffer<std::int64_t> found_indices;
};

// Never freed: at the end of the program the driver may be gone before it.
cuda::WorkspacePool<Workspace>& workspaces() {
  static auto* all = new cuda::WorkspacePool<Workspace>(cuda::constants.most_idle);
  return *all;
}

// What is asked of a walk's list.
struct Answer {
  const SearchPlan& plan;
  const NeighborsView& out;
};

// A search, whichever devices have a share of its queries.
struct Search {
  const Built& built;
  const DatasetView& rows;
  const DatasetView& queries;
  const SearchPlan& plan;           ///< of the walks
  std::span<const Answer> answers;  ///< by plans that differ from it in k and in how much they re-rank
  const Execution& execution;
  ProgressCounter& progress;
  std::mutex mutex{};
  std::vector<std::int64_t>& unanswered;
  unsigned long long totals[counters] = {};
  Placement placement = Placement::resident;
};

// Some of the queries on one device. R: the type of distances.
template <class R>
class Share {
 public:
  Share(Search& search, int device)
      : s_(search), device_(device), guard_(device), workspace_(workspaces(), device), w_(*workspace_) {}

  void run(std::int64_t first, std::int64_t last) {
    graph_ = on_device(s_.built, s_.rows, device_, s_.execution);
    cuda::wait_for(s_.execution, w_.stream);
    plan(last - first);
    if (s_.plan.allowed != nullptr) {
      const auto words = s_.plan.allowed->words();
      const auto bytes = static_cast<std::int64_t>(words.size_bytes());
      w_.allowed.reserve(std::max<std::int64_t>(1, static_cast<std::int64_t>(words.size())), w_.stream);
      w_.uploader.copy(DatasetView(words.data(), Dtype::u8, bytes, 1, 1), w_.allowed.data(), w_.stream,
                       s_.execution);
    }
    std::fill_n(w_.seen.data(), counters + 1, 0ULL);
    for (std::int64_t from = first; from < last; from += batch_) {
      const std::int64_t count = std::min(batch_, last - from);
      search_batch(from, count, from + count == last);
      if (from + count < last) {
        w_.stream.synchronize();  // so that whoever wants to stop need not wait for all
      } else {
        wait_for_report();
      }
      s_.progress.advance(count);
    }
    workspace_.done();
    const std::scoped_lock lock(s_.mutex);
    for (int i = 0; i < counters; ++i) s_.totals[i] += w_.seen.data()[i];
    s_.placement = std::max(s_.placement, graph_->placement);
  }

 private:
  bool in_place(const NeighborsView& out) const {
    return out.space == MemorySpace::cuda && out.device == device_;
  }
  static bool little(std::int64_t values, std::size_t bytes) {
    return values * static_cast<std::int64_t>(bytes) <= cuda::constants.little_host_bytes;
  }
  bool raw() const { return s_.built.space.raw_integers(); }
  // As Task::by_bound of cpu/search.cpp has it.
  bool by_bound(const SearchPlan& plan) const {
    const Built& built = s_.built;
    return built.walked != nullptr && built.walked->coding->bounded() && plan.rerank == 0 &&
           plan.list_size < built.nodes.count;
  }
  bool any_by_bound() const {
    return std::ranges::any_of(s_.answers, [&](const Answer& answer) { return by_bound(answer.plan); });
  }
  // That a search for k looks for.
  std::int64_t most_found(std::int64_t k) const {
    return std::clamp<std::int64_t>(k, 1, std::max<std::int64_t>(1, s_.rows.rows));
  }

  // How large walks are, and how many queries fit at once.
  void plan(std::int64_t queries) {
    const SearchPlan& p = s_.plan;
    const std::int64_t longest = p.allowed == nullptr ? p.list_size : std::max(p.list_size, p.longest_list);
    constexpr std::int64_t most = std::int64_t{1} << 30U;
    std::int64_t k = 1;
    std::int64_t asked_k = 0;
    std::uint64_t an_answer = 0;  // the largest: they come one after the other
    for (const Answer& answer : s_.answers) {
      k = std::max(k, most_found(answer.plan.k));
      asked_k = std::max(asked_k, answer.plan.k);
      if (in_place(answer.out)) continue;
      an_answer =
          std::max(an_answer, static_cast<std::uint64_t>(answer.out.k) * (sizeof(std::int64_t) + sizeof(R)));
    }
    const auto room = cuda::room_bytes(s_.rows.dtype, std::min(k, most));
    std::uint64_t each =
        static_cast<std::uint64_t>(longest) * (sizeof(Key) + 1 + (any_by_bound() ? sizeof(double) : 0)) +
        static_cast<std::uint64_t>(room) + EncodedQueries::bytes(s_.built) + 16 + an_answer;
    if (s_.queries.space == MemorySpace::host) {
      each += static_cast<std::uint64_t>(s_.rows.dim) * size_of(s_.rows.dtype);
    }
    const std::uint64_t all =
        each * static_cast<std::uint64_t>(std::min(queries, cuda::constants.most_at_once));
    std::uint64_t limit = s_.execution.device_memory_limit;
    if (limit > 0) {
      limit -= std::min(limit, graph_->bytes);
    } else if (all < cuda::constants.little_memory) {
      limit = cuda::constants.little_memory;  // to ask for what is free takes longer than many a search
    } else {
      limit = cuda::available_memory(s_.execution);
    }
    if (p.allowed != nullptr) limit -= std::min<std::uint64_t>(limit, p.allowed->words().size_bytes());
    if (longest > most || k > most || each > limit) {
      throw OutOfMemory(fmt::format(
          "a walk for {} neighbours with a list of {} takes {} bytes of GPU memory, beside a graph of {} "
          "there are {}; raise the device memory limit, use a shorter list, or search on the CPU",
          asked_k, longest, each, graph_->bytes, limit));
    }
    const auto fit = static_cast<std::int64_t>(
        std::min<std::uint64_t>(limit / each, static_cast<std::uint64_t>(cuda::constants.most_at_once)));
    const std::int64_t rounds = std::max<std::int64_t>(1, (queries + fit - 1) / fit);
    batch_ = std::max<std::int64_t>(1, (queries + rounds - 1) / rounds);
    shape_.list_size = static_cast<int>(p.list_size);
    shape_.capacity = static_cast<int>(longest);
    shape_.beam_width = static_cast<int>(p.beam_width);
    shape_.few = graph_->placement == Placement::resident && batch_ <= cuda::constants.few_walks;
    cuda::choose_memory(shape_, graph_->walked(s_.built), EncodedQueries::query_bytes(*graph_, s_.built),
                        device_);
  }

  void search_batch(std::int64_t first, std::int64_t count, bool last) {
    cudaStream_t stream = w_.stream;
    encode(first, count);

    const std::uint32_t* left_out = nullptr;
    if (!s_.plan.left_out.empty()) {
      left_out = w_.left_out.reserve(count, stream);
      w_.uploader.copy(DatasetView(s_.plan.left_out.data() + first, Dtype::u8,
                                   count * static_cast<std::int64_t>(sizeof(std::uint32_t)), 1, 1),
                       w_.left_out.data(), stream, s_.execution);
    }
    const cuda::NodeRows nodes{graph_->first.data(), graph_->members.data(),
                               s_.plan.allowed == nullptr ? nullptr : w_.allowed.data()};
    cuda::WalkJob walk{.graph = graph_->view(s_.built),
                       .nodes = nodes,
                       .shape = shape_,
                       .count = count,
                       .codes = nullptr,
                       .code_stride = 0,
                       .usable = nullptr,
                       .left_out = left_out,
                       .lists = w_.lists.reserve(count * shape_.capacity, stream),
                       .marks = nullptr,
                       .found = w_.found.reserve(count, stream),
                       .counters = w_.counts.data() + hops};
    if (nodes.allowed != nullptr && !shape_.list_in_shared) {
      walk.marks = w_.marks.reserve(count * shape_.capacity, stream);
    }
    w_.queries.hand_to(walk, *graph_, s_.built);
    cuda::walk(walk, graph_->walked(s_.built), device_, stream);
    if (any_by_bound()) {
      cuda::bound({.node_codes = walk.graph.codes,
                   .code_bytes = walk.graph.code_bytes,
                   .count = count,
                   .codes = walk.codes,
                   .code_stride = walk.code_stride,
                   .rabitq = walk.rabitq,
                   .rabitq_queries = walk.rabitq_queries,
                   .lists = walk.lists,
                   .list_stride = shape_.capacity,
                   .found = walk.found,
                   .nearest = w_.nearest.reserve(count * shape_.capacity, stream)},
                  stream);
    }

    for (const Answer& answer : s_.answers) {
      rerank(answer, nodes, first, count, last && &answer == &s_.answers.back());
    }
  }

  void rerank(const Answer& answer, const cuda::NodeRows& nodes, std::int64_t first, std::int64_t count,
              bool last) {
    const codes::ScalarSpace& space = s_.built.space;
    cudaStream_t stream = w_.stream;
    const SearchPlan& plan = answer.plan;
    const Cells cells = place_answers(answer.out, first, count);
    const std::int64_t k = most_found(plan.k);
    const std::int64_t room = cuda::room_bytes(s_.rows.dtype, k);
    const std::int64_t factor = s_.built.rerank_factor;
    const bool whole_list = factor == 0 || plan.list_size >= s_.built.nodes.count;
    const cuda::RerankJob rerank{
        .data = graph_->rows,
        .dtype = s_.rows.dtype,
        .metric = space.metric,
        .stride = graph_->row_stride,
        .dim = space.dim,
        .nodes = nodes,
        .count = count,
        .queries = w_.queries.queries(),
        .padded = canonical_padded(space.dim),
        .norms = w_.queries.norms(),
        .lists = w_.lists.data(),
        .list_stride = shape_.capacity,
        .found = w_.found.data(),
        .depth = {.rerank = plan.rerank,
                  .raw_integers = raw() && s_.built.walked == nullptr,
                  .factor_depth = whole_list ? 0 : tuning::rerank_depth(factor, plan.k)},
        .nearest = by_bound(plan) ? w_.nearest.data() : nullptr,
        .limit = RuledOutLimit(space),
        .k = k,
        .out_k = answer.out.k,
        .rows_of_a_node = raw() ? k : std::numeric_limits<std::int64_t>::max(),
        .room = room > 0 ? w_.room.reserve(count * room, stream) : nullptr,
        .indices = cells.indices,
        .distances = cells.distances,
        .evaluated = w_.counts.data() + evaluated,
        .report = {w_.counts.data(), counters, last ? w_.seen.data() : nullptr}};
    cuda::rerank(rerank, device_, stream);
    finish(answer.out, first, count, cells, last);
  }

  void encode(std::int64_t first, std::int64_t count) {
    cudaStream_t stream = w_.stream;
    const DatasetView some = s_.queries.slice(first, count);
    const std::size_t row_bytes = static_cast<std::size_t>(some.dim) * size_of(some.dtype);
    cuda::PlacedRows placed{w_.queries_here.data(), some.dim};
    if (some.space == MemorySpace::host && little(count, row_bytes)) {
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(w_.queries_here.data() + static_cast<std::size_t>(i) * row_bytes, some.row(i), row_bytes);
      }
    } else {
      placed = cuda::place(some, device_, w_.uploaded, w_.uploader, stream, s_.execution);
    }
    w_.queries.encode(*graph_, s_.built, placed.data, placed.stride, count, w_.counts.data() + nan_queries,
                      stream);
  }

  // For the end of the last batch.
  void wait_for_report() {
    const volatile unsigned long long* done = w_.seen.data() + counters;
    cuda::wait_until([&] { return *done != 0; }, w_.stream);
  }

  // Where answers of a batch go.
  struct Cells {
    std::int64_t* indices;
    R* distances;
    bool here;  ///< in page-locked memory
  };
  Cells place_answers(const NeighborsView& out, std::int64_t first, std::int64_t count) {
    const std::int64_t k = out.k;
    if (in_place(out)) {
      return {out.indices + first * k, static_cast<R*>(out.distances) + first * k, false};
    }
    if (out.space == MemorySpace::host && little(count * k, sizeof(std::int64_t) + sizeof(R))) {
      auto* indices = reinterpret_cast<std::int64_t*>(w_.answers_here.data());
      return {indices, reinterpret_cast<R*>(indices + count * k), true};
    }
    const std::int64_t bytes = count * k * static_cast<std::int64_t>(sizeof(R));
    return {w_.found_indices.reserve(count * k, w_.stream),
            reinterpret_cast<R*>(w_.found_distances.reserve(bytes, w_.stream)), false};
  }

  // Answers to the caller, and which queries have none.
  void finish(const NeighborsView& out, std::int64_t first, std::int64_t count, const Cells& cells,
              bool last) {
    cudaStream_t stream = w_.stream;
    if (s_.plan.allowed != nullptr) {
      std::vector<std::int32_t> found(static_cast<std::size_t>(count));
      cuda::download(w_.found.data(), found.data(), found.size() * sizeof(std::int32_t), stream,
                     s_.execution);
      const std::scoped_lock lock(s_.mutex);
      for (std::int64_t i = 0; i < count; ++i) {
        if (found[static_cast<std::size_t>(i)] < 0) s_.unanswered.push_back(first + i);
      }
    }
    if (in_place(out)) return;
    std::int64_t* to = out.indices + first * out.k;
    R* to_distances = static_cast<R*>(out.distances) + first * out.k;
    const auto values = static_cast<std::uint64_t>(count * out.k);
    if (cells.here) {
      last ? wait_for_report() : w_.stream.synchronize();
      std::copy_n(cells.indices, values, to);
      std::copy_n(cells.distances, values, to_distances);
    } else if (out.space == MemorySpace::host) {
      cuda::download(cells.indices, to, values * sizeof(std::int64_t), stream, s_.execution);
      cuda::download(cells.distances, to_distances, values * sizeof(R), stream, s_.execution);
    } else {
      KITH_CUDA(cudaMemcpyAsync(to, cells.indices, values * sizeof(std::int64_t), cudaMemcpyDefault, stream));
      KITH_CUDA(
          cudaMemcpyAsync(to_distances, cells.distances, values * sizeof(R), cudaMemcpyDefault, stream));
      w_.stream.synchronize();
    }
  }

  Search& s_;
  int device_;
  cuda::DeviceGuard guard_;
  cuda::Borrowed<Workspace> workspace_;
  Workspace& w_;
  std::shared_ptr<const DeviceGraph> graph_;
  cuda::WalkShape shape_{};
  std::int64_t batch_ = 1;
};

// On the devices of `execution`, all of them.
SearchStatistics search_by(const Built& built, const DatasetView& rows, const DatasetView& queries,
                           std::span<const Answer> answers, const Execution& execution,
                           std::vector<std::int64_t>& unanswered) {
  const auto started = std::chrono::steady_clock::now();
  ProgressCounter progress(execution, "search", std::max<std::int64_t>(1, queries.rows));
  Search search{.built = built,
                .rows = rows,
                .queries = queries,
                .plan = answers.front().plan,
                .answers = answers,
                .execution = execution,
                .progress = progress,
                .unanswered = unanswered};
  const auto devices = static_cast<std::int64_t>(execution.devices.size());
  cuda::for_each_device(execution.devices.size(), [&](std::size_t i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t first = queries.rows * at / devices;
    const std::int64_t last = queries.rows * (at + 1) / devices;
    const int device = execution.devices[i].ordinal;
    if (rows.dtype == Dtype::f64) {
      Share<double>(search, device).run(first, last);
    } else {
      Share<float>(search, device).run(first, last);
    }
  });
  progress.finish();
  std::sort(unanswered.begin(), unanswered.end());
  SearchStatistics s;
  s.index = Vamana::index_type.name;
  s.filter = built.walked != nullptr ? std::string(name(built.walked->kind))
             : built.space.bits == 4 ? "int4"
                                     : "int8";
  s.instruction_set = std::string("cuda ") + name(search.placement);
  s.candidates = static_cast<std::int64_t>(search.totals[evaluated]);
  s.hops = static_cast<std::int64_t>(search.totals[hops]);
  s.distances = static_cast<std::int64_t>(search.totals[distances]);
  s.cached_hops = static_cast<std::int64_t>(search.totals[hot_hops]);
  s.list_size = search.plan.list_size;
  s.nan_rows = built.nodes.nan_rows;
  s.nan_queries = static_cast<std::int64_t>(search.totals[nan_queries]);
  s.collapsed_rows = rows.rows - built.nodes.nan_rows - built.nodes.count;
  s.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return s;
}

}  // namespace

SearchStatistics search_on_devices(const Built& built, const DatasetView& rows, const DatasetView& queries,
                                   const SearchPlan& plan, const NeighborsView& out, const Execution& asked,
                                   std::vector<std::int64_t>& unanswered) {
  Execution execution = asked_by_one(asked);
  cuda::follow_elsewhere(
      execution, {cuda::place_of(queries.space, queries.device), cuda::place_of(out.space, out.device)});
  const Answer answer{plan, out};
  return search_by(built, rows, queries, {&answer, 1}, execution, unanswered);
}

std::vector<Neighbors> search_by_plans_on_devices(const Built& built, const DatasetView& rows,
                                                  const DatasetView& queries,
                                                  std::span<const SearchPlan> plans, const Execution& asked) {
  Execution execution = asked;
  cuda::follow_elsewhere(execution, {cuda::place_of(queries.space, queries.device)});
  std::vector<std::int64_t> unanswered;
  return answered_by_plans(rows, queries.rows, plans, execution, [&](std::span<const NeighborsView> views) {
    std::vector<SearchStatistics> statistics;
    while (statistics.size() < plans.size()) {
      std::vector<Answer> answers;  // by one walk
      const std::size_t first = statistics.size();
      for (std::size_t i = first; i < plans.size() && plans[i].list_size == plans[first].list_size; ++i) {
        answers.push_back({plans[i], views[i]});
      }
      const SearchStatistics its = search_by(built, rows, queries, answers, execution, unanswered);
      statistics.insert(statistics.end(), answers.size(), its);
    }
    return statistics;
  });
}

}  // namespace kith::vamana
