// Whether lists pay on a CPU.
#pragma once

#include <cstdint>

#include "brute_force/cpu/costs.hpp"
#include "brute_force/partition.hpp"
#include "codes/codes.hpp"

namespace kith::brute_force {

/// Whether rows are better searched by lists: asked before they are made, and then of them. What it is given
/// must outlive it.
class ListChoice {
 public:
  /// @param chosen the codes that searches would use otherwise
  /// @param of_lists codes of all values
  /// @throws IoError when KITH_CALIBRATION names a file that cannot be read
  ListChoice(const DatasetView& data, const codes::CodeSpace& chosen, const codes::CodeSpace& of_lists,
             std::int64_t expected_queries, const Execution& execution);

  /// Whether it is worth making them: rows of a sample lie in clusters, and the searches to come may repay
  /// it.
  /// @throws OutOfMemory, Cancelled
  bool may_pay() const;
  /// Whether they keep the promise: looks for the neighbours of some of the rows. @throws Cancelled
  bool pays(const Partition& partition) const;

 private:
  bool repaid(double cost_of_a_query) const;

  const DatasetView& data_;
  const codes::CodeSpace& of_lists_;
  std::int64_t expected_queries_;
  const Execution& execution_;
  CostModel costs_;
  double cost_of_all_rows_;  ///< a query's, before its filter keeps anything
};

}  // namespace kith::brute_force
