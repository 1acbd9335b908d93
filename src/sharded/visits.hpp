// Which queries a shard is asked. Where the boxes of shards tell, each query asks its nearest shard first,
// and then those that its list, as it is by then, does not rule out. Rows that lie in an order of space, as
// scans of one place after the other do, then need few shards a query; of rows in no order all are asked.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/neighbors.hpp"
#include "sharded/manifest.hpp"

namespace kith::sharded {

/// Beyond, boxes of rows overlap anyway.
inline constexpr std::int64_t most_box_dimensions = 16;

/// Whether the boxes of shards may tell which of them a query needs.
bool boxes_tell(std::int64_t dim, Metric metric);

/// Counts a shard's rows with a NaN, and finds the box of its finite rows where boxes may tell: in few
/// dimensions, by a metric that they bound.
void survey(const DatasetView& rows, Metric metric, Shard& shard);

class Visits {
 public:
  /// @param radius no row farther than this is wanted
  /// @throws Cancelled
  Visits(const Manifest& manifest, const DatasetView& queries, std::optional<double> radius,
         const Execution& execution);

  /// Times that the shards are gone through.
  int rounds() const noexcept { return home_.empty() ? 1 : 2; }
  /// Whether several threads that take a shard each have about as much to do in the first of two rounds.
  bool are_balanced(int threads) const;
  /// Queries with a NaN, which no shard is asked: of two rounds alone.
  std::int64_t nan_queries() const { return std::ranges::count(home_, nobodys); }
  /// Bytes of host memory that a search takes for them.
  static std::uint64_t bytes(const Manifest& manifest, const DatasetView& queries);

  /// The queries to ask a shard in a round, ascending; nothing: all of them. Rounds are gone through in
  /// order.
  /// @param found by the rounds before, or also by shards before in this one
  std::optional<std::vector<std::int64_t>> of(int round, std::int64_t shard, const Neighbors& found,
                                              const Execution& execution);

  /// The queries whose radius reaches a shard's box, ascending; nothing: all of them.
  std::optional<std::vector<std::int64_t>> within(std::int64_t shard, const Execution& execution) const;

 private:
  static constexpr std::int32_t nobodys = -1;

  using Point = std::array<double, most_box_dimensions>;

  const double* box(std::size_t shard) const { return boxes_.data() + shard * 2 * dim_; }
  Point point(std::size_t query) const;
  void find_gaps(const Point& point, double* gaps) const;
  double gap(std::size_t shard, const Point& point) const;
  bool is_surely_beyond(double gap, double limit) const;
  bool is_beyond(std::size_t shard, const Point& point, double limit) const;
  void find_homes(const Execution& execution);
  /// The queries that asks(query) is true of.
  template <class Asks>
  std::vector<std::int64_t> those(const std::vector<std::int64_t>* among, const Execution& execution,
                                  const Asks& asks) const;

  const Manifest& manifest_;
  const DatasetView queries_;
  const std::size_t dim_;
  const double radius_;
  std::vector<double> boxes_;       ///< of each shard: lower, upper; infinite where it has none
  std::vector<double> columns_;     ///< the same, of each dimension: of all shards lower, then upper
  std::vector<std::int32_t> home_;  ///< of each query; empty: boxes do not tell
  std::vector<double> next_;        ///< of each query: the gap to the nearest of the other shards
  std::vector<std::int64_t> by_home_, first_;      ///< queries in the order of their homes; where each begins
  std::optional<std::vector<std::int64_t>> open_;  ///< queries that need more than their home
};

}  // namespace kith::sharded
