// What knn and search have in common: running under a progress bar, and showing or writing the answer.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common.hpp"
#include "table_answer.hpp"
#include "tree.hpp"

namespace kith::cli {

/// Options of the answer, shared by knn and search.
struct ResultOptions {
  std::int64_t k = 10;
  std::string output;
  std::string format;
  std::int64_t max_queries = -1;
  AnswerIds ids;
  bool own_queries = false;  ///< the queries are the rows, and so are their ids

  bool is_table() const { return is_table_output(output, format); }
};

/// @param with_queries false: no --max-queries
void add_result_options(CLI::App& command, Common& common, ResultOptions& options, bool with_queries = true);

/// Checks k, the query limit and the output path (`-` becomes what it stands for) before anything is read.
/// `inputs` are the files that the answer may not replace; `with_rows`: it comes with its rows' numbers.
void check_result_options(const Common& common, ResultOptions& options,
                          const std::vector<std::string>& inputs, bool with_rows = false);

/// The files of a result written to `output`.
std::vector<std::filesystem::path> result_files(const std::string& output, const std::string& format);

/// Runs `work` with a progress bar and cancellation. @throws Cancelled when a signal arrived
Neighbors run_search(const Common& common, Execution execution,
                     const std::function<Neighbors(const Execution&)>& work);

/// Writes the answer to -o, or shows it on stdout; statistics to stderr where asked for. `index` is what
/// answered, where the command chose it.
void deliver(const Common& common, const ResultOptions& options, const Neighbors& answer, Metric metric,
             const IndexUsed* index = nullptr);

/// The note on how much of an approximate answer is right; nothing for an exact one.
void note_recall(const Common& common, const Neighbors& answer);

/// Notes on rows and queries with NaN.
void note_nan(const Common& common, const SearchStatistics& statistics);

}  // namespace kith::cli
