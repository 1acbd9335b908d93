// The order in which queries are asked, and which of them walk at all.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "core/visit_dtype.hpp"
#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "point_tree/tree.hpp"

namespace kith::point_tree {

struct QueryOrder {
  std::int64_t walking = 0;           ///< queries that walk: those with a NaN or an infinity do not
  AlignedBuffer<std::int64_t> order;  ///< of these; empty: as they come
  std::vector<std::int64_t> endless;  ///< queries with an infinity, ascending
  std::vector<std::int64_t> nan;      ///< queries with a NaN, ascending
  bool sorted = false;                ///< queries that follow each other are near each other

  /// The i-th query to walk.
  std::int64_t at(std::int64_t i) const { return order.empty() ? i : order[i]; }
};

template <class T>
QueryOrder order_queries(const Tree& tree, const DatasetView& queries, const Execution& execution,
                         int threads);

/// A query's coordinates as T.
template <class T>
void read_query(const DatasetView& queries, std::int64_t i, T* to) {
  if (queries.dtype == dtype_of<T>) {
    std::copy_n(static_cast<const T*>(queries.row(i)), queries.dim, to);
    return;
  }
  visit_dtype(queries.dtype, [&]<class From>(From /*tag*/) {
    const auto* from = static_cast<const From*>(queries.row(i));
    for (std::int64_t j = 0; j < queries.dim; ++j) to[j] = static_cast<T>(to_double(from[j]));
  });
}

}  // namespace kith::point_tree
