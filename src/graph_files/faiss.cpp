// faiss IndexHNSWFlat (Johnson et al. 2017; HNSW: Malkov and Yashunin 2018), as faiss 1.7 to 1.15 write it:
//
//   "IHNf", i32 dimension, i64 rows, i64 2^20 twice, u8 trained, i32 metric (0 inner product, 1 squared L2)
//   arrays, each with its u64 length first: f64 share of nodes a level, i32 first neighbour of each level in
//   a node's, i32 levels of each node (1: the base alone), u64 where each node's neighbours begin, i32
//   neighbours
//   (-1 after the last of a list)
//   i32 entry, i32 highest level, i32 efConstruction, i32 efSearch, i32 1
//   "IxF2" or "IxFI", dimension to metric as above, and the rows: u64 length in floats, f32
#include <algorithm>
#include <cmath>

#include "core/plural.hpp"
#include "graph_files/graph_file.hpp"
#include "io/bytes.hpp"
#include "kith/error.hpp"

namespace kith::graph_files {
namespace {

constexpr std::size_t index_header = 4 + 4 + 8 + 8 + 8 + 1 + 4;

// Front to back over the bytes, none of which is read beyond the end.
class Cursor {
 public:
  explicit Cursor(const io::Source& source) : source_(source) {}

  template <class T>
  T next() {
    return io::load<T>(take(sizeof(T)));
  }
  const std::byte* take(std::uint64_t bytes) {
    if (bytes > source_.size() - at_) {
      throw bad_file(source_, "is truncated or corrupt: {} bytes from {} on are beyond its {}", bytes, at_,
                     source_.size());
    }
    const std::byte* from = source_.bytes.data() + at_;
    at_ += bytes;
    return from;
  }
  std::uint64_t at() const { return at_; }
  bool ended() const { return at_ == source_.size(); }

  // An array: its length, which must be `expected` where that is known, and where its values are.
  struct Array {
    std::uint64_t count;
    const std::byte* data;
  };
  Array array(std::uint64_t element, const char* what, std::optional<std::uint64_t> expected = std::nullopt) {
    const auto count = next<std::uint64_t>();
    const auto bytes = io::total_bytes(count, element);
    if (!bytes || (expected && count != *expected)) {
      throw bad_file(source_, "is corrupt: its {} are {}{}", what, count,
                     expected ? fmt::format(", not {}", *expected) : "");
    }
    return {count, take(*bytes)};
  }

 private:
  const io::Source& source_;
  std::uint64_t at_ = 0;
};

struct IndexHeader {
  std::uint64_t dim = 0, rows = 0;
  Metric metric = Metric::sqeuclidean;
};

std::string_view fourcc_of(const io::Source& source) {
  return source.text().substr(0, 4);
}

IndexHeader index_header_of(const io::Source& source, Cursor& cursor) {
  IndexHeader header;
  header.dim = static_cast<std::uint64_t>(std::max(0, cursor.next<std::int32_t>()));
  const auto rows = cursor.next<std::int64_t>();
  if (rows < 0) throw bad_file(source, "is corrupt: it claims {} rows", rows);
  header.rows = static_cast<std::uint64_t>(rows);
  cursor.take(16 + 1);
  const auto metric = cursor.next<std::int32_t>();
  if (metric != 0 && metric != 1) {
    throw InvalidArgument(fmt::format(
        "'{}' has faiss's metric {}; graphs of metrics 0 (inner product) and 1 (squared L2) are read",
        source.name, metric));
  }
  header.metric = metric == 0 ? Metric::inner_product : Metric::sqeuclidean;
  io::check_shape(source, header.rows, header.dim);
  return header;
}

// Neighbours of every node, at every level.
void read_lists(GraphFile& file, const io::Source& source, const Cursor::Array& levels,
                const Cursor::Array& offsets, const Cursor::Array& neighbors,
                const std::vector<std::int64_t>& first) {
  Layers& layers = file.layers;
  const auto top = static_cast<std::int32_t>(first.size()) - 1;
  io::FrontToBack pass(source);
  std::uint64_t at = 0;
  layers.levels.reserve(levels.count);
  for (std::int64_t i = 0; i < file.graph.nodes; ++i) {
    const auto its = io::load<std::int32_t>(levels.data + 4 * i);
    const auto begin = io::load<std::uint64_t>(offsets.data + 8 * i);
    const auto end = io::load<std::uint64_t>(offsets.data + 8 * (i + 1));
    if (its < 1 || its > std::min(top, 255) || begin != at || end < begin || end > neighbors.count ||
        end - begin != static_cast<std::uint64_t>(first[static_cast<std::size_t>(its)])) {
      throw bad_file(source, "is corrupt: node {} has {} levels, and neighbours from {} to {} of {}", i, its,
                     begin, end, neighbors.count);
    }
    at = end;
    layers.levels.push_back(static_cast<std::uint8_t>(its - 1));
    const std::byte* list = neighbors.data + 4 * begin;
    std::int64_t count = 0;
    while (count < first[1] && io::load<std::int32_t>(list + 4 * count) >= 0) ++count;
    copy_edges(file, source, i, list, count);
    for (std::int64_t level = 1; level < its; ++level) {
      const std::int64_t from = first[static_cast<std::size_t>(level)];
      bool ended = false;
      for (std::int64_t j = from; j < from + layers.max_degree; ++j) {
        const auto edge = io::load<std::int32_t>(list + 4 * j);
        ended = ended || edge < 0;
        layers.edges.push_back(ended ? vamana::no_node : static_cast<std::uint32_t>(edge));
      }
    }
    pass.reached(list);
  }
  if (at != neighbors.count) {
    throw bad_file(source, "is corrupt: its nodes have {} neighbours of {}", at, neighbors.count);
  }
}

}  // namespace

bool is_faiss(const io::Source& source) {
  const std::string_view start = fourcc_of(source);
  return source.size() >= index_header && (start.starts_with("Ix") || start.starts_with("IH") ||
                                           start.starts_with("Iw") || start.starts_with("IB"));
}

GraphFile read_faiss(const io::Source& source, const Hints& hints) {
  if (hints.dtype && *hints.dtype != Dtype::f32) {
    throw InvalidArgument(fmt::format("'{}' is faiss's, whose rows are f32, not {}; leave the type out",
                                      source.name, name(*hints.dtype)));
  }
  if (fourcc_of(source) != "IHNf") {
    if (!is_faiss(source))
      throw bad_file(source, "is no index of faiss, or truncated: it does not start with IHNf");
    throw InvalidArgument(fmt::format(
        "'{}' is a faiss index of type '{}'; of faiss's indexes IndexHNSWFlat ('IHNf') alone is read",
        source.name, fourcc_of(source)));
  }
  Cursor cursor(source);
  cursor.take(4);
  const IndexHeader header = index_header_of(source, cursor);
  const std::int64_t nodes = check_nodes(source, header.rows);
  const auto probabilities = cursor.array(8, "shares of levels");
  const auto first_of = cursor.array(4, "first neighbours of levels");
  const auto levels = cursor.array(4, "levels", header.rows);
  const auto offsets = cursor.array(8, "offsets", header.rows + 1);
  const auto neighbors = cursor.array(4, "neighbours");
  const auto entry = cursor.next<std::int32_t>();
  const auto top = cursor.next<std::int32_t>();
  const auto build_list = cursor.next<std::int32_t>();
  const auto search_list = cursor.next<std::int32_t>();
  cursor.take(4);

  // A level's neighbours end where those of the next begin; all above the base are as many.
  std::vector<std::int64_t> first;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(first_of.count, 257); ++i) {
    first.push_back(io::load<std::int32_t>(first_of.data + 4 * i));
  }
  bool good = first.size() >= 3 && first[0] == 0 && first[1] >= 0 && first[2] >= first[1];
  for (std::size_t i = 3; good && i < first.size(); ++i) {
    good = first[i] - first[i - 1] == first[2] - first[1];
  }
  if (!good) {
    throw bad_file(source, "is corrupt, or has levels of different numbers of neighbours: the base has {}",
                   first.size() > 1 ? first[1] : 0);
  }
  if (io::load<std::uint64_t>(offsets.data) != 0)
    throw bad_file(source, "is corrupt: its offsets do not begin at 0");

