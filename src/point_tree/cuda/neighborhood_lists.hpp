// Lists of neighbours of all rows of a tree, or of some, in a device's memory: all at once where there is
// room, else in batches of rows in the tree's order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cuda/pool.hpp"
#include "cuda/runtime.hpp"
#include "kith/execution.hpp"
#include "point_tree/backend.hpp"
#include "point_tree/cuda/device_tree.hpp"
#include "point_tree/cuda/neighborhoods.hpp"
#include "point_tree/cuda/tuning.hpp"
#include "point_tree/queries.hpp"

namespace kith::point_tree {

// Bytes that an array of `count` values takes on the device.
template <class T>
std::uint64_t bytes_of(std::int64_t count) {
  return static_cast<std::uint64_t>(count) * sizeof(T);
}

// Some rows of a tree: their numbers, on the device.
struct SomeRows {
  cuda::Buffer<std::int64_t> numbers;
  std::int64_t count = 0;
};

// The lists of every row of a tree that is no NaN, or of some, batch by batch, and the coordinates by row.
template <class T>
class Neighborhoods {
 public:
  // `kept_bytes`: what the caller keeps on the device meanwhile.
  Neighborhoods(const Tree& tree, const Neighborhood& how, bool include_self, bool with_table,
                std::uint64_t kept_bytes, const Execution& execution, SomeRows* some = nullptr)
      : tree_(tree),
        how_(how),
        include_self_(include_self),
        execution_(execution),
        device_(execution.devices.front().ordinal),
        guard_(device_),
        rows_(some != nullptr ? some->count : tree.points + static_cast<std::int64_t>(tree.infinite.size())),
        at_once_(some == nullptr),
        k_(std::min(how.k, std::max<std::int64_t>(1, tree.rows))) {
    if (some != nullptr) numbers_ = std::move(some->numbers);
    budget(with_table, kept_bytes);
    const auto there = on_device(tree, device_);
    if (some == nullptr) numbers_ = cuda::Buffer<std::int64_t>(rows_, stream_);
    if (with_table || !at_once_) {
      table_values_ = cuda::Buffer<T>(tree.rows * stride(), stream_);
      table_ = {table_values_.data(), stride()};
    }
    visit_tree(tree, [&]<class Held, class Id>() {
      if constexpr (std::is_same_v<Held, T>) {
        scatter_points(there->view<T, Id>(tree), table_, some != nullptr ? nullptr : numbers_.data(),
                       stream_);
      }
    });
    place_infinite(some == nullptr);
    stream_.synchronize();  // searches have streams of their own
  }

  // Calls use(lists): all of them are in memory meanwhile.
  template <class Use>
  void for_each(const char* stage, const Use& use) {
    if (at_once_) {
      const cuda::Buffer<std::int64_t> indices(tree_.rows * k_, stream_);
      const cuda::Buffer<T> distances(tree_.rows * k_, stream_);
      stream_.synchronize();
      nearest_into(tree_, {nullptr, include_self_}, how_.radius,
                   {indices.data(), distances.data(), tree_.rows, k_, MemorySpace::cuda, device_}, rest(),
                   stage);
      use(Lists<T>{numbers_.data(), rows_, indices.data(), distances.data(), k_, true, false});
      stream_.synchronize();
      return;
    }
    // As a query a row finds itself, too.
    const std::int64_t k = k_ + (include_self_ ? 0 : 1);
    const cuda::Buffer<T> values(batch_ * tree_.dim, stream_);
    const cuda::Buffer<std::int64_t> indices(batch_ * k, stream_);
    const cuda::Buffer<T> distances(batch_ * k, stream_);
    for (std::int64_t first = 0; first < rows_; first += batch_) {
      const std::int64_t count = std::min(batch_, rows_ - first);
      gather_queries(table_, numbers_.data() + first, count, tree_.dim, values.data(), stream_);
      stream_.synchronize();
      DatasetView queries(values.data(), count, tree_.dim);
      queries.space = MemorySpace::cuda;
      queries.device = device_;
      nearest_into(tree_, {&queries}, how_.radius,
                   {indices.data(), distances.data(), count, k, MemorySpace::cuda, device_},
                   part_of(first, count), stage);
      use(Lists<T>{numbers_.data() + first, count, indices.data(), distances.data(), k, false,
                   !include_self_});
      stream_.synchronize();
    }
  }

  const RowTable<T>& table() const { return table_; }
  const cuda::Stream& stream() const { return stream_; }

