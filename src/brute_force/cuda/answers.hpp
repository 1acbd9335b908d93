// What searches of one shard, of several and of rows that stream through share: queries in, answers out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "brute_force/cuda/prepared.hpp"
#include "cuda/runtime.hpp"
#include "cuda/upload.hpp"

namespace kith::brute_force {

/// Queries [first, first + count) on the workspace's device, contiguous unless they lie there already.
inline cuda::PlacedRows place_queries(Workspace& w, const DatasetView& queries, std::int64_t first,
                                      std::int64_t count, const Execution& execution) {
  return cuda::place(queries.slice(first, count), w.device, w.queries, w.uploader, w.stream, execution);
}

template <class R>
void copy_out(const NeighborsView& out, std::int64_t first, const std::int64_t* indices, const R* distances,
              std::int64_t count, cudaStream_t stream) {
  const auto cells = static_cast<std::size_t>(count * out.k);
  KITH_CUDA(cudaMemcpyAsync(out.indices + first * out.k, indices, cells * sizeof(std::int64_t),
                            cudaMemcpyDefault, stream));
  KITH_CUDA(cudaMemcpyAsync(static_cast<R*>(out.distances) + first * out.k, distances, cells * sizeof(R),
                            cudaMemcpyDefault, stream));
}

inline void add(SearchStatistics& sum, const SearchStatistics& one, bool queries_too) {
  sum.pairs += one.pairs;
  sum.candidates += one.candidates;
  sum.fallbacks += one.fallbacks;
  if (one.directions > 0) sum.directions = one.directions;
  if (queries_too) sum.nan_queries += one.nan_queries;
}

/// Of rows that stay on no device: streamed.cpp.
template <class R>
void search_streamed(const CudaPrepared& p, const DatasetView& data, const DatasetView& queries,
                     const NeighborsView& out, const Execution& execution, bool mind_rests,
                     SearchStatistics& statistics);

}  // namespace kith::brute_force
