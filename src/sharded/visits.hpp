// Which queries a shard is asked. Where the boxes of shards tell, each query asks its nearest shard first,
// and then those that its list, as it is by then, does not rule out. Rows that lie in an order of space, as
// scans of one place after the other do, then need few shards a query; of rows in no order all are asked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/neighbors.hpp"
#include "sharded/manifest.hpp"

namespace kith::sharded {

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
  /// Queries with a NaN, which no shard is asked: of two rounds alone.
  std::int64_t nan_queries() const { return std::ranges::count(home_, nobodys); }
  /// Bytes of host memory that a search takes for them.
  static std::uint64_t bytes(const Manifest& manifest, const DatasetView& queries);

  /// The queries to ask a shard in a round, ascending; nothing: all of them.
  /// @param found by the shards before
  std::optional<std::vector<std::int64_t>> of(int round, std::int64_t shard, const Neighbors& found,
                                              const Execution& execution) const;

 private:
  static constexpr std::int32_t nobodys = -1;

  template <class R>
  R distance(std::int64_t query, const Shard& shard) const;
  bool has_nan(std::int64_t query) const;
  template <class R>
  bool asks(int round, std::int64_t shard, std::int64_t query, R kth) const;

  const Manifest& manifest_;
  const DatasetView queries_;
  std::optional<double> radius_;
  std::vector<std::int32_t> home_;  ///< of each query; empty: boxes do not tell
};

}  // namespace kith::sharded
