// The engine's rungs have this in common.
#pragma once

#include <memory>

#include "kith/kith.hpp"
#include "ladder.hpp"

namespace kith::ladder {

inline Execution engine_execution(const Run& run) {
  Execution execution;
  execution.threads = run.threads;
  execution.cancelled = run.cancelled;
  return execution;
}

inline DatasetView host_points(const Problem& problem) {
  if (problem.bytes()) return {problem.point_bytes, problem.points, problem.dim};
  return {problem.point, problem.points, problem.dim};
}
inline DatasetView host_queries(const Problem& problem) {
  if (problem.bytes()) return {problem.query_bytes, problem.queries, problem.dim};
  return {problem.query, problem.queries, problem.dim};
}
inline NeighborsView into(Answer& answer, const Problem& problem) {
  return {answer.indices.data(), answer.distances.data(), problem.queries, problem.k};
}

/// Takes an index that lies on GPUs off the limit on their memory.
template <class Index>
void hold(const Index& index, Execution& execution) {
  if (execution.device_memory_limit == 0) return;
  const std::uint64_t devices = execution.devices.size();
  const std::uint64_t held = (index.memory_bytes() + devices - 1) / devices;
  std::uint64_t& limit = execution.device_memory_limit;
  limit = limit > held ? limit - held : 1;
}

/// Index built once, then searched.
template <class Index, class Parameters>
Answer build_and_search(const Problem& problem, const Parameters& parameters, Execution execution, Run& run) {
  Answer answer(problem);
  std::unique_ptr<Index> index;
  run.build(
      [&] { index = std::make_unique<Index>(Index::build(host_points(problem), parameters, execution)); });
  hold(*index, execution);
  run.search([&] { index->search_into(host_queries(problem), into(answer, problem), execution); });
  return answer;
}

}  // namespace kith::ladder
