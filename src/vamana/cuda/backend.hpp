// What CUDA devices do with graphs, as the backend's table has it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "vamana/backend.hpp"

namespace kith::vamana {

SearchStatistics search_on_devices(const Built& built, const DatasetView& rows, const DatasetView& queries,
                                   const SearchPlan& plan, const NeighborsView& out,
                                   const Execution& execution, std::vector<std::int64_t>& unanswered);

/// Backend::has_room: on one device whose memory nobody has limited, for all of it.
bool has_room_on_device(const Built& built, const DatasetView& rows, const Execution& execution);

/// Backend::grow, on the first of the devices.
Graph grow_on_device(const Graph& graph, const Nodes& nodes, const codes::ScalarSpace& space,
                     const VamanaParameters& parameters, const std::vector<std::uint32_t>& added,
                     const std::vector<std::uint32_t>& waiting, const std::function<void(Graph)>& look,
                     const Execution& execution);

}  // namespace kith::vamana
