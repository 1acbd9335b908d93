// DiskANN's index on disk: sectors of 4,096 bytes (the Rust program: of a size it says), the first of which
// has
//
//   u32 fields, u32 1, then u64: nodes n, dimension d, start, bytes a node, nodes a sector, frozen points,
//   their place, whether rows for re-ordering follow [their first sector, d, rows a sector], size of the file
//   (Rust: u64 bytes of associated data, u64 sector size, u32 major, u32 minor)
//
// and then the nodes, as many a sector as fit, or each in several: d values, u32 count, u32 neighbours, zeros
// up to the most neighbours. The element type is not said: it is the one that leaves room for a whole number
// of neighbours which every node keeps to.
#include <algorithm>
#include <array>
#include <cstring>

#include "core/plural.hpp"
#include "graph_files/graph_file.hpp"
#include "io/bytes.hpp"
#include "kith/error.hpp"

namespace kith::graph_files {
namespace {

constexpr std::uint64_t usual_sector = 4096;
constexpr std::uint64_t smallest_sector = 512;
constexpr std::uint64_t largest_sector = std::uint64_t{1} << 20U;

struct Header {
  std::uint64_t nodes = 0, dim = 0, start = 0, node_bytes = 0, a_sector = 0, frozen = 0, size = 0;
  std::uint64_t associated = 0;
  std::uint64_t sector = usual_sector;

  // Where node i begins.
  std::uint64_t at(std::uint64_t i) const {
    if (a_sector > 0) return sector * (1 + i / a_sector) + i % a_sector * node_bytes;
    return sector + i * ((node_bytes + sector - 1) / sector * sector);
  }
};

Header header_of(const io::Source& source) {
  const auto field = [&](std::uint64_t at) { return io::load<std::uint64_t>(source.bytes.data() + at); };
  Header header{.nodes = field(8),
                .dim = field(16),
                .start = field(24),
                .node_bytes = field(32),
                .a_sector = field(40),
                .frozen = field(48)};
  const bool reordered = field(64) != 0;
  header.size = field(reordered ? 96 : 72);
  if (!reordered) {
    const std::uint64_t sector = field(88);
    if (sector >= smallest_sector && sector <= largest_sector && (sector & (sector - 1)) == 0) {
      header.sector = sector;
      header.associated = field(80);
    }
  }
  return header;
}

// The most neighbours a node has where values take `element` bytes; nothing where that leaves a part of one,
// or a node has more.
std::optional<std::uint64_t> room_for(const io::Source& source, const Header& header, std::uint64_t element) {
  const std::uint64_t taken = header.dim * element + header.associated + 4;
  if (taken > header.node_bytes || (header.node_bytes - taken) % 4 != 0) return std::nullopt;
  const std::uint64_t most = (header.node_bytes - taken) / 4;
  io::FrontToBack pass(source);
  for (std::uint64_t i = 0; i < header.nodes; ++i) {
    const std::byte* node = source.bytes.data() + header.at(i);
    const std::byte* list = node + header.dim * element;
    const std::uint64_t count = io::load<std::uint32_t>(list);
    if (count > most) return std::nullopt;
    for (std::uint64_t j = 0; j < count; ++j) {
      if (io::load<std::uint32_t>(list + 4 + 4 * j) >= header.nodes) return std::nullopt;
    }
    pass.reached(node);
  }
  return most;
}

}  // namespace

bool is_diskann_disk(const io::Source& source) {
  if (source.size() < smallest_sector) return false;
  return io::load<std::uint32_t>(source.bytes.data() + 4) == 1 && header_of(source).size == source.size();
}

GraphFile read_diskann_disk(const io::Source& source, const Hints& hints) {
  if (source.size() < smallest_sector) {
    throw bad_file(source, "is truncated: it has {}, its first sector takes {}",
                   plural(static_cast<std::int64_t>(source.size()), "byte"), usual_sector);
  }
  const Header header = header_of(source);
  if (!is_diskann_disk(source)) {
    throw bad_file(
        source, "is truncated, corrupt or no index of DiskANN on disk: its header claims {} bytes, it has {}",
        header.size, source.size());
  }
  const std::int64_t nodes = check_nodes(source, header.nodes);
  io::check_shape(source, header.nodes, header.dim);
  // at() cannot overflow where all nodes together are no longer than the file.
  const std::uint64_t room = source.size();
  if (!io::fits(header.nodes, header.node_bytes, room) || header.node_bytes > room || header.dim > room ||
      header.associated > room || header.a_sector > header.sector ||
      header.a_sector * header.node_bytes > header.sector ||
      (nodes > 0 &&
       (header.at(header.nodes - 1) > room || header.node_bytes > room - header.at(header.nodes - 1)))) {
    throw bad_file(source, "is corrupt: {} nodes of {} bytes, {} a sector, do not fit its {} bytes",
                   header.nodes, header.node_bytes, header.a_sector, room);
  }
  if (header.frozen > 0) {
    throw InvalidArgument(
        fmt::format("'{}' has {}: nodes that are no rows; build it from a static index", source.name,
                    plural(static_cast<std::int64_t>(std::min<std::uint64_t>(header.frozen, header.nodes)),
                           "frozen point")));
  }
  if (nodes > 0 && header.start >= header.nodes) {
    throw bad_file(source, "is corrupt: its start {} is none of its {} nodes", header.start, header.nodes);
  }
  std::optional<std::uint64_t> most;
  std::uint64_t element = 0;
  for (const std::uint64_t tried : {4U, 1U, 2U}) {
    if (hints.dtype && size_of(*hints.dtype) != tried) continue;
    most = room_for(source, header, element = tried);
    if (most) break;
  }
  if (!most) {
    throw bad_file(
        source,
        "is corrupt: with no element type{} do its nodes have as many neighbours as there is room for, "
        "among its {} nodes",
        hints.dtype ? fmt::format(" of {} bytes", size_of(*hints.dtype)) : "", header.nodes);
  }
  const std::uint64_t row_bytes = header.dim * element;
  GraphFile file;
  take_edges(file, source, nodes, static_cast<std::int64_t>(*most),
             hints.vectors ? header.nodes * row_bytes : 0, hints);
  std::byte* rows = nullptr;
  if (hints.vectors) {
    file.vectors = Dataset::allocate(dtype_of_size(source, element, hints.dtype), nodes,
                                     static_cast<std::int64_t>(header.dim));
    rows = static_cast<std::byte*>(file.vectors.mutable_data());
  }
  io::FrontToBack pass(source);
  for (std::int64_t i = 0; i < nodes; ++i) {
    const std::byte* node = source.bytes.data() + header.at(static_cast<std::uint64_t>(i));
    if (rows != nullptr) {
      std::memcpy(rows, node, row_bytes);
      rows += row_bytes;
    }
    copy_edges(file, source, i, node + row_bytes + 4, io::load<std::uint32_t>(node + row_bytes));
    pass.reached(node);
  }
  if (nodes > 0) file.graph.entries = {static_cast<std::uint32_t>(header.start)};
  return file;
}

}  // namespace kith::graph_files
