// Builds the graph on a device, the host's part: batches by the schedule of grow.hpp, each in parts that the
// device has memory for.
#include "vamana/cuda/backend.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "cuda/device_choice.hpp"
#include "cuda/pool.hpp"
#include "cuda/upload.hpp"
#include "kith/error.hpp"
#include "vamana/cuda/build_kernels.hpp"
#include "vamana/cuda/tuning.hpp"
#include "vamana/grow.hpp"

namespace kith::vamana {
namespace {

// Bytes of the device's memory.
struct BuildSizes {
  BuildSizes(std::int64_t nodes, std::uint64_t codes, const VamanaParameters& parameters) {
    const std::int64_t stride = build_stride(parameters.max_degree);
    const auto degree = static_cast<std::uint64_t>(parameters.max_degree);
    const auto batch = static_cast<std::uint64_t>(std::min(nodes, largest_batch(nodes)));
    // Codes and edges; the back edges of a batch, twice, where their groups begin, and room for all of them
    // at one target; and what a search in breadth takes when the rest is done.
    fixed = codes +
            static_cast<std::uint64_t>(nodes) * (static_cast<std::uint64_t>(stride) + degree + 4) * 4 +
            batch * degree * 40 + (std::uint64_t{16} << 20U);
    a_node = sizeof(Key) * (cuda::seen_room + static_cast<std::uint64_t>(parameters.build_list_size)) +
             sizeof(std::int32_t);
    a_target = sizeof(Key) * static_cast<std::uint64_t>(cuda::room_of(1, 0, stride));
  }
  // So many nodes walk at once, and so many are pruned.
  std::uint64_t with(std::int64_t walk, std::int64_t pruned) const {
    return fixed +
           std::max(a_node * static_cast<std::uint64_t>(walk), a_target * static_cast<std::uint64_t>(pruned));
  }

  std::uint64_t fixed, a_node, a_target;
};

class DeviceMachine : public BuildMachine {
 public:
  DeviceMachine(const Growth& growth, int device)
      : growth_(growth),
        device_(device),
        guard_(device),
        stride_(build_stride(growth.parameters.max_degree)),
        max_degree_(growth.parameters.max_degree),
        counts_(4, stream_) {
    cuda::keep_some_memory(device);
  }

  void begin(const Graph& old) override {
    const std::int64_t nodes = growth_.nodes.count;
    choose_parts();
    codes_ = cuda::Buffer<unsigned char>(growth_.nodes.codes.size(), stream_);
    upload(growth_.nodes.codes.data(), growth_.nodes.codes.size(), codes_.data());
    edges_ = cuda::Buffer<std::uint32_t>(nodes * stride_, stream_);
    if (nodes > 0) KITH_CUDA(cudaMemsetAsync(edges_.data(), 0xFF, edges_.bytes(), stream_));
    if (old.nodes > 0) {
      cuda::Buffer<std::uint32_t> flat(old.list_values(), stream_);
      upload(old.lists(), old.list_values(), flat.data());
      const auto row = static_cast<std::size_t>(old.max_degree) * sizeof(std::uint32_t);
      KITH_CUDA(cudaMemcpy2DAsync(edges_.data(), static_cast<std::size_t>(stride_) * sizeof(std::uint32_t),
                                  flat.data(), row, row, static_cast<std::size_t>(old.nodes),
                                  cudaMemcpyDeviceToDevice, stream_));
    }
    view_ = {.edges = edges_.data(),
             .stride = stride_,
             .codes = codes_.data(),
             .code_bytes = static_cast<int>(growth_.space.code_bytes()),
             .four_bits = growth_.space.bits == 4,
             .alpha = fixed_alpha(growth_.parameters.alpha),
             .max_degree = static_cast<int>(max_degree_)};
    stream_.synchronize();
  }

