// Rungs 23 to 26: Kith's own searches on GPUs.
//
// Idea      Brute force: integer products of coded rows on the tensor cores, compared in registers, and the
//           exact distance of what passes. Trees: built on the GPU, a warp or a thread a query, queries
//           sorted along a curve.
// Cost      Brute force: a byte of memory and an integer multiply-add of the tensor cores a value. Trees:
//           O(log n).
// Limit     Few queries: memory, of which codes need a quarter. Few points: the latency of launches.
// Source    docs/gpu.md.
#include <memory>

#include "engine.hpp"
#include "gpu.cuh"
#include "rows_on_gpu.hpp"

namespace kith::ladder {
namespace {

// Points and queries on the GPU, the answer too.
template <class Index, class Parameters>
Answer search_on_gpu(const Problem& problem, const Parameters& parameters, Run& run) {
  const Gpu gpu(run);
  Execution execution = engine_execution(run);
  const int device = gpu.ordinal();
  execution.devices = {Device{Device::Kind::cuda, device}};
  const RowsOnGpu queries(gpu, host_queries(problem));
  const RowsOnGpu points(gpu, host_points(problem));
  const auto indices = gpu.room<std::int64_t>(problem.queries * problem.k);
  const auto distances = gpu.room<float>(problem.queries * problem.k);
  gpu.finish();
  execution.device_memory_limit = gpu.left();
  std::unique_ptr<Index> index;
  run.build([&] { index = std::make_unique<Index>(Index::build(points.view, parameters, execution)); });
  hold(*index, execution);
  const NeighborsView out{indices.data(), distances.data(),  problem.queries,
                          problem.k,      MemorySpace::cuda, device};
  run.search([&] { index->search_into(queries.view, out, execution); });
  Answer answer(problem);
  answer.indices = gpu.download(indices);
  answer.distances = gpu.download(distances);
  return answer;
}

// From host memory to host memory in one call.
Answer search_whole(const Problem& problem, const Execution& execution, Run& run) {
  Answer answer(problem);
  run.search([&] {
    knn_into(host_points(problem), host_queries(problem), into(answer, problem), BruteForceParameters{},
             execution);
  });
  return answer;
}

Execution on_gpus(const Run& run) {
  Execution execution = engine_execution(run);
  execution.devices.clear();
  for (const int gpu : run.gpus) execution.devices.push_back({Device::Kind::cuda, gpu});
  execution.device_memory_limit = run.device_memory_limit;
  return execution;
}

}  // namespace

Answer engine_gpu(const Problem& problem, Run& run) {
  run.devices = 1;
  if (!run.whole) return search_on_gpu<BruteForce>(problem, BruteForceParameters{}, run);
  Execution execution = on_gpus(run);
  execution.devices.resize(1);
  return search_whole(problem, execution, run);
}

Answer engine_kd_tree_gpu(const Problem& problem, Run& run) {
  return search_on_gpu<KdTree>(problem, KdTreeParameters{}, run);
}

Answer engine_octree_gpu(const Problem& problem, Run& run) {
  return search_on_gpu<Octree>(problem, OctreeParameters{}, run);
}

// The shares are uploaded when the index is built; queries and answers, which all GPUs need, stay on the
// host.
Answer engine_several_gpus(const Problem& problem, Run& run) {
  run.devices = static_cast<int>(run.gpus.size());
  const Execution execution = on_gpus(run);
  if (run.whole) return search_whole(problem, execution, run);
  return build_and_search<BruteForce>(problem, BruteForceParameters{}, execution, run);
}

}  // namespace kith::ladder
