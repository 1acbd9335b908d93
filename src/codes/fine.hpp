// Codes of 16 bits beside those of a filter along directions: they say of a row that the filter keeps how
// near it is at least and at most, almost as well as its canonical distance does, from a tenth of its bytes.
//
// One step suits all rows and queries, so that what is compared is an integer:
//   value = 2 q.y - |y|^2   (Euclidean; the square of their distance is |q|^2 - value)
//   value = 2 q.y           (inner product, cosine)
// of the codes of Z(q) and Z(y) (projection.hpp). docs/exact-contract.md, step 11.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "codes/codes.hpp"
#include "core/aligned_buffer.hpp"
#include "kith/dataset.hpp"

namespace kith::codes {

/// 2-norm of a code up to which values fit 32 bits.
inline constexpr std::int64_t fine_norm = 16000;
static_assert(3 * fine_norm * fine_norm <= std::numeric_limits<std::int32_t>::max());
/// Values of a row are filled up to a multiple of this.
inline constexpr std::int64_t fine_group = 16;
/// In place of |y|^2: the row has no fine code.
inline constexpr std::int32_t no_fine_code = -1;

struct FineSpace {
  double step = 0;  ///< a float32; 0: there are no fine codes
  /// Rows that err by more, or are longer, have none.
  double error = 0;
  double longest = 0;
  std::int64_t values = 0;           ///< of Z
  std::int16_t usual_half_rest = 0;  ///< of most rows' codes: half the length off the directions
  bool euclid = false;

  explicit operator bool() const { return step > 0; }
  std::int64_t width() const { return (values + fine_group - 1) / fine_group * fine_group; }
  /// Bytes a row.
  std::int64_t row_bytes() const {
    return width() * std::int64_t{sizeof(std::int16_t)} + std::int64_t{sizeof(std::int32_t)};
  }
};

/// The rows' codes, one after the other, and what is subtracted of them (0 but for Euclidean metrics).
struct FineCodes {
  FineCodes() = default;
  /// @throws std::bad_alloc
  FineCodes(const FineSpace& fine_space, std::int64_t rows);

  FineSpace space;
  AlignedBuffer<std::int16_t> codes;
  AlignedBuffer<std::int32_t> norms;

  explicit operator bool() const { return static_cast<bool>(space); }
  std::uint64_t bytes() const { return codes.bytes() + norms.bytes(); }
  /// z, wrong by at most `error`, becomes the code of a row.
  void put(std::int64_t row, const double* z, double error);
};

/// A query's code, and what turns a bound into a value and back.
class FineQuery {
 public:
  FineQuery() = default;
  /// @param z its Z, wrong by at most `error`
  FineQuery(const CodeSpace& space, const FineSpace& fine, const double* z, double error);

  /// False where the code would be too long.
  bool usable() const noexcept { return !code_.empty(); }
  /// [width]
  const std::int16_t* code() const noexcept { return code_.data(); }

  /// No row of a smaller value is within `real` (real_bound.hpp).
  std::int32_t least_value(double real) const;
  /// At least the canonical distance, not yet rounded to the result's type, of a row that has a code of this
  /// value.
  /// @param half_rest the row's code of half its rest
  double most_distance(std::int32_t value, std::int16_t half_rest) const;

 private:
  Metric metric_ = Metric::sqeuclidean;
  FineSpace fine_;
  double unit_ = 1, inverse_unit_ = 1;  // powers of two
  std::vector<std::int16_t> code_;
  double norm_sq_ = 0;  // of the code
  double length_ = 0;   // of what it stands for
  double error_ = 0;
  double rest_ = 0;
};

/// A step and errors that suit nearly all rows of a sample. None where these are zero in code space.
FineSpace fine_space_of(const DatasetView& data, const CodeSpace& space);

/// encode_rows of a space with a projection, which fills in the rows' fine codes as well.
/// @throws OutOfMemory, Cancelled
Codes encode_rows_finely(const DatasetView& data, const CodeSpace& space, FineCodes& fine,
                         const Execution& execution);

}  // namespace kith::codes