  GraphFile file;
  file.metric = header.metric;
  file.build_list = std::max(0, build_list);
  Layers& layers = file.layers;
  layers.max_degree = first[2] - first[1];
  layers.parameter = layers.max_degree;
  layers.build_list = std::max(0, build_list);
  layers.search_list = std::max(0, search_list);
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(probabilities.count, 256); ++i) {
    layers.probabilities.push_back(io::load<double>(probabilities.data + 8 * i));
  }
  // Rows are copied, and so is what a node has above the base.
  const auto base = static_cast<std::uint64_t>(first[1]) * header.rows;
  take_edges(file, source, nodes, first[1],
             (hints.vectors ? 4 * header.rows * header.dim : 0) +
                 4 * (neighbors.count - std::min(base, neighbors.count)),
             hints);
  read_lists(file, source, levels, offsets, neighbors, first);
  if (nodes > 0) {
    layers.entry = static_cast<std::uint32_t>(entry);
    const std::string wrong = check_layers(layers, nodes);
    if (!wrong.empty()) throw bad_file(source, "is corrupt: {}", wrong);
    if (layers.top() != top) {
      throw bad_file(source, "is corrupt: its highest level is {}, it says {}", layers.top(), top);
    }
    file.graph.entries = entries_of(layers);
  } else {
    layers = {};
  }

  const auto* kind = reinterpret_cast<const char*>(cursor.take(4));
  const std::string_view flat(kind, 4);
  if (flat != "IxF2" && flat != "IxFI" && flat != "IxFl") {
    throw InvalidArgument(fmt::format(
        "'{}' keeps its rows as '{}'; rows of IndexFlat ('IxF2', 'IxFI') are read", source.name, flat));
  }
  const IndexHeader rows = index_header_of(source, cursor);
  if (rows.dim != header.dim || rows.rows != header.rows) {
    throw bad_file(source, "is corrupt: its rows are {} x {}, its graph is of {} x {}", rows.rows, rows.dim,
                   header.rows, header.dim);
  }
  const auto floats = io::total_bytes(header.rows, header.dim);
  if (!floats) throw bad_file(source, "is corrupt: it claims {} x {} values", header.rows, header.dim);
  const auto values = cursor.array(4, "values", floats);
  if (!cursor.ended()) {
    throw bad_file(source, "is corrupt: {} after its last value",
                   plural(static_cast<std::int64_t>(source.size() - cursor.at()), "byte"));
  }
  if (hints.vectors) {
    const auto dim = static_cast<std::int64_t>(header.dim);
    file.vectors = io::view_rows(source, static_cast<std::uint64_t>(values.data - source.bytes.data()),
                                 Dtype::f32, {0, nodes}, dim, dim);
  }
  return file;
}

}  // namespace kith::graph_files
