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
  explicit Scratch(const CodeSpace& space)
      : y(static_cast<std::size_t>(space.dim)),
        z(space.projection == nullptr ? 0 : static_cast<std::size_t>(space.projection->room())),
        decoded(static_cast<std::size_t>(space.values())),
        floats(static_cast<std::size_t>(space.values())),
        bytes(static_cast<std::size_t>((space.values() + 3) / 4 * 4)) {}
  /// What is encoded: the row in code space, or what the projection makes of it.
  double* coded() { return z.empty() ? y.data() : z.data(); }

  std::vector<double> y;        ///< the row in code space
  std::vector<double> z;        ///< fewer values of it
  double error = 0;             ///< of coded(), once a query is encoded
  std::vector<double> decoded;  ///< what the code stands for
  std::vector<float> floats;
  std::vector<unsigned char> bytes;  ///< padded to whole steps
};

/// Row to code space, in place. `error` bounds the 2-norm of computed y minus real y.
RowKind to_code_space(const CodeSpace& space, const RowKernels& kernels, double* y, double limit,
                      double& error);

/// The same of a row or query as it is stored; y [dim] receives it.
RowKind load_to_code_space(const CodeSpace& space, const RowKernels& kernels, const void* row, double* y,
                           double limit, double& error);

/// Makes coded() of y; `error` then bounds that.
void reduce(const CodeSpace& space, const RowKernels& kernels, Scratch& s, double& error);

/// Rows of a sample, those that filters speak of, as a projection leaves them for int8 codes.
struct ProjectedSample {
  std::int64_t rows = 0;
  std::int64_t room = 0;  ///< from one row to the next
  std::vector<double> z;
  std::vector<double> errors;

  const double* row(std::int64_t i) const { return z.data() + i * room; }
};
ProjectedSample projected_sample(const DatasetView& data, const CodeSpace& space, std::int64_t most);

/// What int8 codes may be.
struct CodeRange {
  int offset;   ///< of the stored byte
  int largest;  ///< magnitude
  int lane;     ///< 2-norm of a lane of a block (form.hpp); 0: any
};
CodeRange row_range(const CodeSpace& space);
CodeRange query_range(const CodeSpace& space);

/// int8 codes of coded() with the least scale that their range allows (or the one scale of the absolute
/// form): fills decoded and bytes (code + offset, padding included), returns the scale.
double quantize(const CodeSpace& space, const RowKernels& kernels, Scratch& s, CodeRange range);

}  // namespace kith::codes
