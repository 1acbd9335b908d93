// A graph with a node for each row, as other libraries have it, from one of Kith's.
#pragma once

#include <cstdint>

#include "core/aligned_buffer.hpp"
#include "kith/execution.hpp"
#include "vamana/file.hpp"

namespace kith::graph_files {

/// Neighbours of row after row, no_node after the last of a list.
struct RowGraph {
  std::int64_t rows = 0;
  std::int64_t max_degree = 0;
  std::uint32_t start = 0;            ///< from which every node with an edge to it can be reached
  AlignedBuffer<std::uint32_t> held;  ///< empty where the graph's own edges serve
  const std::uint32_t* edges = nullptr;

  const std::uint32_t* of(std::int64_t row) const { return edges + row * max_degree; }
  std::int64_t degree(std::int64_t row) const;
};

/// An imported graph is given as it is. Else of the rows of a node the first has its edges, and one more to
/// the second, which leads to the third, and so on; rows with a NaN have none. What cannot be reached from
/// the first entry is linked from a node with room for an edge. A list may become longer by one or two.
/// @throws OutOfMemory, Cancelled
RowGraph row_graph(const vamana::Contents& contents, const Execution& execution);

}  // namespace kith::graph_files
