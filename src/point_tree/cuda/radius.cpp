// Radius search and counting on a device, the host's part.
#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "core/rounding.hpp"
#include "cuda/pool.hpp"
#include "cuda/runtime.hpp"
#include "cuda/upload.hpp"
#include "point_tree/cuda/device_tree.hpp"
#include "point_tree/cuda/search.hpp"
#include "point_tree/cuda/tuning.hpp"
#include "point_tree/cuda/workspace.hpp"
#include "point_tree/queries.hpp"

namespace kith::point_tree {

namespace {

// Everything within a radius, or how much that is.
template <class T>
class RadiusSearch {
 public:
  RadiusSearch(const Tree& tree, const DatasetView& queries, double radius, const Execution& execution,
               const char* stage)
      : tree_(tree),
        queries_(queries),
        radius_(round_down<T>(radius)),
        execution_(execution),
        device_(device_of(execution)),
        guard_(device_),
        progress_(execution, stage, std::max<std::int64_t>(1, queries.rows)) {
    there_ = on_device(tree_, device_);
    workspace_.emplace(workspaces(), device_);
    w_ = &**workspace_;
    stream_ = w_->stream;
    cuda::wait_for(execution_, stream_);
    limit_ = cuda::available_memory(execution_);
    statistics_.index = tree_.index;
    statistics_.filter = sizeof(T) == 4 ? "fp32" : "none";
    statistics_.instruction_set = "cuda";
    statistics_.nan_rows = tree_.nan_rows;
  }

  // counts[i] for all queries.
  void count(std::int64_t* counts) {
    const auto row = static_cast<std::uint64_t>(tree_.dim) * size_of(tree_.dtype);
    const std::uint64_t each = row + 8 + 4 * sizeof(std::uint32_t) + 8 + scratch_share();
    const std::int64_t batch = fitting(queries_.rows, each);
    for (std::int64_t first = 0; first < queries_.rows; first += batch) {
      const std::int64_t count = std::min(batch, queries_.rows - first);
      found_.reserve(count, stream_);
      cuda::WarpSearch<T> search = place(first, count);
      search.found = found_.data();
      run(search);
      KITH_CUDA(cudaMemcpyAsync(counts + first, found_.data(), static_cast<std::size_t>(count) * 8,
                                cudaMemcpyDeviceToHost, stream_));
      look();
      statistics_.nan_queries += static_cast<std::int64_t>(w_->report.data()[seen_of(nan_query)]);
      progress_.advance(count / 2);
    }
  }

  void collect(bool sorted, const std::vector<std::int64_t>& offsets, std::int64_t* rows, T* distances) {
    const auto row = static_cast<std::uint64_t>(tree_.dim) * size_of(tree_.dtype);
    const std::uint64_t each = row + 8 + 4 * sizeof(std::uint32_t) + 8 + scratch_share();
    for (std::int64_t first = 0; first < queries_.rows;) {
      // As many queries as the memory holds with what they have found.
      std::int64_t last = first;
      const auto bytes = [&](std::int64_t end) {
        return static_cast<std::uint64_t>(end - first) * each +
               static_cast<std::uint64_t>(offsets[static_cast<std::size_t>(end)] -
                                          offsets[static_cast<std::size_t>(first)]) *
                   (8 + sizeof(T));
      };
      while (last < queries_.rows && last - first < cuda::constants.most_at_once &&
             bytes(last + 1) + fixed < limit_)
        ++last;
      if (last == first) {
        throw OutOfMemory(fmt::format(
            "the {} rows within the radius of one query need {} bytes of GPU memory, the limit is {}; raise "
            "the "
            "limit or search a smaller radius",
            offsets[static_cast<std::size_t>(first) + 1] - offsets[static_cast<std::size_t>(first)],
            bytes(first + 1) + fixed, limit_));
      }
      const std::int64_t count = last - first;
      const std::int64_t base = offsets[static_cast<std::size_t>(first)];
      const std::int64_t total = offsets[static_cast<std::size_t>(last)] - base;
      std::vector<std::int64_t> from(static_cast<std::size_t>(count) + 1);
      for (std::size_t i = 0; i < from.size(); ++i)
        from[i] = offsets[static_cast<std::size_t>(first) + i] - base;
      offsets_.reserve(count + 1, stream_);
      KITH_CUDA(
          cudaMemcpyAsync(offsets_.data(), from.data(), from.size() * 8, cudaMemcpyHostToDevice, stream_));
      rows_.reserve(std::max<std::int64_t>(1, total), stream_);
      distances_.reserve(std::max<std::int64_t>(1, total), stream_);
      cuda::WarpSearch<T> search = place(first, count);
      search.offsets = offsets_.data();
      search.rows = rows_.data();
      search.distances = distances_.data();
      run(search);
      if (sorted) cuda::sort_segments(offsets_.data(), count, rows_.data(), distances_.data(), stream_);
      KITH_CUDA(cudaMemcpyAsync(rows + base, rows_.data(), static_cast<std::size_t>(total) * 8,
                                cudaMemcpyDeviceToHost, stream_));
      KITH_CUDA(cudaMemcpyAsync(distances + base, distances_.data(),
                                static_cast<std::size_t>(total) * sizeof(T), cudaMemcpyDeviceToHost,
                                stream_));
      look();
      progress_.advance(count - count / 2);
      first = last;
    }
  }

