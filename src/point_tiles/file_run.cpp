#include "point_tiles/file_run.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "core/beside.hpp"
#include "core/parallel.hpp"
#include "point_tiles/asking.hpp"
#include "point_tiles/journal.hpp"
#include "point_tiles/pacer.hpp"
#include "point_tiles/partition.hpp"

namespace kith::point_tiles {
namespace {

constexpr const char* waiting_files[] = {"waiting-0", "waiting-1"};

template <class T>
class Run {
 public:
  Run(const FileRun& run, WorkFolder& work, Columns& columns, Answers<T>& answers, RadiusLists<T>* lists,
      const Execution& execution)
      : run_(run),
        work_(work),
        columns_(columns),
        answers_(answers),
        lists_(lists),
        execution_(execution),
        asked_(run.queries != nullptr ? *run.queries : run.rows),
        tiles_(static_cast<std::int64_t>(asked_.manifest().tiles.size())),
        shares_(shares()),
        sweep_(run.rows, run.question, shares_, work.file("postponed"), true, answers, execution),
        waiting_{work.file(waiting_files[0]), work.file(waiting_files[1])},
        progress_(execution, run.stage, asked_.manifest().rows) {}

  TileStatistics operator()() {
    std::int64_t first = 0;
    std::uint64_t swept_to = 0;
    if (const nlohmann::json* before = work_.last("sweep")) {
      int file = 0;
      const SavedSweep saved = sweep_from(*before, tiles_, columns_.rows(), file);
      file_ = 1 - file;
      noted_lists_ = saved_lists(work_);
      first = saved.next;
      const std::int64_t joined = run_.queries == nullptr ? first : 0;
      if (const nlohmann::json* byte = work_.last("swept to")) {
        swept_to = static_cast<std::uint64_t>(
            whole(*byte, "swept to", 0, static_cast<std::int64_t>(saved.postponed_bytes)));
      }
      columns_.extend();
      sweep_.resume(saved, waiting_[1 - file_], joined, swept_to, columns_.place(first),
                    [&](std::int64_t place) { columns_.leave_out(place); });
      columns_.check(columns_.place(first), execution_);
      progress_.advance(columns_.place(first));
    }
    run_.queries == nullptr ? join(first) : search(first);
    // What waits takes a sweep of its own, as long as it takes.
    if (late() || (!columns_.kept() && sweep_.postponed() > 0)) columns_.keep(columns_.rows(), execution_);
    // Positions in the file of what is postponed mean something once all of it is there.
    bool all_there = first == tiles_;
    if (!all_there && sweep_.postponed() > 0 && (due() || sweep_.spilled())) {
      sweep_.spill();
      save(tiles_);
      all_there = true;
    }
    sweep_.finish(swept_to, [&](std::uint64_t byte) {
      if (all_there && due()) note({{"swept to", byte}});
    });
    if (late()) columns_.keep(columns_.rows(), execution_);
    TileStatistics statistics = sweep_.statistics();
    statistics.queries = asked_.manifest().rows;
    if (due()) {
      note({{"searched", to_json(statistics)}});
    } else if (lists_ != nullptr) {
      (void)lists_->flush();
    }
    saver_.wait();
    settle_folders();  // what comes now is noted, too
    statistics.resumed_tiles = first;
    progress_.finish();
    return statistics;
  }

 private:
  // Of a tile of queries its rows, their numbers and order, and the tile each begins in.
  std::int64_t held() const {
    if (run_.queries == nullptr) return 0;
    const std::int64_t largest = asked_.manifest().largest_tile();
    return memory_of_tiles(asked_.manifest(), run_.question, false).data(largest) + largest * (4 + 8 + 8);
  }

  void join(std::int64_t first) {
    for (std::int64_t t = first; t < tiles_; ++t) {
      ReadyTile<T> tile = sweep_.read(t);
      if (tile.made != nullptr) {  // on a device: the host has time meanwhile
        rows_.begin([this, t, made = tile.made] { columns_.put_rows(t, made->rows); });
      } else {
        columns_.put_rows(t, tile.rows());
      }
      sweep_.join(std::move(tile), columns_.place(t));
      done(t);
    }
    settle();
  }

  // What is put behind the sweep is there.
  void settle() {
    rows_.wait();
    sweep_.settle();
  }

  void search(std::int64_t first) {
    for (std::int64_t t = first; t < tiles_; ++t) {
      const TileData data = read_tile(asked_, t);
      columns_.put_rows(t, data.rows);
      const std::int64_t nans =
          ask(sweep_, answers_, run_.rows.manifest(), run_.question, data.coordinates.view(),
              columns_.place(t), shares_.block_rows, progress_, execution_);
      sweep_.count_nan_queries(nans);
      done(t);
    }
  }

