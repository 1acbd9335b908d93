// What the CPU backend keeps of a dataset.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "brute_force/backend.hpp"
#include "brute_force/partition.hpp"
#include "codes/codes.hpp"
#include "codes/duplicates.hpp"
#include "codes/fine.hpp"

namespace kith::brute_force {

struct CpuPrepared final : Prepared {
  codes::Codes codes;
  codes::FineCodes fine;  ///< of the same rows along the same directions, where they pay
  codes::Duplicates duplicates;
  /// Where rows are searched by lists, their codes stand there, and `codes` has the rows' space alone.
  std::shared_ptr<const Partition> partition;

  Filter filter() const noexcept override { return codes.space.choice.filter; }
  std::uint64_t memory_bytes() const noexcept override {
    const std::scoped_lock lock(mutex);
    return codes.bytes() + fine.bytes() + duplicates.bytes() +
           (partition == nullptr ? 0 : partition->bytes()) +
           (of_all_values == nullptr ? 0 : of_all_values->memory_bytes());
  }
  /// Leading directions that the codes hold; 0: all values.
  std::int64_t directions() const noexcept {
    return codes.space.projection == nullptr ? 0 : codes.space.projection->directions;
  }

  /// Along directions codes say little of queries that lie farther off these than rows do: from this on.
  double largest_rest = 0;
  /// Codes of all values for such queries, made when some come.
  mutable std::shared_ptr<const CpuPrepared> of_all_values;
  mutable std::mutex mutex;
};

/// The cheapest filter by the surplus measured on a sample, among those that the parameters and the memory
/// limit allow; along leading directions where that is cheaper and the expected queries earn what looking for
/// them costs. @throws InvalidArgument, OutOfMemory, Cancelled
codes::CodeSpace choose_codes(const DatasetView& data, const BruteForceParameters& parameters,
                              std::int64_t expected_queries, const Execution& execution);

/// Fine codes beside those of `space`, where they are expected to save more than they take.
/// @param expected_queries 0: any number
/// @param held bytes that are taken already
codes::FineSpace choose_fine_codes(const DatasetView& data, const codes::CodeSpace& space,
                                   std::int64_t expected_queries, std::uint64_t held,
                                   const Execution& execution);

/// What suits the queries: `prepared` itself or, where enough of them lie off its directions and there is
/// memory, codes of all values. @throws Cancelled
std::shared_ptr<const CpuPrepared> suiting(const CpuPrepared& prepared, const DatasetView& data,
                                           Metric metric, const DatasetView& queries,
                                           const Execution& execution);

/// Encodes the rows and groups equal ones where the memory limit leaves room; see Backend::prepare.
std::shared_ptr<const Prepared> prepare_on_cpu(const DatasetView& data,
                                               const BruteForceParameters& parameters,
                                               std::int64_t expected_queries, const Execution& execution);

}  // namespace kith::brute_force
