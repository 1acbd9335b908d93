// Building an octree: float coordinates, row numbers of 4 and of 8 bytes.
#include "octree/cpu/builder.hpp"

namespace kith::octree {

template point_tree::Tree build_as<float, std::uint32_t>(const DatasetView&, std::int64_t, const Execution&);
template point_tree::Tree build_as<float, std::int64_t>(const DatasetView&, std::int64_t, const Execution&);

}  // namespace kith::octree
