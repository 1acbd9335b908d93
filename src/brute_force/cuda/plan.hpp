// How a search of one shard is cut: the first bound, the stages, the batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

#include "brute_force/cuda/shard.hpp"
#include "kith/error.hpp"

namespace kith::brute_force {

struct Plan {
  bool filtered = false;
  bool one_pass = false;                 ///< worth one look at every pair before stages
  bool look = false;                     ///< the first bound comes from one look at a sample
  bool listed = false;                   ///< queries go by lists: the first bound comes from their own
  bool runs = false;                     ///< or from the nearest of each run of a sample (runs.cuh)
  std::int64_t sample = 0;               ///< rows of the first bound
  std::vector<std::int64_t> stage_ends;  ///< in tiles
  std::int64_t expected = 0;             ///< candidates a query and stage
  std::int64_t refined = 0;              ///< of them, what fine codes leave
  std::int64_t room = 0;
  std::int64_t first_room = 1;  ///< what the first bound needs: a sample, or an open first stage
  std::int64_t batch = 0;       ///< queries at once
  double seconds = 0;           ///< expected, but for the looks at all rows
  bool mind_rests = false;      ///< ends where queries lie off the directions: OffDirections
};

/// Thrown inside a search whose queries lie off the directions that the codes are made along: what bounds
/// them keeps too many rows. Nothing is on its way then; the search begins again with codes of all values.
struct OffDirections : std::exception {
  const char* what() const noexcept override { return "queries lie off the directions of the codes"; }
};

/// Not even one query fits the limit.
class LimitTooLow : public OutOfMemory {
 public:
  LimitTooLow(std::int64_t k, std::uint64_t needed, std::uint64_t limit);
  std::uint64_t needed() const noexcept { return needed_; }

 private:
  std::uint64_t needed_;
};

/// `room`: how many candidates a query must at least have room for, where they are known to be many.
/// @param listed whether queries go by lists of the shard's rows
/// @throws LimitTooLow
Plan make_plan(const Shard& shard, std::int64_t queries, std::int64_t list_k, std::size_t result_bytes,
               std::uint64_t budget, std::uint64_t limit, std::int64_t room, bool listed = false);

/// Whether queries are put in the order of their thresholds (wide_filter.hpp) before a stage of so many rows.
bool order_pays(std::int64_t queries, std::int64_t rows);
/// For tests: whether they always are, or never; nullopt: as it pays.
void force_order(std::optional<bool> go);

/// What a search of this shard should take by its surplus, but for the looks at all rows.
double expected_seconds(const Shard& shard, std::int64_t queries, std::int64_t k);

}  // namespace kith::brute_force
