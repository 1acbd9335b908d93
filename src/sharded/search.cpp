// Sharded's answers: every shard's, joined.
#include <algorithm>
#include <bit>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "core/plural.hpp"
#include "core/search_checks.hpp"
#include "kith/sharded.hpp"
#include "select_k/allowed_rows.hpp"
#include "sharded/build.hpp"
#include "sharded/folder.hpp"
#include "sharded/merge.hpp"
#include "sharded/visits.hpp"

namespace kith {
namespace {

using sharded::Folder;
using sharded::Manifest;
using sharded::RowNumbers;
using sharded::Shard;

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// A limit less what is taken of it; `what` is what takes it.
void take_off(std::uint64_t& limit, std::uint64_t bytes, std::string_view what) {
  if (limit == 0) return;
  if (bytes >= limit) {
    throw OutOfMemory(
        fmt::format("{} takes {} bytes, the limit leaves {}; raise it, or search the queries in "
                    "parts",
                    what, bytes, limit));
  }
  limit -= bytes;
}

// The rows of a set that are in a shard, numbered as the shard does.
RowSet rows_of_shard(const RowSet& all, const Shard& shard) {
  RowSet its(shard.rows);
  const auto words = all.words();
  const std::int64_t end = shard.base + shard.rows;
  for (std::int64_t first = shard.base / 64 * 64; first < end; first += 64) {
    for (std::uint64_t word = words[static_cast<std::size_t>(first) / 64]; word != 0; word &= word - 1) {
      const std::int64_t row = first + std::countr_zero(word);
      if (row >= shard.base && row < end) its.insert(row - shard.base);
    }
  }
  return its;
}

RowSet rows_of_shard(const RowSet& all, const Folder& folder, std::int64_t number) {
  const Shard& shard = folder.manifest().shards[static_cast<std::size_t>(number)];
  if (shard.numbers.bytes == 0) return rows_of_shard(all, shard);
  const RowNumbers numbers = folder.numbers(number);
  RowSet its(shard.rows);
  for (std::int64_t i = 0; i < shard.rows; ++i) {
    if (all.contains(numbers(i))) its.insert(i);
  }
  return its;
}

void join(std::string& all, const std::string& its) {
  if (all != its) all = "mixed";
}

// What another shard did, or one in another round, of the same queries or some of them.
void add_shard(SearchStatistics& sum, const SearchStatistics& more, bool again) {
  if (sum.index.empty()) {
    sum = more;
    return;
  }
  const std::int64_t nan_queries = std::max(sum.nan_queries, more.nan_queries);
  add(sum, more);
  sum.nan_queries = nan_queries;
  join(sum.filter, more.filter);
  join(sum.instruction_set, more.instruction_set);
  sum.directions = std::max(sum.directions, more.directions);
  if (!again) sum.collapsed_rows += more.collapsed_rows;
  sum.cached_hops += more.cached_hops;
  sum.list_size = std::max(sum.list_size, more.list_size);
  sum.recall = std::min(sum.recall, more.recall);
}

// Of some queries, or of all; +inf for lists that are not full.
std::vector<double> kth_distances(const Neighbors& found,
                                  const std::optional<std::vector<std::int64_t>>& which) {
  std::vector<double> distances;
  const auto count = which ? static_cast<std::int64_t>(which->size()) : found.queries;
  distances.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    distances.push_back(found.distance(which ? (*which)[static_cast<std::size_t>(i)] : i, found.k - 1));
  }
  return distances;
}

// Room for an answer where one has been, or anew where that was too small.
NeighborsView room_for(Neighbors& answer, std::int64_t queries, std::int64_t k, const Execution& execution) {
  if (std::ssize(answer.indices) < queries * k) {
    const Dtype distances = answer.distance_dtype();
    answer = {};
    answer = sharded::no_neighbors(queries, k, distances, execution);
  }
  answer.queries = queries;
  answer.k = k;
  return std::visit(
      [&](auto& distances) {
        return NeighborsView{answer.indices.data(), distances.data(), queries, k};
      },
      answer.distances);
}

std::int64_t nan_rows(const Manifest& manifest) {
  std::int64_t sum = 0;
  for (const Shard& shard : manifest.shards) sum += shard.nan_rows;
  return sum;
}

void check_queries(const Manifest& manifest, const DatasetView& queries) {
  validate(queries, "queries");
  check_queries_fit(queries, manifest.dim, manifest.dtype, "folder of shards");
}

// Before anything is opened. What takes a radius is a tree.
void check_radius_search(const Folder& folder, const DatasetView& queries, double radius) {
  check_radius(radius);
  check_queries(folder.manifest(), queries);
  if (folder.type().takes(SearchOption::radius)) return;
  throw InvalidArgument(
      fmt::format("shards of type {} have no radius search; build them with the index "
                  "kd_tree or octree",
                  folder.type().name));
}

// visit(round, its number, how to search it) for one shard after the other, in each of some rounds.
template <class Visit>
void for_each_shard(const Folder& folder, int rounds, const Execution& execution, const Visit& visit) {
  const Manifest& manifest = folder.manifest();
  StopRequest stop(execution);
  std::int64_t done = 0;
  for (int round = 0; round < rounds; ++round) {
    for (std::int64_t i = 0; i < folder.shards(); ++i) {
      stop.check();
      const Shard& shard = manifest.shards[static_cast<std::size_t>(i)];
      visit(round, i, sharded::part_of(execution, "search", done, shard.rows / rounds, manifest.rows));
      done += shard.rows / rounds;
    }
  }
  if (execution.progress) execution.progress({"search", manifest.rows, manifest.rows});
}

std::uint64_t bytes_of(const RadiusNeighbors& found) {
  return found.indices.size() * (sizeof(std::int64_t) + size_of(found.distance_dtype())) +
         found.offsets.size() * sizeof(std::int64_t);
}

}  // namespace

