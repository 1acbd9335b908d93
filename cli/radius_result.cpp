// The answer of kith radius, shown, as JSON or in files.
#include "radius_result.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "interrupt.hpp"
#include "json_arrays.hpp"
#include "result.hpp"
#include "stream.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

constexpr std::int64_t shown_queries = 10;
constexpr std::int64_t shown_ranks = 10;

// Its values by their place, for JSON.
template <class T>
auto of(const std::vector<T>& values) {
  return [&values](std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
}

// The last line of what is shown, where that is not all.
void show_more(std::int64_t queries) {
  if (queries <= shown_queries) return;
  print(fmt::format("... {}: write all of them with -o FILE\n",
                    plural(queries - shown_queries, "more query", "more queries")));
}

void show(const RadiusNeighbors& answer) {
  print(fmt::format("{:>8}  {:>5}  {:>12}  {}\n", "query", "rank", "row", "distance"));
  const std::int64_t queries = std::min(answer.queries, shown_queries);
  for (std::int64_t q = 0; q < queries; ++q) {
    const auto rows = answer.indices_of(q);
    const auto found = static_cast<std::int64_t>(rows.size());
    if (found == 0) print(fmt::format("{:>8}  {:>5}  {:>12}  none within the radius\n", q, "-", "-"));
    for (std::int64_t j = 0; j < std::min(found, shown_ranks); ++j) {
      print(fmt::format("{:>8}  {:>5}  {:>12}  {}\n", q, j + 1, rows[static_cast<std::size_t>(j)],
                        format_number(answer.distance(q, j))));
    }
    if (found > shown_ranks) {
      print(fmt::format("{:>8}  {:>5}  {:>12}\n", q, "...", fmt::format("{} more", found - shown_ranks)));
    }
  }
  show_more(answer.queries);
}

}  // namespace

std::string counts_file(const std::string& output) {
  if (writes_to_stream() || std::filesystem::path(output).has_extension()) return output;
  return output + ".counts.npy";
}

void deliver_counts(const Common& common, const RadiusResult& result,
                    const std::vector<std::int64_t>& counts) {
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const auto queries = static_cast<std::int64_t>(counts.size());
  std::string file;
  if (!result.output.empty()) {
    file = counts_file(result.output);
    const CancellableScope scope;
    write_array(file, counts, {FileFormat::npy, must_stop});
    outputs_in_place();
  }
  if (common.json) {
    nlohmann::json object = {{"queries", queries},
                             {"radius", result.radius},
                             {"metric", name(result.metric)},
                             {"index", to_json(result.index)},
                             {"neighbors", total}};
    std::vector<JsonMember> arrays;
    if (file.empty()) {
      arrays.push_back(array_member("counts", queries, of(counts)));
    } else {
      object["files"] = {file};
    }
    print_json(object, arrays);
  } else if (!file.empty()) {
    note(common, fmt::format("wrote {}: {}, {}", shown_output(file), plural(queries, "query", "queries"),
                             plural(total, "neighbour")));
  } else {
    print(fmt::format("{:>8}  {:>12}\n", "query", "neighbours"));
    for (std::int64_t q = 0; q < std::min(queries, shown_queries); ++q) {
      print(fmt::format("{:>8}  {:>12}\n", q, counts[static_cast<std::size_t>(q)]));
    }
    show_more(queries);
  }
}

void deliver_rows(const Common& common, const RadiusResult& result, const RadiusNeighbors& answer) {
  std::vector<std::string> files;
  if (!result.output.empty()) {
    const CancellableScope scope;
    for (const auto& file : write_radius_neighbors(result.output, answer, {{}, must_stop})) {
      files.push_back(file.string());
    }
    outputs_in_place();
  }
  const std::int64_t total = answer.offsets.back();
  if (common.json) {
    nlohmann::json object = {{"queries", answer.queries},
                             {"radius", result.radius},
                             {"metric", name(result.metric)},
                             {"index", to_json(result.index)},
                             {"neighbors", total},
                             {"statistics", to_json(answer.statistics)}};
    std::vector<JsonMember> arrays;
    if (files.empty()) {
      arrays.push_back(array_member("offsets", answer.queries + 1, of(answer.offsets)));
      arrays.push_back(array_member("indices", total, of(answer.indices)));
      std::visit([&](const auto& held) { arrays.push_back(array_member("distances", total, of(held))); },
                 answer.distances);
    } else {
      object["files"] = files;
    }
    print_json(object, arrays);
  } else if (files.empty()) {
    show(answer);
  } else {
    note(common, fmt::format("wrote {}: {}, {}", fmt::join(files, ", "),
                             plural(answer.queries, "query", "queries"), plural(total, "neighbour")));
  }
  note_nan(common, answer.statistics);
}

}  // namespace kith::cli
