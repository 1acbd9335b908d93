// Builds the graph on the CPU.
#pragma once

#include <cstdint>
#include <vector>

#include "kith/execution.hpp"
#include "kith/vamana.hpp"
#include "vamana/graph.hpp"

namespace kith::vamana {

/// A graph of the nodes of `graph`, which may have none, and of those `added`, which are not in it yet: a function
/// of these, the codes and the parameters. All other nodes have no edges.
/// @param added ascending @throws Cancelled, std::bad_alloc
Graph grow_graph(const Graph& graph, const Nodes& nodes, std::int64_t code_bytes,
                 const VamanaParameters& parameters, const std::vector<std::uint32_t>& added,
                 const Execution& execution);

/// Bytes that building takes at its peak, the graph included.
std::uint64_t build_bytes(std::int64_t nodes, const VamanaParameters& parameters, int threads);

}  // namespace kith::vamana
