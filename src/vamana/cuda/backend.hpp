// What CUDA devices do with graphs, as the backend's table has it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "vamana/backend.hpp"

namespace kith::vamana {

SearchStatistics search_on_devices(const Built& built, const DatasetView& rows, const DatasetView& queries,
                                   const SearchPlan& plan, const NeighborsView& out,
                                   const Execution& execution, std::vector<std::int64_t>& unanswered);

/// Backend::place: on one device whose memory nobody has limited, with room for all of it.
std::optional<Dataset> place_on_device(const Built& built, const DatasetView& rows,
                                       const Execution& execution);

/// Backend::grow, on the first of the devices.
Graph grow_on_device(const Graph& graph, const Nodes& nodes, const codes::ScalarSpace& space,
                     const VamanaParameters& parameters, const std::vector<std::uint32_t>& added,
                     const std::vector<std::uint32_t>& waiting, const Look& look, const Execution& execution);

}  // namespace kith::vamana
