// Rung 54: Kith's own walk through the same graph, on the CPU, all cores.
//
// Idea      Walks compare codes of a byte a value by integer instructions; each core has several walks under
//           way, and goes on with one while another waits for memory. The rows of the list are then
//           evaluated by the canonical distance.
// Cost      As rung 41, with a quarter of the bytes a row, and on every core.
// Limit     Memory: two reads from anywhere a step.
// Source    docs/vamana.md.
#include "engine.hpp"
#include "graph_case.hpp"

namespace kith::ladder {

Answer engine_graph_cpu(const Problem& problem, Run& run) {
  const Execution execution = engine_execution(run);
  SearchOptions options;
  options.list_size = problem.graph->list_size();
  Answer answer(problem);
  run.search([&] {
    problem.graph->index().search_into(host_queries(problem), into(answer, problem), execution, options);
  });
  return answer;
}

}  // namespace kith::ladder
