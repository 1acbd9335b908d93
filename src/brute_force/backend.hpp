// The seam between BruteForce and the machines it runs on: one table of functions a backend.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "codes/codes.hpp"
#include "kith/brute_force.hpp"

namespace kith::brute_force {

/// What a backend makes of a dataset; each backend derives its own.
struct Prepared {
  virtual ~Prepared() = default;
  virtual Filter filter() const noexcept = 0;
  virtual std::uint64_t memory_bytes() const noexcept = 0;
  /// Of the device that holds most; 0 on the CPU.
  virtual std::uint64_t device_bytes() const noexcept { return 0; }
};

/// A backend: plain functions, so that a build without it leaves no trace of it.
struct Backend {
  /// Encodes the rows. `expected_queries` 0: an index for many searches.
  std::shared_ptr<const Prepared> (*prepare)(const DatasetView& dataset,
                                             const BruteForceParameters& parameters,
                                             std::int64_t expected_queries, const Execution& execution);
  /// Arguments are checked already.
  Neighbors (*search)(const Prepared& prepared, const DatasetView& dataset, Metric metric,
                      const DatasetView& queries, std::int64_t k, const Execution& execution);
  /// The same into the caller's memory; null where a backend only returns answers.
  SearchStatistics (*search_into)(const Prepared& prepared, const DatasetView& dataset, Metric metric,
                                  const DatasetView& queries, const NeighborsView& out,
                                  const Execution& execution);
  /// `search` where rows farther from a query than its bound need not be found; null where bounds save
  /// nothing.
  Neighbors (*search_bounded)(const Prepared& prepared, const DatasetView& dataset, Metric metric,
                              const DatasetView& queries, std::int64_t k, std::span<const double> bounds,
                              const Execution& execution) = nullptr;
};

const Backend& cpu_backend();
const Backend& cuda_backend();  // defined in builds with CUDA

/// The backend `execution` names. @throws DeviceError when this build has none for it
const Backend& backend_for(const Execution& execution);

}  // namespace kith::brute_force
