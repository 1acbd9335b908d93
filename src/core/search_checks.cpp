#include "core/search_checks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "core/plural.hpp"

namespace kith {

void check_k(std::int64_t k) {
  if (k < 1) throw InvalidArgument(fmt::format("k is {}; at least 1 neighbour must be asked for", k));
}

void check_radius(double radius) {
  if (radius >= 0) return;
  throw InvalidArgument(fmt::format("a radius of {}; use 0 or more, in units of the metric", radius));
}

void check_bounds(std::int64_t queries, std::span<const double> bounds) {
  if (bounds.empty()) return;
  if (std::ranges::any_of(bounds, [](double bound) { return std::isnan(bound); })) {
    throw InvalidArgument("a bound is NaN; use +inf for queries of which nothing is known");
  }
  if (std::cmp_equal(bounds.size(), queries)) return;
  throw InvalidArgument(fmt::format("{} bounds for {}; give one each, or none", bounds.size(),
                                    plural(queries, "query", "queries")));
}

void check_queries_fit(const DatasetView& queries, std::int64_t dim, Dtype dtype, std::string_view what) {
  if (queries.dim != dim) {
    throw InvalidArgument(fmt::format("queries have dimension {}, the {} has {}; they must be the same",
                                      queries.dim, what, dim));
  }
  if (queries.dtype != dtype) {
    throw InvalidArgument(fmt::format("queries are {}, the {} is {}; convert one of them",
                                      name(queries.dtype), what, name(dtype)));
  }
}

void check_output(std::int64_t queries, const NeighborsView& out) {
  if (out.queries != queries) {
    throw InvalidArgument(fmt::format("the answer has room for {}, the call has {}; they must be the same",
                                      plural(out.queries, "query", "queries"), queries));
  }
  if (queries > 0 && (out.indices == nullptr || out.distances == nullptr)) {
    throw InvalidArgument("the answer's indices or distances are a null pointer; give memory for both");
  }
}

void check_answer_memory(int128 values, std::size_t bytes_each, std::string_view who, std::string_view what,
                         const Execution& execution) {
  const int128 limit = execution.memory_limit > 0
                           ? static_cast<int128>(execution.memory_limit)
                           : static_cast<int128>(std::numeric_limits<std::int64_t>::max());
  // Divided, since the product may be past 2^127.
  if (values > limit / static_cast<int128>(bytes_each)) {
    throw OutOfMemory(
        fmt::format("{} need {} bytes for {}, the limit is {}; ask for fewer neighbours, or search the "
                    "queries in parts",
                    who, static_cast<double>(values) * static_cast<double>(bytes_each), what,
                    static_cast<std::uint64_t>(limit)));
  }
}

}  // namespace kith
