// The lists of all points of a tree as columns, where groups of queries search: 4 bytes an entry.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/parallel.hpp"
#include "core/rounding.hpp"
#include "cuda/pool.hpp"
#include "cuda/runtime.hpp"
#include "cuda/upload.hpp"
#include "point_tree/cuda/device_tree.hpp"
#include "point_tree/cuda/neighborhood_lists.hpp"
#include "point_tree/cuda/neighborhoods.hpp"
#include "point_tree/cuda/search.hpp"
#include "point_tree/cuda/tuning.hpp"

namespace kith::point_tree {

// The lists of all points of a tree as columns, batch by batch, where groups of queries can do it.
class GroupNeighborhoods {
 public:
  /// `places`: the columns hold places, else distances. `kept_bytes` as above.
  GroupNeighborhoods(const Tree& tree, const Neighborhood& how, bool include_self, bool places,
                     std::uint64_t kept_bytes, const char* stage, const Execution& execution)
      : tree_(tree),
        execution_(execution),
        device_(execution.devices.front().ordinal),
        guard_(device_),
        k_(std::min(how.k, std::max<std::int64_t>(1, tree.rows))),
        progress_(execution, stage, tree.points) {
    if (!tree.infinite.empty()) return;
    if (choose_regime(tree, tree.points, k_, true, cuda::policy_of(device_)) != Regime::groups) return;
    plan(kept_bytes);
    if (batch_ == 0) return;
    cuda::wait_for(execution, stream_);
    there_ = on_device(tree, device_);
    packed_ = PackedArrays(tree, *there_, stream_);
    cells_ = cuda::Buffer<std::uint32_t>(whole_warps(batch_) * k_, stream_);
    unanswered_ = cuda::Buffer<std::int64_t>(tree.points, stream_);
    unanswered_count_ = cuda::Buffer<unsigned long long>(1, stream_);
    search_ = group_search(tree, packed_, round_down<float>(how.radius));
    search_.include_self = include_self;
    search_.answer.k = k_;
    search_.cells = cells_.data();
    search_.places = places;
    search_.unanswered = {unanswered_.data(), unanswered_count_.data()};
  }

  /// Whether there is anything here to use.
  bool fits() const { return batch_ > 0; }
  const cuda::Stream& stream() const { return stream_; }

  /// Calls use(columns) for all points.
  template <class Use>
  void for_each(const Use& use) {
    KITH_CUDA(cudaMemsetAsync(unanswered_count_.data(), 0, sizeof(unsigned long long), stream_));
    for (std::int64_t first = 0; first < tree_.points; first += batch_) {
      const std::int64_t count = std::min(batch_, tree_.points - first);
      search_.first = search_.answer.first = first;
      search_.count = count;
      search_.column = whole_warps(count);
      cuda::search_groups(search_, device_, stream_);
      use(Columns{packed_.points.data(), cells_.data(), first, count, search_.column, k_});
      stream_.synchronize();
      progress_.advance(count);
    }
  }
  /// The last report: what was left is done, too.
  void finish() { progress_.finish(); }

  /// Rows whose walk was too long for a group, after for_each().
  SomeRows left() {
    unsigned long long count = 0;
    KITH_CUDA(
        cudaMemcpyAsync(&count, unanswered_count_.data(), sizeof count, cudaMemcpyDeviceToHost, stream_));
    stream_.synchronize();
    SomeRows rows;
    rows.count = static_cast<std::int64_t>(count);
    if (count > 0) {
      rows_of_places(packed_.points.data(), unanswered_.data(), rows.count, stream_);
      rows.numbers = std::move(unanswered_);
      stream_.synchronize();
    }
    packed_ = {};
    cells_ = {};
    return rows;
  }

 private:
  void plan(std::uint64_t kept_bytes) {
    const std::uint64_t fixed =
        kept_bytes + PackedArrays::bytes(tree_) + bytes_of<std::int64_t>(tree_.points);
    const std::uint64_t room = cuda::available_memory(execution_);
    const std::uint64_t each = static_cast<std::uint64_t>(k_) * sizeof(std::uint32_t);
    if (fixed >= room) return;
    const auto fit = static_cast<std::int64_t>(std::min<std::uint64_t>(
                         (room - fixed) / each, static_cast<std::uint64_t>(cuda::constants.most_at_once))) /
                     32 * 32;
    if (fit < std::min(cuda::constants.least_at_once, whole_warps(tree_.points))) return;
    const std::int64_t rounds = (tree_.points + fit - 1) / fit;
    batch_ = std::min(fit, whole_warps((tree_.points + rounds - 1) / rounds));
  }

  // Columns begin where a warp's 32 do.
  static std::int64_t whole_warps(std::int64_t count) { return (count + 31) / 32 * 32; }

  const Tree& tree_;
  const Execution& execution_;
  int device_;
  cuda::DeviceGuard guard_;
  cuda::Stream stream_;
  std::int64_t k_;
  std::int64_t batch_ = 0;
  ProgressCounter progress_;
  std::shared_ptr<const DeviceTree> there_;
  PackedArrays packed_;
  cuda::Buffer<std::uint32_t> cells_;
  cuda::Buffer<std::int64_t> unanswered_;
  cuda::Buffer<unsigned long long> unanswered_count_;
  cuda::GroupSearch search_{};
};

}  // namespace kith::point_tree
