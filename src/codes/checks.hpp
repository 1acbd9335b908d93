// What is asked of rows, queries, codes and parameters before anything is done with them.
#pragma once

#include <cstdint>
#include <limits>

#include "codes/coding.hpp"

namespace kith::codes {

inline constexpr std::int64_t rows_a_task = 1024;

/// A host view, and the CPU as the device. @throws InvalidArgument, DeviceError
void check_place(const DatasetView& view, const char* what, const Execution& execution);

/// Of the dimension and the dtype trained on. @throws InvalidArgument
void check_fit(const DatasetView& rows, const char* what, const Quantizer& quantizer);

/// Such bytes as encode() gives, on the host. @throws InvalidArgument
void check_codes(const DatasetView& codes, const Quantizer& quantizer, const Execution& execution);

/// `count` of `each` bytes against the caller's limit. @throws OutOfMemory
void check_memory(std::int64_t count, std::int64_t each, const char* what, const Execution& execution);

/// All values finite and within limits, no row longer than `longest`; names the first that is not.
/// @throws InvalidArgument, Cancelled
void check_values(const DatasetView& rows, const char* what, const Execution& execution,
                  double longest = std::numeric_limits<double>::infinity());

/// Row i as doubles.
void load_row(const DatasetView& rows, std::int64_t i, double* values);

}  // namespace kith::codes
