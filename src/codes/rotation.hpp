// A random rotation that takes O(d log d): three rounds of random signs, a random permutation and
// Walsh-Hadamard transforms (fast Johnson-Lindenstrauss transform: Ailon and Chazelle 2006; three rounds in
// place of a matrix: Andoni et al. 2015).
//
// Where d is no power of two, each round transforms the first h values and then the last h, h the largest
// power of two up to d: the two overlap, the permutation of the next round mixes them. Every step is
// orthogonal. They are additions, and products with numbers that are common to all, value by value: no sum
// depends on how a compiler orders it, so the bits are the same on every machine.
#pragma once

#include <cstdint>
#include <vector>

namespace kith::codes {

class Rotation {
 public:
  Rotation(std::int64_t dim, std::uint64_t seed);

  struct Round {
    std::vector<std::uint32_t> from;  ///< value i comes from place from[i]
    std::vector<double> sign;
  };

  std::int64_t dim() const noexcept { return dim_; }
  /// What a device needs to do the same: of each round the permutation and the signs, then transforms of the
  /// first width() values and, where there are more, of the last, each scaled by scale().
  const std::vector<Round>& rounds() const noexcept { return rounds_; }
  std::int64_t width() const noexcept { return width_; }
  double scale() const noexcept { return scale_; }
  std::uint64_t memory_bytes() const noexcept;

  /// In place, dim() values; `scratch` takes as many.
  void apply(double* values, double* scratch) const;
  /// The way back.
  void invert(double* values, double* scratch) const;

 private:
  void transform(double* values) const;

  std::int64_t dim_;
  std::int64_t width_ = 1;  // h
  double scale_ = 1;        // 1 / sqrt(h)
  std::vector<Round> rounds_;
};

}  // namespace kith::codes
