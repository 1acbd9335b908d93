// The search: tiles one after the other, queries in the tiles that they need.
//
// A query is done when its k-th distance is smaller than the distance to every tile that it has not visited
// (box.hpp); until then its list is exact over the tiles that it has. When its own tile has been searched it
// visits those it needs that are in memory, and then waits in the mailbox of the next one that the sweep
// comes to. What needs a tile that was passed and dropped waits for a last sweep, in ascending order of
// tiles, over those that are needed. Lists only get better and sets of tiles smaller, so no width of a border
// has to be guessed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/beside.hpp"
#include "core/parallel.hpp"
#include "kith/point_tiles.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/journal.hpp"
#include "point_tiles/lists.hpp"
#include "point_tiles/question.hpp"
#include "point_tiles/reach.hpp"
#include "point_tiles/resident.hpp"
#include "point_tiles/shares.hpp"
#include "point_tiles/tile_search.hpp"
#include "point_tiles/tiles_ahead.hpp"
#include "point_tiles/waiting.hpp"

namespace kith::point_tiles {

/// T: the type of distances.
template <class T>
class Sweep {
 public:
  /// @param file where queries go that wait and do not fit. `lasting`: it stays, see save()
  Sweep(const Folder& folder, const Question& question, const MemoryShares& shares,
        std::filesystem::path file, bool lasting, Answers<T>& answers, const Execution& execution);

  /// A tile for join(), which follows the one before; those that follow it are read meanwhile, and on devices
  /// made ready.
  ReadyTile<T> read(std::int64_t tile);
  /// Has every row of a tile find its nearest others, and serves the tile's mailbox. Tiles ascend from call
  /// to call.
  void join(ReadyTile<T> tile, std::int64_t place);
  /// The same for queries from outside. @param places of their answers @param next tile that others begin in
  void search(std::int64_t tile, const DatasetView& queries, std::span<const std::int64_t> places,
              std::int64_t next);
  /// Serves the mailbox of a tile that has no queries of its own.
  void serve(std::int64_t tile);

  /// What was postponed, in a last sweep. @param from byte of the file of those that wait, where a run before
  /// has come to @param after(byte) is called when all before it is done
  void finish(std::uint64_t from, const std::function<void(std::uint64_t)>& after);

  /// Answers of tiles that were joined are put, but for queries that wait. @throws what putting them has
  /// thrown
  void settle() { values_.wait(); }

  /// Puts what waits into files: those in memory into `file`. @param next tile that comes next @param[out]
  /// sync has them on the disk, while others wait in addition, or no longer
  SavedSweep save(const std::filesystem::path& file, std::int64_t next, std::function<void()>& sync);
  /// Before anything else: goes on from what save() has left. @param joined tiles that join() has had
  /// @param from where finish() is to begin @param places there are of queries that have come so far
  /// @param waits(place) is called for each query that waits
  /// @throws DamagedWork where a file is not what was noted, or has queries that there cannot be
  void resume(const SavedSweep& saved, const std::filesystem::path& file, std::int64_t joined,
              std::uint64_t from, std::int64_t places, const std::function<void(std::int64_t)>& waits);
  /// Before finish(): what is postponed shall be in the file.
  void spill() { postponed_.spill(); }
  std::int64_t postponed() const noexcept { return postponed_.count(); }
  bool spilled() const noexcept { return postponed_.file_bytes() > 0; }

  /// Queries that have no tile to begin in.
  void count_nan_queries(std::int64_t count) { statistics_.nan_queries += count; }

  TileStatistics statistics() const;

 private:
  struct Crossing {
    std::int64_t query;
    std::vector<std::int32_t> tiles;
  };

  void answer(const Resident& here, const DatasetView& queries, const std::int64_t* places,
              std::int64_t place, bool join, const OwnAnswers<T>* own);
  void answer_reduced(const Resident& here, const DatasetView& queries, std::int64_t place,
                      std::unique_ptr<OwnAnswers<T>> own);
  template <class MakeQueries>
  std::vector<std::int64_t> reduce_crossing(const Resident& here, std::span<Crossing> crossing,
                                            std::int64_t place, double* values,
                                            const MakeQueries& make_queries);
  void put_values(std::span<const std::int64_t> growing, std::int64_t place, std::int64_t rows,
                  const double* values);
  std::vector<Waiting> waiting_of(const Resident& here, const DatasetView& queries,
                                  std::span<Crossing> crossing, std::int64_t place);
  std::int64_t reduced_values() const { return question_.reduced_values(folder_.manifest().dim); }
  Lists<T> find(TileSearch<T>& search, const Resident& where, const DatasetView& queries, std::int64_t first,
                bool own);
  void number_rows(const Resident& here, const Lists<T>& lists) const;
  std::shared_ptr<const Resident> get(std::int64_t tile);
  /// use(i) for i in [0, count), a few hundred at a time per thread.
  template <class Use>
  void for_parts(std::size_t count, const Use& use) const {
    constexpr std::size_t part = 1 << 8;
    parallel_for(execution_, static_cast<std::int64_t>((count + part - 1) / part), [&](std::int64_t p) {
      const std::size_t first = static_cast<std::size_t>(p) * part;
      for (std::size_t i = first; i < std::min(count, first + part); ++i) use(i);
    });
  }
  template <class Bound>
  std::vector<Crossing> find_crossing(const Resident& here, const DatasetView& queries, bool apart,
                                      std::span<const typename Reach<T>::Far> around,
                                      const Bound& end_of_list);
  Execution on(const Device& device) const {
    return execution_on(device, shares_.on_device.work, execution_);
  }
  void put(const Block<T>& block, std::int64_t first, std::int64_t count, const std::int64_t* places,
           std::int64_t place);
  Waiting make_waiting(const Resident& here, const Lists<T>& lists, std::int64_t i, const std::byte* point,
                       std::int64_t place, std::vector<std::int32_t> tiles) const;
  void visit(const Resident& where, std::span<Waiting*> queries);
  void merge(Waiting& query, const Resident& where, const Lists<T>& lists, std::int64_t i) const;
  void forget_tiles(Waiting& query, std::int64_t visited) const;
  void visit_resident(std::vector<Waiting>& queries);
  void pass_on(Waiting query, std::int64_t current);
  template <class Use>
  void use_finished(const Waiting& query, const Use& use) const;
  void put_finished(std::vector<Waiting>& queries);
  void serve(std::int64_t tile, const Resident& here);
  std::int64_t next_mail(std::int64_t tile) const;
  using End = typename Reach<T>::End;
  /// How a list of so many entries ends. @param numbers of its rows where those are places in a tile, else
  /// null
  End end_of(std::int64_t found, const T* distances, const std::int64_t* rows,
             const std::int64_t* numbers = nullptr) const;
  void visit_nearest(std::vector<Waiting>& queries);

  const Folder& folder_;
  Question question_;
  MemoryShares shares_;
  Answers<T>& answers_;
  Execution execution_;
  StopRequest stop_;
  std::size_t row_bytes_;
  Reach<T> reach_;
  WaitingLayout<T> layout_;
  ResidentTiles resident_;
  TileSearch<T> search_, visits_;
  Postponed<T> postponed_;
  std::vector<std::vector<Waiting>> mail_;
  std::int64_t mail_bytes_ = 0;
  bool last_ = false;
  std::vector<double> reduced_;  // what the lists of some rows come to
  Reduced<T> own_;               // what those of a tile do, on the CPU
  TileStatistics statistics_;
  DeviceClock clock_;
  std::unique_ptr<TilesAhead<T>> ahead_;  // its threads end before what they work with goes
  OneBehind values_;
};

}  // namespace kith::point_tiles
