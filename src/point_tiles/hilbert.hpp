// The order of tiles: along a Hilbert curve through the centres of their boxes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kith::point_tiles {

/// The place of a cell on the curve as text that sorts: its bits, highest first. Any number of dimensions
/// (Skilling, "Programming the Hilbert curve", AIP Conf. Proc. 707, 2004).
/// @param cell coordinates below 2^bits; changed
std::string hilbert_key(std::vector<std::uint32_t>& cell, int bits);

/// The order along the curve of `count` points, `dim` finite values each.
std::vector<std::int64_t> hilbert_order(std::span<const double> points, std::int64_t count, std::int64_t dim);

}  // namespace kith::point_tiles
