#include "point_tiles/hilbert.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace kith::point_tiles {

std::string hilbert_key(std::vector<std::uint32_t>& x, int bits) {
  const std::size_t dim = x.size();
  const std::uint32_t highest = std::uint32_t{1} << static_cast<unsigned>(bits - 1);
  for (std::uint32_t q = highest; q > 1; q >>= 1U) {
    const std::uint32_t below = q - 1;
    for (std::size_t i = 0; i < dim; ++i) {
      if ((x[i] & q) != 0) {
        x[0] ^= below;  // invert
      } else {          // exchange
        const std::uint32_t t = (x[0] ^ x[i]) & below;
        x[0] ^= t;
        x[i] ^= t;
      }
    }
  }
  for (std::size_t i = 1; i < dim; ++i) x[i] ^= x[i - 1];  // Gray encode
  std::uint32_t t = 0;
  for (std::uint32_t q = highest; q > 1; q >>= 1U) {
    if ((x[dim - 1] & q) != 0) t ^= q - 1;
  }
  std::string key;
  for (std::uint32_t& value : x) value ^= t;
  for (std::uint32_t q = highest; q > 0; q >>= 1U) {
    for (const std::uint32_t value : x) key += (value & q) != 0 ? '1' : '0';
  }
  return key;
}

std::vector<std::int64_t> hilbert_order(std::span<const double> points, std::int64_t count,
                                        std::int64_t dim) {
  constexpr int bits = 16;
  const auto d = static_cast<std::size_t>(dim);
  std::vector<double> low(d, std::numeric_limits<double>::infinity());
  std::vector<double> high(d, -std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < static_cast<std::size_t>(count) * d; ++i) {
    low[i % d] = std::min(low[i % d], points[i]);
    high[i % d] = std::max(high[i % d], points[i]);
  }
  // One scale for all dimensions; halves, since a difference may be past the largest double.
  double widest = 0;
  for (std::size_t j = 0; j < d; ++j) widest = std::max(widest, high[j] / 2 - low[j] / 2);
  std::vector<std::pair<std::string, std::int64_t>> keys;
  std::vector<std::uint32_t> cell(d);
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < d; ++j) {
      const double at =
          widest > 0 ? (points[static_cast<std::size_t>(i) * d + j] / 2 - low[j] / 2) / widest : 0;
      cell[j] = static_cast<std::uint32_t>(std::clamp(at, 0.0, 1.0) * ((1 << bits) - 1));
    }
    keys.emplace_back(hilbert_key(cell, bits), i);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::int64_t> order;
  for (const auto& [key, i] : keys) order.push_back(i);
  return order;
}

}  // namespace kith::point_tiles