Neighbors Sharded::search(const DatasetView& queries, std::int64_t k, const Execution& execution,
                          const SearchOptions& options) const {
  const Clock clock;
  const Manifest& manifest = folder_->manifest();
  check_k(k);
  check_queries(manifest, queries);
  check_options(folder_->type(), options);
  if (options.allowed != nullptr) check_allowed(*options.allowed, manifest.rows, "folder of shards");
  const Dtype distances = distance_dtype(manifest.dtype);
  const std::size_t cell = sizeof(std::int64_t) + size_of(distances);
  check_answer_memory(static_cast<int128>(queries.rows) * k, cell,
                      fmt::format("{} with k = {}", plural(queries.rows, "query", "queries"), k),
                      "the answer", execution);
  Execution rest = execution;
  take_off(rest.memory_limit, static_cast<std::uint64_t>(queries.rows) * static_cast<std::uint64_t>(k) * cell,
           "the answer");
  take_off(rest.memory_limit, sharded::Visits::bytes(manifest, queries), "what is known of the queries");
  Neighbors found = sharded::no_neighbors(queries.rows, k, distances, rest);
  Neighbors more = sharded::no_neighbors(0, 1, distances, rest);  // of one shard after the other
  std::set<std::int64_t> asked;
  // The lists so far bound what a shard has to find: else its own begin with whatever rows come first.
  const bool bounded = folder_->type().name == BruteForce::index_type.name && folder_->shards() > 1;
  if (bounded) {
    take_off(rest.memory_limit, static_cast<std::uint64_t>(queries.rows) * sizeof(double),
             "what is known of the queries");
  }
  // Of some queries, or of all where `which` says nothing.
  const auto ask = [&](std::int64_t number, const std::optional<std::vector<std::int64_t>>& which,
                       const SearchOptions& its, const Execution& how) {
    const Shard& shard = manifest.shards[static_cast<std::size_t>(number)];
    const Folder::Opened opened = folder_->open_shard(number, how);
    const std::int64_t most = std::clamp<std::int64_t>(shard.rows, 1, k);
    const Dataset some = which ? pick_rows(queries, *which) : Dataset();
    const std::vector<double> bounds =
        bounded && !asked.empty() ? kth_distances(found, which) : std::vector<double>();
    SearchOptions options_here = its;
    options_here.bounds = bounds;
    const DatasetView these = which ? some.view() : queries;
    Execution left = opened.left;
    take_off(left.memory_limit,
             static_cast<std::uint64_t>(these.rows) * static_cast<std::uint64_t>(most) * cell,
             "the answer of a shard");
    more.statistics =
        opened.index.search_into(these, room_for(more, these.rows, most, left), left, options_here);
    sharded::merge(found, more, opened.numbers, which, how);
    add_shard(found.statistics, more.statistics, !asked.insert(number).second);
  };
  sharded::Visits visits(manifest, queries, options.radius, rest);
  for_each_shard(*folder_, visits.rounds(), rest, [&](int round, std::int64_t number, const Execution& how) {
    SearchOptions its = options;
    std::optional<RowSet> allowed;
    if (options.allowed != nullptr) {
      allowed.emplace(rows_of_shard(*options.allowed, *folder_, number));
      if (allowed->count() == 0) return;
      its.allowed = &*allowed;
    }
    const auto which = visits.of(round, number, found, how);
    if (!which || !which->empty()) ask(number, which, its, how);
  });
  if (found.statistics.index.empty()) {
    // None was needed: the last one says what a search for nothing is.
    const RowSet none(manifest.shards.back().rows);
    SearchOptions its = options;
    if (options.allowed != nullptr) its.allowed = &none;
    ask(folder_->shards() - 1, {}, its, rest);
  }
  found.statistics.nan_rows = nan_rows(manifest);
  if (visits.rounds() > 1) found.statistics.nan_queries = visits.nan_queries();
  found.statistics.seconds = clock.seconds();
  return found;
}

