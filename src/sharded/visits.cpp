#include "sharded/visits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "core/parallel.hpp"
#include "core/visit_dtype.hpp"
#include "kith/point_tree.hpp"
#include "point_tiles/box.hpp"

namespace kith::sharded {
namespace {

constexpr std::int64_t queries_a_task = 1024;
constexpr double infinity = std::numeric_limits<double>::infinity();

// visit(first, last) for parts of all queries, side by side.
template <class Visit>
void in_parts(std::int64_t queries, const Execution& execution, const Visit& visit) {
  parallel_for(execution, (queries + queries_a_task - 1) / queries_a_task, [&](std::int64_t part) {
    visit(part * queries_a_task, std::min((part + 1) * queries_a_task, queries));
  });
}

// What a dimension adds to a gap. In this order a NaN, of an infinity less itself, is none.
double term(double lower, double upper, double value, bool absolute) {
  const double side = std::max(0.0, std::max(lower - value, value - upper));
  return absolute ? side : side * side;
}

}  // namespace

bool boxes_tell(std::int64_t dim, Metric metric) {
  return dim <= most_box_dimensions && is_tree_metric(metric);
}

void survey(const DatasetView& rows, Metric metric, Shard& shard) {
  const auto dim = static_cast<std::size_t>(rows.dim);
  const bool wanted = boxes_tell(rows.dim, metric);
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

// The gap of a point and a box, squared or, by manhattan, as it is: about the distance of the two. It is
// compared with a limit before the bound of box.hpp is asked, which costs several times as much.
double Visits::gap(std::size_t shard, const Point& point) const {
  const double* lower = box(shard);
  const double* upper = lower + dim_;
  const bool absolute = manifest_.metric == Metric::manhattan;
  double sum = 0;
  for (std::size_t j = 0; j < dim_; ++j) sum += term(lower[j], upper[j], point[j], absolute);
  return sum;
}

// Those of all shards.
void Visits::find_gaps(const Point& point, double* gaps) const {
  const std::size_t shards = manifest_.shards.size();
  const bool absolute = manifest_.metric == Metric::manhattan;
  std::fill_n(gaps, shards, 0.0);
  for (std::size_t j = 0; j < dim_; ++j) {
    const double* lower = columns_.data() + j * 2 * shards;
    const double* upper = lower + shards;
    const double value = point[j];
    for (std::size_t s = 0; s < shards; ++s) gaps[s] += term(lower[s], upper[s], value, absolute);
  }
}

// Whether a gap is above a limit so clearly that the bound of box.hpp is, too. Let d be that bound before it
// is rounded to the type of the answers. Both are sums of at most 16 terms that are not negative, so each is
// within 2^-46 of the true sum, d within 2^-22 once it is rounded, as long as no term that counts falls out
// of the range of float and double: the gap is from 2^-100 to 2^100. So a gap of which 1 - 2^-20 is above
// the limit, squared for euclidean, says that d is above it. That square may overflow, and nothing is above
// it, or underflow, when it is far below 2^-100 anyway. Of the smallest gap of several boxes it says so of
// all: where another gap is above 2^100, so is its bound, nearly, and above the limit with it.
bool Visits::is_surely_beyond(double gap, double limit) const {
  const double square = manifest_.metric == Metric::euclidean ? limit * limit : limit;
  return gap >= 0x1p-100 && gap <= 0x1p100 && gap * (1 - 0x1p-20) > square;
}

// Whether every row of a shard is farther than the limit.
bool Visits::is_beyond(std::size_t shard, const Point& point, double limit) const {
  const double gap = this->gap(shard, point);
  if (gap == 0) return false;
  if (is_surely_beyond(gap, limit)) return true;
  const point_tiles::BoxView its = {box(shard), box(shard) + dim_};
  const auto dim = static_cast<std::int64_t>(dim_);
  const double bound = distance_dtype(manifest_.dtype) == Dtype::f64
                           ? point_tiles::distance_to_box<double>(manifest_.metric, dim, point.data(), its)
                           : point_tiles::distance_to_box<float>(manifest_.metric, dim, point.data(), its);
  return bound > limit;
}

std::uint64_t Visits::bytes(const Manifest& manifest, const DatasetView& queries) {
  if (!boxes_tell(manifest.dim, manifest.metric)) return 0;
  // What is kept of each, a flag and a number, and the queries that a shard is asked side by side.
  const std::uint64_t each = sizeof(std::int32_t) + sizeof(double) + 1 + 3 * sizeof(std::int64_t);
  return static_cast<std::uint64_t>(queries.rows) *
         (each + static_cast<std::uint64_t>(queries.dim) * size_of(queries.dtype));
}

Visits::Visits(const Manifest& manifest, const DatasetView& queries, std::optional<double> radius,
               const Execution& execution)
    : manifest_(manifest),
      queries_(queries),
      dim_(static_cast<std::size_t>(queries.dim)),
      radius_(radius.value_or(infinity)) {
  const bool boxes =
      std::ranges::any_of(manifest.shards, [](const Shard& shard) { return !shard.lower.empty(); });
  if (manifest.shards.size() < 2 || !boxes || queries.space != MemorySpace::host) return;
  for (const Shard& shard : manifest.shards) {
    const bool has_box = !shard.lower.empty();
    for (std::size_t j = 0; j < dim_; ++j) boxes_.push_back(has_box ? shard.lower[j] : -infinity);
    for (std::size_t j = 0; j < dim_; ++j) boxes_.push_back(has_box ? shard.upper[j] : infinity);
  }
  for (std::size_t j = 0; j < 2 * dim_; ++j) {
    const std::size_t at = j / 2 + (j % 2) * dim_;  // lower, then upper, of one dimension after the other
    for (std::size_t s = 0; s < manifest.shards.size(); ++s) columns_.push_back(box(s)[at]);
  }
  find_homes(execution);
}

bool Visits::are_balanced(int threads) const {
  constexpr std::int64_t fewest = 64;  // are answered before another thread is awake
  const std::int64_t queries = std::ssize(by_home_);
  const auto shards = std::ssize(manifest_.shards);
  if (threads < 2 || threads > shards || queries < fewest) return false;
  std::int64_t most = 0;
  for (std::size_t s = 0; s + 1 < first_.size(); ++s) most = std::max(most, first_[s + 1] - first_[s]);
  return most * threads <= queries + queries / 4;
}

Visits::Point Visits::point(std::size_t query) const {
  Point point{};
  visit_dtype(queries_.dtype, [&]<class T>(T) {
    const T* values = static_cast<const T*>(queries_.row(static_cast<std::int64_t>(query)));
    for (std::size_t j = 0; j < dim_; ++j) point[j] = to_double(values[j]);
  });
  return point;
}

void Visits::find_homes(const Execution& execution) {
  home_.assign(static_cast<std::size_t>(queries_.rows), nobodys);
  next_.resize(home_.size());
  in_parts(queries_.rows, execution, [&](std::int64_t first, std::int64_t last) {
    std::vector<double> gaps(manifest_.shards.size());
    for (auto q = static_cast<std::size_t>(first); q < static_cast<std::size_t>(last); ++q) {
      const Point its = point(q);
      find_gaps(its, gaps.data());
      if (std::ranges::any_of(its, [](double value) { return std::isnan(value); })) continue;
      double nearest = infinity;
      double next = infinity;
      std::size_t home = 0;
      for (std::size_t s = 0; s < gaps.size(); ++s) {
        const double distance = gaps[s];
        if (distance < nearest) {
          next = nearest;
          nearest = distance;
          home = s;
        } else {
          next = std::min(next, distance);
        }
      }
      home_[q] = static_cast<std::int32_t>(home);
      next_[q] = next;
    }
  });
  // Counted, then dealt out.
  first_.assign(manifest_.shards.size() + 1, 0);
  for (const std::int32_t home : home_) {
    if (home != nobodys) ++first_[static_cast<std::size_t>(home) + 1];
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  by_home_.resize(static_cast<std::size_t>(first_.back()));
  std::vector<std::int64_t> place(first_.begin(), first_.end() - 1);
  for (std::size_t q = 0; q < home_.size(); ++q) {
    if (home_[q] == nobodys) continue;
    by_home_[static_cast<std::size_t>(place[static_cast<std::size_t>(home_[q])]++)] =
        static_cast<std::int64_t>(q);
  }
}

template <class Asks>
std::vector<std::int64_t> Visits::those(const std::vector<std::int64_t>* among, const Execution& execution,
                                        const Asks& asks) const {
  const auto at = [&](std::size_t i) { return among != nullptr ? static_cast<std::size_t>((*among)[i]) : i; };
  std::vector<std::uint8_t> asked(among != nullptr ? among->size() : home_.size());
  in_parts(std::ssize(asked), execution, [&](std::int64_t first, std::int64_t last) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
      asked[i] = asks(at(i)) ? 1 : 0;
    }
  });
  std::vector<std::int64_t> list;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i] != 0) list.push_back(static_cast<std::int64_t>(at(i)));
  }
  return list;
}

