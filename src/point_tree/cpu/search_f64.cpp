// Searches of trees that hold doubles.
#include "point_tree/cpu/batch.hpp"

namespace kith::point_tree {

template SearchStatistics run<double>(const Tree&, const Asked&, Kind, std::int64_t, double, const Execution&,
                                      const char*, const std::function<void(const Part<double>&)>&,
                                      MemoryBudget*);

}  // namespace kith::point_tree
