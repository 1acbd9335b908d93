// Deals rows out to the buffers of tiles; a full buffer becomes an extent at the end of a segment. At certain
// rows all buffers do: what is on the disk is then all that there is, and the journal of the work folder can
// say so. Those rows depend on the plan alone, so that a run that was interrupted writes what an undisturbed
// one writes.
//
//   {"deal": n, "splitters": [...], "tiles": t, "capacity": rows, "checkpoint": rows}   the plan, before any
//   row
//   {"dealt": n, "rows": r, "nans": n, "end": bytes, "extents": [...]}                   the rows before r
//   are safe
//   {"divided": true}                                                                    all are; segments
//   that no tile lies in any more are removed
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/parallel.hpp"
#include "core/positioned_file.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/pacer.hpp"
#include "point_tiles/records.hpp"
#include "point_tiles/splitters.hpp"
#include "point_tiles/tile_buffers.hpp"
#include "point_tiles/work_folder.hpp"

namespace kith::point_tiles {

/// What is not safe on the disk yet. It outlives the one who deals: tiles can be read before they are safe.
struct Undone {
  template <class... Arguments>
  explicit Undone(const Arguments&... arguments) : work(arguments...) {}

  WorkFolder work;
  std::deque<OpenSegment> segments;
  std::vector<nlohmann::json> records;  ///< to be noted when what they speak of is safe
  Saver saver;

  /// The records begin to be noted, behind the back of the one who calls. @throws what came of the time
  /// before
  void note_behind();
  /// All of them are noted. @throws IoError
  void note();
};

class Dealer {
 public:
  /// @throws OutOfMemory where the limit is too small for buffers
  Dealer(std::int64_t dim, Dtype dtype, const std::optional<io::IntegerScale>& integers, std::int64_t rows,
         std::int64_t tile_points, Undone& undone, const Execution& execution);

  /// The tiles that the records come to, one more for rows that no box holds. Empty: no plane divides them.
  /// @param whole all rows of the cloud, whose progress is told
  std::vector<Growing> divide(Records& records, OpenSegment& segment, bool whole);

  /// Of a row's coordinates as they are dealt.
  std::size_t row_bytes() const noexcept { return row_bytes_; }
  std::int64_t nan_rows() const noexcept { return nan_rows_; }
  void finish() { progress_.finish(); }

 private:
  struct Plan {
    Splitters splitters;
    std::int64_t capacity = 0;    // rows of a buffer
    std::int64_t checkpoint = 0;  // rows from one to the next
  };
  Plan plan(Records& records);
  Plan make_plan(Records& records);
  void check_plan(const Plan& plan) const;
  void check_extent(const OpenSegment& segment, const Extent& extent);
  std::int64_t most_capacity() const;
  std::int64_t replay(const Plan& plan, std::int64_t all, std::vector<Growing>& tiles, OpenSegment& segment,
                      bool of_cloud);
  void deal(Records& records, std::int64_t first, const Plan& plan, std::vector<Growing>& tiles,
            OpenSegment& segment, bool whole);
  std::int64_t tell_apart(RowBlock& block, const Plan& plan) const;
  void take(std::vector<NewExtent> made, std::vector<Growing>& tiles);
  Bounds box_of(const std::byte* rows, std::int64_t count) const;
  template <class Use>
  void for_rows(const std::byte* rows, std::int64_t count, const Use& use) const;

  std::int64_t dim_;
  Dtype dtype_;
  std::optional<io::IntegerScale> integers_;
  std::size_t row_bytes_;
  std::int64_t record_;
  std::int64_t tile_points_;
  std::int64_t memory_;
  const Execution& execution_;
  ProgressCounter progress_;
  std::int64_t most_buffers_ = 0;
  std::int64_t buffer_rows_ = 0;
  std::int64_t block_rows_ = 0;
  std::int64_t nan_rows_ = 0;
  Undone& undone_;
  WorkFolder& work_ = undone_.work;
  std::size_t replayed_ = 0;  // records of the runs before
  std::int64_t deals_ = 0;
  nlohmann::json extents_;  // since the last record
};

}  // namespace kith::point_tiles
