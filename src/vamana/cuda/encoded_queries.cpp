// Scalar codes of queries, and those of these that walks compare.
#include "vamana/cuda/encoded_queries.hpp"

#include "codes/pq.hpp"
#include "codes/rabitq.hpp"
#include "distance/canonical.hpp"

namespace kith::vamana {

std::uint64_t EncodedQueries::bytes(const Built& built) {
  const codes::ScalarSpace& space = built.space;
  const std::int64_t values = canonical_padded(space.dim) + (space.raw_integers() ? 0 : space.full_dim()) + 1;
  auto bytes = static_cast<std::uint64_t>(values) * sizeof(double) +
               static_cast<std::uint64_t>(space.code_bytes()) + 1;
  if (built.walked == nullptr) return bytes;
  if (const codes::RabitqSpace* rabitq = codes::rabitq_space(*built.walked->coding); rabitq != nullptr) {
    const auto dim = static_cast<std::uint64_t>(rabitq->rotation.dim());
    return bytes + dim / codes::cuda::block_values * codes::cuda::block_bytes + 2 * dim * sizeof(double) +
           sizeof(codes::RabitqQuery);
  }
  return bytes + static_cast<std::uint64_t>(built.code_bytes()) * codes::cuda::table_entries * sizeof(float);
}

std::int64_t EncodedQueries::query_bytes(const DeviceGraph& graph, const Built& built) {
  return graph.coding != nullptr ? graph.coding->query_bytes() : built.space.code_bytes();
}

void EncodedQueries::encode(const DeviceGraph& graph, const Built& built, const void* rows,
                            std::int64_t stride, std::int64_t count, unsigned long long* nan_queries,
                            cudaStream_t stream) {
  const codes::ScalarSpace& space = built.space;
  const std::int64_t padded = canonical_padded(space.dim);
  cuda::encode_queries(
      {.space = graph.space(space),
       .rows = rows,
       .stride = stride,
       .count = count,
       .queries = queries_.reserve(count * padded, stream),
       .padded = padded,
       .norms = norms_.reserve(count, stream),
       .values = space.raw_integers() ? nullptr : values_.reserve(count * space.full_dim(), stream),
       .codes = codes_.reserve(count * space.code_bytes(), stream),
       .usable = usable_.reserve(count, stream),
       .nan_queries = nan_queries},
      stream);
  if (graph.coding == nullptr) return;
  const codes::cuda::QuantizedQueries encoded{codes_.data(), space.code_bytes(), usable_.data(), count};
  unsigned char* others = others_.reserve(count * graph.coding->query_bytes(), stream);
  if (graph.coding->rabitq()) {
    const codes::cuda::RabitqView view = graph.coding->rabitq_view();
    double* scratch = scratch_.reserve(count * codes::cuda::scratch_values(view.shape), stream);
    codes::cuda::prepare(view, encoded, scratch, others, scalars_.reserve(count, stream), stream);
  } else {
    codes::cuda::prepare(graph.coding->pq_view(), encoded, reinterpret_cast<float*>(others), stream);
  }
}

void EncodedQueries::hand_to(cuda::WalkJob& job, const DeviceGraph& graph, const Built& built) const {
  job.codes = graph.coding != nullptr ? others_.data() : codes_.data();
  job.code_stride = query_bytes(graph, built);
  job.usable = usable_.data();
  if (graph.coding == nullptr || !graph.coding->rabitq()) return;
  job.rabitq = graph.coding->rabitq_view().shape;
  job.rabitq_queries = scalars_.data();
}

}  // namespace kith::vamana
