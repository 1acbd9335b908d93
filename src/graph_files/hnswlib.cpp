// HNSW (Malkov and Yashunin 2018) as hnswlib saves it, and cuVS with one layer:
//
//   u64 0 (where the base layer begins in an element), u64 room for, u64 elements, u64 bytes an element,
//   u64 where its label is, u64 where its vector is, i32 highest layer, u32 entry, u64 most neighbours above
//   the base, u64 in the base, u64 M, f64 1 / ln M, u64 efConstruction                                   (96
//   bytes) of each element: u16 count, u8 deleted, u8 0, u32 neighbours [most], vector, u64 label of each
//   element: u32 bytes, and in them a layer above the base each: u16 count, u16 0, u32 neighbours [most]
//
// Neither metric nor element type is said. What a list has past its count is whatever was there before.
#include <algorithm>
#include <limits>

#include "core/plural.hpp"
#include "graph_files/graph_file.hpp"
#include "io/bytes.hpp"
#include "kith/error.hpp"

namespace kith::graph_files {
namespace {

constexpr std::uint64_t header_bytes = 96;
constexpr std::uint64_t longest_list = 65535;  // the count has 16 bits

struct Header {
  std::uint64_t base = 0, room = 0, count = 0, element = 0, label = 0, vector = 0;
  std::int32_t top = 0;
  std::uint32_t entry = 0;
  std::uint64_t above = 0, most = 0, parameter = 0;
  double multiplier = 0;
  std::uint64_t build_list = 0;
};

Header header_of(const io::Source& source) {
  const std::byte* at = source.bytes.data();
  const auto field = [&](std::uint64_t offset) { return io::load<std::uint64_t>(at + offset); };
  return {.base = field(0),
          .room = field(8),
          .count = field(16),
          .element = field(24),
          .label = field(32),
          .vector = field(40),
          .top = io::load<std::int32_t>(at + 48),
          .entry = io::load<std::uint32_t>(at + 52),
          .above = field(56),
          .most = field(64),
          .parameter = field(72),
          .multiplier = io::load<double>(at + 80),
          .build_list = field(88)};
}

bool consistent(const Header& header) {
  return header.base == 0 && header.most <= longest_list && header.above <= longest_list &&
         header.vector == 4 + 4 * header.most && header.label >= header.vector &&
         header.label <= std::uint64_t{1} << 40U && header.element == header.label + 8;
}

// The layers above the base, from `at` to the end of the file.
void read_layers(GraphFile& file, const io::Source& source, const Header& header, const std::byte* at) {
  const auto whole = [&](bool good, std::int64_t node) {
    if (!good)
      throw bad_file(source, "is truncated or corrupt: the layers of element {} do not fit it", node);
  };
  Layers& layers = file.layers;
  const std::byte* end = source.bytes.data() + source.size();
  const std::uint64_t list_bytes = 4 + 4 * header.above;
  layers.max_degree = static_cast<std::int64_t>(header.above);
  layers.parameter = static_cast<std::int64_t>(std::min<std::uint64_t>(header.parameter, longest_list));
  layers.build_list = static_cast<std::int64_t>(std::min<std::uint64_t>(header.build_list, 1U << 30U));
  layers.multiplier = header.multiplier;
  layers.entry = header.entry;
  layers.levels.reserve(static_cast<std::size_t>(file.graph.nodes));
  for (std::int64_t i = 0; i < file.graph.nodes; ++i) {
    whole(end - at >= 4, i);
    const std::uint64_t bytes = io::load<std::uint32_t>(at);
    at += 4;
    whole(
        bytes <= static_cast<std::uint64_t>(end - at) && bytes % list_bytes == 0 && bytes / list_bytes < 256,
        i);
    layers.levels.push_back(static_cast<std::uint8_t>(bytes / list_bytes));
    for (std::uint64_t level = 0; level < bytes / list_bytes; ++level) {
      const std::uint64_t count = io::load<std::uint16_t>(at);
      whole(count <= header.above, i);
      for (std::uint64_t j = 0; j < header.above; ++j) {
        layers.edges.push_back(j < count ? io::load<std::uint32_t>(at + 4 + 4 * j) : vamana::no_node);
      }
      at += list_bytes;
    }
  }
  if (at != end) {
    throw bad_file(source, "is corrupt: {} after its last element",
                   plural(static_cast<std::int64_t>(end - at), "byte"));
  }
  const std::string wrong = check_layers(layers, file.graph.nodes);
  if (!wrong.empty()) throw bad_file(source, "is corrupt: {}", wrong);
  if (layers.top() != header.top) {
    throw bad_file(source, "is corrupt: its highest layer is {}, its header says {}", layers.top(),
                   header.top);
  }
}

}  // namespace

bool is_hnswlib(const io::Source& source) {
  return source.size() >= header_bytes && consistent(header_of(source));
}

GraphFile read_hnswlib(const io::Source& source, const Hints& hints) {
  if (source.size() < header_bytes) {
    throw bad_file(source, "is truncated: it has {}, hnswlib's header takes {}",
                   plural(static_cast<std::int64_t>(source.size()), "byte"), header_bytes);
  }
  const Header header = header_of(source);
  if (!consistent(header)) {
    throw bad_file(
        source,
        "is corrupt or no index of hnswlib: elements of {} bytes, vectors from {} and labels from {} on, "
        "{} neighbours",
        header.element, header.vector, header.label, header.most);
  }
  const std::int64_t nodes = check_nodes(source, header.count);
  if (!io::fits(header.count, header.element, source.size() - header_bytes)) {
    throw bad_file(source, "is truncated or corrupt: {} elements of {} bytes do not fit its {} bytes",
                   header.count, header.element, source.size());
  }
  // One byte a value has to be told; else values are f32, of which a vector is a whole number.
  const Dtype dtype = hints.dtype.value_or(Dtype::f32);
  const std::uint64_t row_bytes = header.label - header.vector;
  if (hints.vectors && (row_bytes == 0 || row_bytes % size_of(dtype) != 0)) {
    throw bad_file(source, "has vectors of {} bytes, which are not values of {}; name the element type",
                   row_bytes, name(dtype));
  }
  // Vectors lie as Kith needs them where an element is a whole number of values.
  const bool in_place = header.element % size_of(dtype) == 0;
  GraphFile file;
  take_edges(file, source, nodes, static_cast<std::int64_t>(header.most),
             // labels, rows that are copied, and the layers behind the elements
             header.count * (sizeof(std::int64_t) + (hints.vectors && !in_place ? row_bytes : 0)) +
                 (source.size() - header_bytes - header.count * header.element),
             hints);
  file.labels.reserve(header.count);
  std::int64_t deleted = 0;
  std::byte* copied = nullptr;
  if (hints.vectors && !in_place) {
    file.vectors = Dataset::allocate(dtype, nodes, static_cast<std::int64_t>(row_bytes / size_of(dtype)));
    copied = static_cast<std::byte*>(file.vectors.mutable_data());
  }
  io::FrontToBack pass(source);
  const std::byte* at = source.bytes.data() + header_bytes;
  for (std::int64_t i = 0; i < nodes; ++i, at += header.element) {
    const std::uint64_t count = io::load<std::uint16_t>(at);
    if (count > header.most) {
      throw bad_file(source, "is corrupt: element {} has {} neighbours, there is room for {}", i, count,
                     header.most);
    }
    deleted += (std::to_integer<unsigned>(at[2]) & 1U) != 0 ? 1 : 0;
    copy_edges(file, source, i, at + 4, static_cast<std::int64_t>(count));
    const auto label = io::load<std::uint64_t>(at + header.label);
    if (label > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw bad_file(source,
                     "is corrupt or foreign: element {} has the label {}, which has no 64 bits with a sign",
                     i, label);
    }
    file.labels.push_back(static_cast<std::int64_t>(label));
    if (copied != nullptr) {
      std::copy_n(at + header.vector, row_bytes, copied);
      copied += row_bytes;
    }
    pass.reached(at);
  }
  if (deleted > 0) {
    throw InvalidArgument(fmt::format(
        "'{}' has {} marked as deleted; Kith's graphs have no deletions: build it anew without them",
        source.name, plural(deleted, "element")));
  }
  if (hints.vectors && in_place) {
    file.vectors = io::view_rows(source, header_bytes + header.vector, dtype, {0, nodes},
                                 static_cast<std::int64_t>(row_bytes / size_of(dtype)),
                                 static_cast<std::int64_t>(header.element / size_of(dtype)));
  }
  file.build_list = static_cast<std::int64_t>(std::min<std::uint64_t>(header.build_list, 1U << 30U));
  if (nodes == 0) {
    if (source.size() != header_bytes)
      throw bad_file(source, "is corrupt: it has no elements, and bytes after them");
    file.labels.clear();
    return file;
  }
  read_layers(file, source, header, at);
  order_by_labels(file, source);
  file.graph.entries = entries_of(file.layers);
  return file;
}

}  // namespace kith::graph_files
