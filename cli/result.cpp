// Answers on the screen, as JSON, in files.
#include "result.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "input.hpp"
#include "interrupt.hpp"
#include "io/format.hpp"
#include "json_arrays.hpp"
#include "run.hpp"
#include "stream.hpp"
#include "units.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

constexpr std::int64_t shown_queries = 10;
constexpr std::int64_t shown_ranks = 10;

void show(const Neighbors& answer) {
  const std::int64_t queries = std::min(answer.queries, shown_queries);
  const std::int64_t ranks = std::min(answer.k, shown_ranks);
  print(fmt::format("{:>8}  {:>5}  {:>12}  {}\n", "query", "rank", "row", "distance"));
  for (std::int64_t q = 0; q < queries; ++q) {
    for (std::int64_t j = 0; j < ranks; ++j) {
      const std::int64_t index = answer.indices_of(q)[static_cast<std::size_t>(j)];
      if (index < 0) {
        print(fmt::format("{:>8}  {:>5}  {:>12}  no more rows\n", q, j + 1, "-"));
        break;
      }
      print(fmt::format("{:>8}  {:>5}  {:>12}  {}\n", q, j + 1, index, format_number(answer.distance(q, j))));
    }
  }
  std::string left;
  if (answer.queries > queries) left = plural(answer.queries - queries, "more query", "more queries");
  if (answer.k > ranks) {
    left += (left.empty() ? "" : " and ") + plural(answer.k - ranks, "more neighbour") + " a query";
  }
  if (!left.empty()) print(fmt::format("... {}: write all of them with -o FILE\n", left));
}

std::vector<JsonMember> rows_as_json(const Neighbors& answer) {
  return {matrix_member("indices", answer.queries, answer.k,
                        [&](std::int64_t q, std::int64_t j) {
                          return answer.indices[static_cast<std::size_t>(q * answer.k + j)];
                        }),
          matrix_member("distances", answer.queries, answer.k,
                        [&](std::int64_t q, std::int64_t j) { return answer.distance(q, j); })};
}

}  // namespace

void add_result_options(CLI::App& command, Common& common, ResultOptions& options, bool with_queries) {
  command
      .add_option("-k,--neighbors", options.k,
                  with_queries ? "How many nearest rows to find for each query, at least 1"
                               : "How many nearest rows to find for each row, at least 1")
      ->type_name("K")
      ->capture_default_str()
      ->group("Search");
  if (with_queries) {
    command.add_option("--max-queries", options.max_queries, "Only the first N queries")
        ->type_name("N")
        ->group("Search");
  }
  auto* output =
      common.file(command
                      .add_option("-o,--output", options.output,
                                  "Write the answer to this file, whole or not at all, instead of showing "
                                  "its beginning; the extension chooses the format")
                      ->type_name("FILE")
                      ->group("Answer"));
  common.choice(
      command.add_option("--format", options.format, "Format of the output, whatever its extension")
          ->type_name("FORMAT")
          ->needs(output)
          ->group("Answer"),
      result_formats());
  common
      .file(command.add_option(
          "--ids", options.ids.rows,
          with_queries ? "Ids of the rows that are searched, a column of a table, for an answer "
                         "in a table; it then has a column ids"
                       : "Ids of the rows, a column of a table, for an answer in a table; it then "
                         "has a column ids, and query has them, too"))
      ->type_name("FILE:COLUMN")
      ->needs(output)
      ->group("Answer");
  options.own_queries = !with_queries;
  if (with_queries) {
    common
        .file(command.add_option("--query-ids", options.ids.queries,
                                 "Ids of the queries likewise, for the column query"))
        ->type_name("FILE:COLUMN")
        ->needs(output)
        ->group("Answer");
  }
}

