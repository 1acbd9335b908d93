// DiskANN's index in memory (Subramanya et al. 2019), as its C++ program, its Rust one and cuVS write it:
//
//   u64 size of the file, u32 most neighbours, u32 start, u64 frozen points
//   of each node: u32 count, u32 neighbours [count]
//
// Files of versions 0.1 and 0.2, which BANG's programs read, have no frozen points in the header. The rows
// lie beside it in FILE.data: u32 rows, u32 columns, values.
#include <algorithm>

#include "core/plural.hpp"
#include "graph_files/graph_file.hpp"
#include "io/bytes.hpp"
#include "kith/error.hpp"

namespace kith::graph_files {
namespace {

constexpr std::uint64_t old_header = 16;
constexpr std::uint64_t header = 24;

// Nodes from `offset` on and the longest list of theirs; nothing where lists do not end with the file.
struct Lists {
  std::uint64_t nodes = 0;
  std::uint64_t longest = 0;
};
std::optional<Lists> lists_from(const io::Source& source, std::uint64_t offset) {
  Lists lists;
  if (source.size() < offset) return std::nullopt;
  io::FrontToBack pass(source);
  std::uint64_t left = source.size() - offset;
  for (const std::byte* at = source.bytes.data() + offset; left > 0; ++lists.nodes) {
    if (left < 4) return std::nullopt;
    const std::uint64_t count = io::load<std::uint32_t>(at);
    if (count > (left - 4) / 4) return std::nullopt;
    lists.longest = std::max(lists.longest, count);
    at += 4 + 4 * count;
    left -= 4 + 4 * count;
    pass.reached(at);
  }
  return lists;
}

}  // namespace

bool is_diskann(const io::Source& source) {
  return source.size() >= old_header && io::load<std::uint64_t>(source.bytes.data()) == source.size();
}

GraphFile read_diskann(const io::Source& source, const Hints& hints) {
  if (source.size() < old_header) {
    throw bad_file(source, "is truncated: it has {}, DiskANN's header takes 24",
                   plural(static_cast<std::int64_t>(source.size()), "byte"));
  }
  if (!is_diskann(source)) {
    throw bad_file(source,
                   "is truncated, corrupt or no graph of DiskANN: its header claims {} bytes, it has {}",
                   io::load<std::uint64_t>(source.bytes.data()), source.size());
  }
  const std::uint64_t frozen =
      source.size() >= header ? io::load<std::uint64_t>(source.bytes.data() + 16) : 0;
  // A header of 24 bytes is tried first; an older file would seem to have frozen points, or lists beyond its
  // end.
  std::uint64_t offset = header;
  std::optional<Lists> lists = lists_from(source, header);
  if (!lists || frozen > lists->nodes) {
    lists = lists_from(source, offset = old_header);
  } else if (frozen > 0) {
    throw InvalidArgument(
        fmt::format("'{}' has {} (it is a dynamic index): nodes that are no rows; build it as a static one",
                    source.name, plural(static_cast<std::int64_t>(frozen), "frozen point")));
  }
  if (!lists) throw bad_file(source, "is corrupt: the lists of its nodes do not end where the file does");
  const std::uint64_t most = io::load<std::uint32_t>(source.bytes.data() + 8);
  if (lists->longest > most) {
    throw bad_file(source, "is corrupt: a node has {} neighbours, its header says at most {}", lists->longest,
                   most);
  }
  GraphFile file;
  take_edges(file, source, check_nodes(source, lists->nodes), static_cast<std::int64_t>(most), 0, hints);
  io::FrontToBack pass(source);
  const std::byte* at = source.bytes.data() + offset;
  for (std::int64_t i = 0; i < file.graph.nodes; ++i) {
    const std::int64_t count = io::load<std::uint32_t>(at);
    copy_edges(file, source, i, at + 4, count);
    at += 4 + 4 * count;
    pass.reached(at);
  }
  const std::uint32_t start = io::load<std::uint32_t>(source.bytes.data() + 12);
  if (file.graph.nodes > 0) {
    if (start >= file.graph.nodes) {
      throw bad_file(source, "is corrupt: its start {} is none of its {} nodes", start, file.graph.nodes);
    }
    file.graph.entries = {start};
  }
  return file;
}

}  // namespace kith::graph_files
