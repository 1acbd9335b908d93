// Building an octree: which types.
#include "octree/cpu/build.hpp"

#include "core/radix_sort.hpp"

namespace kith::octree {

std::uint64_t build_bytes_a_point(const DatasetView& /*rows*/) {
  return 2 * sizeof(Keyed<std::uint64_t, std::int64_t>);
}

point_tree::Tree build(const DatasetView& rows, std::int64_t leaf_size, const Execution& execution) {
  const bool wide = rows.rows > point_tree::largest_narrow_tree();
  if (rows.dtype == Dtype::f64) {
    return wide ? build_as<double, std::int64_t>(rows, leaf_size, execution)
                : build_as<double, std::uint32_t>(rows, leaf_size, execution);
  }
  return wide ? build_as<float, std::int64_t>(rows, leaf_size, execution)
              : build_as<float, std::uint32_t>(rows, leaf_size, execution);
}

}  // namespace kith::octree
