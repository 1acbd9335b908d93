// Saves and loads a Vamana index.
#pragma once

#include <filesystem>

#include "kith/vamana.hpp"
#include "vamana/backend.hpp"

namespace kith::vamana {

/// All that an index is.
struct Contents {
  Dataset dataset;
  VamanaParameters parameters;
  Built built;
  RecallCurve curve;
};

/// @throws IoError, Cancelled
void save(const Contents& contents, const std::filesystem::path& path, const Execution& execution);

/// @throws IoError, OutOfMemory, Cancelled
Contents load(const std::filesystem::path& path, const Execution& execution);

/// Of edges and entries.
std::uint64_t hash(const Graph& graph);

}  // namespace kith::vamana
