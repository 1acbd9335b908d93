// A tree's points back to the caller's order.
#include <algorithm>
#include <vector>

#include "core/parallel.hpp"
#include "point_tree/cpu/leaves.hpp"
#include "point_tree/cpu/search.hpp"

namespace kith::point_tree {
namespace {

template <class T, class Id>
void copy_points_of(const TreeView<T, Id>& tree, T* to, const Execution& execution) {
  const std::vector<Leaf> leaves = leaves_of(tree);
  constexpr std::int64_t block = 1024;
  const auto count = static_cast<std::int64_t>(leaves.size());
  parallel_for(execution, (count + block - 1) / block, [&](std::int64_t b) {
    for (std::int64_t l = b * block; l < std::min(count, (b + 1) * block); ++l) {
      const Leaf& leaf = leaves[static_cast<std::size_t>(l)];
      const T* x = tree.coordinates + leaf.begin * tree.dim;
      for (std::int64_t i = 0; i < leaf.count; ++i) {
        T* row = to + static_cast<std::int64_t>(tree.rows[leaf.begin + i]) * tree.dim;
        for (std::int64_t j = 0; j < tree.dim; ++j) row[j] = x[j * leaf.count + i];
      }
    }
  });
}

// Of some leaves, spread over all of them.
template <class T, class Id>
bool are_points_of(const TreeView<T, Id>& tree, const T* rows) {
  const std::vector<Leaf> leaves = leaves_of(tree);
  constexpr std::size_t compared = 64;
  for (std::size_t l = 0; l < leaves.size(); l += std::max<std::size_t>(1, leaves.size() / compared)) {
    const Leaf& leaf = leaves[l];
    const T* x = tree.coordinates + leaf.begin * tree.dim;
    for (std::int64_t i = 0; i < leaf.count; ++i) {
      const T* row = rows + static_cast<std::int64_t>(tree.rows[leaf.begin + i]) * tree.dim;
      for (std::int64_t j = 0; j < tree.dim; ++j) {
        if (!(row[j] == x[j * leaf.count + i])) return false;
      }
    }
  }
  return true;
}

}  // namespace

template <class T>
bool are_points_of(const Tree& tree, const T* rows) {
  const Tree& held = on_host(tree);
  return held.wide_rows ? are_points_of(held.view<T, std::int64_t>(), rows)
                        : are_points_of(held.view<T, std::uint32_t>(), rows);
}
template bool are_points_of<float>(const Tree&, const float*);
template bool are_points_of<double>(const Tree&, const double*);

template <class T>
void copy_points(const Tree& tree, T* to, const Execution& execution) {
  const Tree& held = on_host(tree);
  held.wide_rows ? copy_points_of(held.view<T, std::int64_t>(), to, execution)
                 : copy_points_of(held.view<T, std::uint32_t>(), to, execution);
}
template void copy_points<float>(const Tree&, float*, const Execution&);
template void copy_points<double>(const Tree&, double*, const Execution&);

}  // namespace kith::point_tree
