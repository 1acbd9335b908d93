// The k nearest on a device, the host's part: in which batches, what goes up and what comes down.
//
// A search borrows a workspace, so that searches of several threads do not meet; large buffers come from the
// device's pool and go back to it. Few queries that lie on the device with their answers take one launch and
// one copy of counters.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "core/rounding.hpp"
#include "cuda/pool.hpp"
#include "cuda/runtime.hpp"
#include "cuda/upload.hpp"
#include "point_tree/cuda/answers.hpp"
#include "point_tree/cuda/device_tree.hpp"
#include "point_tree/cuda/search.hpp"
#include "point_tree/cuda/tuning.hpp"
#include "point_tree/cuda/workspace.hpp"
#include "point_tree/queries.hpp"

namespace kith::point_tree {

namespace {

// One search for the k nearest.
template <class T>
class NearestSearch {
 public:
  NearestSearch(const Tree& tree, const Asked& asked, double radius, const NeighborsView& out,
                const Execution& execution, const char* stage, std::vector<std::int64_t>& left)
      : tree_(tree),
        asked_(asked),
        radius_(round_down<T>(radius)),
        out_(out),
        execution_(execution),
        device_(device_of(execution)),
        guard_(device_),
        count_(asked.queries != nullptr ? asked.queries->rows : tree.points),
        regime_(choose_regime(tree, count_, out.k, asked.queries == nullptr, cuda::policy_of(device_))),
        progress_(execution, stage, std::max<std::int64_t>(1, asked.count(tree))),
        left_(left) {}

  SearchStatistics run() {
    const auto started = std::chrono::steady_clock::now();
    statistics_.index = tree_.index;
    statistics_.filter = sizeof(T) == 4 ? "fp32" : "none";
    statistics_.instruction_set = std::string("cuda ") + name(regime_);
    statistics_.nan_rows = tree_.nan_rows;
    there_ = on_device(tree_, device_);
    workspace_.emplace(workspaces(), device_);
    w_ = &**workspace_;
    stream_ = w_->stream;
    cuda::wait_for(execution_, stream_);
    search();
    workspace_->done();  // NOLINT(bugprone-unchecked-optional-access): emplaced above
    if (asked_.queries == nullptr) left_.insert(left_.end(), tree_.infinite.begin(), tree_.infinite.end());
    progress_.finish();
    statistics_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    return statistics_;
  }

 private:
  bool self() const { return asked_.queries == nullptr; }
  bool in_place() const { return out_.space == MemorySpace::cuda && out_.device == device_; }
  bool queries_in_place() const {
    return self() || (asked_.queries->space == MemorySpace::cuda && asked_.queries->device == device_);
  }
  std::int64_t cell() const { return static_cast<std::int64_t>(sizeof(std::int64_t) + sizeof(T)); }

  void search() {
    plan();
    if (self() && tree_.points < tree_.rows) clear_others();
    if (regime_ == Regime::groups) packed_ = PackedArrays(tree_, *there_, stream_);
    for (std::int64_t first = 0; first < count_; first += batch_) {
      search_batch(first, std::min(batch_, count_ - first));
    }
    if (whole_.indices != nullptr) {
      copy_answers(out_, 0, asked_.count(tree_), whole_.indices, whole_.distances, stream_, execution_);
    } else if (count_ == 0) {
      KITH_CUDA(cudaStreamSynchronize(stream_));  // no batch has waited for what was cleared
    }
  }

