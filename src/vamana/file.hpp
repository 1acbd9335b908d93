// What an index is, saved and loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "kith/vamana.hpp"
#include "vamana/backend.hpp"

namespace kith::vamana {

/// All that an index is, but its recall curve.
struct Contents {
  Dataset dataset;
  VamanaParameters parameters;
  Built built;
  /// A node for each row, also for equal ones: the graph was imported.
  bool plain = false;
  /// What an imported graph's file had besides, for src/graph_files; whoever changes the graph may leave it.
  std::vector<std::byte> layers;
};

/// @throws IoError, Cancelled
void save(const Contents& contents, const RecallCurve& curve, const std::filesystem::path& path,
          const Execution& execution);

/// @param curve takes that of the file
/// @throws IoError, OutOfMemory, Cancelled
Contents load(const std::filesystem::path& path, const Execution& execution, RecallCurve& curve);

/// Of edges and entries.
std::uint64_t hash(const Graph& graph);
/// The same, and of the codes where walks compare others than scalar ones.
std::uint64_t hash(const Built& built);

}  // namespace kith::vamana

/// Indexes that differ in their curve alone share the rest.
struct kith::Vamana::State {
  std::shared_ptr<const vamana::Contents> contents;
  RecallCurve curve;
};
