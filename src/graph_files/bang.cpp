// BANG's index (BANG, 2024): the nodes of DiskANN's index on disk without its sectors, and their numbers in a
// file of 32 bytes.
//
//   P_disk.bin            of each node: D values, u32 count, u32 neighbours [R], of which `count` count
//   P_disk_metadata.bin   u64 start, u64 bytes a node, i32 type (0 i8, 1 u8, 2 f32), u32 D, u32 R, u32 nodes
#include "core/plural.hpp"
#include "graph_files/graph_file.hpp"
#include "io/bytes.hpp"
#include "kith/error.hpp"

namespace kith::graph_files {
namespace {

constexpr std::uint64_t metadata_bytes = 32;
constexpr Dtype types[] = {Dtype::i8, Dtype::u8, Dtype::f32};

}  // namespace

GraphFile read_bang(const io::Source& source, const io::Source& metadata, const Hints& hints) {
  if (metadata.size() != metadata_bytes) {
    throw bad_file(metadata, "is truncated or foreign: it has {}, BANG's metadata {}",
                   plural(static_cast<std::int64_t>(metadata.size()), "byte"), metadata_bytes);
  }
  const std::byte* at = metadata.bytes.data();
  const auto start = io::load<std::uint64_t>(at);
  const auto node_bytes = io::load<std::uint64_t>(at + 8);
  const auto type = io::load<std::uint32_t>(at + 16);
  const auto dim = io::load<std::uint32_t>(at + 20);
  const auto most = io::load<std::uint32_t>(at + 24);
  const auto count = io::load<std::uint32_t>(at + 28);
  if (type >= std::size(types)) {
    throw bad_file(metadata,
                   "is corrupt or foreign: its element type is {}; 0 (i8), 1 (u8) and 2 (f32) are known",
                   static_cast<std::int32_t>(type));
  }
  const Dtype dtype = types[type];
  if (hints.dtype && *hints.dtype != dtype) {
    throw InvalidArgument(fmt::format("'{}' says that its rows are {}, not {}; leave the type out",
                                      metadata.name, name(dtype), name(*hints.dtype)));
  }
  const std::int64_t nodes = check_nodes(metadata, count);
  io::check_shape(metadata, count, dim);
  const std::uint64_t row_bytes = std::uint64_t{dim} * size_of(dtype);
  const auto total = io::total_bytes(count, node_bytes);
  if (node_bytes != row_bytes + 4 + 4 * std::uint64_t{most} || !total || *total != source.size()) {
    throw bad_file(
        source,
        "is truncated or corrupt: {} nodes of {} bytes (dimension {} of {}, {} neighbours) do not fill "
        "its {} bytes",
        count, node_bytes, dim, name(dtype), most, source.size());
  }
  if (nodes > 0 && start >= count) {
    throw bad_file(metadata, "is corrupt: its start {} is none of its {} nodes", start, count);
  }
  GraphFile file;
  take_edges(file, source, nodes, most, 0, hints);
  io::FrontToBack pass(source);
  for (std::int64_t i = 0; i < nodes; ++i) {
    const std::byte* list = source.bytes.data() + static_cast<std::uint64_t>(i) * node_bytes + row_bytes;
    const std::uint32_t its = io::load<std::uint32_t>(list);
    if (its > most) {
      throw bad_file(source, "is corrupt: node {} has {} neighbours, there is room for {}", i, its, most);
    }
    copy_edges(file, source, i, list + 4, its);
    pass.reached(list);
  }
  if (hints.vectors) {
    file.vectors = io::view_rows(source, 0, dtype, {0, nodes}, dim,
                                 static_cast<std::int64_t>(node_bytes / size_of(dtype)));
  }
  if (nodes > 0) file.graph.entries = {static_cast<std::uint32_t>(start)};
  return file;
}

}  // namespace kith::graph_files