  SearchStatistics finish() {
    progress_.finish();
    workspace_->done();  // NOLINT(bugprone-unchecked-optional-access): the constructor has emplaced it
    return statistics_;
  }

 private:
  static constexpr std::uint64_t fixed = 1U << 20U;

  // The share of a query in what the warps take together.
  std::uint64_t scratch_share() {
    cuda::WarpSearch<T> probe{};
    probe.tree = any_tree<T>(tree_, *there_);
    probe.count = std::max<std::int64_t>(1, queries_.rows);
    const auto memory = cuda::warp_memory(probe, tree_.levels, device_);
    return static_cast<std::uint64_t>(memory.scratch);
  }
  std::int64_t fitting(std::int64_t count, std::uint64_t each) const {
    if (fixed + each > limit_) {
      throw OutOfMemory(
          fmt::format("a radius search needs at least {} bytes of GPU memory, the limit is {}; raise it",
                      fixed + each, limit_));
    }
    const auto fit = (limit_ - fixed) / each;
    return static_cast<std::int64_t>(
        std::clamp<std::uint64_t>(fit, 1,
                                  static_cast<std::uint64_t>(std::min(cuda::constants.most_at_once,
                                                                      std::max<std::int64_t>(1, count)))));
  }

  cuda::WarpSearch<T> place(std::int64_t first, std::int64_t count) {
    cuda::WarpSearch<T> s{};
    s.tree = any_tree<T>(tree_, *there_);
    s.manhattan = tree_.metric == Metric::manhattan;
    s.rooted = tree_.metric == Metric::euclidean;
    s.radius = radius_;
    s.count = count;
    const DatasetView rows = queries_.slice(first, count);
    const auto placed = cuda::place(rows, device_, uploaded_, w_->uploader, stream_, execution_);
    s.queries = {placed.data, rows.dtype, placed.stride};
    s.counts = w_->counts.data();
    s.report = w_->report.data();
    s.others = more_counters;
    s.arrived = w_->arrived.data();
    s.nan_queries = w_->counts.data() + nan_query;
    if (count >= cuda::policy_of(device_).least_sorted) {
      const std::size_t bytes = cuda::sort_bytes(count);
      keys_.reserve(2 * count, stream_);
      order_.reserve(2 * count, stream_);
      sorting_.reserve(static_cast<std::int64_t>(bytes), stream_);
      const int half = cuda::order_queries(s.queries, tree_.dim, count, curve_of(tree_),
                                           std::numeric_limits<double>::max(), keys_.data(), order_.data(),
                                           sorting_.data(), bytes, nullptr, {}, stream_);
      s.short_order = order_.data() + half * count;
    }
    return s;
  }

  void run(const cuda::WarpSearch<T>& search) {
    const auto memory = cuda::warp_memory(search, tree_.levels, device_);
    if (memory.scratch > 0) scratch_.reserve(memory.warps * memory.scratch, stream_);
    cuda::search_radius(search, tree_.levels, memory, scratch_.data(), device_, stream_);
  }

  void look() {
    KITH_CUDA(cudaStreamSynchronize(stream_));
    statistics_.pairs += static_cast<std::int64_t>(w_->report.data()[seen_pairs]);
    statistics_.candidates += static_cast<std::int64_t>(w_->report.data()[seen_candidates]);
  }

  const Tree& tree_;
  const DatasetView& queries_;
  const T radius_;
  const Execution& execution_;
  const int device_;
  const cuda::DeviceGuard guard_;
  ProgressCounter progress_;
  SearchStatistics statistics_;
  std::shared_ptr<const DeviceTree> there_;
  std::optional<cuda::Borrowed<Workspace>> workspace_;
  Workspace* w_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::uint64_t limit_ = 0;
  cuda::Buffer<unsigned char> uploaded_, sorting_, scratch_;
  cuda::Buffer<std::uint32_t> keys_, order_;
  cuda::Buffer<std::int64_t> found_, offsets_, rows_;
  cuda::Buffer<T> distances_;
};

}  // namespace

void count_on_device(const Tree& tree, const DatasetView& queries, double radius, std::int64_t* counts,
                     const Execution& execution) {
  visit_distances(tree, [&]<class T>() {
    RadiusSearch<T> search(tree, queries, radius, execution, "count");
    search.count(counts);
    search.finish();
  });
}

RadiusNeighbors within_on_device(const Tree& tree, const DatasetView& queries, double radius, bool sorted,
                                 const Execution& execution) {
  const auto started = std::chrono::steady_clock::now();
  RadiusNeighbors out;
  out.queries = queries.rows;
  visit_distances(tree, [&]<class T>() {
    RadiusSearch<T> search(tree, queries, radius, execution, "radius search");
    out.offsets.assign(static_cast<std::size_t>(queries.rows) + 1, 0);
    search.count(out.offsets.data() + 1);
    std::partial_sum(out.offsets.begin(), out.offsets.end(), out.offsets.begin());
    check_memory(out.offsets.back(), cell_bytes(tree), "the answer", queries.rows, execution);
    const auto total = static_cast<std::size_t>(out.offsets.back());
    out.indices.resize(total);
    std::vector<T> distances(total);
    search.collect(sorted, out.offsets, out.indices.data(), distances.data());
    out.distances = std::move(distances);
    out.statistics = search.finish();
  });
  out.statistics.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return out;
}

}  // namespace kith::point_tree
