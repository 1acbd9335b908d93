// Builds the graph on the CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "codes/coding.hpp"
#include "kith/execution.hpp"
#include "kith/vamana.hpp"
#include "vamana/graph.hpp"

namespace kith::vamana {

/// A graph of the nodes of `graph`, which may have none, of those `added`, and at last of those `waiting`: a
/// function of these, the codes and the parameters. Before the last step `look` gets the finished graph
/// without them; it is not called where none waits.
/// @param added, waiting ascending; nodes that are not in the graph yet @throws Cancelled, std::bad_alloc
Graph grow_graph(const Graph& graph, const Nodes& nodes, const codes::ScalarSpace& space,
                 const VamanaParameters& parameters, const std::vector<std::uint32_t>& added,
                 const std::vector<std::uint32_t>& waiting, const Look& look, const Execution& execution);

/// Backend::encode.
void encode_walk_codes(const codes::Coding& coding, const DatasetView& rows, std::uint8_t* codes,
                       const Execution& execution);

/// Bytes that building takes at its peak, the graph included.
std::uint64_t build_bytes(std::int64_t nodes, const VamanaParameters& parameters, int threads);

}  // namespace kith::vamana
