// Rows in lists around centres, so that a query can leave out the lists that lie too far away: clustered rows
// then cost a share of a look at all of them. By the triangle inequality no row of a list with centre c and
// radius r is nearer to a query q than |q - c| - r (docs/exact-contract.md, step 12). Each list has codes of
// its own, of what its rows are beyond the centre, whose steps suit the list.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "brute_force/backend.hpp"
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

/// What lists of rows lack where distances are of this metric, or codes of this kind; null: nothing, they may
/// be made.
const char* lacked_by_lists(Metric metric);
const char* lacked_by_lists(const codes::CodeSpace& space);

/// Where centres of lists lie and radii are measured.
codes::CodeSpace space_of_lists(const DatasetView& rows, Metric metric);
/// Rows of the sample that each centre is found from.
inline constexpr std::int64_t sampled_rows_a_centre = 48;

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

/// What a query looks at, on average.
struct Visited {
  double rows = 0;
  double lists = 0;
};
/// By some of the rows, as queries for so many neighbours.
Visited visited_by_some(const Partition& partition, const DatasetView& data, std::int64_t count,
                        const Execution& execution);

/// Whether rows lie in clusters: whether those of a sample would leave out most of the lists that it is
/// divided into. Takes milliseconds.
/// @param sample in host memory, spread over `rows` rows; see rows_of_a_trial
/// @param space of all values
bool lie_in_clusters(const DatasetView& sample, std::int64_t rows, const codes::CodeSpace& space,
                     const Execution& execution);
/// Rows of the sample.
inline constexpr std::int64_t rows_of_a_trial = 2048;
/// Neighbours that lists are tried for, between the usual 10 and 100.
inline constexpr std::int64_t tried_neighbours = 32;

/// For tests: whether searches on a GPU go by the lists that there are; nullopt: as it pays.
void force_lists(std::optional<bool> go);
std::optional<bool> lists_forced();

/// Centres of about `count` lists of some rows, [lists, dim]. Lists that follow each other are near each
/// other, where any are.
struct ListCentres {
  codes::CodeSpace space;  ///< where they lie
  std::vector<float> values;
};
ListCentres centres_of_lists(const DatasetView& rows, Metric metric, std::int64_t count,
                             const Execution& execution);

}  // namespace kith::brute_force
