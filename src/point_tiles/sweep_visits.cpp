// A sweep's queries in other tiles than their own, and how their lists grow there.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "point_tiles/sweep.hpp"

namespace kith::point_tiles {

// Of the tiles in memory the nearest that a query needs, of several the one with the lowest rows: of many
// that hold the same point that leaves nothing to the others.
template <class T>
void Sweep<T>::visit_nearest(std::vector<Waiting>& queries) {
  const std::vector<std::int64_t> there = resident_.tiles();
  std::vector<bool> is_there(mail_.size());
  for (const std::int64_t number : there) is_there[static_cast<std::size_t>(number)] = true;
  std::vector<std::int32_t> nearest(queries.size(), -1);
  for_parts(queries.size(), [&](std::size_t i) {
    const Waiting& query = queries[i];
    if (query.tiles.size() < 2) return;
    Point point;
    reach_.load(layout_.point(query), point);
    End least;
    for (const std::int32_t number : query.tiles) {
      if (!is_there[static_cast<std::size_t>(number)]) continue;
      const T distance = reach_.distance(point, number);
      if (nearest[i] >= 0 && !reach_.needs(least, distance, number)) continue;
      nearest[i] = number;
      least = {distance, reach_.first_row(number)};
    }
  });
  std::unordered_map<std::int64_t, std::vector<Waiting*>> visitors;
  for (std::size_t i = 0; i < queries.size(); ++i) {
    if (nearest[i] >= 0) visitors[nearest[i]].push_back(&queries[i]);
  }
  for (const std::int64_t number : there) {
    const auto found = visitors.find(number);
    if (found != visitors.end()) visit(*resident_.find(number), found->second);
  }
}

// What is needed of the tiles in memory, the most recent first: they lie nearest on the curve.
template <class T>
void Sweep<T>::visit_resident(std::vector<Waiting>& queries) {
  if (question_.kind == Kind::nearest) visit_nearest(queries);
  // There may be hundreds of tiles in memory, and most are nobody's.
  std::unordered_map<std::int64_t, std::vector<Waiting*>> wanted;
  for (Waiting& query : queries) {
    for (const std::int32_t number : query.tiles) wanted[number].push_back(&query);
  }
  for (const std::int64_t number : resident_.tiles()) {
    const auto found = wanted.find(number);
    if (found == wanted.end()) continue;
    // Lists have become better meanwhile.
    std::erase_if(found->second, [&](const Waiting* query) {
      return !std::ranges::binary_search(query->tiles, static_cast<std::int32_t>(number));
    });
    if (!found->second.empty()) visit(*resident_.find(number), found->second);
  }
}

template <class T>
void Sweep<T>::visit(const Resident& where, std::span<Waiting*> queries) {
  statistics_.visits += static_cast<std::int64_t>(queries.size());
  const Manifest& manifest = folder_.manifest();
  while (!queries.empty()) {
    const auto some =
        queries.first(std::min(queries.size(), static_cast<std::size_t>(shares_.visiting_rows)));
    queries = queries.subspan(some.size());
    Dataset points = Dataset::allocate(manifest.dtype, static_cast<std::int64_t>(some.size()), manifest.dim);
    auto* to = static_cast<std::byte*>(points.mutable_data());
    for (std::size_t i = 0; i < some.size(); ++i) {
      std::memcpy(to + i * row_bytes_, layout_.point(*some[i]), row_bytes_);
    }
    Lists<T> lists;
    for (std::int64_t first = 0; first < points.rows(); first += lists.queries) {
      lists = find(visits_, where, points.view(), first, false);
      constexpr std::int64_t part = 1 << 8;
      parallel_for(execution_, (lists.queries + part - 1) / part, [&](std::int64_t p) {
        for (std::int64_t i = p * part; i < std::min(lists.queries, (p + 1) * part); ++i) {
          Waiting& query = *some[static_cast<std::size_t>(first + i)];
          merge(query, where, lists, i);
          forget_tiles(query, where.tile);
        }
      });
      stop_.check();
    }
  }
}

// Two lists by (distance, row), of different rows.
template <class T>
void Sweep<T>::merge(Waiting& query, const Resident& where, const Lists<T>& lists, std::int64_t i) const {
  const std::int64_t more = lists.size(i);
  if (more == 0) return;
  if (question_.kind == Kind::count) {
    query.found += more;
    return;
  }
  Waiting merged;
  layout_.allocate(merged, std::min(question_.most(), query.found + more));
  layout_.set_point(merged, layout_.point(query));
  const std::int64_t* rows = lists.rows + lists.begin(i);
  const T* distances = lists.distances + lists.begin(i);
  std::int64_t a = 0;
  std::int64_t b = 0;
  for (std::int64_t j = 0; j < merged.found; ++j) {
    // One list gives at most j rows before the j-th, so where both are over no row is left to take.
    bool take_b = a == query.found;
    if (!take_b && b < more) {
      const std::int64_t row = where.rows[rows[b]];
      const T old = layout_.distances(query)[a];
      take_b = distances[b] < old || (distances[b] == old && row < layout_.rows(query)[a]);
    }
    // allocate() has made room for as many. NOLINTNEXTLINE(clang-analyzer-security.ArrayBound)
    layout_.rows(merged)[j] = take_b ? where.rows[rows[b]] : layout_.rows(query)[a];
    layout_.distances(merged)[j] = take_b ? distances[b] : layout_.distances(query)[a];
    if (question_.points) {
      const void* from = take_b ? where.coordinates.view().row(rows[b])
                                : layout_.points_of(query) + static_cast<std::size_t>(a) * row_bytes_;
      std::memcpy(layout_.points_of(merged) + static_cast<std::size_t>(j) * row_bytes_, from, row_bytes_);
    }
    take_b ? ++b : ++a;
  }
  query.found = merged.found;
  query.words = std::move(merged.words);
}

// The tile just visited, and those that the list no longer needs.
template <class T>
void Sweep<T>::forget_tiles(Waiting& query, std::int64_t visited) const {
  Point point;
  reach_.load(layout_.point(query), point);
  const End end = end_of(query.found, layout_.distances(query), layout_.rows(query));
  std::erase_if(query.tiles, [&](std::int32_t number) {
    return number == visited || !reach_.needs(end, reach_.distance(point, number), number);
  });
}

template void Sweep<float>::forget_tiles(Waiting&, std::int64_t) const;
template void Sweep<double>::forget_tiles(Waiting&, std::int64_t) const;
template void Sweep<float>::visit_resident(std::vector<Waiting>&);
template void Sweep<double>::visit_resident(std::vector<Waiting>&);
template void Sweep<float>::visit(const Resident&, std::span<Waiting*>);
template void Sweep<double>::visit(const Resident&, std::span<Waiting*>);

}  // namespace kith::point_tiles
