// A graph, its codes and its rows to where a device reads them.
#include "vamana/cuda/device_graph.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "cuda/pool.hpp"
#include "cuda/upload.hpp"
#include "kith/error.hpp"
#include "vamana/cuda/backend.hpp"
#include "vamana/cuda/encoded_queries.hpp"
#include "vamana/cuda/hot_nodes.hpp"
#include "vamana/cuda/tuning.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana {
namespace {

// Rows that a device searches.
constexpr std::int64_t most_device_rows = (std::int64_t{1} << 31U) - 1;
// Memory that is left to searches beside a copy.
constexpr std::uint64_t working_space = std::uint64_t{64} << 20U;
// A copy of fewer of the nodes' edges is not worth the look for them: one in so many.
constexpr std::int64_t least_share = 200;
// More of it, at most, where copies of edges take what is left.
constexpr std::uint64_t more_space = std::uint64_t{192} << 20U;

bool lies_on(const DatasetView& rows, int device) {
  return rows.space == MemorySpace::cuda && rows.device == device;
}

template <class T>
std::uint64_t bytes_of(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

struct Sizes {
  Sizes(const Built& built, const DatasetView& view, int device)
      : codes(bytes_of(built.nodes.first) + bytes_of(built.nodes.rows) +
              (built.walked != nullptr ? built.walked->bytes() : built.nodes.codes.bytes()) +
              bytes_of(built.graph.entries) + bytes_of(built.space.mean) + bytes_of(built.space.map)),
        edges(static_cast<std::uint64_t>(built.graph.list_values()) * sizeof(std::uint32_t)),
        rows(lies_on(view, device) ? 0
                                   : static_cast<std::uint64_t>(view.rows) *
                                         static_cast<std::uint64_t>(view.dim) * size_of(view.dtype)) {}
  std::uint64_t of(Placement placement) const {
    return codes + (placement == Placement::host_graph ? 0 : edges) +
           (placement == Placement::resident ? rows : 0);
  }
  std::uint64_t codes;  ///< and what is small
  std::uint64_t edges, rows;
};

class Maker {
 public:
  Maker(const Built& built, const DatasetView& rows, int device, const Execution& execution)
      : built_(built), rows_(rows), execution_(execution), made_(std::make_shared<DeviceGraph>(device)) {}

  /// @param more bytes of the device's memory that copies of edges on the host may take
  std::shared_ptr<const DeviceGraph> make(Placement placement, std::uint64_t bytes, std::uint64_t more) {
    DeviceGraph& m = *made_;
    m.placement = placement;
    m.bytes = bytes;
    if (const WalkCodes* walked = built_.walked.get(); walked != nullptr) {
      m.coding = std::make_unique<codes::cuda::DeviceCoding>(*walked->coding, tuning::rerank_confidence,
                                                             m.stream, uploader_, execution_);
      upload(walked->codes.data(), built_.nodes.count * walked->code_bytes(), m.codes);
    } else {
      upload(built_.nodes.codes.data(), built_.nodes.codes.size(), m.codes);
    }
    upload(built_.graph.entries, m.entries);
    upload(built_.nodes.first, m.first);
    upload(built_.nodes.rows, m.members);
    upload(built_.space.mean, m.mean);
    upload(built_.space.map, m.map);
    if (placement == Placement::host_graph) {
      m.edges = pin(built_.graph.lists(), built_.graph.list_values(), m.pinned_edges, m.copied_edges);
    } else {
      upload(built_.graph.lists(), built_.graph.list_values(), m.edge_memory);
      m.edges = m.edge_memory.data();
    }
    if (lies_on(rows_, m.device)) {
      m.rows = rows_.data;  // which outlive what was made for them
      m.row_stride = rows_.row_stride;
    } else if (placement == Placement::resident) {
      m.row_memory = cuda::Buffer<unsigned char>(
          rows_.rows * rows_.dim * static_cast<std::int64_t>(size_of(rows_.dtype)), m.stream);
      uploader_.copy(rows_, m.row_memory.data(), m.stream, execution_);
      m.rows = m.row_memory.data();
      m.row_stride = rows_.dim;
    } else if (rows_.rows > 0) {
      const auto element = static_cast<std::int64_t>(size_of(rows_.dtype));
      const std::int64_t values = (rows_.rows - 1) * rows_.row_stride + rows_.dim;
      m.rows =
          pin(static_cast<const unsigned char*>(rows_.data), values * element, m.pinned_rows, m.copied_rows);
      m.row_stride = rows_.row_stride;
    }
    if (placement == Placement::host_graph) {
      try {
        copy_hot(more);
      } catch (const OutOfMemory&) {  // others took it: without, walks read more across the bus
        m.hot = {};
        m.hot_edges = {};
      }
    }
    m.stream.synchronize();
    return made_;
  }

 private:
  template <class T>
  void upload(const T* from, std::int64_t count, cuda::Buffer<T>& to) {
    if (count == 0) return;
    to = cuda::Buffer<T>(count, made_->stream);
    const auto bytes = count * static_cast<std::int64_t>(sizeof(T));
    uploader_.copy(DatasetView(from, Dtype::u8, bytes, 1, 1), to.data(), made_->stream, execution_);
  }
  template <class T>
  void upload(const std::vector<T>& from, cuda::Buffer<T>& to) {
    upload(from.data(), static_cast<std::int64_t>(from.size()), to);
  }

  // Edges of the nodes that walks come to most often, as many as there is room for.
  void copy_hot(std::uint64_t room) {
    DeviceGraph& m = *made_;
    const std::int64_t nodes = built_.graph.nodes;
    const std::int64_t stride = built_.graph.max_degree;
    const std::uint64_t words = static_cast<std::uint64_t>(cuda::hot_words(nodes)) * sizeof(uint2);
    const std::uint64_t scratch = cuda::hot_scratch(nodes);
    const std::uint64_t each = static_cast<std::uint64_t>(stride) * sizeof(std::uint32_t);
    if (nodes == 0 || room <= words + scratch) return;
    const auto most = static_cast<std::int64_t>((room - words - scratch) / each);
    if (most < nodes / least_share) return;
    cuda::Buffer<unsigned> visits(nodes, m.stream);
    count_visits(visits);
    m.hot = cuda::Buffer<uint2>(cuda::hot_words(nodes), m.stream);
    const std::int64_t count = cuda::mark_hot(visits.data(), nodes, most, m.hot.data(), m.stream);
    visits = {};
    m.hot_edges = cuda::Buffer<std::uint32_t>(std::max<std::int64_t>(1, count * stride), m.stream);
    cuda::gather_hot(m.edges, nodes, stride, m.hot.data(), m.hot_edges.data(), m.stream);
    m.bytes += words + m.hot_edges.bytes();
  }

  // How often walks to some nodes, spread over all, come to each; to some rows, where the codes are not
  // scalar, since those of nodes are no queries.
  void count_visits(const cuda::Buffer<unsigned>& visits) {
    DeviceGraph& m = *made_;
    KITH_CUDA(cudaMemsetAsync(visits.data(), 0, visits.bytes(), m.stream));
    const std::int64_t nodes = built_.graph.nodes;
    const std::int64_t walks = std::min(nodes, cuda::constants.walks_of_a_sample);
    const bool by_rows = m.coding != nullptr;
    constexpr std::int64_t most = 4096;
    const std::int64_t batch =
        by_rows ? std::clamp<std::int64_t>(
                      static_cast<std::int64_t>(working_space / EncodedQueries::bytes(built_)), 1, most)
                : most;
    const std::int64_t code_bytes = built_.space.code_bytes();
    const cuda::Walked walked = m.walked(built_);
    cuda::WalkShape shape{.list_size = static_cast<int>(std::min(nodes, cuda::constants.list_of_a_sample)),
                          .capacity = 0,
                          .beam_width = 1,
                          .table = 0,
                          .list_in_shared = true};
    shape.capacity = shape.list_size;
    cuda::choose_memory(shape, walked, EncodedQueries::query_bytes(m, built_), m.device);
    const cuda::Buffer<Key> lists(batch * shape.capacity, m.stream);
    const cuda::Buffer<std::int32_t> found(batch, m.stream);
    const cuda::Buffer<unsigned char> usable(batch, m.stream);
    KITH_CUDA(cudaMemsetAsync(usable.data(), 1, usable.bytes(), m.stream));
    const cuda::Buffer<unsigned long long> counters(3, m.stream);
    const std::int64_t apart = by_rows ? rows_.rows / walks : nodes / walks;
    const auto row_bytes = m.row_stride * static_cast<std::int64_t>(size_of(rows_.dtype));
    EncodedQueries queries;
    StopRequest stop(execution_);
    for (std::int64_t first = 0; first < walks; first += batch) {
      stop.check();
      cuda::WalkJob job{.graph = m.view(built_),
                        .nodes = {},
                        .shape = shape,
                        .count = std::min(batch, walks - first),
                        .codes = m.codes.data() + first * apart * code_bytes,
                        .code_stride = apart * code_bytes,
                        .usable = usable.data(),
                        .left_out = nullptr,
                        .lists = lists.data(),
                        .marks = nullptr,
                        .found = found.data(),
                        .counters = counters.data(),
                        .visits = visits.data()};
      if (by_rows) {
        queries.encode(m, built_, static_cast<const unsigned char*>(m.rows) + first * apart * row_bytes,
                       apart * m.row_stride, job.count, counters.data() + 2, m.stream);
        queries.hand_to(job, m, built_);
      }
      cuda::walk(job, walked, m.device, m.stream);
      m.stream.synchronize();  // so that whoever wants to stop need not wait for all
    }
  }

  // Host memory as the device sees it: locked where it is, or a copy of it.
  template <class T>
  const T* pin(const T* from, std::int64_t count, cuda::PinnedRegion& region, cuda::PinnedBuffer<T>& copy) {
    if (count == 0) return nullptr;
    const std::uint64_t bytes = static_cast<std::uint64_t>(count) * sizeof(T);
    const void* locked = from;
    if (!region.add(from, bytes)) {
      if (execution_.memory_limit > 0 && bytes > execution_.memory_limit) {
        throw OutOfMemory(
            fmt::format("a copy of {} bytes in page-locked memory, which the GPU reads since its own has no "
                        "room for them, is above the memory limit of {}; raise that or the device memory "
                        "limit",
                        bytes, execution_.memory_limit));
      }
      copy = cuda::PinnedBuffer<T>(count);
      std::copy_n(from, count, copy.data());
      locked = copy.data();
    }
    void* seen = nullptr;
    KITH_CUDA(cudaHostGetDevicePointer(&seen, const_cast<void*>(locked), 0));
    return static_cast<const T*>(seen);
  }

  const Built& built_;
  const DatasetView& rows_;
  const Execution& execution_;
  std::shared_ptr<DeviceGraph> made_;
  cuda::Uploader uploader_;
};

// The most that fits. `room`: bytes of the device's memory.
Placement choose_placement(const Sizes& sizes, std::uint64_t room) {
  for (const Placement placement : {Placement::resident, Placement::host_rows, Placement::host_graph}) {
    if (sizes.of(placement) + working_space <= room) return placement;
  }
  throw OutOfMemory(fmt::format(
      "the codes of this index vamana take {} bytes of GPU memory and a search {}, of which there are {}; "
      "raise the device memory limit, build it with code_bits of 4, or search it on the CPU",
      sizes.codes, working_space, room));
}

}  // namespace

const char* name(Placement placement) {
  switch (placement) {
    case Placement::resident: return "resident";
    case Placement::host_rows: return "host rows";
    case Placement::host_graph: return "host graph";
  }
  return "";
}

cuda::Walked DeviceGraph::walked(const Built& built) const {
  if (coding != nullptr) return coding->rabitq() ? cuda::Walked::rabitq : cuda::Walked::pq;
  return built.space.bits == 4 ? cuda::Walked::int4 : cuda::Walked::int8;
}

cuda::GraphView DeviceGraph::view(const Built& built) const {
  return {edges,
          built.graph.max_degree,
          codes.data(),
          entries.data(),
          static_cast<int>(built.code_bytes()),
          static_cast<int>(built.graph.entries.size()),
          hot.data(),
          hot_edges.data()};
}

cuda::SpaceView DeviceGraph::space(const codes::ScalarSpace& space) const {
  return {.dtype = space.dtype,
          .metric = space.metric,
          .dim = space.dim,
          .full_dim = space.full_dim(),
          .code_dim = space.code_dim(),
          .code_bytes = static_cast<int>(space.code_bytes()),
          .bits = space.bits,
          .raw_integers = space.raw_integers(),
          .step = space.step,
          .largest_norm = space.largest_norm,
          .unit = space.unit,
          .mean = mean.data(),
          .leading = space.leading,
          .map = map.data()};
}

std::optional<Dataset> place_on_device(const Built& built, const DatasetView& rows,
                                       const VamanaParameters& parameters, const Execution& execution) {
  if (execution.devices.size() != 1 || execution.device_memory_limit > 0 || rows.rows > most_device_rows)
    return std::nullopt;
  const int device = execution.devices.front().ordinal;
  const cuda::DeviceGuard guard(device);
  const std::uint64_t edges = static_cast<std::uint64_t>(built.nodes.count) *
                              static_cast<std::uint64_t>(parameters.max_degree) * sizeof(std::uint32_t);
  const Sizes sizes(built, rows, device);  // of a graph without edges yet
  if (sizes.of(Placement::resident) + edges + working_space + more_space +
          most_build_bytes(built.nodes, parameters) >
      cuda::available_memory(execution)) {
    return std::nullopt;
  }
  struct Held {
    cuda::Stream stream;
    cuda::Buffer<unsigned char> memory;
  };
  const auto held = std::make_shared<Held>();
  cuda::Uploader uploader;
  cuda::PlacedRows placed{};
  try {
    placed = cuda::place(rows, device, held->memory, uploader, held->stream, execution);
  } catch (const OutOfMemory&) {  // others took it
    return std::nullopt;
  }
  held->stream.synchronize();
  DatasetView view(placed.data, rows.dtype, rows.rows, rows.dim, placed.stride);
  view.space = MemorySpace::cuda;
  view.device = device;
  return Dataset::adopt(view, held);
}

std::shared_ptr<const DeviceGraph> on_device(const Built& built, const DatasetView& rows, int device,
                                             const Execution& execution) {
  if (rows.rows > most_device_rows) {
    throw DeviceError(
        fmt::format("{} rows; a GPU searches an index vamana of up to 2^31 - 1, build several", rows.rows));
  }
  const Sizes sizes(built, rows, device);
  const std::uint64_t limit = execution.device_memory_limit;
  DeviceCopies& copies = *built.copies;
  const std::scoped_lock lock(copies.mutex);
  const auto found = copies.devices.find(device);
  if (found != copies.devices.end()) {
    const std::uint64_t held = found->second->bytes;
    // Larger than this call may use, it gives way to a smaller one; and stays otherwise.
    if (limit == 0 || held + working_space <= limit) return found->second;
    copies.devices.erase(found);
  }
  cuda::keep_some_memory(device);
  const std::uint64_t room = cuda::available_memory(execution);
  const Placement placement = choose_placement(sizes, room);
  // Searches need room, for the bits of allowed rows, too, and so does other work where nobody has set a
  // limit.
  const std::uint64_t kept = sizes.of(placement) + working_space + std::min(more_space, sizes.edges / 8) +
                             static_cast<std::uint64_t>(rows.rows) / 8 + (limit == 0 ? room / 4 : 0);
  auto made = Maker(built, rows, device, execution)
                  .make(placement, sizes.of(placement), room > kept ? room - kept : 0);
  copies.devices.emplace(device, made);
  return made;
}

}  // namespace kith::vamana
