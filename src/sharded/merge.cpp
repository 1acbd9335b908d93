#include "sharded/merge.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/large_vector.hpp"
#include "core/parallel.hpp"
#include "core/search_checks.hpp"

namespace kith::sharded {
namespace {

constexpr std::int64_t queries_a_task = 256;
constexpr std::int64_t prefetched = 4;  // queries ahead
constexpr std::int64_t values_a_line = 8;
const RowNumbers of_all(0);

// Ascending pairs of a list; `rows` may end with -1, from where on it is padding.
template <class R>
struct List {
  std::span<const std::int64_t> rows;
  const R* distances;
  const RowNumbers& numbers;
  std::size_t at = 0;

  bool ended() const { return at == rows.size() || rows[at] < 0; }
  std::int64_t row() const { return numbers(rows[at]); }
  R distance() const { return distances[at]; }
  // A row's number may not be in the cache, and seldom matters.
  bool before(const List& other) const {
    return distance() != other.distance() ? distance() < other.distance() : row() < other.row();
  }
};

// Calls take(distance, row) for the pairs of both in order, until it says no more.
template <class R, class Take>
void walk(List<R>& a, List<R>& b, const Take& take) {
  while (!a.ended() || !b.ended()) {
    List<R>& next = b.ended() || (!a.ended() && a.before(b)) ? a : b;
    if (!take(next.distance(), next.row())) return;
    ++next.at;
  }
}

template <class R>
void merge_of(Neighbors& found, const Neighbors& more, const RowNumbers& numbers,
              const std::optional<std::vector<std::int64_t>>& queries, const Execution& execution) {
  auto& distances = std::get<std::vector<R>>(found.distances);
  const auto& its = std::get<std::vector<R>>(more.distances);
  const auto k = static_cast<std::size_t>(found.k);
  const auto task = [&](std::int64_t first) {
    std::vector<std::pair<R, std::int64_t>> list(k);
    const std::int64_t last = std::min(first + queries_a_task, more.queries);
    const auto place_of = [&](std::int64_t q) {
      return (queries ? (*queries)[static_cast<std::size_t>(q)] : q) * found.k;
    };
    for (std::int64_t q = first; q < last; ++q) {
      const std::int64_t place = place_of(q);
      if (q + prefetched < last) {
        numbers.prefetch(more.indices_of(q + prefetched));
        const std::int64_t ahead = place_of(q + prefetched);
        for (std::int64_t i = 0; i < std::min(found.k, 4 * values_a_line); i += values_a_line) {
          __builtin_prefetch(found.indices.data() + ahead + i, 1);
          __builtin_prefetch(distances.data() + ahead + i, 1);
        }
      }
      std::int64_t* rows = found.indices.data() + place;
      R* to = distances.data() + place;
      List<R> old{{rows, k}, to, of_all};
      List<R> now{more.indices_of(q), its.data() + q * more.k, numbers};
      if (now.ended() || (rows[k - 1] >= 0 && now.distance() > to[k - 1])) continue;
      if (old.ended()) {
        for (std::size_t i = 0; !now.ended(); ++i, ++now.at) {
          to[i] = now.distance();
          rows[i] = now.row();
        }
        continue;
      }
      std::size_t size = 0;
      walk(old, now, [&](R distance, std::int64_t row) {
        if (size == k) return false;
        list[size++] = {distance, row};
        return true;
      });
      for (std::size_t i = 0; i < size; ++i) {
        to[i] = list[i].first;
        rows[i] = list[i].second;
      }
    }
  };
  parallel_for(execution, (more.queries + queries_a_task - 1) / queries_a_task,
               [&](std::int64_t t) { task(t * queries_a_task); });
}

template <class R>
void merge_of(RadiusNeighbors& found, const RadiusNeighbors& more, const RowNumbers& numbers, bool sorted,
              std::int64_t most, const Execution& execution) {
  const auto& before = std::get<std::vector<R>>(found.distances);
  const auto& its = std::get<std::vector<R>>(more.distances);
  const auto queries = static_cast<std::size_t>(found.queries);
  std::vector<std::int64_t> offsets(queries + 1);
  for (std::size_t q = 0; q < queries; ++q) {
    std::int64_t size = found.offsets[q + 1] - found.offsets[q] + more.offsets[q + 1] - more.offsets[q];
    if (most > 0) size = std::min(size, most);
    offsets[q + 1] = offsets[q] + size;
  }
  std::vector<std::int64_t> rows(static_cast<std::size_t>(offsets.back()));
  std::vector<R> distances(rows.size());
  const auto task = [&](std::int64_t first) {
    const std::int64_t last = std::min(first + queries_a_task, found.queries);
    for (std::int64_t q = first; q < last; ++q) {
      const auto at = static_cast<std::size_t>(q);
      List<R> old{found.indices_of(q), before.data() + found.offsets[at], of_all};
      List<R> now{more.indices_of(q), its.data() + more.offsets[at], numbers};
      auto place = static_cast<std::size_t>(offsets[at]);
      const auto end = static_cast<std::size_t>(offsets[at + 1]);
      const auto take = [&](R distance, std::int64_t row) {
        if (place == end) return false;
        distances[place] = distance;
        rows[place++] = row;
        return true;
      };
      if (sorted) {
        walk(old, now, take);
      } else {
        for (List<R>* list : {&old, &now}) {
          for (; !list->ended() && take(list->distance(), list->row()); ++list->at) {
          }
        }
      }
    }
  };
  parallel_for(execution, (found.queries + queries_a_task - 1) / queries_a_task,
               [&](std::int64_t t) { task(t * queries_a_task); });
  found.offsets = std::move(offsets);
  found.indices = std::move(rows);
  found.distances = std::move(distances);
}

}  // namespace

Neighbors no_neighbors(std::int64_t queries, std::int64_t k, Dtype distances, const Execution& execution) {
  return or_out_of_memory([&] { return fmt::format("{} queries with k = {}", queries, k); },
                          [&] {
                            Neighbors found;
                            found.queries = queries;
                            found.k = k;
                            found.indices = large_vector<std::int64_t>(queries * k, execution, -1);
                            const auto fill = [&]<class R>(R) {
                              found.distances =
                                  large_vector<R>(queries * k, execution, std::numeric_limits<R>::infinity());
                            };
                            if (distances == Dtype::f64) {
                              fill(double{});
                            } else {
                              fill(float{});
                            }
                            return found;
                          });
}

void merge(Neighbors& found, const Neighbors& more, const RowNumbers& numbers,
           const std::optional<std::vector<std::int64_t>>& queries, const Execution& execution) {
  if (found.distance_dtype() == Dtype::f64) {
    merge_of<double>(found, more, numbers, queries, execution);
  } else {
    merge_of<float>(found, more, numbers, queries, execution);
  }
}

void merge(RadiusNeighbors& found, const RadiusNeighbors& more, const RowNumbers& numbers, bool sorted,
           std::int64_t most, const Execution& execution) {
  or_out_of_memory([] { return std::string("the rows within the radius"); },
                   [&] {
                     if (found.distance_dtype() == Dtype::f64) {
                       merge_of<double>(found, more, numbers, sorted, most, execution);
                     } else {
                       merge_of<float>(found, more, numbers, sorted, most, execution);
                     }
                     return 0;
                   });
}

RadiusNeighbors no_rows(std::int64_t queries, Dtype distances) {
  RadiusNeighbors found;
  found.queries = queries;
  found.offsets.assign(static_cast<std::size_t>(queries) + 1, 0);
  if (distances == Dtype::f64) found.distances.emplace<std::vector<double>>();
  return found;
}

void renumber(RadiusNeighbors& found, const RowNumbers& numbers) {
  for (std::int64_t& row : found.indices) row = numbers(row);
}

void spread(RadiusNeighbors& some, const std::vector<std::int64_t>& which, std::int64_t queries) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(queries) + 1);
  std::size_t at = 0;
  for (std::int64_t q = 0; q < queries; ++q) {
    offsets[static_cast<std::size_t>(q)] = some.offsets[at];
    if (at < which.size() && which[at] == q) ++at;
  }
  offsets.back() = some.offsets[at];
  some.queries = queries;
  some.offsets = std::move(offsets);
}

}  // namespace kith::sharded
