// What the CUDA backend keeps of a dataset: shards, each on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "brute_force/backend.hpp"
#include "brute_force/cuda/choice.hpp"
#include "brute_force/cuda/shard.hpp"
#include "cuda/runtime.hpp"

namespace kith::brute_force {

struct CudaPrepared final : Prepared {
  /// How the rows are held.
  enum class Mode : std::uint8_t {
    resident,   ///< rows and codes on the device
    host_rows,  ///< codes on the device, rows read where they lie in host memory
    streamed,   ///< nothing on the device: rows pass through it in every search
  };
  CudaChoice choice;
  Metric metric = Metric::sqeuclidean;
  Mode mode = Mode::resident;
  bool replicated = false;  ///< every shard holds all rows, queries are dealt out
  std::vector<int> devices;
  std::vector<std::unique_ptr<Shard>> shards;
  cuda::PinnedRegion pinned;       ///< rows that are read where they lie
  std::int64_t stream_rows = 0;    ///< streamed: rows of a piece
  std::uint64_t stream_bytes = 0;  ///< streamed: what a search takes for its pieces, of each device
  std::uint64_t budget = 0;        ///< bytes a device may be asked for

  Filter filter() const noexcept override { return choice.filter; }
  std::uint64_t memory_bytes() const noexcept override;
  std::uint64_t device_bytes() const noexcept override;
  /// Encodes the rows of all shards by another choice, of the same mean and unit.
  void code_anew(const CudaChoice& other);
};

/// Searches for some of the sample's rows: what int8 codes keep says how many stages pay, and whether halves
/// would be quicker; then the rows are encoded anew.
void measure_filter(CudaPrepared& prepared, const DatasetView& sample, bool halves_fit,
                    const Execution& execution);

/// Where a search leaves its answer.
SearchStatistics search_cuda(const CudaPrepared& prepared, const DatasetView& dataset,
                             const DatasetView& queries, const NeighborsView& out,
                             const Execution& execution);

}  // namespace kith::brute_force
