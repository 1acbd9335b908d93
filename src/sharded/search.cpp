// Sharded's answers: every shard's, joined.
#include <algorithm>
#include <bit>
#include <chrono>
#include <mutex>
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
RowSet rows_of_shard(const RowSet& all, const Shard& shard, const RowNumbers& numbers) {
  RowSet its(shard.rows);
  if (!numbers.consecutive()) {
    for (std::int64_t i = 0; i < shard.rows; ++i) {
      if (all.contains(numbers(i))) its.insert(i);
    }
    return its;
  }
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

// Whether a row of a shard may be in a set: of consecutive rows it is known, of others whether any row of
// their group is.
bool may_have_one(const RowSet& all, const Folder& folder, std::int64_t number) {
  const Shard& shard = folder.manifest().shards[static_cast<std::size_t>(number)];
  const auto words = all.words();
  const std::int64_t end = shard.base + shard.span;
  for (std::int64_t row = shard.base; row < end;) {
    const std::uint64_t word =
        words[static_cast<std::size_t>(row) / 64] >> (static_cast<std::uint64_t>(row) % 64);
    if (word != 0) return row + std::countr_zero(word) < end;
    row = (row / 64 + 1) * 64;
  }
  return false;
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
  if (!again) sum.lists += more.lists;
  if (!again) sum.collapsed_rows += more.collapsed_rows;
  sum.cached_hops += more.cached_hops;
  sum.list_size = std::max(sum.list_size, more.list_size);
  sum.recall = std::min(sum.recall, more.recall);
}

// What is known of some queries, or of all: the caller's bound, and the k-th distance so far, +inf for lists
// that are not full.
std::vector<double> bounds_of(const Neighbors& found, std::span<const double> given,
                              const std::optional<std::vector<std::int64_t>>& which) {
  std::vector<double> bounds;
  const auto count = which ? static_cast<std::int64_t>(which->size()) : found.queries;
  bounds.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t query = which ? (*which)[static_cast<std::size_t>(i)] : i;
    const double kth = found.distance(query, found.k - 1);
    bounds.push_back(given.empty() ? kth : std::min(kth, given[static_cast<std::size_t>(query)]));
  }
  return bounds;
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

// The queries a shard is asked; nothing: all of them.
using Which = std::optional<std::vector<std::int64_t>>;

// One call of Sharded::search.
class Search {
 public:
  // What is found goes to `found`; `execution` has the limits for the rest.
  Search(const Folder& folder, const DatasetView& queries, const SearchOptions& options,
         const Execution& execution, bool bounded, Neighbors& found)
      : folder_(folder),
        queries_(queries),
        options_(options),
        execution_(execution),
        bounded_(bounded),
        found_(found),
        visits_(folder.manifest(), queries, options.radius, execution) {}

  void run() {
    if (is_side_by_side()) {
      side_by_side();
    } else {
      for_each_shard(
          folder_, visits_.rounds(), execution_,
          [&](int round, std::int64_t number, const Execution& how) { visit(round, number, how); });
    }
    const bool any = !asked_.empty();
    // None was needed: the last one says what a search for nothing is.
    if (!any) {
      const Execution quiet = without_progress(execution_);  // all of it is reported
      merge(folder_.shards() - 1, {}, ask(folder_.shards() - 1, {}, false, quiet), quiet);
    }
    found_.statistics.nan_rows = nan_rows(folder_.manifest());
    if (visits_.rounds() > 1 && any) found_.statistics.nan_queries = visits_.nan_queries();
  }

 private:
  struct Answer {
    Neighbors found;
    RowNumbers numbers;
  };

  const Shard& shard(std::int64_t number) const {
    return folder_.manifest().shards[static_cast<std::size_t>(number)];
  }

  // `needed`: only if there is a row to find.
  std::optional<Answer> ask(std::int64_t number, const Which& which, bool needed,
                            const Execution& how) const {
    Folder::Opened opened = folder_.open_shard(number, how);
    SearchOptions its = options_;
    std::optional<RowSet> allowed;
    if (options_.allowed != nullptr) {
      take_off(opened.left.memory_limit, static_cast<std::uint64_t>(shard(number).rows) / 8,
               "the allowed rows");
      allowed.emplace(rows_of_shard(*options_.allowed, shard(number), opened.numbers));
      if (needed && allowed->count() == 0) return std::nullopt;
      its.allowed = &*allowed;
    }
    const std::int64_t most = std::clamp<std::int64_t>(shard(number).rows, 1, found_.k);
    const Dataset some = which ? pick_rows(queries_, *which) : Dataset();
    const std::vector<double> bounds =
        bounded_ ? bounds_of(found_, options_.bounds, which) : std::vector<double>();
    its.bounds = bounds;
    return Answer{opened.index.search(which ? some.view() : queries_, most, opened.left, its),
                  opened.numbers};
  }

  // Answers to different queries may be merged by several threads.
  void merge(std::int64_t number, const Which& which, const std::optional<Answer>& answer,
             const Execution& how) {
    if (!answer) return;
    sharded::merge(found_, answer->found, answer->numbers, which, how);
    const std::scoped_lock lock(mutex_);
    add_shard(found_.statistics, answer->found.statistics, !asked_.insert(number).second);
  }

  void visit(int round, std::int64_t number, const Execution& how) {
    if (options_.allowed != nullptr && !may_have_one(*options_.allowed, folder_, number)) return;
    const Which which = visits_.of(round, number, found_, how);
    if (!which || !which->empty()) merge(number, which, ask(number, which, true, how), how);
  }

  // A shard a thread: waking all threads for each shard's few queries can take as long as answering them.
  // Trees alone, of which open ones take no memory but their files', and where nothing limits it.
  bool is_side_by_side() const {
    return execution_.memory_limit == 0 && options_.allowed == nullptr && !sharded::on_gpu(execution_) &&
           folder_.type().takes(SearchOption::radius) && visits_.are_balanced(resolve_threads(execution_));
  }

  void side_by_side() {
    const Execution how = asked_by_one(execution_);
    ProgressCounter progress(how, "search", folder_.manifest().rows);
    // In the first round every query is one shard's.
    in_parallel(how, 0, progress,
                [&](std::int64_t number, const Execution& alone) { visit(0, number, alone); });
    // Of more visits than queries the answers would take more memory than the one so far, and each shard
    // would rule out fewer rows for the next.
    std::vector<Which> lists;
    std::int64_t visits = 0;
    for (std::int64_t i = 0; i < folder_.shards() && visits <= queries_.rows; ++i) {
      const Which& which = lists.emplace_back(visits_.of(1, i, found_, how));
      visits += which ? std::ssize(*which) : queries_.rows;
    }
    if (visits > queries_.rows) {
      lists.clear();
      for (std::int64_t i = 0; i < folder_.shards(); ++i) {
        visit(1, i, without_progress(how));
        progress.advance(share_of(1, i));
      }
    } else {
      std::vector<std::optional<Answer>> answers(lists.size());
      in_parallel(how, 1, progress, [&](std::int64_t number, const Execution& alone) {
        const auto at = static_cast<std::size_t>(number);
        if (!lists[at] || !lists[at]->empty()) answers[at] = ask(number, lists[at], true, alone);
      });
      for (std::size_t i = 0; i < lists.size(); ++i) {
        merge(static_cast<std::int64_t>(i), lists[i], answers[i], how);
      }
    }
    progress.finish();
  }

  // Of a round's visit to a shard, in rows of it.
  std::int64_t share_of(int round, std::int64_t number) const {
    const std::int64_t half = shard(number).rows / 2;
    return round == 0 ? shard(number).rows - half : half;
  }

  // Calls body(number of a shard, how one thread searches it) for all of them from all threads.
  template <class Body>
  void in_parallel(const Execution& how, int round, ProgressCounter& progress, const Body& body) {
    parallel_for(how, folder_.shards(), [&](std::int64_t number) {
      const std::int64_t share = share_of(round, number);
      std::int64_t done = 0;
      Execution alone = how;
      alone.threads = 1;
      if (how.progress) {
        alone.progress = [&](const Progress& its) {
          if (its.total <= 0) return;
          const auto now = static_cast<std::int64_t>(static_cast<int128>(share) * its.done / its.total);
          if (now > done) progress.advance(now - std::exchange(done, now));
        };
      }
      body(number, alone);
      progress.advance(share - done);
    });
  }

  const Folder& folder_;
  const DatasetView& queries_;
  const SearchOptions& options_;
  const Execution& execution_;
  bool bounded_;
  Neighbors& found_;
  sharded::Visits visits_;
  std::mutex mutex_;  // of the statistics and of:
  std::set<std::int64_t> asked_;
};

}  // namespace