 private:
  // Rows of three have four places: a point is one aligned load.
  std::int64_t stride() const { return tree_.dim == 3 ? 4 : tree_.dim; }

  void budget(bool with_table, std::uint64_t kept_bytes) {
    const std::uint64_t smallest_batch =
        static_cast<std::uint64_t>(std::min(cuda::constants.least_at_once, rows_));
    const std::uint64_t a_list = static_cast<std::uint64_t>(k_ + 1) * (sizeof(std::int64_t) + sizeof(T));
    const std::uint64_t a_query = a_list + bytes_of<T>(tree_.dim);
    const std::uint64_t table = bytes_of<T>(tree_.rows * stride());
    const std::uint64_t held =
        kept_bytes + (numbers_.empty() ? bytes_of<std::int64_t>(rows_) : numbers_.bytes());
    const std::uint64_t room = cuda::available_memory(execution_);
    const std::uint64_t all = static_cast<std::uint64_t>(tree_.rows) * a_list;
    // Half of what is left is for the search itself.
    at_once_ = at_once_ && held + (with_table ? table : 0) + 2 * all <= room;
    held_ = held + (with_table || !at_once_ ? table : 0);
    if (at_once_) {
      held_ += all;
      return;
    }
    const std::uint64_t least = held_ + 2 * smallest_batch * a_query;
    if (least > room) {
      throw OutOfMemory(
          fmt::format("the neighbourhoods of {} rows with k = {} take at least {} bytes of the GPU's memory, "
                      "the limit is {}; raise the limit, ask for fewer neighbours, or use fewer rows",
                      tree_.rows, how_.k, least, room));
    }
    batch_ = static_cast<std::int64_t>(std::min<std::uint64_t>(
        (room - held_) / (2 * a_query), static_cast<std::uint64_t>(cuda::constants.most_at_once)));
    batch_ = std::min(batch_, std::max<std::int64_t>(1, rows_));
    held_ += static_cast<std::uint64_t>(batch_) * a_query;
  }

  // What the search may take beside what is held.
  Execution rest() const {
    Execution execution = execution_;
    if (execution.device_memory_limit > 0) {
      execution.device_memory_limit =
          execution.device_memory_limit > held_ ? execution.device_memory_limit - held_ : 1;
    }
    return execution;
  }

  // The same for a batch, whose progress is a part of the whole.
  Execution part_of(std::int64_t first, std::int64_t count) const {
    Execution execution = rest();
    if (execution_.progress) {
      execution.progress = [this, first, count](const Progress& part) {
        const double share =
            static_cast<double>(part.done) / static_cast<double>(std::max<std::int64_t>(1, part.total));
        execution_.progress(
            {part.stage, first + static_cast<std::int64_t>(share * static_cast<double>(count)), rows_});
      };
    }
    return execution;
  }

  // Rows with an infinity are in no leaf: they come last.
  void place_infinite(bool numbered) {
    const auto count = static_cast<std::int64_t>(tree_.infinite.size());
    if (count == 0) return;
    if (numbered) {
      KITH_CUDA(cudaMemcpyAsync(numbers_.data() + tree_.points, tree_.infinite.data(),
                                bytes_of<std::int64_t>(count), cudaMemcpyHostToDevice, stream_));
    }
    std::vector<T> values(static_cast<std::size_t>(tree_.dim));
    for (std::int64_t i = 0; i < count && table_.values != nullptr; ++i) {
      const auto from = tree_.infinite_values.begin() + i * tree_.dim;
      std::transform(from, from + tree_.dim, values.begin(), [](double v) { return static_cast<T>(v); });
      KITH_CUDA(cudaMemcpyAsync(table_.values + tree_.infinite[static_cast<std::size_t>(i)] * table_.stride,
                                values.data(), bytes_of<T>(tree_.dim), cudaMemcpyHostToDevice, stream_));
      stream_.synchronize();
    }
  }

  const Tree& tree_;
  const Neighborhood& how_;
  bool include_self_;
  const Execution& execution_;
  int device_;
  cuda::DeviceGuard guard_;
  cuda::Stream stream_;
  std::int64_t rows_;
  bool at_once_;
  std::int64_t k_;
  std::int64_t batch_ = 0;
  std::uint64_t held_ = 0;
  cuda::Buffer<std::int64_t> numbers_;
  cuda::Buffer<T> table_values_;
  RowTable<T> table_{nullptr, 0};
};

}  // namespace kith::point_tree
