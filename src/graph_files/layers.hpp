// What an HNSW file says beyond its base layer, kept beside an imported graph so that it can be written
// again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kith::graph_files {

/// The layers above the base and the numbers around them.
struct Layers {
  std::int64_t max_degree = 0;   ///< of a node in a layer above the base
  std::int64_t parameter = 0;    ///< hnswlib's M
  std::int64_t build_list = 0;   ///< efConstruction
  std::int64_t search_list = 0;  ///< faiss's efSearch
  double multiplier = 0;         ///< hnswlib's 1 / ln M
  std::uint32_t entry = 0;
  std::vector<double> probabilities;  ///< faiss: of each level
  std::vector<std::uint8_t> levels;   ///< layers above the base that a node is in
  /// Node after node, layer after layer from the lowest: max_degree neighbours, no_node after the last.
  std::vector<std::uint32_t> edges;

  int top() const;
  bool empty() const { return levels.empty(); }
};

/// As bytes that an index file can keep. `graph_hash` is that of the base layer they belong to.
std::vector<std::byte> pack(const Layers& layers, std::uint64_t graph_hash);

/// Nothing where they belong to another graph: one that has changed since.
/// @throws IoError for bytes that pack() has not made
std::optional<Layers> unpack(std::span<const std::byte> bytes, std::int64_t nodes, std::uint64_t graph_hash);

/// Neighbours within the nodes, each in the layer too, and lists ended by no_node.
/// @return what is wrong; empty where nothing is
std::string check_layers(const Layers& layers, std::int64_t nodes);

/// Where walks begin: the entry, then nodes of the highest layers, as many as a build would take.
std::vector<std::uint32_t> entries_of(const Layers& layers);

}  // namespace kith::graph_files
