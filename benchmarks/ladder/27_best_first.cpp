// Rung 27: best-first search, a query at a time.
//
// Idea      Boxes around few points each, in a tree. A queue gives the nearest box that was not opened yet:
//           an inner one gives its two halves to the queue, a leaf its points to a second queue, of the k
//           nearest. When the nearest box is farther than the k-th point, nobody else can matter.
// Cost      No box is opened that a search could do without; each costs a step of the queue, O(log boxes).
// Limit     One query at a time: what one has opened is of no use to the next. Queues take memory and
//           branches that a walk down the tree and back does not.
// Source    Hjaltason, Samet (1999), "Distance browsing in spatial databases"; the reports' reference.
#include "coarse.hpp"

namespace kith::ladder {
namespace {

constexpr std::int64_t leaf_points = 16;

}  // namespace

Answer best_first(const Problem& problem, Run& run) {
  return two_layers(problem, run, leaf_points, Inside::brute_force);
}

}  // namespace kith::ladder
