// PointTiles' answers in files.
#include <chrono>
#include <functional>
#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/format.hpp"
#include "kith/point_tiles.hpp"
#include "point_tiles/answers.hpp"
#include "point_tiles/checks.hpp"
#include "point_tiles/devices.hpp"
#include "point_tiles/file_run.hpp"
#include "point_tiles/journal.hpp"
#include "point_tiles/outlier_files.hpp"
#include "point_tiles/partition.hpp"
#include "point_tiles/radius_lists.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using point_tiles::Column;
using point_tiles::Columns;
using point_tiles::FileRun;
using point_tiles::Folder;
using point_tiles::Question;
using point_tiles::WorkFolder;

std::int64_t width_of(const TileAnswerOptions& answer) {
  return answer.index_width == IndexWidth::u32 ? 4 : 8;
}

// "r" and "r.npy": the array r.npy.
fs::path array_file(fs::path output, const TileAnswerOptions& how) {
  if (!how.named_as_given && output.extension() != ".npy") output += ".npy";
  return output;
}

// All that an answer depends on. What it is searched with, on how many threads and in how much memory changes
// nothing.
nlohmann::json task_of(const char* what, const Folder& rows, const Folder* queries,
                       const Question& question) {
  nlohmann::json task = {{"call", what},
                         {"tiles", rows.fingerprint()},
                         {"metric", name(question.metric)},
                         {"radius", fmt::format("{}", question.radius)},
                         {"k", question.k},
                         {"include_self", question.include_self}};
  if (queries != nullptr) task["queries"] = queries->fingerprint();
  return task;
}

std::vector<std::int64_t> tile_sizes_of(const Folder& folder) {
  std::vector<std::int64_t> sizes;
  for (const point_tiles::Tile& tile : folder.manifest().tiles) sizes.push_back(tile.rows);
  return sizes;
}

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Whether answers go to files as they are found, so that a run to come finds them: on the CPU, within a limit
// on memory, and where they are many. Devices find a billion normals in the time that a disk needs to take
// and to free them: theirs wait in memory at first, in half of what tiles may take at the most, unless the
// disk may be too full for them later.
bool are_kept(const WorkFolder& work, std::int64_t bytes, const Execution& execution) {
  if (execution.memory_limit > 0 || !work.records().empty()) return true;
  if (bytes < point_tiles::least_in_memory || bytes > point_tiles::memory_of(execution) / 2) return true;
  if (point_tiles::search_devices(execution).devices.empty()) return true;
  std::error_code unknown;
  const fs::space_info space = fs::space(work.path(), unknown);
  return unknown || space.available < static_cast<std::uintmax_t>(bytes);
}

Columns open_columns(WorkFolder& work, const std::vector<Column>& columns, const Folder& asked,
                     const TileAnswerOptions& how, const Execution& execution) {
  const std::vector<std::int64_t> sizes = tile_sizes_of(asked);
  const std::int64_t width = width_of(how);
  const auto open = [&](bool kept) {
    return Columns(work, columns, sizes, how.order, width, resolve_threads(execution), kept);
  };
  if (how.order == AnswerOrder::tiles ||
      are_kept(work, Columns::bytes(columns, asked.manifest().rows, width), execution)) {
    return open(true);
  }
  try {
    return open(false);
  } catch (const std::bad_alloc&) {
    return open(true);
  }
}

// Columns, in the order that is asked for, in files of these names; the rows' numbers come last.
template <class T>
TileAnswer answer_in_columns(
    const FileRun& run, nlohmann::json task, const std::vector<fs::path>& files, std::vector<Column> columns,
    const TileAnswerOptions& how, const Execution& execution,
    const std::function<std::unique_ptr<point_tiles::Answers<T>>(Columns&)>& make_answers) {
  const Clock clock;
  const bool in_order_of_tiles = how.order == AnswerOrder::tiles;
  task["order"] = in_order_of_tiles ? "tiles" : "input";
  task["index_bytes"] = width_of(how);
  WorkFolder work(files.front(), task);
  return point_tiles::resumably(work, [&] {
    TileAnswer answer;
    WorkFolder::Moves moves;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      moves.emplace_back(in_order_of_tiles ? columns[c].name : Columns::ordered(columns[c].name), files[c]);
    }
    if (in_order_of_tiles) moves.emplace_back(Columns::rows_file, io::rows_file(files.front()));
    for (const auto& [from, to] : moves) answer.files.push_back(to);
    nlohmann::json before;
    if (work.was_finished(moves, before)) {
      answer.statistics = point_tiles::statistics_from(before);
      answer.statistics.resumed_tiles = answer.statistics.tiles;
      return answer;
    }
    const Folder& asked = run.queries != nullptr ? *run.queries : run.rows;
    {  // files are closed before they are removed: the last to close a large one has all the work of it
      Columns in_tiles = open_columns(work, columns, asked, how, execution);
      {
        const auto answers = make_answers(in_tiles);
        answer.statistics =
            point_tiles::search_into_columns<T>(run, work, in_tiles, *answers, nullptr, execution);
      }
      if (in_order_of_tiles) {
        in_tiles.sync();
      } else {
        in_tiles.write_in_order_of_input(point_tiles::memory_of(execution) / 2, execution);
      }
    }
    work.finish(moves, point_tiles::to_json(answer.statistics));
    answer.statistics.seconds = clock.seconds();
    return answer;
  });
}

