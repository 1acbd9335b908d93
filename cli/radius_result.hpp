// The answer of kith radius, shown, as JSON or in files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common.hpp"
#include "tree.hpp"

namespace kith::cli {

/// What is told of an answer beside its rows.
struct RadiusResult {
  double radius = 0;
  Metric metric{};
  IndexUsed index;
  std::string output;  ///< empty: it is shown
};

/// The file of --count: OUT.npy as it is, OUT without an extension as OUT.counts.npy.
std::string counts_file(const std::string& output);

void deliver_counts(const Common& common, const RadiusResult& result,
                    const std::vector<std::int64_t>& counts);
void deliver_rows(const Common& common, const RadiusResult& result, const RadiusNeighbors& answer);

}  // namespace kith::cli
