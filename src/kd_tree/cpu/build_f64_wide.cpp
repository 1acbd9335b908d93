// Building a k-d tree: double coordinates, row numbers of 8 bytes.
#include "kd_tree/cpu/builder.hpp"

namespace kith::kd_tree {

template point_tree::Tree build_as<double, std::int64_t>(const DatasetView&, std::int64_t, const Execution&);

}  // namespace kith::kd_tree
