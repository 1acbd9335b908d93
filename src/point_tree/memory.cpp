#include "point_tree/memory.hpp"

#include <algorithm>

#include "core/parallel.hpp"
#include "kith/neighbors.hpp"
#include "point_tree/backend.hpp"
#include "point_tree/cpu/search.hpp"
#include "point_tree/tree.hpp"
#include "point_tree/tuning.hpp"

namespace kith::point_tree {
namespace {

// Memory for lists that is not worth counting.
constexpr std::int64_t short_lists = 16 << 20;

}  // namespace

TreeMemory tree_memory(const DatasetView& rows, std::int64_t leaf_size, std::uint64_t bytes_a_point) {
  const std::uint64_t element = rows.dtype == Dtype::f64 ? 8 : 4;
  const auto n = static_cast<std::uint64_t>(rows.rows);
  const auto dim = static_cast<std::uint64_t>(rows.dim);
  const std::uint64_t id = rows.rows > largest_narrow_tree() ? 8 : 4;
  const bool converted = rows.dtype != Dtype::f32 && rows.dtype != Dtype::f64;
  const auto node = static_cast<std::uint64_t>(rows.dtype == Dtype::f64 ? node_bytes<double>(rows.dim)
                                                                        : node_bytes<float>(rows.dim));
  // Leaves are half full or more, nodes likewise; a node exists twice while the tree is laid out.
  const std::uint64_t nodes = n / static_cast<std::uint64_t>(leaf_size) / 4 + 1;
  return {n * (dim * element * (converted ? 2 : 1) + id + bytes_a_point) + 2 * nodes * node,
          n * (dim * element + id) + nodes * node + 2 * read_past};
}

std::int64_t order_bytes(std::int64_t queries) {
  if (queries < tuning::unsorted_queries) return 0;
  return queries * (queries < (std::int64_t{1} << 32) ? 24 : 40);
}

int128 nearest_bytes(const DatasetView& rows, std::int64_t queries, std::int64_t k,
                     const Execution& execution) {
  const bool own = queries < 0;
  const std::int64_t count = own ? rows.rows : queries;
  const auto cell = int128{sizeof(std::int64_t)} + size_of(distance_dtype(rows.dtype));
  const int128 answer = static_cast<int128>(count) * k * cell;
  if (backend_of(execution) != nullptr) return answer;
  const int128 lists = static_cast<int128>(std::min(k, rows.rows)) *
                       std::min<std::int64_t>(resolve_threads(execution), count) *
                       (cell + static_cast<int128>(2 * sizeof(Entry<double>)));
  return answer + (own ? 0 : order_bytes(queries)) + (lists > short_lists ? lists : 0);
}

std::size_t normals_bytes_a_row(Dtype dtype, std::int64_t dim) {
  return static_cast<std::size_t>(dim) * (dtype == Dtype::f64 ? 16 : 12) + 8;
}

}  // namespace kith::point_tree
