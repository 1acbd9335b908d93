// Rung 55: Kith's walk through the same graph on a GPU.
//
// Idea      One launch in place of several a step: a warp walks for a query from beginning to end, with its
//           list in shared memory. What it has met is a small forgetful table: a row of the list is known by
//           its number, and a row dropped from the list cannot come back, so forgetting costs time and never
//           a neighbour. Codes of a byte a value are compared by integer instructions, 32 neighbours at a
//           time.
// Cost      As rung 43 without its table of distances, and none of its launches and barriers between steps.
// Limit     Reads of codes from anywhere in memory.
// Source    docs/gpu.md, docs/vamana.md.
#include "engine.hpp"
#include "gpu.cuh"
#include "graph_case.hpp"
#include "rows_on_gpu.hpp"

namespace kith::ladder {
namespace {

// What the GPU has no room for stays on the host, and its warps read it there.
std::string where_it_lies(const SearchStatistics& statistics) {
  if (statistics.instruction_set.ends_with("host rows")) return "rows in host memory";
  if (statistics.instruction_set.ends_with("host graph")) return "graph and rows in host memory";
  return "";
}

}  // namespace

// Queries and answer in the GPU's memory. Codes, graph and rows come there with the first search, which is
// not timed however long it takes, and stay.
Answer engine_graph_gpu(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  const auto device = gpu.ordinal();
  Execution execution = engine_execution(run);
  execution.devices = {Device{Device::Kind::cuda, device}};
  SearchOptions options;
  options.list_size = problem.graph->list_size();
  const RowsOnGpu queries(gpu, host_queries(problem));
  const auto indices = gpu.room<std::int64_t>(problem.queries * problem.k);
  const auto distances = gpu.room<float>(problem.queries * problem.k);
  gpu.finish();
  execution.device_memory_limit = gpu.left();
  const NeighborsView out{indices.data(), distances.data(),  problem.queries,
                          problem.k,      MemorySpace::cuda, device};
  SearchStatistics statistics;
  const auto search = [&] {
    statistics = problem.graph->index().search_into(queries.view, out, execution, options);
  };
  if (!run.whole) search();
  run.search(search);
  run.fallback = where_it_lies(statistics);
  Answer answer(problem);
  answer.indices = gpu.download(indices);
  answer.distances = gpu.download(distances);
  return answer;
}

}  // namespace kith::ladder
