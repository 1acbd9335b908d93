// What an octree takes, before there is one.
#pragma once

#include "point_tree/memory.hpp"

namespace kith::octree {

/// @param rows only their shape is looked at
/// @param leaf_size 0: the default
point_tree::TreeMemory memory(const DatasetView& rows, std::int64_t leaf_size);

}  // namespace kith::octree
