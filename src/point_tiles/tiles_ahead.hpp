// Tiles that are made ready on devices before it is their turn: read, copied, their trees built and all of
// their own rows answered, by threads of their own, several at once. The sweep takes them in order and does
// what is the host's work: which lists need other tiles, mailboxes, answers to the disk. What a tile is made
// ready with depends on that tile alone, so the sweep's answers are those of one that does it all itself.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "kith/execution.hpp"
#include "point_tiles/device_clock.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/lists.hpp"
#include "point_tiles/question.hpp"
#include "point_tiles/reduction.hpp"
#include "point_tiles/resident.hpp"
#include "point_tiles/shares.hpp"
#include "point_tiles/tile_reader.hpp"
#include "point_tiles/tile_search.hpp"

namespace kith::point_tiles {

/// What is known of a tile's own rows: all lists, or what was made of them.
template <class T>
struct OwnAnswers {
  TileSearch<T> search;
  Lists<T> lists;  ///< in the memory of `search`
  Reduced<T> reduced;
};

/// A tile whose turn it is.
template <class T>
struct ReadyTile {
  TileData data;                         ///< without rows where there is a resident, which has them
  std::shared_ptr<const Resident> made;  ///< null: it was read, and that is all
  std::unique_ptr<OwnAnswers<T>> own;    ///< null: nobody has searched it yet
  std::span<const std::int64_t> rows() const { return made ? made->rows : data.rows; }
};

template <class T>
class TilesAhead {
 public:
  /// @param execution the caller is asked by one thread at a time (asked_by_one) @param clock counts what
  /// devices do
  TilesAhead(const Folder& folder, const Question& question, const MemoryShares& shares,
             const Execution& execution, DeviceClock& clock);
  TilesAhead(const TilesAhead&) = delete;
  TilesAhead& operator=(const TilesAhead&) = delete;
  ~TilesAhead();

  /// Tiles follow each other from the first that is asked for. @throws what making it ready has thrown
  ReadyTile<T> take(std::int64_t tile);
  /// Its memory is for the next.
  void give_back(std::unique_ptr<OwnAnswers<T>> own);

  ReadStatistics statistics() const;

 private:
  struct Done {
    ReadyTile<T> tile;
    std::exception_ptr failure;
  };
  void start(std::int64_t tile);
  void work();
  ReadyTile<T> make(std::int64_t tile, PieceReader& reader);
  std::unique_ptr<OwnAnswers<T>> take_memory();

  const Folder& folder_;
  const Question& question_;
  const MemoryShares& shares_;
  const Execution& execution_;
  DeviceClock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t next_ = 0;   // to be begun with
  std::int64_t taken_ = 0;  // all before it were
  bool stop_ = false;
  std::map<std::int64_t, Done> done_;
  std::vector<std::unique_ptr<OwnAnswers<T>>> idle_;
  ReadStatistics statistics_;
  std::vector<std::thread> threads_;
};

}  // namespace kith::point_tiles
