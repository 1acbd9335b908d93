// Rows in lists around centres, so that a query can leave out the lists that lie too far away: clustered rows
// then cost a share of a look at all of them. By the triangle inequality no row of a list with centre c and
// radius r is nearer to a query q than |q - c| - r (docs/exact-contract.md, step 12). Each list has codes of
// its own, of what its rows are beyond the centre, whose steps suit the list.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "brute_force/backend.hpp"
#include "brute_force/cpu/costs.hpp"
#include "codes/codes.hpp"
#include "codes/duplicates.hpp"
#include "codes/transform.hpp"
#include "k_means/k_means.hpp"

namespace kith::brute_force {

struct Partition {
  codes::CodeSpace space;             ///< where centres lie and radii are measured
  SideBySide centres;                 ///< values of float32
  std::vector<double> radii;          ///< no row's real distance to its centre is larger
  std::vector<std::int64_t> first;    ///< where a list begins in `rows`, one more than there are lists
  std::vector<std::int64_t> rows;     ///< ascending in each list; without collapsed and special rows
  std::vector<codes::Codes> codes;    ///< of each list, in its order
  std::vector<std::int64_t> special;  ///< rows that no list has, to be evaluated by every query; ascending
  std::int64_t nan_rows = 0;

  std::int64_t lists() const noexcept { return static_cast<std::int64_t>(radii.size()); }
  std::int64_t size_of(std::int64_t list) const {
    return first[static_cast<std::size_t>(list) + 1] - first[static_cast<std::size_t>(list)];
  }
  const std::int64_t* rows_of(std::int64_t list) const {
    return rows.data() + first[static_cast<std::size_t>(list)];
  }
  std::uint64_t bytes() const;
};

/// What lists of rows with such codes lack; null: nothing, they may be made.
const char* lacked_by_lists(const codes::CodeSpace& space);

/// About `count` lists, fewer where rows are few or equal.
/// @param space of all values, for the codes of the lists
/// @param duplicates whose collapsed rows are left out
/// @throws OutOfMemory, Cancelled
std::shared_ptr<const Partition> make_partition(const DatasetView& data, const codes::CodeSpace& space,
                                                const codes::Duplicates& duplicates, std::int64_t count,
                                                const Execution& execution);

/// Bytes that making it takes at its peak, itself included.
std::uint64_t partition_bytes(const codes::CodeSpace& space, std::int64_t rows, std::int64_t count);

/// How many lists suit so many rows.
std::int64_t usual_lists(std::int64_t rows);

/// How near rows of each list can be to one query at least. One thread's.
class ListDistances {
 public:
  explicit ListDistances(const Partition& partition);

  /// Bounds speak of it where it is regular.
  /// @param values in float64, as given
  codes::RowKind look(const double* values);
  /// No row of the list is nearer in Partition::space; may be negative.
  double least(std::int64_t list) const {
    const auto at = static_cast<std::size_t>(list);
    return centre_[at] - partition_.radii[at];
  }
  /// What no row whose canonical distance is within a bound lies beyond, in Partition::space.
  /// @param real see real_bound()
  double reach(double real) const;

 private:
  const Partition& partition_;
  codes::Scratch scratch_;
  std::vector<float> square_;
  std::vector<double> centre_;
};

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
  double share_of_a_sample() const;
  bool repaid(double cost_of_a_query) const;

  const DatasetView& data_;
  const codes::CodeSpace& of_lists_;
  std::int64_t expected_queries_;
  const Execution& execution_;
  CostModel costs_;
  double cost_of_all_rows_;  ///< a query's, before its filter keeps anything
};

}  // namespace kith::brute_force
