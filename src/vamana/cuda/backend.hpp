// What CUDA devices do with graphs, as the backend's table has it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "vamana/backend.hpp"

namespace kith::vamana {

SearchStatistics search_on_devices(const Built& built, const DatasetView& rows, const DatasetView& queries,
                                   const SearchPlan& plan, const NeighborsView& out,
                                   const Execution& execution, std::vector<std::int64_t>& unanswered);

/// Backend::search_by_plans: a walk for each list.
std::vector<Neighbors> search_by_plans_on_devices(const Built& built, const DatasetView& rows,
                                                  const DatasetView& queries,
                                                  std::span<const SearchPlan> plans,
                                                  const Execution& execution);

/// Backend::place: on one device whose memory nobody has limited, with room for all of it.
std::optional<Dataset> place_on_device(const Built& built, const DatasetView& rows,
                                       const VamanaParameters& parameters, const Execution& execution);

/// The most memory of a device that a build takes.
std::uint64_t most_build_bytes(const Nodes& nodes, const VamanaParameters& parameters);

/// Backend::grow, on the first of the devices.
Graph grow_on_device(const Graph& graph, const Nodes& nodes, const codes::ScalarSpace& space,
                     const VamanaParameters& parameters, const std::vector<std::uint32_t>& added,
                     const std::vector<std::uint32_t>& waiting, const Look& look, const Execution& execution);

}  // namespace kith::vamana
