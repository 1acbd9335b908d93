#include "sharded/visits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/parallel.hpp"
#include "core/visit_dtype.hpp"
#include "kith/point_tree.hpp"
#include "point_tiles/box.hpp"

namespace kith::sharded {
namespace {

// Beyond, boxes of rows in no order of space overlap anyway.
constexpr std::int64_t most_dimensions = 16;
constexpr std::int64_t queries_a_task = 1024;

bool may_tell(std::int64_t dim, Metric metric) {
  return dim <= most_dimensions && is_tree_metric(metric);
}

// visit(first, last) for parts of all queries, side by side.
template <class Visit>
void in_parts(std::int64_t queries, const Execution& execution, const Visit& visit) {
  parallel_for(execution, (queries + queries_a_task - 1) / queries_a_task, [&](std::int64_t part) {
    visit(part * queries_a_task, std::min((part + 1) * queries_a_task, queries));
  });
}

}  // namespace

void survey(const DatasetView& rows, Metric metric, Shard& shard) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto dim = static_cast<std::size_t>(rows.dim);
  const bool wanted = may_tell(rows.dim, metric);
  shard.nan_rows = 0;
  shard.lower.assign(wanted ? dim : 0, infinity);
  shard.upper.assign(wanted ? dim : 0, -infinity);
  bool any = false;
  visit_dtype(rows.dtype, [&]<class T>(T) {
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      const T* values = static_cast<const T*>(rows.row(i));
      bool nan = false;
      bool finite = true;
      for (std::size_t j = 0; j < dim; ++j) {
        const double value = to_double(values[j]);
        nan = nan || std::isnan(value);
        finite = finite && std::isfinite(value);
      }
      shard.nan_rows += nan ? 1 : 0;
      // A row with a NaN is nobody's neighbour; one with an infinity is infinitely far, and a list that rules
      // a box out is full of nearer ones.
      if (!wanted || !finite) continue;
      any = true;
      for (std::size_t j = 0; j < dim; ++j) {
        shard.lower[j] = std::min(shard.lower[j], to_double(values[j]));
        shard.upper[j] = std::max(shard.upper[j], to_double(values[j]));
      }
    }
  });
  if (any) return;
  shard.lower.clear();
  shard.upper.clear();
}

template <class R>
R Visits::distance(std::int64_t query, const Shard& shard) const {
  if (shard.lower.empty()) return 0;
  std::array<double, most_dimensions> point{};
  visit_dtype(queries_.dtype, [&]<class T>(T) {
    const T* values = static_cast<const T*>(queries_.row(query));
    for (std::size_t j = 0; j < static_cast<std::size_t>(queries_.dim); ++j) point[j] = to_double(values[j]);
  });
  return point_tiles::distance_to_box<R>(manifest_.metric, queries_.dim, point.data(),
                                         {shard.lower.data(), shard.upper.data()});
}

std::uint64_t Visits::bytes(const Manifest& manifest, const DatasetView& queries) {
  if (!may_tell(manifest.dim, manifest.metric)) return 0;
  // A home, a flag and a number of each, and the queries that a shard is asked side by side.
  const std::uint64_t each = sizeof(std::int32_t) + 1 + sizeof(std::int64_t);
  return static_cast<std::uint64_t>(queries.rows) *
         (each + static_cast<std::uint64_t>(queries.dim) * size_of(queries.dtype));
}

Visits::Visits(const Manifest& manifest, const DatasetView& queries, std::optional<double> radius,
               const Execution& execution)
    : manifest_(manifest), queries_(queries), radius_(radius) {
  const bool boxes =
      std::ranges::any_of(manifest.shards, [](const Shard& shard) { return !shard.lower.empty(); });
  if (manifest.shards.size() < 2 || !boxes || queries.space != MemorySpace::host) return;
  home_.resize(static_cast<std::size_t>(queries.rows));
  in_parts(queries.rows, execution, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t q = first; q < last; ++q) {
      if (has_nan(q)) {
        home_[static_cast<std::size_t>(q)] = nobodys;
        continue;
      }
      double nearest = std::numeric_limits<double>::infinity();
      for (std::size_t s = 0; s < manifest.shards.size(); ++s) {
        const double its = distance<double>(q, manifest.shards[s]);
        if (!(its < nearest)) continue;
        nearest = its;
        home_[static_cast<std::size_t>(q)] = static_cast<std::int32_t>(s);
      }
    }
  });
}

bool Visits::has_nan(std::int64_t query) const {
  bool nan = false;
  visit_dtype(queries_.dtype, [&]<class T>(T) {
    const T* values = static_cast<const T*>(queries_.row(query));
    for (std::int64_t j = 0; j < queries_.dim; ++j) nan = nan || std::isnan(to_double(values[j]));
  });
  return nan;
}

// Smaller, not equal: a row at just the k-th distance may have the lower number.
template <class R>
bool Visits::asks(int round, std::int64_t shard, std::int64_t query, R kth) const {
  const std::int32_t home = home_[static_cast<std::size_t>(query)];
  if (home == nobodys || (home == shard) != (round == 0)) return false;
  const R its = distance<R>(query, manifest_.shards[static_cast<std::size_t>(shard)]);
  return !(kth < its) && !(radius_ && static_cast<double>(its) > *radius_);
}

std::optional<std::vector<std::int64_t>> Visits::of(int round, std::int64_t shard, const Neighbors& found,
                                                    const Execution& execution) const {
  if (home_.empty()) return std::nullopt;
  std::vector<std::uint8_t> asked(home_.size());
  std::visit(
      [&](const auto& distances) {
        in_parts(found.queries, execution, [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t q = first; q < last; ++q) {
            const auto kth = distances[static_cast<std::size_t>((q + 1) * found.k - 1)];
            asked[static_cast<std::size_t>(q)] = asks(round, shard, q, kth) ? 1 : 0;
          }
        });
      },
      found.distances);
  std::vector<std::int64_t> list;
  for (std::size_t q = 0; q < asked.size(); ++q) {
    if (asked[q] != 0) list.push_back(static_cast<std::int64_t>(q));
  }
  if (list.size() == asked.size() && !list.empty()) return std::nullopt;
  return list;
}

}  // namespace kith::sharded