  std::size_t medoid(std::span<const std::uint32_t> order) override {
    const auto count = static_cast<std::int64_t>(order.size());
    const auto bytes = static_cast<std::size_t>(view_.code_bytes);
    const cuda::Buffer<std::uint32_t> nodes = uploaded(order);
    const cuda::Buffer<unsigned long long> sums(2 * view_.code_bytes, stream_);
    KITH_CUDA(cudaMemsetAsync(sums.data(), 0, sums.bytes(), stream_));
    cuda::sum_codes(codes_.data(), view_.code_bytes, view_.four_bits, nodes.data(), count, sums.data(),
                    stream_);
    std::vector<unsigned long long> held(2 * bytes);
    download(sums.data(), held.data(), 2 * view_.code_bytes);
    std::vector<unsigned char> mean(bytes);
    for (std::size_t j = 0; j < bytes; ++j) {
      const auto all = static_cast<unsigned long long>(count);
      const auto rounded = [&](unsigned long long sum) { return (sum + all / 2) / all; };
      mean[j] = static_cast<unsigned char>(rounded(held[j]) | rounded(held[bytes + j]) << 4U);
    }
    const cuda::Buffer<unsigned char> code(view_.code_bytes, stream_);
    upload(mean.data(), view_.code_bytes, code.data());
    KITH_CUDA(cudaMemsetAsync(sums.data(), 0xFF, sizeof(unsigned long long), stream_));
    cuda::find_nearest(codes_.data(), view_.code_bytes, view_.four_bits, code.data(), nodes.data(), count,
                       sums.data(), device_, stream_);
    unsigned long long least = 0;
    download(sums.data(), &least, 1);
    return static_cast<std::size_t>(std::lower_bound(order.begin(), order.end(), node_of(least)) -
                                    order.begin());
  }

  void insert(std::span<const std::uint32_t> nodes, std::span<const std::uint32_t> entries,
              std::int64_t list_size) override {
    const auto count = static_cast<std::int64_t>(nodes.size());
    const cuda::Buffer<std::uint32_t> added = uploaded(nodes);
    const cuda::Buffer<std::uint32_t> from = uploaded(entries);
    put_in_order(added.data(), count, from.data(), static_cast<std::int64_t>(entries.size()));
    cuda::InsertJob job{.graph = view_,
                        .entries = from.data(),
                        .entry_count = static_cast<int>(entries.size()),
                        .shape = {.list_size = static_cast<int>(list_size),
                                  .capacity = static_cast<int>(list_size),
                                  .beam_width = 1,
                                  .table = 0,
                                  .list_in_shared = true},
                        .nodes = nullptr,
                        .count = 0,
                        .seen = nullptr,
                        .seen_count = seen_count_.reserve(std::min(count, nodes_part_), stream_),
                        .lists = nullptr};
    cuda::choose_memory(job.shape, cuda::Walked::int8, view_.code_bytes, device_);
    const std::int64_t at_once = std::min(count, nodes_part_);
    const std::int64_t list = job.shape.list_in_shared ? 0 : job.shape.capacity;
    job.seen = keys_.reserve(at_once * (cuda::seen_room + list), stream_);
    if (list > 0) job.lists = job.seen + at_once * cuda::seen_room;
    for (std::int64_t first = 0; first < count; first += nodes_part_) {
      growth_.stop.check();
      job.nodes = added.data() + first;
      job.count = std::min(nodes_part_, count - first);
      cuda::insert(job, device_, stream_);
      stream_.synchronize();  // so that somebody who wants to stop does not wait for all of them
      growth_.progress.advance(job.count);
    }
    add_back_edges(added.data(), count);
  }

  void finish(Graph& graph) override {
    finished_.reserve(graph.list_values(), stream_);
    for (std::int64_t first = 0; first < graph.nodes; first += targets_part_) {
      const std::int64_t count = std::min(targets_part_, graph.nodes - first);
      Key* room = keys_.reserve(cuda::room_of(count, 0, stride_), stream_);
      cuda::finish_edges(view_, first, count, finished_.data() + first * max_degree_, room, device_, stream_);
    }
    download(finished_.data(), graph.edges.data(), graph.list_values());
    growth_.stop.check();
  }

