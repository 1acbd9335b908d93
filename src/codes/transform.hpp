// Rows and queries on their way to codes; shared by the files of this room.
#pragma once

#include <cstdint>
#include <vector>

#include "codes/codes.hpp"
#include "codes/cpu/row_kernels.hpp"

namespace kith::coding {

// A row is special when an entry exceeds this in code space, where the rows' 99th percentile is about 1.
inline constexpr double largest_row_entry = 0x1p12;
// The difference form has one residual bound for all rows of centred data: far rows would spoil it for the
// rest.
inline constexpr double largest_centred_entry = 0x1p5;
inline constexpr double largest_query_entry = 0x1p30;
// The absolute form has one int8 scale for all rows; rows beyond its range are evaluated exactly.
inline constexpr double absolute_range = 2;
inline constexpr double absolute_scale = absolute_range / 127;
// Float64 sums and roots are within this of the real ones, relatively: far more than dim / 8 roundings.
inline constexpr double sum_error = 0x1p-30;

enum class RowKind : std::uint8_t { regular, special, nan };

/// Scratch space of one thread.
struct Scratch {
  explicit Scratch(std::int64_t dim)
      : y(static_cast<std::size_t>(dim)),
        coded(static_cast<std::size_t>(dim)),
        floats(static_cast<std::size_t>(dim)),
        bytes(static_cast<std::size_t>((dim + 3) / 4 * 4)) {}
  std::vector<double> y;      ///< the row in code space
  std::vector<double> coded;  ///< what its code stands for
  std::vector<float> floats;
  std::vector<unsigned char> bytes;  ///< padded to whole steps
};

/// Row to code space, in place. `error` bounds the 2-norm of computed y minus real y.
RowKind to_code_space(const CodeSpace& space, const RowKernels& kernels, double* y, double limit,
                      double& error);

/// int8 codes with the scale that the largest entry asks for (or the one scale of the absolute form): fills
/// coded and bytes (code + offset, padding included), returns the scale.
double quantise(const CodeSpace& space, const RowKernels& kernels, Scratch& s, int offset);

}  // namespace kith::coding