  // How many queries at once, in the memory there may be.
  void plan() {
    const std::uint64_t limit = memory_limit();
    std::uint64_t fixed = 1U << 20U;
    if (regime_ == Regime::groups) {
      const std::uint64_t packed = PackedArrays::bytes(tree_);
      if (packed + fixed < limit / 2) {
        fixed += packed;
      } else {
        regime_ = Regime::sorted_warps;
        statistics_.instruction_set = std::string("cuda ") + name(regime_);
      }
    }
    std::uint64_t each = 16;  // places in lists
    const auto row = static_cast<std::uint64_t>(tree_.dim) * sizeof(T);
    if (!queries_in_place()) each += static_cast<std::uint64_t>(tree_.dim) * size_of(tree_.dtype);
    if (!self() && regime_ != Regime::warps)
      each += 4 * sizeof(std::uint32_t) + 8;  // sorting takes some more
    if (!self() && regime_ == Regime::groups) each += sizeof(float4);
    if (self() && regime_ != Regime::groups) each += row;
    // Warps that need memory beside that.
    cuda::WarpSearch<T> probe = blank();
    probe.count = count_;
    const auto memory = cuda::warp_memory(probe, tree_.levels, device_);
    warp_bytes_ = static_cast<std::uint64_t>(memory.scratch + memory.list);
    std::uint64_t warps = warp_bytes_ * static_cast<std::uint64_t>(memory.warps);
    most_warps_ = memory.warps;
    if (warps > limit / 4) {
      most_warps_ = std::max<std::int64_t>(4, static_cast<std::int64_t>(limit / 4 / warp_bytes_) / 4 * 4);
      warps = warp_bytes_ * static_cast<std::uint64_t>(most_warps_);
    }
    fixed += warps;
    const auto answer = static_cast<std::uint64_t>(out_.k * cell());
    batch_ = cuda::constants.most_at_once;
    if (!in_place()) {
      // Answers of the tree's own rows are scattered: the whole of them on the device, or batches that the
      // host scatters.
      if (self() && fixed + static_cast<std::uint64_t>(tree_.rows) * (answer + 16) < limit) {
        scatter_ = false;
        fixed += static_cast<std::uint64_t>(tree_.rows) * answer;
        whole_indices_ = cuda::Buffer<std::int64_t>(tree_.rows * out_.k, w_->stream);
        whole_distances_ = cuda::Buffer<T>(tree_.rows * out_.k, w_->stream);
        whole_ = {whole_indices_.data(), whole_distances_.data()};
      } else {
        scatter_ = self();
        each += answer;
      }
    }
    if (fixed + each > limit) {
      throw OutOfMemory(
          fmt::format("a query for {} neighbours in this {} needs {} bytes of GPU memory, the limit is {}; "
                      "raise the limit "
                      "or ask for fewer neighbours",
                      out_.k, tree_.index, fixed + each, limit));
    }
    const std::uint64_t fit = (limit - fixed) / each;
    batch_ = static_cast<std::int64_t>(std::clamp<std::uint64_t>(fit, 1, static_cast<std::uint64_t>(batch_)));
    const std::int64_t rounds = count_ == 0 ? 1 : (count_ + batch_ - 1) / batch_;
    batch_ = std::max<std::int64_t>(1, (count_ + rounds - 1) / rounds);
  }

  // What may be taken: the limit, or what the device has.
  std::uint64_t memory_limit() const {
    if (execution_.device_memory_limit > 0) return execution_.device_memory_limit;
    // Asked only where it may matter: the question takes longer than a small search.
    const std::uint64_t much = std::uint64_t{1} << 30U;
    const auto rough = static_cast<std::uint64_t>(count_) *
                           static_cast<std::uint64_t>(out_.k * cell() + 64 + 16 * tree_.dim) +
                       static_cast<std::uint64_t>(tree_.points) * 64;
    if (rough < much / 2 && cuda::is_short(any_tree<T>(tree_, *there_), out_.k)) return much;
    return cuda::available_memory(execution_);
  }

  // Rows that are not in the tree have no list of their own.
  void clear_others() {
    const std::int64_t cells = tree_.rows * out_.k;
    if (in_place()) {
      cuda::clear_answer(out_.indices, static_cast<T*>(out_.distances), cells, stream_);
    } else if (whole_.indices != nullptr) {
      cuda::clear_answer(whole_.indices, whole_.distances, cells, stream_);
    } else if (out_.space == MemorySpace::host) {
      std::fill_n(out_.indices, cells, -1);
      std::fill_n(static_cast<T*>(out_.distances), cells, std::numeric_limits<T>::infinity());
    } else {
      refuse_far_answer(out_, device_);
    }
  }

  cuda::WarpSearch<T> blank() const {
    cuda::WarpSearch<T> s{};
    if (there_) s.tree = any_tree<T>(tree_, *there_);
    s.tree.dim = tree_.dim;
    s.manhattan = tree_.metric == Metric::manhattan;
    s.rooted = tree_.metric == Metric::euclidean;
    s.exclude = self() && !asked_.include_self;
    s.radius = radius_;
    s.answer.k = out_.k;
    return s;
  }

