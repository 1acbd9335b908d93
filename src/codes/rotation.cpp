#include "codes/rotation.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "generate/random.hpp"

namespace kith::codes {
namespace {

constexpr int round_count = 3;
constexpr std::uint32_t stream = 0x726F7461;  // "rota"

// Walsh-Hadamard transform of `count` values, a power of two, unscaled: its own inverse but for the scale.
void walsh_hadamard(double* values, std::int64_t count) {
  for (std::int64_t half = 1; half < count; half *= 2) {
    for (std::int64_t first = 0; first < count; first += 2 * half) {
      double* a = values + first;
      double* b = a + half;
      for (std::int64_t i = 0; i < half; ++i) {
        const double sum = a[i] + b[i];
        b[i] = a[i] - b[i];
        a[i] = sum;
      }
    }
  }
}

}  // namespace

Rotation::Rotation(std::int64_t dim, std::uint64_t seed)
    : dim_(dim), width_(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(dim)))) {
  scale_ = 1 / std::sqrt(static_cast<double>(width_));
  const auto count = static_cast<std::size_t>(dim);
  for (int i = 0; i < round_count; ++i) {
    generators::Row random(seed, stream, static_cast<std::uint64_t>(i));
    Round round;
    round.sign.resize(count);
    for (double& sign : round.sign) sign = random.uniform() < 0.5 ? -1 : 1;
    round.from.resize(count);
    std::iota(round.from.begin(), round.from.end(), std::uint32_t{0});
    for (std::size_t j = count; j > 1; --j) {
      std::swap(round.from[j - 1],
                round.from[static_cast<std::size_t>(random.uniform() * static_cast<double>(j))]);
    }
    rounds_.push_back(std::move(round));
  }
}

std::uint64_t Rotation::memory_bytes() const noexcept {
  return round_count * static_cast<std::uint64_t>(dim_) * (sizeof(std::uint32_t) + sizeof(double));
}

void Rotation::transform(double* values) const {
  walsh_hadamard(values, width_);
  for (std::int64_t i = 0; i < width_; ++i) values[i] *= scale_;
}

void Rotation::apply(double* values, double* scratch) const {
  for (const Round& round : rounds_) {
    for (std::int64_t i = 0; i < dim_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      scratch[i] = values[round.from[at]] * round.sign[at];
    }
    transform(scratch);
    if (width_ < dim_) transform(scratch + dim_ - width_);
    std::memcpy(values, scratch, static_cast<std::size_t>(dim_) * sizeof(double));
  }
}

void Rotation::invert(double* values, double* scratch) const {
  for (auto round = rounds_.rbegin(); round != rounds_.rend(); ++round) {
    if (width_ < dim_) transform(values + dim_ - width_);
    transform(values);
    for (std::int64_t i = 0; i < dim_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      scratch[round->from[at]] = values[i] * round->sign[at];
    }
    std::memcpy(values, scratch, static_cast<std::size_t>(dim_) * sizeof(double));
  }
}

}  // namespace kith::codes