Neighbors Sharded::search(const DatasetView& queries, std::int64_t k, const Execution& execution,
                          const SearchOptions& options) const {
  const Clock clock;
  const Manifest& manifest = folder_->manifest();
  check_k(k);
  check_queries(manifest, queries);
  check_options(folder_->type(), options);
  check_bounds(queries.rows, options.bounds);
  if (options.allowed != nullptr) check_allowed(*options.allowed, manifest.rows, "folder of shards");
  const Dtype distances = distance_dtype(manifest.dtype);
  const std::size_t cell = sizeof(std::int64_t) + size_of(distances);
  check_answer_memory(static_cast<int128>(queries.rows) * k, cell,
                      fmt::format("{} with k = {}", plural(queries.rows, "query", "queries"), k),
                      "the answer", execution);
  Execution rest = execution;
  take_off(rest.memory_limit, static_cast<std::uint64_t>(queries.rows) * static_cast<std::uint64_t>(k) * cell,
           "the answer");
  take_off(rest.memory_limit, sharded::Visits::bytes(manifest, queries), "choosing shards for the queries");
  Neighbors found = sharded::no_neighbors(queries.rows, k, distances, rest);
  // The lists so far bound what a shard has to find: else its own begin with whatever rows come first.
  const bool bounded = folder_->type().name == BruteForce::index_type.name && !sharded::on_gpu(execution) &&
                       (folder_->shards() > 1 || !options.bounds.empty());
  if (bounded) {
    take_off(rest.memory_limit, static_cast<std::uint64_t>(queries.rows) * sizeof(double),
             "choosing rows for the queries");
  }
  Search(*folder_, queries, options, rest, bounded, found).run();
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
    if (found.indices.empty()) {
      sharded::renumber(more, opened.numbers);
      found = std::move(more);
      return;
    }
    // Both lists and what comes of them stand side by side.
    take_off(how.memory_limit, bytes_of(found) + 2 * bytes_of(more), "the answer");
    sharded::merge(found, more, opened.numbers, options.sorted || options.max_neighbors > 0,
                   options.max_neighbors, how);
  };
  Execution rest = execution;
  take_off(rest.memory_limit, sharded::Visits::bytes(manifest, queries), "choosing shards for the queries");
  const sharded::Visits visits(manifest, queries, radius, rest);
  for_each_shard(*folder_, 1, rest, [&](int /*round*/, std::int64_t number, const Execution& how) {
    const auto which = visits.within(number, how);
    if (!which || !which->empty()) ask(number, which, how);
  });
  // None was needed: the last one says what a search for nothing is.
  if (sum.index.empty()) ask(folder_->shards() - 1, {}, without_progress(rest));
  sum.nan_rows = nan_rows(manifest);
  if (visits.rounds() > 1) sum.nan_queries = visits.nan_queries();
  sum.seconds = clock.seconds();
  found.statistics = std::move(sum);
  return found;
}

std::vector<std::int64_t> Sharded::count_within(const DatasetView& queries, double radius,
                                                const Execution& execution) const {
  check_radius_search(*folder_, queries, radius);
  Execution rest = execution;
  take_off(rest.memory_limit, static_cast<std::uint64_t>(queries.rows) * sizeof(std::int64_t), "the counts");
  take_off(rest.memory_limit, sharded::Visits::bytes(folder_->manifest(), queries),
           "choosing shards for the queries");
  std::vector<std::int64_t> counts(static_cast<std::size_t>(queries.rows));
  const sharded::Visits visits(folder_->manifest(), queries, radius, rest);
  for_each_shard(*folder_, 1, rest, [&](int /*round*/, std::int64_t number, const Execution& how) {
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