template <class T>
TileAnswer nearest_in_files(const FileRun& run, const char* what, const fs::path& output,
                            const TileAnswerOptions& how, const Execution& execution) {
  return answer_in_columns<T>(
      run, task_of(what, run.rows, run.queries, run.question), io::neighbor_files(output, FileFormat::npy),
      point_tiles::NearestInColumns<T>::columns(run.question.k, width_of(how)), how, execution,
      [&](Columns& columns) {
        return std::make_unique<point_tiles::NearestInColumns<T>>(run.question.k, columns);
      });
}

template <class T>
TileAnswer lists_in_files(const FileRun& run, const fs::path& output, const TileAnswerOptions& how,
                          const Execution& execution) {
  const Clock clock;
  using Lists = point_tiles::RadiusLists<T>;
  nlohmann::json task = task_of("radius_search", run.rows, run.queries, run.question);
  task["index_bytes"] = width_of(how);
  const std::vector<fs::path> files = io::radius_files(output);
  WorkFolder work(files.front(), task);
  return point_tiles::resumably(work, [&] {
    TileAnswer answer;
    answer.files = files;
    WorkFolder::Moves moves;
    for (std::size_t i = 0; i < files.size(); ++i) moves.emplace_back(Lists::files[i], files[i]);
    nlohmann::json before;
    if (work.was_finished(moves, before)) {
      answer.statistics = point_tiles::statistics_from(point_tiles::member(before, "statistics"));
      answer.statistics.resumed_tiles = answer.statistics.tiles;
      answer.neighbors = point_tiles::whole(point_tiles::member(before, "neighbors"), "neighbors", 0,
                                            point_tiles::most_bytes);
      return answer;
    }
    const Folder& asked = run.queries != nullptr ? *run.queries : run.rows;
    {
      Columns columns(work, Lists::columns(), tile_sizes_of(asked), AnswerOrder::input, width_of(how),
                      resolve_threads(execution));
      Lists lists(work, columns, width_of(how), point_tiles::saved_lists(work));
      answer.statistics = point_tiles::search_into_columns<T>(run, work, columns, lists, &lists, execution);
      answer.neighbors = lists.write(point_tiles::memory_of(execution) / 2, execution);
    }
    work.finish(moves,
                {{"statistics", point_tiles::to_json(answer.statistics)}, {"neighbors", answer.neighbors}});
    answer.statistics.seconds = clock.seconds();
    return answer;
  });
}

}  // namespace

TileAnswer PointTiles::all_knn(const fs::path& output, std::int64_t k, const TileSearchOptions& options,
                               const TileAnswerOptions& answer, const Execution& given) const {
  const Execution execution = point_tiles::checked(given);
  point_tiles::check_options(options);
  const Question question = point_tiles::nearest_of(k, options);
  point_tiles::check_width(answer, rows());
  const FileRun run{*folder_, nullptr, question, "all-knn"};
  return point_tiles::visit_distances(
      dtype(), [&]<class T>() { return nearest_in_files<T>(run, "all_knn", output, answer, execution); });
}

TileAnswer PointTiles::search_tiles(const fs::path& output, const PointTiles& queries, std::int64_t k,
                                    const TileSearchOptions& options, const TileAnswerOptions& answer,
                                    const Execution& given) const {
  const Execution execution = point_tiles::checked(given);
  point_tiles::check_options(options);
  point_tiles::check_no_self(options);
  const Question question = point_tiles::nearest_of(k, options);
  point_tiles::check_width(answer, std::max(rows(), queries.rows()));
  point_tiles::check_queries(folder_->manifest(), queries.folder_->manifest());
  const FileRun run{*folder_, queries.folder_.get(), question, "search"};
  return point_tiles::visit_distances(
      dtype(), [&]<class T>() { return nearest_in_files<T>(run, "search", output, answer, execution); });
}

