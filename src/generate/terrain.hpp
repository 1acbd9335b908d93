// An airborne laser scan of a landscape that never was.
#pragma once

#include <array>
#include <cstdint>

namespace kith::generators {

/// Point `index` of the endless scan: x, y, z in metres, multiples of 0.01 (before the UTM offset too).
std::array<double, 3> terrain_point(std::uint64_t seed, std::int64_t index, double points_per_square_metre,
                                    bool utm);

}  // namespace kith::generators
