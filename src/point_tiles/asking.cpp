#include "point_tiles/asking.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

namespace kith::point_tiles {
namespace {

// The tile each query begins in: the nearest box, the first of several. -1: a NaN, no tile at all.
template <class T>
std::vector<std::int32_t> first_tiles(const Manifest& manifest, const Question& question,
                                      const DatasetView& queries, const Execution& execution) {
  std::vector<std::int32_t> tiles(static_cast<std::size_t>(queries.rows));
  const Reach<T> reach(manifest, question.metric, question.radius);
  constexpr std::int64_t part = 1 << 8;
  parallel_for(execution, (queries.rows + part - 1) / part, [&](std::int64_t p) {
    Point point;
    for (std::int64_t i = p * part; i < std::min(queries.rows, (p + 1) * part); ++i) {
      reach.load(static_cast<const std::byte*>(queries.row(i)), point);
      std::int32_t nearest = point.nan || manifest.tiles.empty() ? -1 : 0;
      T least = std::numeric_limits<T>::infinity();
      for (std::size_t t = 0; point.finite && t < manifest.tiles.size() && least > 0; ++t) {
        if (!manifest.tiles[t].has_box()) continue;
        const T far = reach.distance(point, static_cast<std::int64_t>(t));
        if (far < least) {
          least = far;
          nearest = static_cast<std::int32_t>(t);
        }
      }
      tiles[static_cast<std::size_t>(i)] = nearest;
    }
  });
  return tiles;
}

}  // namespace

template <class T>
std::int64_t ask(Sweep<T>& sweep, Answers<T>& answers, const Manifest& manifest, const Question& question,
                 const DatasetView& queries, std::int64_t place, std::int64_t block_rows,
                 ProgressCounter& progress, const Execution& execution) {
  const std::vector<std::int32_t> first = first_tiles<T>(manifest, question, queries, execution);
  std::vector<std::int64_t> order(first.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return first[static_cast<std::size_t>(a)] < first[static_cast<std::size_t>(b)];
  });
  const auto tile_of = [&](std::size_t i) { return first[static_cast<std::size_t>(order[i])]; };
  const auto row_bytes = static_cast<std::size_t>(manifest.row_bytes());
  std::size_t at = 0;
  std::int64_t nans = 0;
  for (; at < order.size() && tile_of(at) < 0; ++at) {
    const std::int64_t none[2] = {0, 0};
    std::int64_t number = 0;
    Block<T> nothing;
    nothing.lists.queries = 1;
    nothing.lists.offsets = none;
    if (question.kind == Kind::count) nothing.lists.counts = &number;
    answers.put(place + order[at], nothing);
    nans += manifest.tiles.empty() ? 0 : 1;
  }
  progress.advance(static_cast<std::int64_t>(at));
  std::vector<std::int64_t> places;
  for (std::int64_t t = 0; t < static_cast<std::int64_t>(manifest.tiles.size()); ++t) {
    bool searched = false;
    while (at < order.size() && tile_of(at) == t) {
      std::size_t end = at;
      while (end < order.size() && static_cast<std::int64_t>(end - at) < block_rows && tile_of(end) == t)
        ++end;
      const auto count = static_cast<std::int64_t>(end - at);
      Dataset some = Dataset::allocate(manifest.dtype, count, manifest.dim);
      auto* to = static_cast<std::byte*>(some.mutable_data());
      places.clear();
      for (std::size_t i = at; i < end; ++i, to += row_bytes) {
        std::memcpy(to, queries.row(order[i]), row_bytes);
        places.push_back(place + order[i]);
      }
      const bool more = end < order.size();
      sweep.search(t, some.view(), places, more ? tile_of(end) : std::numeric_limits<std::int64_t>::max());
      progress.advance(count);
      at = end;
      searched = true;
    }
    if (!searched) sweep.serve(t);
  }
  return nans;
}

template std::int64_t ask(Sweep<float>&, Answers<float>&, const Manifest&, const Question&,
                          const DatasetView&, std::int64_t, std::int64_t, ProgressCounter&, const Execution&);
template std::int64_t ask(Sweep<double>&, Answers<double>&, const Manifest&, const Question&,
                          const DatasetView&, std::int64_t, std::int64_t, ProgressCounter&, const Execution&);

}  // namespace kith::point_tiles
