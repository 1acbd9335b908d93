// A search over all shards: each on its device, queries in and answers out.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "brute_force/cuda/answers.hpp"
#include "brute_force/cuda/plan.hpp"
#include "brute_force/cuda/prepared.hpp"
#include "core/parallel.hpp"
#include "cuda/fan_out.hpp"
#include "cuda/workspace_pool.hpp"
#include "kith/error.hpp"

namespace kith::brute_force {

namespace {

using cuda::Borrowed;

// One shard, one set of queries, straight to the output.
template <class R>
void search_alone(Shard& shard, const DatasetView& queries, std::int64_t first, std::int64_t count,
                  const NeighborsView& out, const Execution& execution, std::uint64_t budget, bool mind_rests,
                  SearchStatistics& statistics) {
  const cuda::DeviceGuard guard(shard.device);
  Borrowed<Workspace> w(shard.workspaces, shard.device);
  cuda::wait_for(execution, w->stream);
  const cuda::PlacedRows placed = place_queries(*w, queries, first, count, execution);
  const bool in_place = out.space == MemorySpace::cuda && out.device == shard.device;
  std::int64_t* indices =
      in_place ? out.indices + first * out.k : w->indices[0].reserve(count * out.k, w->stream);
  R* distances = in_place ? static_cast<R*>(out.distances) + first * out.k
                          : reinterpret_cast<R*>(w->answers[0].reserve(
                                count * out.k * static_cast<std::int64_t>(sizeof(R)), w->stream));
  try {
    search_shard<R>(shard, *w, placed.data, placed.stride, count, out.k, nullptr, indices, distances,
                    execution, budget, mind_rests, statistics);
  } catch (const OffDirections&) {
    w.done();
    throw;
  }
  if (!in_place) {
    copy_out(out, first, indices, distances, count, w->stream);
    w->stream.synchronize();
  }
  w.done();
}

// Every shard answers for its rows, the first device merges by the contract's order.
template <class R>
void search_shards(const CudaPrepared& p, const DatasetView& queries, const NeighborsView& out,
                   const Execution& execution, bool mind_rests, SearchStatistics& statistics) {
  const std::size_t shards = p.shards.size();
  std::vector<SearchStatistics> each(shards);
  std::vector<cuda::Buffer<std::int64_t>> indices(shards);
  std::vector<cuda::Buffer<R>> distances(shards);
  const std::int64_t cells = queries.rows * out.k;

  // Shards of one device follow each other, devices work side by side.
  cuda::for_each_device(p.devices.size(), [&](std::size_t d) {
    for (std::size_t i = 0; i < shards; ++i) {
      Shard& shard = *p.shards[i];
      if (shard.device != p.devices[d]) continue;
      const cuda::DeviceGuard guard(shard.device);
      Borrowed<Workspace> w(shard.workspaces, shard.device);
      cuda::wait_for(execution, w->stream);
      const cuda::PlacedRows placed = place_queries(*w, queries, 0, queries.rows, execution);
      indices[i] = cuda::Buffer<std::int64_t>(cells, shard.stream);
      distances[i] = cuda::Buffer<R>(cells, shard.stream);
      shard.stream.synchronize();
      search_shard<R>(shard, *w, placed.data, placed.stride, queries.rows, out.k, nullptr, indices[i].data(),
                      distances[i].data(), execution, p.budget, mind_rests, each[i]);
      w->stream.synchronize();
      w.done();
    }
  });
  Shard& home = *p.shards.front();
  const cuda::DeviceGuard guard(home.device);
  Borrowed<Workspace> w(home.workspaces, home.device);
  // Lists of all shards meet on the first device.
  std::vector<cuda::Buffer<std::int64_t>> met_indices(shards);
  std::vector<cuda::Buffer<R>> met_distances(shards);
  std::vector<const std::int64_t*> all_indices(shards);
  std::vector<const R*> all_distances(shards);
  for (std::size_t i = 0; i < shards; ++i) {
    all_indices[i] = indices[i].data();
    all_distances[i] = distances[i].data();
    if (p.shards[i]->device != home.device) {
      met_indices[i] = cuda::Buffer<std::int64_t>(cells, w->stream);
      met_distances[i] = cuda::Buffer<R>(cells, w->stream);
      KITH_CUDA(cudaMemcpyPeerAsync(met_indices[i].data(), home.device, indices[i].data(),
                                    p.shards[i]->device, indices[i].bytes(), w->stream));
      KITH_CUDA(cudaMemcpyPeerAsync(met_distances[i].data(), home.device, distances[i].data(),
                                    p.shards[i]->device, distances[i].bytes(), w->stream));
      all_indices[i] = met_indices[i].data();
      all_distances[i] = met_distances[i].data();
    }
    add(statistics, each[i], i == 0);
  }
  const bool in_place = out.space == MemorySpace::cuda && out.device == home.device;
  std::int64_t* to_indices = in_place ? out.indices : w->indices[0].reserve(cells, w->stream);
  R* to_distances = in_place ? static_cast<R*>(out.distances)
                             : reinterpret_cast<R*>(w->answers[0].reserve(
                                   cells * static_cast<std::int64_t>(sizeof(R)), w->stream));
  cuda::merge_answers<R>(all_indices.data(), all_distances.data(), static_cast<int>(shards), queries.rows,
                         out.k, to_indices, to_distances, w->stream);
  if (!in_place) copy_out(out, 0, to_indices, to_distances, queries.rows, w->stream);
  w->stream.synchronize();
  w.done();
}

template <class R>
void search_as(const CudaPrepared& p, const DatasetView& data, const DatasetView& queries,
               const NeighborsView& out, const Execution& execution, bool mind_rests,
               SearchStatistics& statistics) {
  if (p.mode == CudaPrepared::Mode::streamed) {
    search_streamed<R>(p, data, queries, out, execution, mind_rests, statistics);
  } else if (p.replicated) {
    const std::size_t shards = p.shards.size();
    std::vector<SearchStatistics> each(shards);
    cuda::for_each_device(shards, [&](std::size_t i) {
      const std::int64_t first =
          queries.rows * static_cast<std::int64_t>(i) / static_cast<std::int64_t>(shards);
      const std::int64_t last =
          queries.rows * static_cast<std::int64_t>(i + 1) / static_cast<std::int64_t>(shards);
      if (first < last)
        search_alone<R>(*p.shards[i], queries, first, last - first, out, execution, p.budget, mind_rests,
                        each[i]);
    });
    for (const auto& one : each) add(statistics, one, true);
  } else if (p.shards.size() == 1) {
    search_alone<R>(*p.shards.front(), queries, 0, queries.rows, out, execution, p.budget, mind_rests,
                    statistics);
  } else {
    search_shards<R>(p, queries, out, execution, mind_rests, statistics);
  }
}

// Copies of an answer that the device with most of them holds at once.
std::uint64_t answers_held(const CudaPrepared& p, const NeighborsView& out) {
  const std::uint64_t devices = p.devices.size();
  if (p.mode == CudaPrepared::Mode::streamed) return 3 + devices + 2;
  if (!p.replicated && p.shards.size() > 1) return 2 * p.shards.size() + 1;
  return out.space == MemorySpace::cuda && out.device == p.devices.front() ? 0 : 1;
}

template <class R>
NeighborsView slice(const NeighborsView& out, std::int64_t first, std::int64_t count) {
  NeighborsView some = out;
  some.indices += first * out.k;
  some.distances = static_cast<R*>(out.distances) + first * out.k;
  some.queries = count;
  return some;
}

// A search that keeps to a device memory limit: as many queries at a time as half of what the limit leaves
// holds with their answers; the other half is for what the filter keeps.
template <class R>
void search_within_limit(const CudaPrepared& p, const DatasetView& data, const DatasetView& queries,
                         const NeighborsView& out, const Execution& execution, bool mind_rests,
                         SearchStatistics& statistics) {
  constexpr std::int64_t endless = std::int64_t{1} << 50;  // products with it still fit 64 bits
  const auto k = static_cast<std::uint64_t>(std::min(out.k, endless));
  const std::uint64_t each = answers_held(p, out) * k * (sizeof(std::int64_t) + sizeof(R)) +
                             static_cast<std::uint64_t>(queries.dim) * size_of(queries.dtype) + sizeof(R);
  if (execution.device_memory_limit < p.stream_bytes + 2 * each) {
    throw LimitTooLow(out.k, p.stream_bytes + 2 * each, execution.device_memory_limit);
  }
  const std::uint64_t half = (execution.device_memory_limit - p.stream_bytes) / 2;
  const auto at_once =
      static_cast<std::int64_t>(std::min(half / each, static_cast<std::uint64_t>(queries.rows)));
  const std::int64_t slices = (queries.rows + at_once - 1) / at_once;
  for (std::int64_t i = 0; i < slices; ++i) {
    const std::int64_t first = i * at_once;
    const std::int64_t count = std::min(at_once, queries.rows - first);
    Execution part = execution;
    part.device_memory_limit = half;
    if (p.mode == CudaPrepared::Mode::streamed && execution.progress) {  // all rows pass once a slice
      part.progress = [&](const Progress& rows) {
        execution.progress({rows.stage, i * rows.total + rows.done, slices * rows.total});
      };
    }
    SearchStatistics one = statistics;
    one.directions = p.choice.directions();
    try {
      search_as<R>(p, data, queries.slice(first, count), slice<R>(out, first, count), part, mind_rests, one);
    } catch (const LimitTooLow& error) {
      throw LimitTooLow(out.k, p.stream_bytes + 2 * error.needed(), execution.device_memory_limit);
    }
    if (i > 0) one.nan_rows = statistics.nan_rows;  // the same rows again
    statistics = one;
  }
}

SearchStatistics search_all(const CudaPrepared& p, const DatasetView& data, const DatasetView& queries,
                            const NeighborsView& out, const Execution& execution, bool mind_rests) {
  SearchStatistics s;
  s.index = BruteForce::index_type.name;
  s.filter = std::string(name(p.filter()));
  s.directions = p.choice.directions();
  if (!p.shards.empty()) s.lists = p.shards.front()->lists.count;
  s.instruction_set = "cuda";
  for (const auto& shard : p.shards) {
    s.nan_rows += shard->nan_rows;
    if (p.replicated) break;
  }
  if (queries.rows == 0) return s;
  const auto search = [&]<class R>() {
    if (execution.device_memory_limit == 0) {
      search_as<R>(p, data, queries, out, execution, mind_rests, s);
    } else {
      search_within_limit<R>(p, data, queries, out, execution, mind_rests, s);
    }
  };
  if (data.dtype == Dtype::f64) {
    search.template operator()<double>();
  } else {
    search.template operator()<float>();
  }
  return s;
}

}  // namespace

SearchStatistics search_cuda(const CudaPrepared& p, const DatasetView& data, const DatasetView& queries,
                             const NeighborsView& out, const Execution& execution) {
  const auto started = std::chrono::steady_clock::now();
  // A streamed search counts rows, and says itself when it is done.
  const bool streamed = p.mode == CudaPrepared::Mode::streamed;
  ProgressCounter progress(execution, "search", std::max<std::int64_t>(1, queries.rows));
  SearchStatistics s;
  try {
    s = search_all(p, data, queries, out, execution, p.choice.directions() > 0);
  } catch (const OffDirections&) {
    Execution left = execution;
    const std::shared_ptr<const CudaPrepared> all_values = with_all_values(p, data, left);
    try {
      s = search_all(all_values == nullptr ? p : *all_values, data, queries, out, left, false);
    } catch (const OutOfMemory&) {  // beside the codes along directions
      if (all_values == nullptr) throw;
      s = search_all(p, data, queries, out, left, false);
    }
  }
  if (!streamed || queries.rows == 0) progress.finish();
  s.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return s;
}

}  // namespace kith::brute_force
