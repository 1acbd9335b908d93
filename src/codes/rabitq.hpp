// RaBitQ: J. Gao, C. Long: RaBitQ: quantizing high-dimensional vectors with a theoretical error bound for
// approximate nearest neighbor search. SIGMOD 2024; with more bits, J. Gao, Y. Gou, Y. Xu, Y. Yang, C. Long,
// R. C.-W. Wong: Practical and asymptotically optimal quantization of high-dimensional vectors. SIGMOD 2025.
//
// A row x becomes y = P (x - mean), P a random rotation into a multiple of 32 dimensions D. Its code is the
// grid vector v, values u_i - (2^bits - 1) / 2 with u_i of `bits` bits, of a direction near that of y. For a
// query r, rotated likewise, <v, r> |y|^2 / <v, y> estimates <y, r> without bias: what of v is orthogonal to
// y points anywhere, so the error of the estimate is |y| |r| tan(v, y) times a coordinate of a random unit
// vector in D - 1 dimensions. Such a coordinate exceeds t / sqrt(D - 1) with a probability of at most
// 2 exp(-t^2 / 2), for a rotation uniform among all.
//
// A query is rounded to 16 bits, fewer where its sums would pass 2^31: products of code and query are
// integers. What that rounding may do is added to the bound, by Cauchy and Schwarz.
//
// A code: |y|^2, |y|^2 / <v, y> and |y| tan(v, y) / sqrt(D - 1) as float32, then the bits of u as
// RabitqKernels::dots takes them.
#pragma once

#include <cstdint>
#include <vector>

#include "codes/coding.hpp"
#include "codes/rabitq_estimate.hpp"
#include "codes/rotation.hpp"

namespace kith::codes {

struct RabitqSpace {
  Rows rows;
  Metric metric = Metric::sqeuclidean;
  std::int64_t bits = 4;
  std::vector<double> mean;
  Rotation rotation;  ///< of D dimensions

  static std::int64_t padded(std::int64_t dim) { return (dim + 31) / 32 * 32; }
  std::int64_t code_bytes() const { return 12 + bits * rotation.dim() / 8; }
};

/// Null for codings of another kind.
const RabitqSpace* rabitq_space(const Coding& coding);

/// t of the bound for a confidence.
double rabitq_deviations(double confidence);

class RabitqWorker : public Worker {
 public:
  RabitqWorker(const RabitqSpace& space, double confidence);

  void encode(const void* row, std::uint8_t* code) override;
  void decode(const std::uint8_t* code, double* row) override;
  void set_query(const void* query) override;
  void estimate(const std::uint8_t* codes, std::int64_t count, float* distances, float* bounds) override;
  void estimate_gathered(const std::uint8_t* codes, const std::uint32_t* rows, std::int64_t count,
                         float* distances) override;

 private:
  void rotate(const void* row, bool centered);
  float distance(const std::uint8_t* code, std::int32_t dot) const;
  double best_scale(double largest) const;

  const RabitqSpace& space_;
  double deviations_;  // t of the bound
  std::vector<double> values_;
  std::vector<double> scratch_;
  std::vector<std::int16_t> query_;
  std::vector<std::int32_t> products_;
  RabitqQuery scalars_;
};

}  // namespace kith::codes
