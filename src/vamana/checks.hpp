// What Vamana asks of its arguments, and what it makes of a search's options.
#pragma once

#include <cstdint>
#include <optional>

#include "kith/vamana.hpp"
#include "vamana/backend.hpp"

namespace kith::vamana {

/// @param dim of the rows @throws InvalidArgument
void check_parameters(const VamanaParameters& parameters, std::int64_t dim);

/// Sets a build_list_size of 0 to what the number of rows and values asks for; leaves it where there are
/// none.
void choose_build_list(VamanaParameters& parameters, const DatasetView& rows);

/// @throws InvalidArgument for rows that are too long, too many, or not on the host
void check_rows(const DatasetView& rows);

/// @throws InvalidArgument, DeviceError, OutOfMemory for an answer above the limit
void check_search(const DatasetView& rows, const DatasetView& queries, std::int64_t k,
                  const Execution& execution);

/// What was measured, and how a search is to be done by it.
struct Decision {
  SearchPlan plan;
  double recall = 0;  ///< stated; 0: unknown
};

/// How to search; nothing where only the exact engine finds what is asked for.
/// @throws InvalidArgument for options that are out of range or contradict each other
std::optional<Decision> decide(const SearchOptions& options, std::int64_t k, std::int64_t rows,
                               std::int64_t nodes, const RecallCurve& curve);

}  // namespace kith::vamana
