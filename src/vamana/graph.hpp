// The graph of a Vamana index: what is walked, and which rows its nodes stand for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "codes/scalar.hpp"
#include "core/aligned_buffer.hpp"

namespace kith::vamana {

/// Marks the end of a node's neighbours.
inline constexpr std::uint32_t no_node = 0xFFFFFFFFU;
/// Rows an index may have: numbers below no_node.
inline constexpr std::int64_t most_rows = std::int64_t{0xFFFFFFFF} - 1;

/// Adjacency in rows of one length. A node's neighbours ascend by (distance, node) where they were chosen
/// together, and no_node follows the last.
struct Graph {
  std::int64_t nodes = 0;
  std::int64_t max_degree = 0;
  AlignedBuffer<std::uint32_t> edges;  ///< [nodes, max_degree]; empty where they are read from a file
  /// Where every walk begins: the medoid first, then nodes spread over the data.
  std::vector<std::uint32_t> entries;
  /// The edges of a graph that stays in its file, and what keeps the file open.
  const std::uint32_t* mapped = nullptr;
  std::shared_ptr<const void> file;

  const std::uint32_t* lists() const { return mapped != nullptr ? mapped : edges.data(); }
  const std::uint32_t* of(std::int64_t node) const { return lists() + node * max_degree; }
  std::int64_t list_values() const { return nodes * max_degree; }
  /// Of memory: a mapped file's pages are the system's.
  std::uint64_t bytes() const { return edges.bytes() + entries.size() * sizeof(std::uint32_t); }
};

/// Codes of the nodes. Rows with equal codes are one node, since no walk could tell them apart and their
/// edges would lead to each other alone; rows with a NaN are in none. Nodes are in the order of their first
/// rows.
struct Nodes {
  std::int64_t count = 0;
  std::int64_t nan_rows = 0;
  AlignedBuffer<std::uint8_t> codes;  ///< [count, code_bytes]
  /// Where node i's rows begin in `rows`, one more than there are nodes; empty: node i is row i.
  std::vector<std::uint32_t> first;
  std::vector<std::uint32_t> rows;

  bool plain() const { return first.empty(); }
  std::int64_t rows_of(std::int64_t node) const {
    return plain() ? 1 : first[static_cast<std::size_t>(node) + 1] - first[static_cast<std::size_t>(node)];
  }
  /// The j-th row of a node; they ascend.
  std::int64_t row(std::int64_t node, std::int64_t j) const {
    return plain() ? node : rows[first[static_cast<std::size_t>(node)] + static_cast<std::size_t>(j)];
  }
  std::uint64_t bytes() const { return codes.bytes() + (first.size() + rows.size()) * sizeof(std::uint32_t); }
};

/// Looks at a graph, and gives it back for its memory.
using Look = std::function<Graph(Graph)>;

/// Encodes all rows and groups them. @throws OutOfMemory, Cancelled
Nodes make_nodes(const DatasetView& rows, const codes::ScalarSpace& space, const Execution& execution);

/// Encodes all rows, each a node of its own: for graphs that were built so.
/// @throws InvalidArgument that names a row with a NaN; OutOfMemory, Cancelled
Nodes make_plain_nodes(const DatasetView& rows, const codes::ScalarSpace& space, const Execution& execution);

/// Bytes that make_nodes takes at its peak.
std::uint64_t node_bytes(const codes::ScalarSpace& space, std::int64_t rows);

}  // namespace kith::vamana
