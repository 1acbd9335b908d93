// Rows and queries on their way to codes; shared by the files of this room.
#pragma once

#include <cstdint>
#include <vector>

#include "codes/codes.hpp"
#include "codes/cpu/row_kernels.hpp"

namespace kith::codes {

// The absolute form has one int8 scale for all rows; rows beyond its range are evaluated exactly.
inline constexpr double absolute_range = 2;
inline constexpr double absolute_scale = absolute_range / 127;

/// Scratch space of one thread.
struct Scratch {
  explicit Scratch(std::int64_t dim)
      : y(static_cast<std::size_t>(dim)),
        decoded(static_cast<std::size_t>(dim)),
        floats(static_cast<std::size_t>(dim)),
        bytes(static_cast<std::size_t>((dim + 3) / 4 * 4)) {}
  std::vector<double> y;        ///< the row in code space
  std::vector<double> decoded;  ///< what its code stands for
  std::vector<float> floats;
  std::vector<unsigned char> bytes;  ///< padded to whole steps
};

/// Row to code space, in place. `error` bounds the 2-norm of computed y minus real y.
RowKind to_code_space(const CodeSpace& space, const RowKernels& kernels, double* y, double limit,
                      double& error);

/// int8 codes with the scale that the largest entry asks for (or the one scale of the absolute form): fills
/// decoded and bytes (code + offset, padding included), returns the scale.
double quantize(const CodeSpace& space, const RowKernels& kernels, Scratch& s, int offset);

}  // namespace kith::codes
