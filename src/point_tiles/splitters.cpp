#include "point_tiles/splitters.hpp"

#include <algorithm>
#include <numeric>

namespace kith::point_tiles {

Splitters::Splitters(std::vector<double> sample, std::int64_t count, std::int64_t dim, std::int64_t tiles) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  tiles_ = 0;
  root_ = divide(order.data(), order.data() + count, tiles, sample.data(), dim);
}

std::int64_t Splitters::divide(std::int64_t* first, std::int64_t* last, std::int64_t tiles,
                               const double* sample, std::int64_t dim) {
  const auto leaf = [&] { return -1 - tiles_++; };
  if (tiles <= 1 || last - first < 2) return leaf();
  std::int64_t axis = 0;
  double widest = 0;
  for (std::int64_t j = 0; j < dim; ++j) {
    const auto value = [&](std::int64_t i) { return sample[i * dim + j]; };
    const auto [low, high] =
        std::minmax_element(first, last, [&](std::int64_t a, std::int64_t b) { return value(a) < value(b); });
    const double width = value(*high) / 2 - value(*low) / 2;  // the difference may be past the largest double
    if (width > widest) {
      widest = width;
      axis = j;
    }
  }
  if (widest == 0) return leaf();  // nothing tells them apart
  const auto value = [&](std::int64_t i) { return sample[i * dim + axis]; };
  const auto less = [&](std::int64_t a, std::int64_t b) { return value(a) < value(b); };
  const std::int64_t below = tiles / 2;
  std::int64_t* middle =
      first + std::clamp<std::int64_t>((last - first) * below / tiles, 1, last - first - 1);
  std::nth_element(first, middle, last, less);
  double split = value(*middle);
  // Points equal to the split go above it; some must be below.
  if (std::none_of(first, last, [&](std::int64_t i) { return value(i) < split; })) {
    double next = split;
    for (std::int64_t* i = first; i != last; ++i) {
      if (value(*i) > split && (next == split || value(*i) < next)) next = value(*i);
    }
    split = next;
  }
  middle = std::partition(first, last, [&](std::int64_t i) { return value(i) < split; });
  const auto self = static_cast<std::int64_t>(nodes_.size());
  nodes_.push_back({axis, split, 0, 0});
  // By the shares there are: floods of equal values may have moved the split.
  const std::int64_t share = std::clamp<std::int64_t>(
      ((middle - first) * tiles + (last - first) / 2) / (last - first), 1, tiles - 1);
  const std::int64_t low = divide(first, middle, share, sample, dim);
  const std::int64_t high = divide(middle, last, tiles - share, sample, dim);
  nodes_[static_cast<std::size_t>(self)].below = low;
  nodes_[static_cast<std::size_t>(self)].above = high;
  return self;
}

}  // namespace kith::point_tiles