  void mark_reached(const Graph& graph, std::vector<std::uint8_t>& reached) override {
    if (graph.nodes == 0) return;
    const std::int64_t words = (graph.nodes + 31) / 32;
    const cuda::Buffer<unsigned> flags(words, stream_);
    KITH_CUDA(cudaMemsetAsync(flags.data(), 0, flags.bytes(), stream_));
    cuda::Buffer<std::uint32_t> front(graph.nodes, stream_);
    cuda::Buffer<std::uint32_t> next(graph.nodes, stream_);
    std::vector<unsigned> held(static_cast<std::size_t>(words), 0);
    std::vector<std::uint32_t> entries;
    for (const std::uint32_t entry : graph.entries) {
      unsigned& word = held[entry / 32];
      if ((word >> (entry % 32) & 1U) == 0) entries.push_back(entry);
      word |= 1U << (entry % 32);
    }
    upload(held.data(), words, flags.data());
    upload(entries.data(), static_cast<std::int64_t>(entries.size()), front.data());
    auto* counter = reinterpret_cast<unsigned*>(counts_.data());
    for (auto count = static_cast<std::uint32_t>(entries.size()); count > 0;) {
      growth_.stop.check();
      KITH_CUDA(cudaMemsetAsync(counter, 0, sizeof(unsigned), stream_));
      cuda::spread(finished_.data(), max_degree_, front.data(), count, flags.data(), next.data(), counter,
                   stream_);
      download(counter, &count, 1);
      std::swap(front, next);
    }
    download(flags.data(), held.data(), words);
    for (std::int64_t i = 0; i < graph.nodes; ++i) {
      reached[static_cast<std::size_t>(i)] =
          static_cast<std::uint8_t>(held[static_cast<std::size_t>(i) / 32] >> (i % 32) & 1U);
    }
  }

 private:
  // How many nodes at once, in the memory there may be. @throws OutOfMemory
  void choose_parts() {
    const std::int64_t nodes = growth_.nodes.count;
    const BuildSizes sizes(nodes, growth_.nodes.codes.bytes(), growth_.parameters);
    const std::uint64_t limit = cuda::available_memory(growth_.execution);
    const std::uint64_t least = sizes.with(64, 64);
    if (least > limit) {
      throw OutOfMemory(fmt::format(
          "the index vamana of {} rows takes {} bytes of GPU memory while it is built there, of which there "
          "are {}; raise the device memory limit, or build it on the CPU and search it on the GPU",
          nodes, least, limit));
    }
    const auto batch = static_cast<std::uint64_t>(std::min(nodes, largest_batch(nodes)));
    const auto degree = static_cast<std::uint64_t>(max_degree_);
    if (batch * degree > std::uint64_t{0xFFFFFFFF}) {
      throw DeviceError(fmt::format(
          "a batch of {} rows with {} edges each; a GPU sorts up to 2^32 - 1 edges, build it on the CPU and "
          "search it on the GPU",
          batch, degree));
    }
    const auto as_many = [&](std::uint64_t bytes, std::int64_t most) {
      return std::min(static_cast<std::int64_t>((limit - sizes.fixed) / bytes), most);
    };
    nodes_part_ = as_many(sizes.a_node, cuda::constants.nodes_at_once);
    targets_part_ = as_many(sizes.a_target, cuda::constants.targets_at_once);
  }

  // Nodes of a batch by the entry that they are nearest to: walks that go on at the same time then come to
  // the same nodes, and find them in the second-level cache. Each has the outcome that it has anywhere.
  void put_in_order(std::uint32_t* nodes, std::int64_t count, const std::uint32_t* entries,
                    std::int64_t entry_count) {
    if (count < cuda::constants.fewest_in_order) return;
    std::uint64_t* const keys[2] = {back_[0].reserve(count, stream_), back_[1].reserve(count, stream_)};
    cuda::assign(view_, nodes, count, entries, entry_count, keys[0], device_, stream_);
    cuda::take_assigned(keys[sorted(keys, count)], count, nodes, stream_);
  }

  // Which of the two holds the keys, ascending.
  int sorted(std::uint64_t* const keys[2], std::int64_t count) {
    const std::size_t bytes = cuda::sort_bytes(count);
    temporary_.reserve(static_cast<std::int64_t>(bytes), stream_);
    return cuda::sort(keys, count, temporary_.data(), bytes, stream_);
  }

