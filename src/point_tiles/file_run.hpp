// A question asked of all rows, or of all queries in tiles of their own, into files: in a work folder, whose
// journal another process goes on from.
//
//   {"sweep": {...}}      tiles before "next" are answered, but for the queries that wait
//   {"swept to": byte}    of what was postponed, so much of its file is answered
//   {"searched": {...}}   everything is, in the order of tiles
//   {"ordered": rows, "ordered hashes": [...]}   so many are in the order of the input
//
// Those of the search have "columns" as well, the bytes and sums of its files (columns.hpp), and "lists", the
// bytes and the checksum of the file of lists. What is not as it was noted, shorter, or gone, is refused.
#pragma once

#include <cstdint>
#include <memory>

#include <nlohmann/json.hpp>

#include "kith/execution.hpp"
#include "point_tiles/columns.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/lists.hpp"
#include "point_tiles/question.hpp"
#include "point_tiles/radius_lists.hpp"
#include "point_tiles/sweep.hpp"
#include "point_tiles/work_folder.hpp"

namespace kith::point_tiles {

struct FileRun {
  const Folder& rows;
  const Folder* queries = nullptr;  ///< null: the rows themselves
  Question question;
  const char* stage = "";  ///< what progress is called
};

/// The file of lists, as far as a run before has made it safe.
SavedLists saved_lists(const WorkFolder& work);

/// Answers everything in the order of tiles, or what a run before has not.
/// @param lists where answers append to a file; null: they do not
template <class T>
TileStatistics search_into_columns(const FileRun& run, WorkFolder& work, Columns& columns,
                                   Answers<T>& answers, RadiusLists<T>* lists, const Execution& execution);

}  // namespace kith::point_tiles