SearchStatistics Sharded::search_into(const DatasetView& queries, const NeighborsView& out,
                                      const Execution& execution, const SearchOptions& options) const {
  check_k(out.k);
  check_output(queries.rows, out);
  const Neighbors found = search(queries, out.k, execution, options);
  deliver(found, out);
  return found.statistics;
}

RadiusNeighbors Sharded::radius_search(const DatasetView& queries, double radius,
                                       const RadiusOptions& options, const Execution& execution) const {
  const Clock clock;
  check_radius_search(*folder_, queries, radius);
  const Manifest& manifest = folder_->manifest();
  RadiusNeighbors found = sharded::no_rows(queries.rows, distance_dtype(manifest.dtype));
  SearchStatistics sum;
  const auto ask = [&](std::int64_t number, const std::optional<std::vector<std::int64_t>>& which,
                       const Execution& given) {
    Execution how = given;
    take_off(how.memory_limit, bytes_of(found), "the answer so far");
    const Folder::Opened opened = folder_->open_shard(number, how);
    const Dataset some = which ? pick_rows(queries, *which) : Dataset();
    RadiusNeighbors more =
        opened.index.point_tree()->radius_search(which ? some.view() : queries, radius, options, opened.left);
    add_shard(sum, more.statistics, false);
    if (which) sharded::spread(more, *which, queries.rows);
    // Both lists and what comes of them stand side by side.
    take_off(how.memory_limit, bytes_of(found) + 2 * bytes_of(more), "the answer");
    sharded::merge(found, more, opened.numbers, options.sorted || options.max_neighbors > 0,
                   options.max_neighbors, how);
  };
  Execution rest = execution;
  take_off(rest.memory_limit, sharded::Visits::bytes(manifest, queries), "what is known of the queries");
  const sharded::Visits visits(manifest, queries, radius, rest);
  for_each_shard(*folder_, 1, rest, [&](int /*round*/, std::int64_t number, const Execution& how) {
    const auto which = visits.within(number, how);
    if (!which || !which->empty()) ask(number, which, how);
  });
  // None was needed: the last one says what a search for nothing is.
  if (sum.index.empty()) ask(folder_->shards() - 1, {}, rest);
  sum.nan_rows = nan_rows(manifest);
  if (visits.rounds() > 1) sum.nan_queries = visits.nan_queries();
  sum.seconds = clock.seconds();
  found.statistics = std::move(sum);
  return found;
}

std::vector<std::int64_t> Sharded::count_within(const DatasetView& queries, double radius,
                                                const Execution& execution) const {
  check_radius_search(*folder_, queries, radius);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(queries.rows));
  const sharded::Visits visits(folder_->manifest(), queries, radius, execution);
  for_each_shard(*folder_, 1, execution, [&](int /*round*/, std::int64_t number, const Execution& how) {
    const auto which = visits.within(number, how);
    if (which && which->empty()) return;
    const Folder::Opened opened = folder_->open_shard(number, how);
    const Dataset some = which ? pick_rows(queries, *which) : Dataset();
    const std::vector<std::int64_t> more =
        opened.index.point_tree()->count_within(which ? some.view() : queries, radius, opened.left);
    for (std::size_t i = 0; i < more.size(); ++i) {
      counts[which ? static_cast<std::size_t>((*which)[i]) : i] += more[i];
    }
  });
  return counts;
}

}  // namespace kith
