// A tree built on a device, from rows to leaves.
//
// Rows become (code, row) pairs, a radix sort brings them in order, and nodes are cut out of the sorted codes
// level by level. Where many points share a whole code, their range gets codes of its own in a round of its
// own, until none is left: usually there is no such round. The host waits once a round, to learn how many
// nodes and points there are, and once at the end.
//
// Memory traffic a point of 3 floats with 40-bit codes: box 12 bytes, codes 12 read and 12 written, the sort
// 24 a pass in five passes and 8 for its histogram, leaves 4 and 64 read (points in no order, a memory access
// each) and 12 written. About 245 bytes: 0.6 ms for 10 million points at the 4.3 TB/s of an H200. What it
// takes, and where, is in docs/gpu.md.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "cuda/pool.hpp"
#include "cuda/upload.hpp"
#include "point_tree/cuda/build_kernels.hpp"
#include "point_tree/cuda/build_memory.hpp"
#include "point_tree/cuda/device_tree.hpp"
#include "point_tree/cuda/functions.hpp"
#include "point_tree/tuning.hpp"

namespace kith::point_tree {
namespace {

using build_steps::Axis;
using build_steps::Bounds;
using build_steps::Counts;
using build_steps::Ledger;
using build_steps::Range;
using build_steps::Scratch;
using build_steps::Sketch;
using build_steps::Source;

double from_ordered(unsigned long long bits) {
  return std::bit_cast<double>((bits >> 63U) != 0 ? bits & ~(1ULL << 63U) : ~bits);
}

template <class T, class Id>
class Builder {
 public:
  Builder(const DatasetView& rows, std::int64_t leaf_size, bool cubes, const Execution& execution, int device)
      : view_(rows),
        leaf_(leaf_size),
        cubes_(cubes),
        execution_(execution),
        tree_(std::make_shared<DeviceTree>(device)),
        stream_(tree_->stream),
        ledger_(execution.device_memory_limit) {}
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;
  /// Whoever stops half-way has not stopped the device from reading the caller's rows.
  ~Builder() { (void)cudaStreamSynchronize(stream_); }

  Tree run() {
    ProgressCounter progress(execution_, "build", std::max<std::int64_t>(1, view_.rows));
    cuda::wait_for(execution_, stream_);
    counts_ = take<Counts>(1);
    KITH_CUDA(cudaMemsetAsync(counts_.data(), 0, sizeof(Counts), stream_));
    if (view_.rows > 0) {
      load();
      progress.advance(view_.rows / 4);
      sort_all();
      progress.advance(view_.rows / 4);
    }
    if (points_ > 0) {
      coordinates_ = take<unsigned char>(points_ * view_.dim * static_cast<std::int64_t>(sizeof(T)) +
                                         static_cast<std::int64_t>(read_past));
      while (ranges_of(seen_.stuck) > 0) {
        refine();
        progress.advance(0);
      }
      write();
    }
    Tree tree = finish();
    progress.finish();
    return tree;
  }

 private:
  template <class V>
  Scratch<V> take(std::int64_t count) {
    return Scratch<V>(count, ledger_, view_.rows, stream_);
  }

  static std::int64_t ranges_of(unsigned long long packed) {
    return static_cast<std::int64_t>(packed >> build_steps::range_shift);
  }
  static std::int64_t points_of(unsigned long long packed) {
    return static_cast<std::int64_t>(packed & ((1ULL << build_steps::range_shift) - 1));
  }

  // Nodes that dividing so many points can make: those with 16 children have at least 15 leaves or ranges
  // less below them than there are, the others more points than a leaf, no two the same.
  std::int64_t most_nodes(std::int64_t points) const { return points / 15 + points / (leaf_ + 1) + 2; }
  std::int64_t most_ranges(std::int64_t points) const { return points / (leaf_ + 1) + 1; }

  // The rows on this device, as T.
  void load() {
    const std::int64_t values = view_.rows * view_.dim;
    const auto element = static_cast<std::int64_t>(size_of(view_.dtype));
    DatasetView rows = view_;
    Scratch<unsigned char> raw;
    if (view_.space == MemorySpace::host) {
      raw = take<unsigned char>(values * element);
      if (!cuda::copy_page_locked(view_, raw.data(), stream_)) {
        cuda::Uploader uploader;
        uploader.copy(view_, raw.data(), stream_, execution_);
      }
      rows = DatasetView(raw.data(), view_.dtype, view_.rows, view_.dim, view_.dim);
    }
    if (view_.dtype != dtype_of<T>) {
      own_rows_ = take<unsigned char>(values * static_cast<std::int64_t>(sizeof(T)));
      build_steps::convert(rows, own_rows_.data(), stream_);
      source_ = {reinterpret_cast<const T*>(own_rows_.data()), view_.dim, view_.rows, view_.dim};
      return;
    }
    own_rows_ = std::move(raw);
    source_ = {static_cast<const T*>(rows.data), rows.row_stride, rows.rows, rows.dim};
  }

