// Rung 44: BANG Exact, rung 43 with distances of full rows in place of codes.
//
// Idea      Where the vectors fit the GPU's memory, the walk may compare them: no table, no codes, and no
//           re-ranking, since the worklist is the answer.
// Cost      A neighbour: 4 bytes a coordinate from anywhere in memory, where a code has m bytes in all; no
//           table of 256 m entries a query.
// Limit     As rung 43: launches, lockstep, the filter. With codes of 74 bytes for 96 dimensions the walk
//           reads five times as many bytes, in longer pieces.
// Source    As rung 43.
#include "bang_walks.cuh"

namespace kith::ladder {

Answer bang_exact(const Problem& problem, Run& run) {
  return bang::search_in_memory(problem, run, {.exact = true});
}

}  // namespace kith::ladder
