// The functions of cuda_backend()'s table.
#pragma once

#include "point_tree/backend.hpp"

namespace kith::point_tree {

Tree build_on_device(const DatasetView& rows, std::int64_t leaf_size, bool cubes, const Execution& execution);

}  // namespace kith::point_tree
