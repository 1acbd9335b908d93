// What the CPU backend keeps of a dataset.
#pragma once

#include "brute_force/backend.hpp"
#include "codes/codes.hpp"
#include "codes/duplicates.hpp"

namespace kith::brute_force {

struct CpuPrepared final : Prepared {
  codes::Codes codes;
  codes::Duplicates duplicates;

  Filter filter() const noexcept override { return codes.space.choice.filter; }
  std::uint64_t memory_bytes() const noexcept override { return codes.bytes() + duplicates.bytes(); }
};

/// The cheapest filter by the surplus measured on a sample, among those that the parameters and the memory
/// limit allow. @throws InvalidArgument, OutOfMemory
codes::CodeSpace choose_codes(const DatasetView& data, const BruteForceParameters& parameters,
                              std::int64_t expected_queries, const Execution& execution);

/// Encodes the rows and groups equal ones where the memory limit leaves room; see Backend::prepare.
std::shared_ptr<const Prepared> prepare_on_cpu(const DatasetView& data,
                                               const BruteForceParameters& parameters,
                                               std::int64_t expected_queries, const Execution& execution);

}  // namespace kith::brute_force
