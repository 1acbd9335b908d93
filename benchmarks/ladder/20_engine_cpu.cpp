// Rungs 20 to 22: Kith's own searches on the CPU, all cores.
//
// Idea      Brute force: compare rows coded to a byte a value first, with a proven bound, and evaluate the
//           few that remain. Trees: 16-wide nodes of boxes, tested as one vector register.
// Cost      Brute force: a byte and an integer multiply-add a value. Trees: O(log n) a query in few
//           dimensions.
// Limit     docs/which-index.md, docs/benchmarks.md.
// Source    ARCHITECTURE.md, "The life of a search".
#include <memory>

#include "engine.hpp"

namespace kith::ladder {

Answer engine_cpu(const Problem& problem, Run& run) {
  const Execution execution = engine_execution(run);
  if (!run.whole) return build_and_search<BruteForce>(problem, BruteForceParameters{}, execution, run);
  Answer answer(problem);  // in one call, which builds what pays off for this many queries
  run.search([&] {
    knn_into(host_points(problem), host_queries(problem), into(answer, problem), BruteForceParameters{},
             execution);
  });
  return answer;
}

Answer engine_kd_tree_cpu(const Problem& problem, Run& run) {
  return build_and_search<KdTree>(problem, KdTreeParameters{}, engine_execution(run), run);
}

Answer engine_octree_cpu(const Problem& problem, Run& run) {
  return build_and_search<Octree>(problem, OctreeParameters{}, engine_execution(run), run);
}

}  // namespace kith::ladder