  cuda::DeviceRows place_queries(std::int64_t first, std::int64_t count) {
    const DatasetView rows = asked_.queries->slice(first, count);
    const auto placed = cuda::place(rows, device_, uploaded_, w_->uploader, stream_, execution_);
    return {placed.data, rows.dtype, placed.stride};
  }

  void search_batch(std::int64_t first, std::int64_t count) {
    auto* counts = w_->counts.data();
    unsigned long long* report = w_->report.data();
    std::fill_n(report, seen, not_seen);
    std::int64_t* lists = w_->lists.data();
    if (count > cuda::constants.small_list) lists = lists_.reserve(2 * count, stream_);
    const cuda::HandedOn unanswered_list{lists, counts + unanswered};
    const cuda::HandedOn left_list{lists + count, counts + left_over};

    // Where answers go.
    cuda::Answer<T> answer{};
    answer.k = out_.k;
    if (in_place()) {
      answer.indices = out_.indices + (self() ? 0 : first * out_.k);
      answer.distances = static_cast<T*>(out_.distances) + (self() ? 0 : first * out_.k);
    } else if (whole_.indices != nullptr) {
      answer.indices = whole_.indices;
      answer.distances = whole_.distances;
    } else {
      answer.indices = indices_.reserve(count * out_.k, stream_);
      answer.distances = distances_.reserve(count * out_.k, stream_);
      answer.by_place = scatter_;
    }
    if (!tree_.infinite.empty() && radius_ == std::numeric_limits<T>::infinity()) answer.unfilled = left_list;

    cuda::WarpSearch<T> warps = blank();
    warps.count = count;
    warps.answer = answer;
    warps.endless = left_list;
    warps.nan_queries = counts + nan_query;
    warps.counts = counts;
    warps.report = report;
    warps.others = more_counters;
    warps.arrived = w_->arrived.data();
    if (!self()) warps.queries = place_queries(first, count);
    if (regime_ == Regime::groups) {
      search_groups(first, count, warps, unanswered_list);
    } else {
      if (self()) {
        cuda::unpack_points(warps.tree, first, first + count, values_.reserve(count * tree_.dim, stream_),
                            stream_);
        warps.queries = {values_.data(), sizeof(T) == 4 ? Dtype::f32 : Dtype::f64, tree_.dim};
        warps.numbers = there_->rows.data() + first * (tree_.wide_rows ? 8 : 4);
        warps.number_stride = 1;
      } else if (regime_ == Regime::sorted_warps) {
        warps.short_order = order(warps.queries, count, std::numeric_limits<double>::max(), {});
      }
      launch(warps);
    }
    if (count <= cuda::constants.small_list) {
      wait_for_report();
    } else {
      KITH_CUDA(cudaStreamSynchronize(stream_));
    }
    statistics_.pairs += static_cast<std::int64_t>(report[seen_pairs]);
    statistics_.candidates += static_cast<std::int64_t>(report[seen_candidates]);
    statistics_.fallbacks += static_cast<std::int64_t>(report[seen_of(unanswered)]);
    statistics_.nan_queries += static_cast<std::int64_t>(report[seen_of(nan_query)]);
    take_left(left_list, static_cast<std::int64_t>(report[seen_of(left_over)]), self() ? 0 : first);
    if (!in_place() && whole_.indices == nullptr) {
      if (scatter_) {
        scatter_answers(tree_, *there_, first, count, answer, out_, stream_, execution_);
      } else {
        copy_answers(out_, first, count, answer.indices, answer.distances, stream_, execution_);
      }
    }
    progress_.advance(count);
  }

  // Until the last kernel has written what happened, and before it the answers: sooner than the driver says
  // so.
  void wait_for_report() const {
    const volatile unsigned long long* report = w_->report.data();
    const auto here = [&] {
      return std::all_of(report, report + seen, [](unsigned long long value) { return value != not_seen; });
    };
    cuda::wait_until(here, stream_);
  }

  const std::uint32_t* order(const cuda::DeviceRows& queries, std::int64_t count, double limit,
                             const cuda::HandedOn& others) {
    const std::size_t bytes = cuda::sort_bytes(count);
    keys_.reserve(2 * count, stream_);
    order_.reserve(2 * count, stream_);
    sorting_.reserve(static_cast<std::int64_t>(bytes), stream_);
    const int half =
        cuda::order_queries(queries, tree_.dim, count, curve_of(tree_), limit, keys_.data(), order_.data(),
                            sorting_.data(), bytes, w_->counts.data() + usable, others, stream_);
    return order_.data() + half * count;
  }

