// A search of one shard, batch by batch: queries that keep more than there is room for go through again.
#include <algorithm>

#include "brute_force/cuda/plan.hpp"
#include "brute_force/cuda/prepared.hpp"
#include "brute_force/cuda/shard_search.hpp"
#include "brute_force/cuda/tuning.hpp"
#include "brute_force/partition.hpp"

namespace kith::brute_force {

namespace {

// Queries on the shard's device and where their answers go.
template <class R>
struct Asked {
  const void* queries;
  std::int64_t stride;
  std::int64_t count;
  std::int64_t k;
  const R* best;
  std::int64_t* indices;
  R* distances;
  bool mind_rests;
  cuda::ListedQueries listed = {};  ///< where they go by lists
};

// `room`: as in make_plan; 0 at first.
template <class R>
void search_with_room(Shard& shard, Workspace& w, const Asked<R>& asked, const Execution& execution,
                      std::uint64_t budget, std::int64_t room, SearchStatistics& statistics) {
  const std::int64_t list_k = std::clamp<std::int64_t>(asked.k, 1, std::max<std::int64_t>(1, shard.rows));
  const bool by_lists = asked.listed.ids != nullptr;
  Plan plan =
      make_plan(shard, asked.count, list_k, sizeof(R), budget, execution.device_memory_limit, room, by_lists);
  plan.mind_rests = asked.mind_rests;
  const bool last =
      plan.room >= std::min(shard.rows, tuning::most_room) || plan.room <= room / tuning::room_growth;
  const auto row_bytes = static_cast<std::int64_t>(size_of(shard.space.dtype)) * shard.space.dim;
  for (std::int64_t first = 0; first < asked.count; first += plan.batch) {
    const std::int64_t n = std::min(plan.batch, asked.count - first);
    cuda::ListedQueries listed = asked.listed;
    if (by_lists) {
      listed.ids += first;
      listed.lists += first;
    }
    ShardSearch<R> search(shard, w, plan, list_k, execution, listed);
    const auto* queries = static_cast<const char*>(asked.queries) +
                          first * asked.stride * static_cast<std::int64_t>(size_of(shard.space.dtype));
    std::int64_t* indices = asked.indices + first * asked.k;
    R* distances = asked.distances + first * asked.k;
    const std::int64_t left =
        search.run(queries, asked.stride, n, asked.best == nullptr ? nullptr : asked.best + first, asked.k,
                   indices, distances, last);
    statistics.candidates += search.candidates();
    statistics.fallbacks += search.fallbacks();
    statistics.nan_queries += search.nan_queries();
    if (plan.listed) statistics.pairs -= n * shard.rows - search.pairs();
    if (left == 0) continue;

    // What is left of the batch in memory of its own: the workspace serves the search for it.
    cuda::Buffer<std::uint32_t> ids(left, w.stream);
    cuda::Buffer<unsigned char> rows(left * row_bytes, w.stream);
    cuda::Buffer<R> bounds(left, w.stream);
    const cuda::Buffer<std::int64_t> left_indices(left * asked.k, w.stream);
    const cuda::Buffer<R> left_distances(left * asked.k, w.stream);
    KITH_CUDA(
        cudaMemcpyAsync(ids.data(), search.left_ids(), ids.bytes(), cudaMemcpyDeviceToDevice, w.stream));
    cuda::gather_rows(queries, asked.stride * static_cast<std::int64_t>(size_of(shard.space.dtype)),
                      row_bytes, ids.data(), left, rows.data(), w.stream);
    cuda::gather_rows(search.left_bounds(), sizeof(R), sizeof(R), ids.data(), left, bounds.data(), w.stream);
    search_with_room<R>(shard, w,
                        {rows.data(), shard.space.dim, left, asked.k, bounds.data(), left_indices.data(),
                         left_distances.data(), false},
                        execution, budget, std::min(shard.rows, plan.room * tuning::room_growth), statistics);
    cuda::scatter_rows(left_indices.data(), asked.k * 8, ids.data(), left, indices, w.stream);
    cuda::scatter_rows(left_distances.data(), asked.k * static_cast<std::int64_t>(sizeof(R)), ids.data(),
                       left, distances, w.stream);
    w.stream.synchronize();
  }
}

// What a search by lists may take beside: of a memory limit a quarter.
std::uint64_t beside(std::uint64_t limit) {
  return limit / 4;
}

// Queries that search by lists at once: how near the lists are, queries and answers once more.
std::int64_t listed_at_once(const Shard& shard, std::int64_t k, std::size_t result_bytes,
                            std::uint64_t budget, std::uint64_t limit) {
  const auto a_query =
      static_cast<std::uint64_t>((shard.lists.count + cuda::ball_stride(shard.space.dim)) * 4 + 64 +
                                 shard.space.dim * static_cast<std::int64_t>(size_of(shard.space.dtype)) +
                                 k * static_cast<std::int64_t>(sizeof(std::int64_t) + result_bytes));
  const std::uint64_t bytes = limit == 0 ? budget / 8 : beside(limit);
  return static_cast<std::int64_t>(std::min(tuning::list_distance_bytes, bytes) / a_query);
}

// By lists, but for answers that are long or much of the rows. Other searches of rows in lists are as exact,
// but their first stages see rows of few lists, and so their bounds are loose.
bool goes_by_lists(const Shard& shard, std::int64_t k, std::size_t result_bytes, std::uint64_t budget,
                   const Execution& execution) {
  return shard.lists.count > 0 && lists_forced().value_or(true) && shard.filtered() &&
         k <= tuning::largest_block_k && k * 8 <= shard.rows &&
         listed_at_once(shard, k, result_bytes, budget, execution.device_memory_limit) > 0;
}

// Queries in the order of their nearest lists, searched together, and their answers where they belong.
template <class R>
void search_by_lists(Shard& shard, Workspace& w, const Asked<R>& asked, const Execution& execution,
                     std::uint64_t budget, SearchStatistics& statistics) {
  const auto value_bytes = static_cast<std::int64_t>(size_of(shard.space.dtype));
  const std::int64_t row_bytes = value_bytes * shard.space.dim;
  const std::int64_t at_once =
      std::min(asked.count, listed_at_once(shard, asked.k, sizeof(R), budget, execution.device_memory_limit));
  const std::int64_t rounds = (asked.count + at_once - 1) / at_once;
  const std::int64_t each = (asked.count + rounds - 1) / rounds;
  ListWorkspace& l = w.by_lists;
  Execution rest = execution;
  rest.device_memory_limit -= beside(execution.device_memory_limit);
  for (std::int64_t first = 0; first < asked.count; first += each) {
    const std::int64_t n = std::min(each, asked.count - first);
    const auto* queries = static_cast<const char*>(asked.queries) + first * asked.stride * value_bytes;
    const cuda::ListedQueries listed = order_queries(shard, w, queries, asked.stride, n);
    unsigned char* ordered = l.queries.reserve(n * row_bytes, w.stream);
    cuda::gather_rows(queries, asked.stride * value_bytes, row_bytes, listed.ids, n, ordered, w.stream);
    std::int64_t* indices = l.indices.reserve(n * asked.k, w.stream);
    auto* distances = reinterpret_cast<R*>(
        l.distances.reserve(n * asked.k * static_cast<std::int64_t>(sizeof(R)), w.stream));
    search_with_room<R>(
        shard, w,
        {ordered, shard.space.dim, n, asked.k, nullptr, indices, distances, asked.mind_rests, listed}, rest,
        budget, 0, statistics);
    cuda::scatter_rows(indices, asked.k * 8, listed.ids, n, asked.indices + first * asked.k, w.stream);
    cuda::scatter_rows(distances, asked.k * static_cast<std::int64_t>(sizeof(R)), listed.ids, n,
                       asked.distances + first * asked.k, w.stream);
  }
  w.stream.synchronize();  // who asked may read the answers from any stream
}

}  // namespace

cuda::ListedQueries order_queries(const Shard& shard, Workspace& w, const void* queries, std::int64_t stride,
                                  std::int64_t count) {
  ListWorkspace& l = w.by_lists;
  const std::int64_t lists = shard.lists.count;
  const cuda::ListBalls balls = shard.lists.balls(shard.space.dim);
  float* points = l.points.reserve(count * balls.stride, w.stream);
  float* off = l.off.reserve(count, w.stream);
  float* least = l.least.reserve(count * lists, w.stream);
  std::uint64_t* nearest = l.nearest.reserve(count, w.stream);
  cuda::place_in_space(queries, stride, count, shard.space, points, off, w.stream);
  cuda::compare_with_centres(points, off, count, balls, nearest, least, w.stream);
  std::uint32_t* unsorted_keys = l.unsorted_keys.reserve(count, w.stream);
  std::uint32_t* unsorted = l.unsorted.reserve(count, w.stream);
  std::uint32_t* keys = l.keys.reserve(count, w.stream);
  std::uint32_t* ids = l.ids.reserve(count, w.stream);
  const auto sort = [&](void* scratch, std::size_t bytes) {
    return cuda::order_by_list(nearest, count, lists, unsorted_keys, unsorted, keys, ids, scratch, bytes,
                               w.stream);
  };
  const std::size_t bytes = sort(nullptr, 0);
  sort(l.scratch.reserve(static_cast<std::int64_t>(bytes), w.stream), bytes);
  return {ids, keys, least};
}

template <class R>
void search_shard(Shard& shard, Workspace& w, const void* queries, std::int64_t query_stride,
                  std::int64_t count, std::int64_t k, const R* best, std::int64_t* indices, R* distances,
                  const Execution& execution, std::uint64_t budget, bool mind_rests,
                  SearchStatistics& statistics) {
  if (best == nullptr && shard.short_codes != nullptr &&
      search_by_short_codes<R>(*shard.short_codes, w, queries, query_stride, count, k, indices, distances,
                               execution, budget, statistics)) {
    statistics.pairs += count * shard.rows;
    return;
  }
  const Asked<R> asked{queries, query_stride, count, k, best, indices, distances, mind_rests};
  bool by_lists = best == nullptr && goes_by_lists(shard, k, sizeof(R), budget, execution);
  if (by_lists) {
    const SearchStatistics before = statistics;
    try {
      search_by_lists(shard, w, asked, execution, budget, statistics);
    } catch (const OutOfMemory&) {  // beside what lists take
      by_lists = false;
      statistics = before;
      w.stream.synchronize();
      w.by_lists = {};
    }
  }
  if (!by_lists) search_with_room<R>(shard, w, asked, execution, budget, 0, statistics);
  statistics.pairs += count * shard.rows;
}

template void search_shard<float>(Shard&, Workspace&, const void*, std::int64_t, std::int64_t, std::int64_t,
                                  const float*, std::int64_t*, float*, const Execution&, std::uint64_t, bool,
                                  SearchStatistics&);
template void search_shard<double>(Shard&, Workspace&, const void*, std::int64_t, std::int64_t, std::int64_t,
                                   const double*, std::int64_t*, double*, const Execution&, std::uint64_t,
                                   bool, SearchStatistics&);

}  // namespace kith::brute_force
