#include "shards.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "index_file.hpp"
#include "stream.hpp"
#include "units.hpp"

namespace kith::cli {

bool is_shards(const std::string& path) {
  return Sharded::is_at(path);
}

Dataset load_queries(const Common& common, const Sharded& shards, Source queries,
                     const std::string& input_format, double answer_bytes, MemoryPlan& plan) {
  open_inputs(common, {&queries}, input_format);
  const Size size = peek(queries);
  plan.add("queries", size.bytes, size.mapped);
  MemoryPlan with_answer = plan;
  with_answer.add("answer", size.rows * answer_bytes);
  with_answer.check();
  Dataset asked = load(common, queries);
  if (asked.dim() != shards.dim()) {
    throw InvalidArgument(
        fmt::format("the shards '{}' have dimension {}, the queries '{}' have {}; they must be the same",
                    shards.folder().string(), shards.dim(), shown(queries.path), asked.dim()));
  }
  if (asked.dtype() == shards.dtype()) return asked;
  plan.add("queries as " + std::string(name(shards.dtype())),
           size.rows * size.row_elements * static_cast<double>(size_of(shards.dtype())));
  plan.check();
  return as_the_index(common, asked, shards.dtype(), "queries", "searched");
}

void search_shards(const Common& common, const std::string& folder, Source queries,
                   const std::string& input_format, const ResultOptions& result, const SearchOptions& asked,
                   std::string& allowed) {
  const Sharded shards = Sharded::open(folder);
  queries.max_rows = result.max_queries;
  MemoryPlan plan(common);
  // The answer, and what one shard adds to it.
  const auto cell = static_cast<double>(sizeof(std::int64_t) + size_of(distance_dtype(shards.dtype())));
  const Dataset rows = load_queries(common, shards, std::move(queries), input_format,
                                    2 * cell * static_cast<double>(result.k), plan);
  check_ids(result.ids, shards.rows(), rows.rows());
  const std::optional<RowSet> these = read_allowed(common, allowed, shards.rows());
  SearchOptions options = asked;
  options.allowed = these ? &*these : nullptr;
  const Neighbors answer = run_search(common, make_execution(common), [&](const Execution& how) {
    Execution left = how;
    left.memory_limit = plan.left();
    return shards.search(rows, result.k, left, options);
  });
  deliver(common, result, answer, shards.metric());
}

nlohmann::ordered_json describe_shards(const std::string& path) {
  const Sharded shards = Sharded::open(path);
  const std::vector<std::int64_t> rows = shards.shard_rows();
  const auto [least, most] = std::ranges::minmax(rows);
  nlohmann::ordered_json object = {
      {"file", path},          {"format", Sharded::type_name}, {"dtype", name(shards.dtype())},
      {"rows", shards.rows()}, {"dim", shards.dim()},          {"bytes", shards.bytes()}};
  object["details"] = {
      {"index", shards.index_type().name},
      {"metric", name(shards.metric())},
      {"shards", shards.shards()},
      {"partition", name(shards.partition())},
      {"rows a shard", least == most ? format_count(least)
                                     : fmt::format("{} to {}", format_count(least), format_count(most))},
      {"largest shard", format_bytes(static_cast<double>(shards.largest_shard_bytes()))}};
  return object;
}

}  // namespace kith::cli
