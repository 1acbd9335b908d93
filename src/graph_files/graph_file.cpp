// What the readers of all formats share, and which format a file is.
#include "graph_files/graph_file.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "io/bytes.hpp"
#include "kith/error.hpp"

namespace kith {

std::string_view name(GraphFormat format) noexcept {
  switch (format) {
    case GraphFormat::diskann: return "diskann";
    case GraphFormat::diskann_disk: return "diskann-disk";
    case GraphFormat::hnswlib: return "hnswlib";
    case GraphFormat::faiss: return "faiss";
    case GraphFormat::bang: return "bang";
  }
  return "";
}

GraphFormat parse_graph_format(std::string_view text) {
  for (const GraphFormat format : all_graph_formats) {
    if (text == name(format)) return format;
  }
  throw InvalidArgument(fmt::format(
      "'{}' is no format of graphs; use diskann, diskann-disk, hnswlib, faiss or bang (read only)", text));
}

namespace graph_files {
namespace {

constexpr std::int64_t shortest_list = 4;  // what VamanaParameters::max_degree takes
constexpr std::int64_t longest_list = 1024;

}  // namespace

std::int64_t check_nodes(const io::Source& source, std::uint64_t nodes) {
  if (nodes > static_cast<std::uint64_t>(vamana::most_rows)) {
    throw bad_file(source,
                   "claims {} nodes; Kith's graphs have at most {}: it is corrupt, foreign or too large",
                   nodes, vamana::most_rows);
  }
  return static_cast<std::int64_t>(nodes);
}

void take_edges(GraphFile& file, const io::Source& source, std::int64_t nodes, std::int64_t most,
                std::uint64_t more, const Hints& hints) {
  if (most > longest_list) {
    throw InvalidArgument(fmt::format("'{}' has nodes of up to {} neighbours; Kith's graphs have at most {}",
                                      source.name, most, longest_list));
  }
  file.graph.nodes = nodes;
  file.graph.max_degree = std::max(shortest_list, most);
  const std::int64_t values = nodes * file.graph.max_degree;
  const std::uint64_t need = static_cast<std::uint64_t>(values) * sizeof(std::uint32_t) + more;
  const std::uint64_t limit = hints.execution.memory_limit;
  if (limit > 0 && need > limit) {
    throw OutOfMemory(fmt::format("reading the graph '{}' takes {} bytes, the limit is {}; raise the limit",
                                  source.name, need, limit));
  }
  file.graph.edges = AlignedBuffer<std::uint32_t>(values);
  constexpr std::int64_t piece = std::int64_t{8} << 20U;  // some milliseconds
  StopRequest stop(hints.execution);
  for (std::int64_t at = 0; at < values; at += piece) {
    std::fill_n(file.graph.edges.data() + at, std::min(piece, values - at), vamana::no_node);
    stop.check();
  }
}

void copy_edges(GraphFile& file, const io::Source& source, std::int64_t node, const std::byte* from,
                std::int64_t count) {
  std::uint32_t* edges = file.graph.edges.data() + node * file.graph.max_degree;
  for (std::int64_t j = 0; j < count; ++j) {
    edges[j] = io::load<std::uint32_t>(from + 4 * j);
    if (edges[j] >= file.graph.nodes) {
      throw bad_file(source, "is corrupt: an edge of node {} leads to {} of {} nodes", node, edges[j],
                     file.graph.nodes);
    }
  }
}

Dtype dtype_of_size(const io::Source& source, std::uint64_t bytes, std::optional<Dtype> told) {
  if (told) {
    if (size_of(*told) == bytes) return *told;
    throw InvalidArgument(
        fmt::format("'{}' has rows of {} bytes a value, {} has {}; leave the type out, or name "
                    "another",
                    source.name, bytes, name(*told), size_of(*told)));
  }
  if (bytes == 4) return Dtype::f32;
  if (bytes == 2) return Dtype::f16;
  if (bytes == 1) {
    throw InvalidArgument(fmt::format(
        "'{}' has rows of one byte a value and does not say whether they are signed; say that they "
        "are u8 or i8",
        source.name));
  }
  throw bad_file(source,
                 "has rows of {} bytes a value; 4 (f32), 2 (f16) and 1 (u8, i8) are known: it is corrupt "
                 "or foreign",
                 bytes);
}

Dataset read_data(const io::Source& source, std::optional<Dtype> dtype) {
  if (source.size() < 8) throw bad_file(source, "is truncated: it has no header of 8 bytes");
  const std::uint64_t rows = io::load<std::uint32_t>(source.bytes.data());
  const std::uint64_t dim = io::load<std::uint32_t>(source.bytes.data() + 4);
  io::check_shape(source, rows, dim);
  const auto values = io::total_bytes(rows, dim);
  const std::uint64_t bytes = source.size() - 8;
  if (!values || (*values == 0 ? bytes != 0 : bytes % *values != 0)) {
    throw bad_file(source, "is truncated, corrupt or foreign: {} x {} values do not fill its {} bytes", rows,
                   dim, source.size());
  }
  const Dtype type =
      *values == 0 ? dtype.value_or(Dtype::f32) : dtype_of_size(source, bytes / *values, dtype);
  return io::view_rows(source, 8, type, {0, static_cast<std::int64_t>(rows)}, static_cast<std::int64_t>(dim),
                       static_cast<std::int64_t>(dim));
}

namespace {

// new_of[i]: the number that node i gets. Entries are not there yet.
void renumber(GraphFile& file, const std::vector<std::uint32_t>& order,
              const std::vector<std::uint32_t>& new_of) {
  const vamana::Graph& old = file.graph;
  AlignedBuffer<std::uint32_t> edges(old.nodes * old.max_degree);
  for (std::int64_t i = 0; i < old.nodes; ++i) {
    const std::uint32_t* from = old.of(order[static_cast<std::size_t>(i)]);
    for (std::int64_t j = 0; j < old.max_degree; ++j) {
      edges[i * old.max_degree + j] = from[j] == vamana::no_node ? from[j] : new_of[from[j]];
    }
  }
  file.graph.edges = std::move(edges);

  Layers& layers = file.layers;
  if (layers.empty()) return;
  layers.entry = new_of[layers.entry];
  for (std::uint32_t& edge : layers.edges) edge = edge == vamana::no_node ? edge : new_of[edge];
  const auto m = static_cast<std::size_t>(layers.max_degree);
  std::vector<std::size_t> first(layers.levels.size() + 1, 0);
  for (std::size_t i = 0; i < layers.levels.size(); ++i) first[i + 1] = first[i] + layers.levels[i] * m;
  std::vector<std::uint8_t> levels;
  std::vector<std::uint32_t> moved;
  for (const std::uint32_t node : order) {
    levels.push_back(layers.levels[node]);
    moved.insert(moved.end(), layers.edges.begin() + static_cast<std::ptrdiff_t>(first[node]),
                 layers.edges.begin() + static_cast<std::ptrdiff_t>(first[node + 1]));
  }
  layers.levels = std::move(levels);
  layers.edges = std::move(moved);
}

Dataset in_order(const DatasetView& rows, const std::vector<std::uint32_t>& order) {
  Dataset out = Dataset::allocate(rows.dtype, rows.rows, rows.dim);
  const std::size_t bytes = static_cast<std::size_t>(rows.dim) * size_of(rows.dtype);
  auto* to = static_cast<std::byte*>(out.mutable_data());
  for (const std::uint32_t node : order) {
    std::memcpy(to, rows.row(node), bytes);
    to += bytes;
  }
  return out;
}

}  // namespace

void order_by_labels(GraphFile& file, const io::Source& source) {
  const auto count = file.labels.size();
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  const auto label = [&](std::uint32_t node) { return file.labels[node]; };
  if (!std::is_sorted(file.labels.begin(), file.labels.end())) {
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return label(a) < label(b); });
    std::vector<std::uint32_t> new_of(count);
    for (std::size_t i = 0; i < count; ++i) new_of[order[i]] = static_cast<std::uint32_t>(i);
    renumber(file, order, new_of);
    if (file.vectors.dim() > 0) file.vectors = in_order(file.vectors, order);
    std::sort(file.labels.begin(), file.labels.end());
  }
  const auto twice = std::adjacent_find(file.labels.begin(), file.labels.end());
  if (twice != file.labels.end())
    throw bad_file(source, "is corrupt: two elements have the label {}", *twice);
  // Ascending and different: 0 to n - 1 if the last one is.
  if (count == 0 ||
      (file.labels.front() == 0 && file.labels.back() == static_cast<std::int64_t>(count) - 1)) {
    file.labels.clear();
  }
}

}  // namespace graph_files
}  // namespace kith