void check_result_options(const Common& common, ResultOptions& options,
                          const std::vector<std::string>& inputs, bool with_rows) {
  if (options.k < 1) {
    throw InvalidArgument(fmt::format("-k {}: at least 1 neighbour must be asked for", options.k));
  }
  if (options.max_queries < -1) {
    throw InvalidArgument(fmt::format("--max-queries {}: use 0 or more", options.max_queries));
  }
  if (options.output.empty()) return;
  options.output = output_path(common, options.output);
  const bool table = options.is_table();
  check_output(options.output, table ? "table" : options.format, result_formats(), false);
  std::vector<std::string> read = inputs;
  for (const std::string& ids : {options.ids.rows, options.ids.queries}) read.push_back(file_of(ids));
  std::vector<std::filesystem::path> files = result_files(options.output, options.format);
  if (with_rows) files.push_back(io::rows_file(files.front()));
  refuse_overwriting(files, read);
  check_table_answer(options.output, table, options.ids);
  if (options.own_queries) {
    options.ids.queries = options.ids.rows;
    options.ids.query_count = options.ids.row_count;
  }
}

std::vector<std::filesystem::path> result_files(const std::string& output, const std::string& format) {
  if (is_table_output(output, format)) return {output};
  return io::neighbor_files(
      output, parse_format(format).value_or(format_of_extension(output).value_or(FileFormat::npy)));
}

Neighbors run_search(const Common& common, Execution execution,
                     const std::function<Neighbors(const Execution&)>& work) {
  const auto start = std::chrono::steady_clock::now();
  Neighbors answer = run_cancellable(common, std::move(execution), work);
  if (answer.statistics.seconds == 0) {
    answer.statistics.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return answer;
}

void deliver(const Common& common, const ResultOptions& options, const Neighbors& answer, Metric metric,
             const IndexUsed* index) {
  std::vector<std::string> files;
  if (!options.output.empty()) {
    const CancellableScope scope;
    if (options.is_table()) {
      write_table_answer(options.output, answer, options.ids);
      files.push_back(options.output);
    } else {
      for (const auto& file :
           write_neighbors(options.output, answer, {parse_format(options.format), must_stop})) {
        files.push_back(shown_output(file.string()));
      }
    }
    outputs_in_place();
  }
  if (common.json) {
    nlohmann::json object = {{"queries", answer.queries},
                             {"k", answer.k},
                             {"metric", name(metric)},
                             {"statistics", to_json(answer.statistics)}};
    if (index != nullptr) object["index"] = to_json(*index);
    if (!files.empty()) object["files"] = files;
    print_json(object, files.empty() ? rows_as_json(answer) : std::vector<JsonMember>());
  } else if (files.empty()) {
    show(answer);
  } else {
    std::string list;
    for (const std::string& file : files) list += (list.empty() ? "" : " and ") + file;
    note(common,
         fmt::format("wrote {}: {} x {} in {:.2f} s", list, plural(answer.queries, "query", "queries"),
                     plural(answer.k, "neighbour"), answer.statistics.seconds));
  }
  if (index != nullptr) note_choice(common, *index);
  note_recall(common, answer);
  if (common.statistics && !common.json) {
    fmt::print(stderr, "statistics:\n{}", describe(answer.statistics));
  }
  if (!common.statistics) note_nan(common, answer.statistics);
}

void note_recall(const Common& common, const Neighbors& answer) {
  const SearchStatistics& s = answer.statistics;
  if (s.certified) return;
  note(common,
       fmt::format("approximate, with a list size of {}: {}", s.list_size,
                   s.recall > 0 ? fmt::format("{:.1f} % or more of the {} nearest rows, as the index has "
                                              "measured itself with 99 % confidence",
                                              100 * s.recall, answer.k)
                                : "the share of the nearest rows that it finds was not measured"));
}

void note_nan(const Common& common, const SearchStatistics& statistics) {
  if (statistics.nan_rows > 0) {
    note(common, fmt::format("{} with NaN can never be a neighbour", plural(statistics.nan_rows, "row")));
  }
  if (statistics.nan_queries > 0) {
    note(common,
         fmt::format("{} with NaN: no neighbours", plural(statistics.nan_queries, "query", "queries")));
  }
}

}  // namespace kith::cli
