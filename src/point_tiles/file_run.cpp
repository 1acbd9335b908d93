#include "point_tiles/file_run.hpp"

#include <string>
#include <utility>

#include "core/parallel.hpp"
#include "point_tiles/asking.hpp"
#include "point_tiles/pacer.hpp"
#include "point_tiles/partition.hpp"

namespace kith::point_tiles {
namespace {

constexpr const char* waiting_files[] = {"waiting-0", "waiting-1"};

nlohmann::json saved_to_json(const SavedSweep& saved, int file) {
  return {{"next", saved.next},
          {"file", file},
          {"waiting_bytes", saved.waiting_bytes},
          {"waiting_hash", saved.waiting_hash},
          {"postponed_bytes", saved.postponed_bytes},
          {"postponed_hash", saved.postponed_hash},
          {"postponed", saved.postponed},
          {"statistics", to_json(saved.statistics)}};
}

SavedSweep saved_from(const nlohmann::json& object) {
  SavedSweep saved;
  saved.next = object.at("next").get<std::int64_t>();
  saved.waiting_bytes = object.at("waiting_bytes").get<std::uint64_t>();
  saved.waiting_hash = object.at("waiting_hash").get<std::uint64_t>();
  saved.postponed_bytes = object.at("postponed_bytes").get<std::uint64_t>();
  saved.postponed_hash = object.at("postponed_hash").get<std::uint64_t>();
  saved.postponed = object.at("postponed").get<std::int64_t>();
  saved.statistics = statistics_from(object.at("statistics"));
  return saved;
}

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
        shares_(run.rows.manifest(), memory_of_tiles(run.rows.manifest(), run.question), run.question,
                memory_of(execution), execution.memory_limit > 0, held()),
        sweep_(run.rows, run.question, shares_, work.file("postponed"), true, answers, execution),
        waiting_{work.file(waiting_files[0]), work.file(waiting_files[1])},
        progress_(execution, run.stage, asked_.manifest().rows) {}

  TileStatistics operator()() {
    std::int64_t first = 0;
    std::uint64_t swept_to = 0;
    if (const nlohmann::json* before = work_.last("sweep")) {
      const SavedSweep saved = saved_from(*before);
      file_ = 1 - before->at("file").get<int>();
      first = saved.next;
      const std::int64_t joined = run_.queries == nullptr ? first : 0;
      if (const nlohmann::json* byte = work_.last("swept to")) swept_to = byte->get<std::uint64_t>();
      sweep_.resume(saved, waiting_[1 - file_], joined, swept_to,
                    [&](std::int64_t place) { columns_.leave_out(place); });
      columns_.check(columns_.place(first), execution_);
      progress_.advance(columns_.place(first));
    }
    run_.queries == nullptr ? join(first) : search(first);
    // Positions in the file of what is postponed mean something once all of it is there.
    bool all_there = first == tiles_;
    if (!all_there && sweep_.postponed() > 0 && (pacer_.due() || sweep_.spilled())) {
      sweep_.spill();
      save(tiles_);
      all_there = true;
    }
    sweep_.finish(swept_to, [&](std::uint64_t byte) {
      if (!all_there || !pacer_.due()) return;
      const Pacer::Pause pause(pacer_);
      const nlohmann::json columns = columns_.sync();
      work_.note({{"swept to", byte}, {"lists", sync_lists()}, {"columns", columns}});
    });
    TileStatistics statistics = sweep_.statistics();
    statistics.queries = asked_.manifest().rows;
    if (pacer_.due()) {
      const nlohmann::json columns = columns_.sync();
      work_.note({{"searched", to_json(statistics)}, {"lists", sync_lists()}, {"columns", columns}});
    } else if (lists_ != nullptr) {
      lists_->flush();
    }
    statistics.resumed_tiles = first;
    progress_.finish();
    return statistics;
  }

 private:
  // Of a tile of queries its rows, their numbers and order, and the tile each begins in.
  std::int64_t held() const {
    if (run_.queries == nullptr) return 0;
    const std::int64_t largest = asked_.manifest().largest_tile();
    return memory_of_tiles(asked_.manifest(), run_.question).data(largest) + largest * (4 + 8 + 8);
  }

  void join(std::int64_t first) {
    for (std::int64_t t = first; t < tiles_; ++t) {
      const TileData data = sweep_.read(t);
      columns_.put_rows(t, data.rows);
      sweep_.join(data, columns_.place(t));
      done(t);
    }
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
    if (tile + 1 < tiles_ && pacer_.due()) save(tile + 1);
  }

  nlohmann::json sync_lists() {
    const SavedLists saved = lists_ == nullptr ? SavedLists{} : lists_->sync();
    return {saved.bytes, saved.hash};
  }

  // Everything before `next` becomes safe; answers first, then what speaks of them.
  void save(std::int64_t next) {
    const Pacer::Pause pause(pacer_);
    const nlohmann::json columns = columns_.sync();
    const nlohmann::json lists = sync_lists();
    const SavedSweep saved = sweep_.save(waiting_[file_], next);
    work_.note({{"sweep", saved_to_json(saved, file_)}, {"lists", lists}, {"columns", columns}});
    file_ = 1 - file_;
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
  Pacer pacer_;
  int file_ = 0;
};

}  // namespace

SavedLists saved_lists(const WorkFolder& work) {
  const nlohmann::json* noted = work.last("lists");
  return noted == nullptr ? SavedLists{}
                          : SavedLists{noted->at(0).get<std::uint64_t>(), noted->at(1).get<std::uint64_t>()};
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

nlohmann::json to_json(const TileStatistics& s) {
  return {{"queries", s.queries},           {"nan_rows", s.nan_rows},
          {"nan_queries", s.nan_queries},   {"tiles", s.tiles},
          {"tile_bytes", s.tile_bytes},     {"bytes_read", s.bytes_read},
          {"bytes_direct", s.bytes_direct}, {"tiles_read_again", s.tiles_read_again},
          {"crossed", s.crossed},           {"visits", s.visits},
          {"postponed", s.postponed}};
}

TileStatistics statistics_from(const nlohmann::json& object) {
  TileStatistics s;
  s.queries = object.at("queries").get<std::int64_t>();
  s.nan_rows = object.at("nan_rows").get<std::int64_t>();
  s.nan_queries = object.at("nan_queries").get<std::int64_t>();
  s.tiles = object.at("tiles").get<std::int64_t>();
  s.tile_bytes = object.at("tile_bytes").get<std::uint64_t>();
  s.bytes_read = object.at("bytes_read").get<std::uint64_t>();
  s.bytes_direct = object.at("bytes_direct").get<std::uint64_t>();
  s.tiles_read_again = object.at("tiles_read_again").get<std::int64_t>();
  s.crossed = object.at("crossed").get<std::int64_t>();
  s.visits = object.at("visits").get<std::int64_t>();
  s.postponed = object.at("postponed").get<std::int64_t>();
  return s;
}

template TileStatistics search_into_columns(const FileRun&, WorkFolder&, Columns&, Answers<float>&,
                                            RadiusLists<float>*, const Execution&);
template TileStatistics search_into_columns(const FileRun&, WorkFolder&, Columns&, Answers<double>&,
                                            RadiusLists<double>*, const Execution&);

}  // namespace kith::point_tiles
