// Builds the graph on the CPU.
#pragma once

#include <cstdint>

#include "kith/execution.hpp"
#include "kith/vamana.hpp"
#include "vamana/graph.hpp"

namespace kith::vamana {

/// Parameters are checked already. @throws Cancelled, std::bad_alloc
Graph build_graph(const Nodes& nodes, const ScalarSpace& space, const VamanaParameters& parameters,
                  const Execution& execution);

/// Bytes that building takes at its peak, the graph included.
std::uint64_t build_bytes(std::int64_t nodes, const VamanaParameters& parameters, int threads);

}  // namespace kith::vamana