TileAnswer PointTiles::normals(const fs::path& output, const Neighborhood& neighborhood,
                               const std::optional<std::vector<double>>& viewpoint,
                               const TileSearchOptions& options, const TileAnswerOptions& how,
                               const Execution& given) const {
  const Execution execution = point_tiles::checked(given);
  point_tiles::check_options(options);
  Question question = point_tiles::neighborhood_of(neighborhood, options);
  point_tiles::check_normals(folder_->manifest(), options, viewpoint);
  point_tiles::check_width(how, rows());
  question.include_self = true;
  question.points = true;
  question.result_bytes = (dim() + 1) * static_cast<std::int64_t>(sizeof(double));
  question.reduction = point_tiles::Reduction::planes;
  question.viewpoint = viewpoint;
  const FileRun run{*folder_, nullptr, question, "normals"};
  nlohmann::json task = task_of("normals", *folder_, nullptr, question);
  task["viewpoint"] = viewpoint ? nlohmann::json(*viewpoint) : nlohmann::json();
  task["values"] = how.values == ValueWidth::f32 ? "f32" : "f64";
  return point_tiles::visit_distances(dtype(), [&]<class T>() {
    using Answers = point_tiles::NormalsInColumns<T>;
    return answer_in_columns<T>(run, std::move(task), {array_file(output, how)},
                                Answers::columns(dim(), how.values), how, execution, [&](Columns& columns) {
                                  return std::make_unique<Answers>(folder_->manifest(), viewpoint, columns,
                                                                   execution);
                                });
  });
}

TileOutliers PointTiles::outliers(const TileOutlierFiles& files, const Neighborhood& neighborhood,
                                  double ratio, const TileSearchOptions& options,
                                  const Execution& given) const {
  const Clock clock;
  const Execution execution = point_tiles::checked(given);
  point_tiles::check_options(options);
  const Question question = [&] {
    Question asked = point_tiles::neighborhood_of(neighborhood, options);
    asked.result_bytes = sizeof(double);
    asked.reduction = point_tiles::Reduction::mean;
    return asked;
  }();
  if (!(ratio >= 0) || ratio == std::numeric_limits<double>::infinity()) {
    throw InvalidArgument(fmt::format("a ratio of {}; use a number of 0 or more", ratio));
  }
  const point_tiles::OutlierFiles out(files);
  const FileRun run{*folder_, nullptr, question, "outliers"};
  nlohmann::json task = task_of("outliers", *folder_, nullptr, question);
  task["ratio"] = ratio;
  task["files"] = out.names();
  WorkFolder work(out.first(), task);
  return point_tiles::resumably(work, [&] {
    TileOutliers result;
    result.files = out.files();
    nlohmann::json before;
    if (work.was_finished(out.moves(), before)) {
      result.statistics = point_tiles::statistics_from(point_tiles::member(before, "statistics"));
      result.statistics.resumed_tiles = result.statistics.tiles;
      out.load(before, result);
      return result;
    }
    const std::int64_t memory = point_tiles::memory_of(execution) / 2;
    point_tiles::visit_distances(dtype(), [&]<class T>() {
      using Answers = point_tiles::MeanDistances<T>;
      Columns columns(work, Answers::columns(), tile_sizes(), AnswerOrder::input, sizeof(std::int64_t),
                      resolve_threads(execution));
      Answers answers(columns);
      result.statistics =
          point_tiles::search_into_columns<T>(run, work, columns, answers, nullptr, execution);
      columns.write_in_order_of_input(memory, execution);
      out.write(work, *folder_, columns, ratio, memory, result, execution);
    });
    nlohmann::json found = out.store(result);
    found["statistics"] = point_tiles::to_json(result.statistics);
    work.finish(out.moves(), found);
    result.statistics.seconds = clock.seconds();
    return result;
  });
}

TileAnswer PointTiles::radius_search(const fs::path& output, const PointTiles& queries, double radius,
                                     const RadiusOptions& how_many, const TileSearchOptions& options,
                                     const TileAnswerOptions& answer, const Execution& given) const {
  const Execution execution = point_tiles::checked(given);
  point_tiles::check_options(options);
  Question question = point_tiles::within_of(radius, how_many.max_neighbors, rows(), options);
  point_tiles::check_sorted(how_many, answer);
  point_tiles::check_width(answer, rows());
  point_tiles::check_queries(folder_->manifest(), queries.folder_->manifest());
  const bool own = queries.folder_ == folder_;
  question.include_self = own;
  const FileRun run{*folder_, own ? nullptr : queries.folder_.get(), question, "radius search"};
  return point_tiles::visit_distances(
      dtype(), [&]<class T>() { return lists_in_files<T>(run, output, answer, execution); });
}

TileAnswer PointTiles::count_within(const fs::path& output, const PointTiles& queries, double radius,
                                    const TileSearchOptions& options, const TileAnswerOptions& how,
                                    const Execution& given) const {
  const Execution execution = point_tiles::checked(given);
  point_tiles::check_options(options);
  Question question = point_tiles::count_of(radius, options);
  point_tiles::check_width(how, queries.rows());
  point_tiles::check_queries(folder_->manifest(), queries.folder_->manifest());
  const bool own = queries.folder_ == folder_;
  question.include_self = own;
  const FileRun run{*folder_, own ? nullptr : queries.folder_.get(), question, "count"};
  return point_tiles::visit_distances(dtype(), [&]<class T>() {
    using Answers = point_tiles::Counts<T>;
    return answer_in_columns<T>(run, task_of("count_within", *folder_, run.queries, question),
                                {array_file(output, how)}, Answers::columns(), how, execution,
                                [](Columns& columns) { return std::make_unique<Answers>(columns); });
  });
}

}  // namespace kith
