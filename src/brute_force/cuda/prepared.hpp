// What the CUDA backend keeps of a dataset: shards, each on a device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "brute_force/backend.hpp"
#include "brute_force/cuda/choice.hpp"
#include "brute_force/cuda/shard.hpp"
#include "brute_force/cuda/tuning.hpp"
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
  std::vector<tuning::Policy> policies;  ///< of these devices, by what was known when this was made
  std::vector<std::unique_ptr<Shard>> shards;
  cuda::PinnedRegion pinned;       ///< rows that are read where they lie
  std::int64_t stream_rows = 0;    ///< streamed: rows of a piece
  std::uint64_t stream_bytes = 0;  ///< streamed: what a search takes for its pieces, of each device
  std::uint64_t budget = 0;        ///< bytes a device may be asked for

  /// Where codes are made along directions: what they would be of all values, and the filter's surplus then.
  CudaChoice all_values;
  double all_values_surplus = 1;
  /// Such codes, made when queries come that lie off the directions. They read the same rows.
  mutable std::shared_ptr<const CudaPrepared> of_all_values;
  mutable std::mutex mutex;

  Filter filter() const noexcept override { return choice.filter; }
  const tuning::Policy& policy_of(int device) const {
    return policies[static_cast<std::size_t>(std::find(devices.begin(), devices.end(), device) -
                                             devices.begin())];
  }
  std::uint64_t memory_bytes() const noexcept override;
  std::uint64_t device_bytes() const noexcept override;
  /// Encodes the rows of all shards by another choice.
  void code_anew(const CudaChoice& other);
  /// Rows of the device that holds most.
  std::int64_t most_rows_of_a_device() const;
};

/// Searches for some of the sample's rows: what int8 codes keep says how many stages pay, and whether halves
/// would be quicker; then the rows are encoded anew.
/// @return the seconds that a query of many is expected to take; 0 where nothing was measured
double measure_filter(CudaPrepared& prepared, const DatasetView& sample, bool halves_fit,
                      const Execution& execution);

/// The same for codes along as many directions as promise to be quickest, where a query takes less than
/// `seconds` by them.
/// @param room bytes of a device that its codes may take
void measure_directions(CudaPrepared& prepared, const DatasetView& dataset, const DatasetView& sample,
                        const CudaDirections& found, double seconds, std::uint64_t room,
                        const Execution& execution);

/// Encodes rows along directions by this choice or, where many of a shard lie beyond the range of the codes,
/// by a longer step, as long as that leaves far fewer there. `encode` takes a choice and returns a shard it
/// has encoded.
template <class Encode>
void encode_along(CudaChoice& choice, const Encode& encode) {
  std::int64_t beyond = encode(choice).special_rows;
  for (int i = 0; i < tuning::most_widened && beyond > tuning::most_beyond_range; ++i) {
    CudaChoice wider = choice.widened(tuning::widened_by);
    const std::int64_t still = encode(wider).special_rows;
    if (still > beyond - beyond / 4) {  // infinities, or rows so long that no step gives them a code
      (void)encode(choice);
      return;
    }
    choice = std::move(wider);
    beyond = still;
  }
}

/// Codes for few queries, along fewer directions than those for many, where a search for one query takes less
/// time by them. @param room as in measure_directions @throws Cancelled
void add_short_codes_if_they_pay(CudaPrepared& prepared, const DatasetView& dataset,
                                 const DatasetView& sample, const CudaDirections& found, std::uint64_t room,
                                 const Execution& execution);
/// By this choice, whatever they save. @throws OutOfMemory
void add_short_codes(CudaPrepared& prepared, const CudaChoice& choice);

/// Whether rows may be divided into so many lists, before anything is uploaded. @throws InvalidArgument
void check_lists_asked(const CudaPrepared& prepared, std::int64_t count);
/// Divides the rows of all shards into so many lists.
/// @param room bytes of a device that they may take
/// @throws OutOfMemory, Cancelled
void divide_as_asked(CudaPrepared& prepared, const DatasetView& dataset, std::int64_t count,
                     std::uint64_t room, const Execution& execution);
/// Into lists where a sample of the rows lies in clusters, where some queries find their neighbours in few of
/// the lists, and where the expected queries repay them (0: an index). @throws Cancelled
void divide_if_it_pays(CudaPrepared& prepared, const DatasetView& dataset, std::int64_t expected_queries,
                       std::uint64_t room, const Execution& execution);

/// Some rows of the dataset in host memory, spread over all of it.
Dataset take_sample(const DatasetView& data, int device, std::int64_t most);

/// Bytes of the codes of `rows` rows, and of what makes them.
std::uint64_t code_bytes_of(const CudaChoice& choice, const DatasetView& data, std::int64_t rows);

/// Rows of a piece where they stream through, by the budget. @throws OutOfMemory
void plan_stream(CudaPrepared& prepared, const DatasetView& data);

/// Codes of all values, made by the first call. The limit of `execution` falls by what they take. Null where
/// there is no memory for them. @throws Cancelled
std::shared_ptr<const CudaPrepared> with_all_values(const CudaPrepared& prepared, const DatasetView& data,
                                                    Execution& execution);

/// Where a search leaves its answer.
SearchStatistics search_cuda(const CudaPrepared& prepared, const DatasetView& dataset,
                             const DatasetView& queries, const NeighborsView& out,
                             const Execution& execution);

}  // namespace kith::brute_force
