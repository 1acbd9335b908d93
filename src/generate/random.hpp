// Counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011). The n-th number needs no other, so rows are made in any order.
#pragma once

#include <array>
#include <cstdint>

namespace kith::generators {

/// One block of four 32-bit numbers from a 128-bit counter and a 64-bit key.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

// The authors' known-answer vectors.
static_assert(philox({0, 0, 0, 0}, {0, 0}) ==
              std::array<std::uint32_t, 4>{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U});
static_assert(philox({0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU}, {0xffffffffU, 0xffffffffU}) ==
              std::array<std::uint32_t, 4>{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU});

/// Normal quantile of p in (0, 1).
double normal_quantile(double p) noexcept;

/// The random numbers of one row (or centre, or grid cell) of one stream; a stream is a purpose.
class Row {
 public:
  Row(std::uint64_t seed, std::uint32_t stream, std::uint64_t row) noexcept
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)},
        row_{static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row >> 32U)},
        stream_(stream) {}

  /// The next 53 random bits as a multiple of 2^-53 in [0, 1).
  double uniform() noexcept { return static_cast<double>(bits()) * 0x1p-53; }
  /// The next standard normal number.
  double normal() noexcept { return normal_quantile((static_cast<double>(bits()) + 0.5) * 0x1p-53); }

 private:
  std::uint64_t bits() noexcept {
    if (left_ == 0) {
      block_ = philox({row_[0], row_[1], next_++, stream_}, key_);
      left_ = 2;
    }
    --left_;
    const std::uint64_t both = (std::uint64_t{block_[2 * left_]} << 32U) | block_[2 * left_ + 1];
    return both >> 11U;
  }

  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 2> row_;
  std::uint32_t stream_;
  std::uint32_t next_ = 0;
  std::array<std::uint32_t, 4> block_{};
  unsigned left_ = 0;
};

}  // namespace kith::generators
