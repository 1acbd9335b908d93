// What an index is, saved and loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "kith/vamana.hpp"
#include "vamana/backend.hpp"

namespace kith::vamana {

/// All that an index is, but its recall curve.
struct Contents {
  Dataset dataset;
  VamanaParameters parameters;
  Built built;
  std::uint64_t graph_hash = 0;
};

/// @throws IoError, Cancelled
void save(const Contents& contents, const RecallCurve& curve, const std::filesystem::path& path,
          const Execution& execution);

/// @param curve takes that of the file
/// @throws IoError, OutOfMemory, Cancelled
Contents load(const std::filesystem::path& path, const Execution& execution, RecallCurve& curve);

/// Of edges and entries.
std::uint64_t hash(const Graph& graph);

}  // namespace kith::vamana

/// Indexes that differ in their curve alone share the rest.
struct kith::Vamana::State {
  std::shared_ptr<const vamana::Contents> contents;
  RecallCurve curve;
};
