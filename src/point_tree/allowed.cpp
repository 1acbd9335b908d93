// The nearest of some rows: of all the nearest those that are allowed, or those in a tree of the allowed
// rows.
#include <memory>
#include <optional>

#include "point_tree/build.hpp"
#include "point_tree/queries.hpp"
#include "select_k/allowed_rows.hpp"

namespace kith::point_tree {
namespace {

// A tree of the allowed rows alone.
struct Subtree {
  std::shared_ptr<const Tree> tree;
  GatheredRows gathered;
};

Subtree subtree_of(const Tree& tree, const RowSet& allowed, const Execution& execution) {
  return visit_distances(tree, [&]<class T>() {
    Subtree sub;
    {
      const std::vector<T> values = by_row<T>(on_host(tree), execution);
      sub.gathered = gather(DatasetView(values.data(), tree.rows, tree.dim), allowed, execution);
    }
    Execution build = execution;
    build.follow_stream = false;  // its rows are nobody else's
    build.progress = nullptr;     // not a report of the search's
    auto made = std::make_shared<Tree>(*build_checked(*tree.type, tree.metric, 0, sub.gathered.rows, build));
    made->dtype = tree.dtype;  // the values are those of its rows, widened
    sub.gathered.rows = {};
    sub.tree = std::move(made);
    return sub;
  });
}

}  // namespace

Neighbors nearest_allowed(const Tree& tree, const DatasetView& queries, std::int64_t k, double radius,
                          const RowSet& allowed, const Execution& execution) {
  check_memory(static_cast<int128>(queries.rows) * k * static_cast<int128>(cell_bytes(tree)), 1, "the answer",
               queries.rows, execution);
  return neighbors_or_out_of_memory(queries.rows, [&] {
    std::optional<Subtree> sub;
    const WaysToSearch ways = {
        .all = [&](const DatasetView& asked,
                   std::int64_t list) { return nearest(tree, {&asked}, list, radius, execution, "search"); },
        .allowed =
            [&](const DatasetView& asked, std::int64_t list) {
              if (!sub) sub = subtree_of(tree, allowed, execution);
              Neighbors found = nearest(*sub->tree, {&asked}, list, radius, execution, "search");
              sub->gathered.renumber(found);
              return found;
            }};
    Neighbors found = search_allowed(allowed, queries, k, distance_dtype(tree.dtype), execution, ways);
    found.statistics.index = tree.index;
    found.statistics.nan_rows = tree.nan_rows;
    return found;
  });
}

}  // namespace kith::point_tree