// Beyond, not at: a row at just the k-th distance may have the lower number.
std::optional<std::vector<std::int64_t>> Visits::of(int round, std::int64_t shard, const Neighbors& found,
                                                    const Execution& execution) {
  if (home_.empty()) return std::nullopt;
  const auto number = static_cast<std::size_t>(shard);
  const auto limit_of = [&](const auto& distances, std::size_t query) {
    const double kth = distances[(query + 1) * static_cast<std::size_t>(found.k) - 1];
    return std::min(kth, radius_);
  };
  std::vector<std::int64_t> list;
  if (round == 0) {
    const auto its =
        std::span(by_home_).subspan(static_cast<std::size_t>(first_[number]),
                                    static_cast<std::size_t>(first_[number + 1] - first_[number]));
    list.assign(its.begin(), its.end());
    if (radius_ < infinity) {
      list = those(&list, execution,
                   [&](std::size_t query) { return !is_beyond(number, point(query), radius_); });
    }
  } else {
    std::visit(
        [&](const auto& distances) {
          if (!open_) {
            open_ = those(nullptr, execution, [&](std::size_t query) {
              return home_[query] != nobodys && !is_surely_beyond(next_[query], limit_of(distances, query));
            });
          }
          list = those(&*open_, execution, [&](std::size_t query) {
            return home_[query] != shard && !is_beyond(number, point(query), limit_of(distances, query));
          });
        },
        found.distances);
  }
  if (list.size() == home_.size() && !list.empty()) return std::nullopt;
  return list;
}

std::optional<std::vector<std::int64_t>> Visits::within(std::int64_t shard,
                                                        const Execution& execution) const {
  if (home_.empty()) return std::nullopt;
  auto list = those(nullptr, execution, [&](std::size_t query) {
    const std::int32_t home = home_[query];
    if (home == nobodys || (home != shard && is_surely_beyond(next_[query], radius_))) return false;
    return !is_beyond(static_cast<std::size_t>(shard), point(query), radius_);
  });
  if (list.size() == home_.size() && !list.empty()) return std::nullopt;
  return list;
}

}  // namespace kith::sharded