  void search_groups(std::int64_t first, std::int64_t count, cuda::WarpSearch<T>& warps,
                     const cuda::HandedOn& unanswered_list) {
    if constexpr (sizeof(T) == 4) {
      cuda::GroupSearch g = group_search(tree_, packed_, radius_);
      g.first = self() ? first : 0;
      g.count = count;
      if (!self()) {
        const std::uint32_t* sorted = order(warps.queries, count, plain_limit, unanswered_list);
        gathered_.reserve(count, stream_);
        cuda::gather_queries(warps.queries, tree_.dim, count, sorted, gathered_.data(), stream_);
        g.queries = gathered_.data();
        g.usable = w_->counts.data() + usable;
      }
      g.include_self = !warps.exclude;
      g.answer = warps.answer;
      g.answer.first = first;
      g.unanswered = unanswered_list;
      g.counts = warps.counts;
      cuda::search_groups(g, device_, stream_);

      // What is left over, if anything: the device knows how many.
      warps.order = unanswered_list.queries;
      warps.device_count = unanswered_list.count;
      if (self()) {
        warps.queries = {packed_.points.data(), Dtype::f32, 4};
        warps.numbers = &packed_.points.data()->w;
        warps.number_stride = 4;
        warps.answer.first = first;
      }
      launch(warps);
    }
  }

  void launch(const cuda::WarpSearch<T>& search) {
    cuda::WarpMemory memory = cuda::warp_memory(search, tree_.levels, device_);
    memory.warps = std::min(memory.warps, std::max<std::int64_t>(4, most_warps_));
    // How many it will be the device knows: seldom many.
    if (search.device_count != nullptr)
      memory.warps = std::min(memory.warps, cuda::policy_of(device_).most_handed_on);
    const std::int64_t bytes = memory.warps * (memory.scratch + memory.list);
    if (bytes > 0) scratch_.reserve(bytes, stream_);
    cuda::search_warps(search, tree_.levels, memory, scratch_.data(), device_, stream_);
  }

  void take_left(const cuda::HandedOn& list, std::int64_t count, std::int64_t base) {
    if (count == 0) return;
    const std::size_t at = left_.size();
    left_.resize(at + static_cast<std::size_t>(count));
    KITH_CUDA(cudaMemcpyAsync(left_.data() + at, list.queries, static_cast<std::size_t>(count) * 8,
                              cudaMemcpyDeviceToHost, stream_));
    KITH_CUDA(cudaStreamSynchronize(stream_));
    for (std::size_t i = at; i < left_.size(); ++i) left_[i] += base;
  }

  const Tree& tree_;
  const Asked& asked_;
  const T radius_;
  const NeighborsView& out_;
  const Execution& execution_;
  const int device_;
  const cuda::DeviceGuard guard_;
  const std::int64_t count_;
  Regime regime_;
  ProgressCounter progress_;
  std::vector<std::int64_t>& left_;
  SearchStatistics statistics_;
  std::shared_ptr<const DeviceTree> there_;
  // Outlives the buffers, whose memory belongs to its stream.
  std::optional<cuda::Borrowed<Workspace>> workspace_;
  Workspace* w_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::int64_t batch_ = 1;
  std::uint64_t warp_bytes_ = 0;
  std::int64_t most_warps_ = 0;
  bool scatter_ = false;
  struct {
    std::int64_t* indices = nullptr;
    T* distances = nullptr;
  } whole_;
  PackedArrays packed_;
  cuda::Buffer<float4> gathered_;
  cuda::Buffer<unsigned char> uploaded_, sorting_, scratch_;
  cuda::Buffer<std::uint32_t> keys_, order_;
  cuda::Buffer<std::int64_t> lists_, indices_, whole_indices_;
  cuda::Buffer<T> values_, distances_, whole_distances_;
};

}  // namespace

SearchStatistics nearest_on_device(const Tree& tree, const Asked& asked, double radius,
                                   const NeighborsView& out, const Execution& execution, const char* stage,
                                   std::vector<std::int64_t>& left) {
  return visit_distances(tree, [&]<class T>() {
    return NearestSearch<T>(tree, asked, radius, out, execution, stage, left).run();
  });
}

}  // namespace kith::point_tree