  void done(std::int64_t tile) {
    if (run_.queries == nullptr) {
      progress_.advance(asked_.manifest().tiles[static_cast<std::size_t>(tile)].rows);
    }
    if (tile + 1 == tiles_) return;
    if (Clock::now() >= short_until_) columns_.write_early();
    if (late()) {
      settle();
      columns_.keep(columns_.place(tile + 1), execution_);
    }
    if (due()) save(tile + 1);
  }

  // Answers in memory are part of what the limit is for; where it does not suffice, they are in files.
  MemoryShares shares() {
    if (!columns_.kept()) {
      try {
        return {run_.rows.manifest(), run_.question, execution_, held() + columns_.in_memory()};
      } catch (const OutOfMemory&) {
        columns_.keep(0, execution_);
      }
    }
    return {run_.rows.manifest(), run_.question, execution_, held()};
  }

  // Whether answers have been in memory alone for too long.
  bool late() const { return !columns_.kept() && Clock::now() >= late_; }
  // Whether work is to be made safe on the disk.
  bool due() const {
    if (!columns_.kept()) return false;
    const std::int64_t lists = lists_ == nullptr ? 0 : lists_->bytes_since(noted_lists_);
    const bool much = Clock::now() < short_until_ && columns_.bytes_to_note() + lists > tuning::most_to_save;
    return (!much || Pacer::every > 0) && saver_.due();
  }

  // Everything before `next` becomes safe.
  void save(std::int64_t next) {
    settle();
    saver_.wait();  // else the journal could still name the file that this one overwrites
    std::function<void()> sync;
    const SavedSweep saved = sweep_.save(waiting_[file_], next, sync);
    note({{"sweep", to_json(saved, file_)}}, sync);
    file_ = 1 - file_;
  }

  // Tiles that are not safe yet might come out as others.
  void settle_folders() const {
    run_.rows.settle();
    if (run_.queries != nullptr) run_.queries->settle();
  }

  // Answers become safe first, and what waits, then what speaks of them. What is put meanwhile belongs to
  // queries that wait in this record, or to tiles behind it.
  void note(nlohmann::json record, std::function<void()> sync = nullptr) {
    if (lists_ != nullptr) noted_lists_ = lists_->flush();
    record["lists"] = {noted_lists_.bytes, noted_lists_.hash};
    record["columns"] = columns_.noted();
    saver_.begin([this, record = std::move(record), sync = std::move(sync)] {
      columns_.sync();
      if (lists_ != nullptr) lists_->sync();
      if (sync) sync();
      settle_folders();
      work_.note(record);
    });
  }

  const FileRun& run_;
  WorkFolder& work_;
  Columns& columns_;
  Answers<T>& answers_;
  RadiusLists<T>* lists_;
  const Execution& execution_;
  const Folder& asked_;
  std::int64_t tiles_;
  MemoryShares shares_;
  Sweep<T> sweep_;
  std::filesystem::path waiting_[2];
  ProgressCounter progress_;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point late_ = Clock::now() + longest_in_memory.load();  // to have answers in memory alone
  const Clock::time_point short_until_ = Clock::now() + tuning::short_search;
  int file_ = 0;
  SavedLists noted_lists_;
  OneBehind rows_;
  Saver saver_;
};

}  // namespace

SavedLists saved_lists(const WorkFolder& work) {
  const nlohmann::json* noted = work.last("lists");
  if (noted == nullptr) return {};
  return {static_cast<std::uint64_t>(whole(entry(*noted, 0), "bytes of lists", 0, most_bytes)),
          checksum(entry(*noted, 1))};
}

template <class T>
TileStatistics search_into_columns(const FileRun& run, WorkFolder& work, Columns& columns,
                                   Answers<T>& answers, RadiusLists<T>* lists, const Execution& execution) {
  if (const nlohmann::json* before = work.last("searched")) {
    TileStatistics statistics = statistics_from(*before);
    statistics.resumed_tiles = columns.tiles();
    columns.check(columns.rows(), execution);
    return statistics;
  }
  return Run<T>(run, work, columns, answers, lists, execution)();
}

template TileStatistics search_into_columns(const FileRun&, WorkFolder&, Columns&, Answers<float>&,
                                            RadiusLists<float>*, const Execution&);
template TileStatistics search_into_columns(const FileRun&, WorkFolder&, Columns&, Answers<double>&,
                                            RadiusLists<double>*, const Execution&);

}  // namespace kith::point_tiles