  int sort(Scratch<std::uint64_t> (&keys)[2], Scratch<unsigned char> (&values)[2], std::int64_t count,
           int bits) {
    const auto bytes = build_steps::sort_bytes<Id>(count, bits);
    const auto temporary = take<unsigned char>(static_cast<std::int64_t>(bytes));
    std::uint64_t* const key_arrays[2] = {keys[0].data(), keys[1].data()};
    Id* const value_arrays[2] = {ids(values[0]), ids(values[1])};
    return build_steps::sort<Id>(key_arrays, value_arrays, count, bits, temporary.data(), bytes, stream_);
  }

  static Id* ids(const Scratch<unsigned char>& buffer) { return reinterpret_cast<Id*>(buffer.data()); }

  Scratch<unsigned char> take_ids(std::int64_t count) {
    return take<unsigned char>(count * static_cast<std::int64_t>(sizeof(Id)) +
                               static_cast<std::int64_t>(read_past));
  }

  // Round 0: all points.
  void sort_all() {
    const std::int64_t n = view_.rows;
    // Whole passes of 8 bits; one bit is for rows that are no points. Enough that uniform points rarely share
    // a code; what does has a round of its own.
    const int wanted =
        static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n))) + tuning::spare_code_bits;
    const int bits = std::min(64, (wanted + 7) / 8 * 8) - 1;
    bounds_ = take<Bounds>(view_.dim);
    {
      const auto axes = take<Axis>(view_.dim);
      Scratch<std::uint64_t> keys[2] = {take<std::uint64_t>(n), take<std::uint64_t>(n)};
      Scratch<unsigned char> values[2] = {take_ids(n), take_ids(n)};
      build_steps::find_box(source_, bounds_.data(), tree_->device, stream_);
      build_steps::plan_axes(bounds_.data(), 1, view_.dim, bits, cubes_, axes.data(), stream_);
      build_steps::encode(source_, axes.data(), bits, keys[0].data(), ids(values[0]), counts_.data(),
                          tree_->device, stream_);
      const int sorted = sort(keys, values, n, bits + 1);
      sketches_ = take<Sketch<Id>>(most_nodes(n));
      stuck_ = take<Range<Id>>(most_ranges(n));
      build_steps::start(n, sketches_.data(), counts_.data(), stream_);
      numbers_ = std::move(values[sorted]);
      divide(keys[sorted].data(), n);
    }
    points_ = n - static_cast<std::int64_t>(seen_.nan_rows + seen_.infinite_rows);
  }

  // Divides the nodes that the device knows of, and what comes of them.
  void divide(const std::uint64_t* keys, std::int64_t points) {
    int step = 0;
    // Levels of full nodes over full leaves, and two more; then a few at a time.
    int until = 3;
    for (std::int64_t left = points / leaf_; left > 0; left /= node_width) ++until;
    do {
      until = std::min(until, build_steps::most_steps);
      for (; step < until; ++step) {
        build_steps::divide(keys, sketches_.data(), stuck_.data(), counts_.data(), step, leaf_, tree_->device,
                            stream_);
      }
      KITH_CUDA(cudaMemcpyAsync(&seen_, counts_.data(), sizeof seen_, cudaMemcpyDeviceToHost, stream_));
      tree_->stream.synchronize();
      until += 4;
    } while (step < build_steps::most_steps && seen_.steps[step] > 0);
    for (int s = 0; s < step && seen_.steps[s] > 0; ++s) {
      steps_.emplace_back(nodes_, seen_.steps[s]);
      nodes_ += seen_.steps[s];
    }
  }

  // What shares a code: leaves of equal points, and ranges with codes of their own.
  void refine() {
    const std::int64_t stuck_ranges = ranges_of(seen_.stuck);
    const std::int64_t stuck_points = points_of(seen_.stuck);
    const Scratch<Range<Id>> stuck = std::move(stuck_);
    Scratch<Range<Id>> refined = take<Range<Id>>(stuck_ranges);
    {
      const auto different = take<unsigned char>(stuck_ranges);
      KITH_CUDA(cudaMemsetAsync(different.data(), 0, different.bytes(), stream_));
      // A node for each range, in the worst case, and what comes of dividing them all.
      grow_sketches(nodes_ + most_nodes(stuck_points) + stuck_ranges);
      build_steps::compare(source_, ids(numbers_), stuck.data(), stuck_ranges, stuck_points, different.data(),
                           stream_);
      build_steps::settle(stuck.data(), stuck_ranges, different.data(), sketches_.data(), nodes_,
                          refined.data(), counts_.data(), stream_);
      build_steps::write_equal(source_, ids(numbers_), stuck.data(), stuck_ranges, stuck_points,
                               different.data(), coordinates(), stream_);
    }
    KITH_CUDA(cudaMemcpyAsync(&seen_, counts_.data(), sizeof seen_, cudaMemcpyDeviceToHost, stream_));
    tree_->stream.synchronize();
    const std::int64_t ranges = ranges_of(seen_.refined);
    const std::int64_t points = points_of(seen_.refined);
    seen_.stuck = seen_.refined = 0;
    if (ranges == 0) return;

    seen_.first = static_cast<unsigned long long>(nodes_);
    std::fill(std::begin(seen_.steps), std::end(seen_.steps), 0U);
    seen_.steps[0] = static_cast<unsigned>(ranges);
    KITH_CUDA(cudaMemcpyAsync(counts_.data(), &seen_, sizeof seen_, cudaMemcpyHostToDevice, stream_));

    const auto range_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(ranges - 1)));
    const int bits = std::min(tuning::refining_code_bits, 63 - range_bits);
    Scratch<std::uint64_t> keys[2] = {take<std::uint64_t>(points), take<std::uint64_t>(points)};
    Scratch<unsigned char> values[2] = {take_ids(points), take_ids(points)};
    {
      const auto bounds = take<Bounds>(ranges * view_.dim);
      const auto axes = take<Axis>(ranges * view_.dim);
      build_steps::find_boxes(source_, ids(numbers_), refined.data(), ranges, points, bounds.data(), stream_);
      build_steps::plan_axes(bounds.data(), ranges, view_.dim, bits, cubes_, axes.data(), stream_);
      build_steps::encode_ranges(source_, ids(numbers_), refined.data(), ranges, points, axes.data(), bits,
                                 keys[0].data(), ids(values[0]), stream_);
    }
    const int sorted = sort(keys, values, points, range_bits + bits);
    build_steps::scatter(ids(values[sorted]), refined.data(), ranges, points, ids(numbers_), stream_);
    stuck_ = take<Range<Id>>(most_ranges(points));
    divide(keys[sorted].data(), points);
  }

  void grow_sketches(std::int64_t count) {
    if (count <= sketches_.size()) return;
    auto grown = take<Sketch<Id>>(count);
    KITH_CUDA(cudaMemcpyAsync(grown.data(), sketches_.data(),
                              static_cast<std::size_t>(nodes_) * sizeof(Sketch<Id>), cudaMemcpyDeviceToDevice,
                              stream_));
    sketches_ = std::move(grown);
  }

  T* coordinates() const { return reinterpret_cast<T*>(coordinates_.data()); }

  void write() {
    const std::int64_t stride = node_bytes<T>(view_.dim);
    nodes_data_ = take<unsigned char>(nodes_ * stride);
    KITH_CUDA(cudaMemsetAsync(nodes_data_.data(), 0, nodes_data_.bytes(), stream_));
    build_steps::write_nodes(source_, ids(numbers_), sketches_.data(), nodes_, nodes_data_.data(),
                             coordinates(), stream_);
    for (auto at = steps_.rbegin(); at != steps_.rend(); ++at) {
      if (at->first == 0) continue;  // the root has no parent
      build_steps::lift<T>(sketches_.data(), at->first, at->second, view_.dim, nodes_data_.data(), stream_);
    }
  }

  // Rows with an infinity and no NaN: behind the points in the order of the codes.
  void find_infinite(std::vector<std::int64_t>& rows, std::vector<double>& values) {
    const auto count = static_cast<std::int64_t>(seen_.infinite_rows);
    if (count == 0) return;
    const auto row_buffer = take<std::int64_t>(count);
    const auto value_buffer = take<double>(count * view_.dim);
    build_steps::gather(source_, ids(numbers_) + points_, count, value_buffer.data(), row_buffer.data(),
                        stream_);
    rows.resize(static_cast<std::size_t>(count));
    values.resize(static_cast<std::size_t>(count * view_.dim));
    KITH_CUDA(
        cudaMemcpyAsync(rows.data(), row_buffer.data(), row_buffer.bytes(), cudaMemcpyDeviceToHost, stream_));
    KITH_CUDA(cudaMemcpyAsync(values.data(), value_buffer.data(), value_buffer.bytes(),
                              cudaMemcpyDeviceToHost, stream_));
  }

  Tree finish() {
    struct Held {
      std::vector<std::int64_t> infinite;
      std::vector<double> infinite_values;
      std::vector<std::byte> past;
    };
    const auto held = std::make_shared<Held>();
    Tree tree;
    tree.dtype = view_.dtype;
    tree.rows = view_.rows;
    tree.dim = view_.dim;
    tree.points = points_;
    tree.nan_rows = static_cast<std::int64_t>(seen_.nan_rows);
    tree.levels = points_ > 0 ? static_cast<std::int64_t>(seen_.levels) : 0;
    tree.nodes = nodes_;
    tree.wide_rows = sizeof(Id) == 8;
    find_infinite(held->infinite, held->infinite_values);
    std::vector<Bounds> box(static_cast<std::size_t>(points_ > 0 ? view_.dim : 0));
    if (points_ > 0) {
      KITH_CUDA(
          cudaMemcpyAsync(box.data(), bounds_.data(), bounds_.bytes(), cudaMemcpyDeviceToHost, stream_));
      const auto clear_past = [&](const Scratch<unsigned char>& array, std::int64_t bytes) {
        KITH_CUDA(cudaMemsetAsync(array.data() + bytes, 0, read_past, stream_));
      };
      clear_past(coordinates_, points_ * view_.dim * static_cast<std::int64_t>(sizeof(T)));
      clear_past(numbers_, points_ * static_cast<std::int64_t>(sizeof(Id)));
      tree_->nodes = nodes_data_.keep();
      tree_->coordinates = coordinates_.keep();
      tree_->rows = numbers_.keep();
    } else {
      held->past.resize(read_past);
      tree.coordinates = held->past;
      tree.row_numbers = held->past;
    }
    tree_->stream.synchronize();
    for (const Bounds& bounds : box) {
      tree.lower.push_back(from_ordered(bounds.lower));
      tree.upper.push_back(from_ordered(bounds.upper));
    }
    tree.infinite = held->infinite;
    tree.infinite_values = held->infinite_values;
    tree.keep_alive = held;
    if (points_ > 0) {
      tree.copies->devices.emplace(tree_->device, tree_);
      tree.copies->download = download;
    }
    return tree;
  }

  const DatasetView& view_;
  std::int64_t leaf_;
  bool cubes_;
  const Execution& execution_;
  std::shared_ptr<DeviceTree> tree_;  // before what is freed on its stream
  cudaStream_t stream_;
  Ledger ledger_;
  Source<T> source_{};
  Scratch<Counts> counts_;
  Scratch<Bounds> bounds_;
  Scratch<unsigned char> own_rows_, numbers_, coordinates_, nodes_data_;
  Scratch<Sketch<Id>> sketches_;
  Scratch<Range<Id>> stuck_;
  Counts seen_{};
  std::int64_t points_ = 0;
  std::int64_t nodes_ = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> steps_;  // first node, nodes
};

}  // namespace

Tree build_on_device(const DatasetView& rows, std::int64_t leaf_size, bool cubes,
                     const Execution& execution) {
  if (rows.rows >= build_steps::most_points) {
    throw OutOfMemory(fmt::format("a tree of {} rows; a GPU builds one of fewer than {}; build it on the CPU",
                                  rows.rows, build_steps::most_points));
  }
  const int device = execution.devices.front().ordinal;
  const cuda::DeviceGuard guard(device);
  cuda::keep_some_memory(device);
  const auto build = [&]<class T, class Id>() {
    return Builder<T, Id>(rows, leaf_size, cubes, execution, device).run();
  };
  const bool wide = rows.rows > largest_narrow_tree();
  if (rows.dtype == Dtype::f64) {
    return wide ? build.template operator()<double, std::int64_t>()
                : build.template operator()<double, std::uint32_t>();
  }
  return wide ? build.template operator()<float, std::int64_t>()
              : build.template operator()<float, std::uint32_t>();
}

}  // namespace kith::point_tree
