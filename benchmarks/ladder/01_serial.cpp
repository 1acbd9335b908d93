// Rung 1: a serial loop.
//
// Idea      For every query look at every point and keep the k nearest in a sorted list.
// Cost      queries x points x dim subtractions, multiplications and additions, one after the other.
// Limit     One core, and of it one floating-point unit: each addition of a distance waits for the one
//           before (4 cycles), so 16 coordinates take 64 cycles and more however wide the registers are. The
//           points stream from memory once a query, but arithmetic is slower than that.
// Source    The definition of the problem; "serial CPU" in the reports' tables.
#include "ladder.hpp"
#include "list_answer.hpp"

namespace kith::ladder {

Answer serial(const Problem& problem, Run& run) {
  Answer answer(problem);
  const auto k = static_cast<int>(problem.k);
  const auto dim = static_cast<int>(problem.dim);
  std::vector<Neighbor> list(static_cast<std::size_t>(k));
  run.search([&] {
    for (std::int64_t q = 0; q < problem.queries; ++q) {
      run.stop_if_cancelled();
      list.assign(list.size(), nobody());
      for (std::int64_t i = 0; i < problem.points; ++i) {
        const float distance = squared_distance(problem.query + q * dim, problem.point + i * dim, dim);
        insert(list.data(), k, {distance, static_cast<int>(i)});
      }
      put(answer, q, list.data(), k);
    }
  });
  return answer;
}

}  // namespace kith::ladder
