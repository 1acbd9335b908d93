/// @file
/// What a type of index is and can do; every index class says it of itself in its member `index_type`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "kith/dtype.hpp"
#include "kith/execution.hpp"
#include "kith/metric.hpp"
#include "kith/row_set.hpp"

namespace kith {

enum class Guarantee : std::uint8_t {
  exact,        ///< the nearest rows, certified (docs/exact-contract.md)
  approximate,  ///< a stated share of the nearest rows, at their true distances
};

/// What a search takes beyond k. An index type that does not know an option refuses it by name.
struct SearchOptions {
  /// No row farther than this, in units of the metric.
  std::optional<double> radius{};
  /// Share of the nearest rows to be found, above 0 and at most 1.
  std::optional<double> recall{};
  /// Length of the list of nearest rows that a walk through a graph keeps.
  std::optional<std::int64_t> list_size{};
  /// Rows of that list that it expands at a time.
  std::optional<std::int64_t> beam_width{};
  /// Rows of that list that are evaluated exactly at the end.
  std::optional<std::int64_t> rerank{};
  /// The only rows that may be found, a set over all rows of the index; null: all of them. Owned by the
  /// caller, who keeps it until the search is done.
  const RowSet* allowed = nullptr;
  /// What is known of the answer before, from other rows say: of each query a distance that no wanted row
  /// exceeds. Rows that do may be found all the same. Empty: nothing is known. Brute force on the CPU is the
  /// quicker for it over all rows, no other search looks at it. Owned by the caller.
  std::span<const double> bounds{};
};

enum class SearchOption : std::uint8_t { radius, recall, list_size, beam_width, rerank, allowed };
inline constexpr SearchOption all_search_options[] = {SearchOption::radius,    SearchOption::recall,
                                                      SearchOption::list_size, SearchOption::beam_width,
                                                      SearchOption::rerank,    SearchOption::allowed};
/// "radius", "recall", "list_size", "beam_width", "rerank", "allowed".
std::string_view name(SearchOption option) noexcept;

inline constexpr Device::Kind all_backends[] = {Device::Kind::cpu, Device::Kind::cuda};

/// Spans and strings are of static storage.
struct IndexType {
  std::string_view name;        ///< "kd_tree": in files, on the command line, in Python
  std::string_view class_name;  ///< "KdTree": in C++ and in Python
  std::string_view summary;     ///< half a line, for lists of choices
  Guarantee guarantee = Guarantee::exact;
  std::int64_t smallest_dim = 1;
  std::int64_t largest_dim = std::numeric_limits<std::int64_t>::max();
  std::span<const Dtype> dtypes = all_dtypes;
  std::span<const Metric> metrics = all_metrics;
  std::span<const Device::Kind> backends = all_backends;
  std::span<const SearchOption> options = {};

  constexpr bool takes(Dtype dtype) const { return std::ranges::find(dtypes, dtype) != dtypes.end(); }
  constexpr bool takes(Metric metric) const { return std::ranges::find(metrics, metric) != metrics.end(); }
  constexpr bool takes(SearchOption option) const {
    return std::ranges::find(options, option) != options.end();
  }
  constexpr bool takes_dim(std::int64_t dim) const { return dim >= smallest_dim && dim <= largest_dim; }
  constexpr bool runs_on(Device::Kind backend) const {
    return std::ranges::find(backends, backend) != backends.end();
  }
};

/// @throws InvalidArgument that names the first option given which `type` does not take, and who does
void check_options(const IndexType& type, const SearchOptions& options);

/// @throws InvalidArgument that names the index types which take `metric` where `type` does not
void check_metric(const IndexType& type, Metric metric);

}  // namespace kith
