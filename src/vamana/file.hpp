// Saves and loads a Vamana index.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "kith/vamana.hpp"
#include "vamana/backend.hpp"

namespace kith::vamana {

/// All that an index is.
struct Contents {
  Dataset dataset;
  VamanaParameters parameters;
  Built built;
  RecallCurve curve;
  /// A node for each row, also for equal ones: the graph was imported.
  bool plain = false;
  /// What an imported graph's file had besides, for src/graph_files; whoever changes the graph may leave it.
  std::vector<std::byte> layers;
};

/// @throws IoError, Cancelled
void save(const Contents& contents, const std::filesystem::path& path, const Execution& execution);

/// @throws IoError, OutOfMemory, Cancelled
Contents load(const std::filesystem::path& path, const Execution& execution);

/// Of edges and entries.
std::uint64_t hash(const Graph& graph);

}  // namespace kith::vamana
