// Searches of trees that hold floats.
#include "point_tree/cpu/batch.hpp"

namespace kith::point_tree {

template SearchStatistics run<float>(const Tree&, const Asked&, Kind, std::int64_t, double, const Execution&,
                                     const char*, const std::function<void(const Part<float>&)>&,
                                     MemoryBudget*);

}  // namespace kith::point_tree
