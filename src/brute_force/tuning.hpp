// What both backends try alike. Numbers that depend on the machine stand in cpu/tuning.hpp and
// cuda/tuning.hpp.
#pragma once

#include <cstdint>

namespace kith::brute_force::tuning {

/// Codes along leading directions are looked for from so many dimensions on, where the variance is spread
/// over at most this share of them; at most so many directions for each that it is spread over.
inline constexpr std::int64_t fewest_reduced_dim = 96;
inline constexpr double largest_spread = 0.25;
inline constexpr double directions_of_spread = 4;

}  // namespace kith::brute_force::tuning