  void add_back_edges(const std::uint32_t* nodes, std::int64_t count) {
    const std::int64_t all = count * max_degree_;
    std::uint64_t* const keys[2] = {back_[0].reserve(all, stream_), back_[1].reserve(all, stream_)};
    KITH_CUDA(cudaMemsetAsync(counts_.data(), 0, counts_.bytes(), stream_));
    cuda::list_back_edges(view_, nodes, count, keys[0], counts_.data(), stream_);
    const std::uint64_t* back = keys[sorted(keys, all)];
    const std::size_t bytes = cuda::group_bytes(all);
    temporary_.reserve(static_cast<std::int64_t>(bytes), stream_);
    std::uint32_t* begins = begins_.reserve(all, stream_);
    auto* groups = reinterpret_cast<unsigned*>(counts_.data() + 1);
    cuda::group(back, all, begins, groups, temporary_.data(), bytes, stream_);
    unsigned long long seen[2] = {};
    download(counts_.data(), seen, 2);
    cuda::BackEdgeJob job{.graph = view_,
                          .back = back,
                          .valid = static_cast<std::uint32_t>(seen[0]),
                          .begins = begins,
                          .groups = static_cast<std::uint32_t>(seen[1]),
                          .first = 0,
                          .count = 0,
                          .room = nullptr};
    const auto part = static_cast<std::uint32_t>(targets_part_);
    for (; job.first < job.groups; job.first += job.count) {
      growth_.stop.check();
      job.count = std::min(part, job.groups - job.first);
      // All edges of a batch may be one target's: room for them wherever a part begins and ends.
      std::uint32_t ends[2] = {0, job.valid};
      download(begins + job.first, ends, 1);
      if (job.first + job.count < job.groups) download(begins + job.first + job.count, ends + 1, 1);
      job.room = keys_.reserve(cuda::room_of(job.count, ends[1] - ends[0], stride_), stream_);
      cuda::add_back_edges(job, device_, stream_);
      stream_.synchronize();
    }
  }

  template <class T>
  void upload(const T* from, std::int64_t count, T* to) {
    uploader_.copy(DatasetView(from, Dtype::u8, count * static_cast<std::int64_t>(sizeof(T)), 1, 1), to,
                   stream_, growth_.execution);
  }
  cuda::Buffer<std::uint32_t> uploaded(std::span<const std::uint32_t> from) {
    cuda::Buffer<std::uint32_t> to(static_cast<std::int64_t>(from.size()), stream_);
    upload(from.data(), static_cast<std::int64_t>(from.size()), to.data());
    return to;
  }
  template <class T>
  void download(const T* from, T* to, std::int64_t count) {
    cuda::download(from, to, static_cast<std::uint64_t>(count) * sizeof(T), stream_, growth_.execution);
  }

  const Growth& growth_;
  int device_;
  cuda::DeviceGuard guard_;
  cuda::Stream stream_;
  cuda::Uploader uploader_;
  std::int64_t stride_;
  std::int64_t max_degree_;
  std::int64_t nodes_part_ = 1;    // so many walk at once
  std::int64_t targets_part_ = 1;  // and are pruned
  cuda::BuildView view_{};
  cuda::Buffer<unsigned long long> counts_;
  cuda::Buffer<unsigned char> codes_, temporary_;
  cuda::Buffer<std::uint32_t> edges_, begins_, finished_;
  cuda::Buffer<std::uint64_t> back_[2];
  cuda::Buffer<std::int32_t> seen_count_;
  cuda::Buffer<Key> keys_;  // what walks have seen, and their lists; or room of prunes
};

}  // namespace

std::uint64_t most_build_bytes(const Nodes& nodes, const VamanaParameters& parameters) {
  return BuildSizes(nodes.count, nodes.codes.bytes(), parameters)
      .with(std::min(largest_batch(nodes.count), cuda::constants.nodes_at_once),
            std::min(nodes.count, cuda::constants.targets_at_once));
}

Graph grow_on_device(const Graph& graph, const Nodes& nodes, const codes::ScalarSpace& space,
                     const VamanaParameters& parameters, const std::vector<std::uint32_t>& added,
                     const std::vector<std::uint32_t>& waiting, const Look& look,
                     const Execution& execution) {
  return grow_on(
      [](const Growth& growth) {
        // One device builds; a search may use them all.
        return std::make_unique<DeviceMachine>(growth, growth.execution.devices.front().ordinal);
      },
      graph, nodes, space, parameters, added, waiting, look, execution);
}

}  // namespace kith::vamana
