// A search of one shard, batch by batch: queries that keep more than there is room for go through again.
#include <algorithm>

#include "brute_force/cuda/plan.hpp"
#include "brute_force/cuda/prepared.hpp"
#include "brute_force/cuda/shard_search.hpp"
#include "brute_force/cuda/tuning.hpp"

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
};

// `room`: as in make_plan; 0 at first.
template <class R>
void search_with_room(Shard& shard, Workspace& w, const Asked<R>& asked, const Execution& execution,
                      std::uint64_t budget, std::int64_t room, SearchStatistics& statistics) {
  const std::int64_t list_k = std::clamp<std::int64_t>(asked.k, 1, std::max<std::int64_t>(1, shard.rows));
  Plan plan = make_plan(shard, asked.count, list_k, sizeof(R), budget, execution.device_memory_limit, room);
  plan.mind_rests = asked.mind_rests;
  const bool last =
      plan.room >= std::min(shard.rows, tuning::most_room) || plan.room <= room / tuning::room_growth;
  const auto row_bytes = static_cast<std::int64_t>(size_of(shard.space.dtype)) * shard.space.dim;
  for (std::int64_t first = 0; first < asked.count; first += plan.batch) {
    const std::int64_t n = std::min(plan.batch, asked.count - first);
    ShardSearch<R> search(shard, w, plan, list_k, execution);
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

}  // namespace

template <class R>
void search_shard(Shard& shard, Workspace& w, const void* queries, std::int64_t query_stride,
                  std::int64_t count, std::int64_t k, const R* best, std::int64_t* indices, R* distances,
                  const Execution& execution, std::uint64_t budget, bool mind_rests,
                  SearchStatistics& statistics) {
  search_with_room<R>(shard, w, {queries, query_stride, count, k, best, indices, distances, mind_rests},
                      execution, budget, 0, statistics);
  statistics.pairs += count * shard.rows;
}

template void search_shard<float>(Shard&, Workspace&, const void*, std::int64_t, std::int64_t, std::int64_t,
                                  const float*, std::int64_t*, float*, const Execution&, std::uint64_t, bool,
                                  SearchStatistics&);
template void search_shard<double>(Shard&, Workspace&, const void*, std::int64_t, std::int64_t, std::int64_t,
                                   const double*, std::int64_t*, double*, const Execution&, std::uint64_t,
                                   bool, SearchStatistics&);

}  // namespace kith::brute_force
