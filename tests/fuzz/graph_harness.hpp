// Hands bytes to the reader of one format of graphs. Anything but an answer or an exception of Kith is a
// fault.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "fuzz/harness.hpp"
#include "graph_files/graph_file.hpp"
#include "graph_files/pq_pivots.hpp"

namespace kith::fuzz {

inline io::Source source_of(std::span<const std::byte> bytes) {
  io::Source source;
  source.bytes = bytes;
  source.name = "input";
  return source;
}

inline void check_graph(const graph_files::GraphFile& file) {
  const vamana::Graph& graph = file.graph;
  require(graph.nodes >= 0 && graph.max_degree >= 4 && graph.max_degree <= 1024, "a graph has a size");
  require(graph.entries.empty() == (graph.nodes == 0), "a graph has an entry");
  for (const std::uint32_t entry : graph.entries) require(entry < graph.nodes, "entries are nodes");
  for (std::int64_t i = 0; i < graph.nodes; ++i) {
    bool ended = false;
    for (std::int64_t j = 0; j < graph.max_degree; ++j) {
      const std::uint32_t edge = graph.of(i)[j];
      require(edge == vamana::no_node || (!ended && edge < graph.nodes), "edges lead to nodes");
      ended = edge == vamana::no_node;
    }
  }
  require(file.labels.empty() || static_cast<std::int64_t>(file.labels.size()) == graph.nodes,
          "a label a node");
  require(file.layers.empty() || graph_files::check_layers(file.layers, graph.nodes).empty(),
          "layers are whole");
  if (file.vectors.dim() == 0) return;
  require(file.vectors.rows() == graph.nodes, "a row a node");
  (void)touch(file.vectors);
}

/// True where the bytes were read.
inline bool try_graph_reader(std::string_view format, std::span<const std::byte> bytes) {
  try {
    const io::Source source = source_of(bytes);
    (void)graph_files::is_diskann(source);
    (void)graph_files::is_diskann_disk(source);
    (void)graph_files::is_hnswlib(source);
    (void)graph_files::is_faiss(source);
    (void)graph_files::looks_like_pq_pivots(source);
    if (format == "diskann-pq") {
      const auto pivots = graph_files::read_pq_pivots(source);
      require(pivots.starts.back() == pivots.dim, "parts cover the dimensions");
      return true;
    }
    if (format == "rotation") {
      return graph_files::read_rotation(source, 6).size() == 36;
    }
    const graph_files::Hints hints;
    if (format == "bang") {
      const std::size_t split = std::min<std::size_t>(32, bytes.size());
      check_graph(
          graph_files::read_bang(source_of(bytes.subspan(split)), source_of(bytes.first(split)), hints));
      return true;
    }
    switch (parse_graph_format(format)) {
      case GraphFormat::diskann: check_graph(graph_files::read_diskann(source, hints)); break;
      case GraphFormat::diskann_disk: check_graph(graph_files::read_diskann_disk(source, hints)); break;
      case GraphFormat::hnswlib: check_graph(graph_files::read_hnswlib(source, hints)); break;
      case GraphFormat::faiss: check_graph(graph_files::read_faiss(source, hints)); break;
      case GraphFormat::bang: break;
    }
    return true;
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error says something");
    return false;
  }
}

}  // namespace kith::fuzz
