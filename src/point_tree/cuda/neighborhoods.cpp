// Normals and mean distances on a device: lists of neighbours in its memory, all at once where there is room,
// else in batches of rows in the tree's order, and kernels that reduce them. Where groups of queries do the
// search, lists are of places in the tree or of distances, in columns, 4 bytes an entry.
#include "point_tree/cuda/neighborhoods.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "core/rounding.hpp"
#include "cuda/runtime.hpp"
#include "cuda/upload.hpp"
#include "point_tree/backend.hpp"
#include "point_tree/cuda/device_tree.hpp"
#include "point_tree/cuda/functions.hpp"
#include "point_tree/cuda/search.hpp"
#include "point_tree/queries.hpp"

namespace kith::point_tree {
namespace {

// Bytes that an array of `count` values takes on the device.
template <class T>
std::uint64_t bytes_of(std::int64_t count) {
  return static_cast<std::uint64_t>(count) * sizeof(T);
}

// What may be taken on the current device beside what is there: the caller's limit, or what is free.
std::uint64_t memory_for(const Execution& execution) {
  if (execution.device_memory_limit > 0) return execution.device_memory_limit;
  std::size_t free = 0;
  std::size_t total = 0;
  KITH_CUDA(cudaMemGetInfo(&free, &total));
  return free / 16 * 15;  // batches are a little slower, and others may use the device
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
    const std::uint64_t smallest_batch = std::min<std::uint64_t>(4096, static_cast<std::uint64_t>(rows_));
    const std::uint64_t a_list = static_cast<std::uint64_t>(k_ + 1) * (sizeof(std::int64_t) + sizeof(T));
    const std::uint64_t a_query = a_list + bytes_of<T>(tree_.dim);
    const std::uint64_t table = bytes_of<T>(tree_.rows * stride());
    const std::uint64_t held =
        kept_bytes + (numbers_.empty() ? bytes_of<std::int64_t>(rows_) : numbers_.bytes());
    const std::uint64_t room = memory_for(execution_);
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
    batch_ = static_cast<std::int64_t>(std::min<std::uint64_t>((room - held_) / (2 * a_query), 1U << 24U));
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
    if (!tree.infinite.empty() || choose_regime(tree, tree.points, k_, true) != Regime::groups) return;
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
    constexpr std::int64_t least = std::int64_t{1} << 12;
    constexpr std::int64_t most = std::int64_t{1} << 24;  // between two polls
    const std::uint64_t fixed =
        kept_bytes + PackedArrays::bytes(tree_) + bytes_of<std::int64_t>(tree_.points);
    const std::uint64_t room = memory_for(execution_);
    const std::uint64_t each = static_cast<std::uint64_t>(k_) * sizeof(std::uint32_t);
    if (fixed >= room) return;
    const auto fit =
        static_cast<std::int64_t>(std::min<std::uint64_t>((room - fixed) / each, most)) / 32 * 32;
    if (fit < std::min(least, whole_warps(tree_.points))) return;
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

// What all rows' neighbourhoods are reduced by: of columns where groups search, of lists where they do not,
// and of lists for the few rows that groups hand on. `room` is called once, when it is known that there is
// memory for `kept` bytes of results beside the search.
template <class Room, class UseColumns, class UseLists>
void reduce(const Tree& tree, const Neighborhood& how, bool normals, std::uint64_t kept, const char* stage,
            const Execution& execution, const Room& room, const UseColumns& use_columns,
            const UseLists& use_lists) {
  GroupNeighborhoods groups(tree, how, normals, normals, kept, stage, execution);
  if (!groups.fits()) {
    visit_distances(tree, [&]<class T>() {
      Neighborhoods<T> lists(tree, how, normals, normals, kept, execution);
      room();
      lists.for_each(stage, [&](const Lists<T>& some) { use_lists(some, lists.table(), lists.stream()); });
    });
    return;
  }
  const std::uint64_t taken = room();
  groups.for_each([&](const Columns& columns) { use_columns(columns, groups.stream()); });
  SomeRows left = groups.left();
  if (left.count > 0) {
    Execution quiet = execution;
    quiet.progress = nullptr;
    // What is free has no room for the results any more.
    const std::uint64_t still = execution.device_memory_limit > 0 ? kept : kept - taken;
    visit_distances(tree, [&]<class T>() {
      Neighborhoods<T> lists(tree, how, normals, normals, still, quiet, &left);
      lists.for_each(stage, [&](const Lists<T>& some) { use_lists(some, lists.table(), lists.stream()); });
    });
  }
  groups.finish();
}

}  // namespace

void normals_on_device(const Tree& tree, const Neighborhood& neighborhood, const double* viewpoint,
                       const NormalsView& out, const Execution& execution) {
  const cuda::DeviceGuard guard(execution.devices.front().ordinal);
  const bool there = out.space == MemorySpace::cuda;
  const cuda::Stream stream;
  cuda::wait_for(execution, stream);
  cuda::Buffer<double> planes;
  const std::uint64_t planes_bytes = bytes_of<double>(tree.rows * plane_values);
  reduce(
      tree, neighborhood, true, planes_bytes + (there ? 0 : bytes_of<double>(tree.rows * (tree.dim + 1))),
      "normals", execution,
      [&] {
        planes = cuda::Buffer<double>(tree.rows * plane_values, stream);
        if (tree.points < tree.rows) fill_with_nan(planes.data(), planes.size(), stream);
        stream.synchronize();
        return planes_bytes;
      },
      [&](const Columns& columns, cudaStream_t on) {
        fit_planes(columns, tree.dim, viewpoint, planes.data(), on);
      },
      [&](const auto& lists, const auto& table, cudaStream_t on) {
        fit_planes(lists, table, tree.dim, viewpoint, planes.data(), on);
      });
  if (there) {
    split_planes(planes.data(), tree.rows, tree.dim, out.normals, out.curvature, stream);
    stream.synchronize();
    return;
  }
  const cuda::Buffer<double> normals(tree.rows * tree.dim, stream);
  const cuda::Buffer<double> curvature(out.curvature != nullptr ? tree.rows : 0, stream);
  split_planes(planes.data(), tree.rows, tree.dim, normals.data(), curvature.data(), stream);
  cuda::download(normals.data(), out.normals, normals.bytes(), stream, execution);
  if (!curvature.empty()) {
    cuda::download(curvature.data(), out.curvature, curvature.bytes(), stream, execution);
  }
}

void distances_on_device(const Tree& tree, const Neighborhood& neighborhood, const char* stage,
                         const NeighborDistances& out, const Execution& execution) {
  const cuda::DeviceGuard guard(execution.devices.front().ordinal);
  const cuda::Stream stream;
  // NaN, or -1, until a kernel writes them.
  cuda::Buffer<double> mean;
  cuda::Buffer<double> farthest;
  cuda::Buffer<std::int64_t> counts;
  const auto results = static_cast<std::int64_t>(out.mean != nullptr) + (out.farthest != nullptr ? 1 : 0) +
                       (out.counts != nullptr ? 1 : 0);
  const std::uint64_t kept = bytes_of<double>(results * tree.rows);
  reduce(
      tree, neighborhood, false, kept, stage, execution,
      [&] {
        if (out.mean != nullptr) mean = cuda::Buffer<double>(tree.rows, stream);
        if (out.farthest != nullptr) farthest = cuda::Buffer<double>(tree.rows, stream);
        if (out.counts != nullptr) counts = cuda::Buffer<std::int64_t>(tree.rows, stream);
        fill_with_nan(mean.data(), mean.size(), stream);
        fill_with_nan(farthest.data(), farthest.size(), stream);
        if (!counts.empty()) KITH_CUDA(cudaMemsetAsync(counts.data(), 0xff, counts.bytes(), stream));
        stream.synchronize();
        return kept;
      },
      [&](const Columns& columns, cudaStream_t on) {
        reduce_distances(columns, mean.data(), farthest.data(), counts.data(), on);
      },
      [&](const auto& lists, const auto& /*table*/, cudaStream_t on) {
        reduce_distances(lists, mean.data(), farthest.data(), counts.data(), on);
      });
  const auto down = [&](const auto& from, auto* to) {
    if (!from.empty()) cuda::download(from.data(), to, from.bytes(), stream, execution);
  };
  down(mean, out.mean);
  down(farthest, out.farthest);
  down(counts, out.counts);
}

}  // namespace kith::point_tree
