// Rung 13: k > 1, a list of k a thread, merged by a tree.
//
// Idea      The block of rung 5 with lists in place of single neighbours: each thread keeps the k nearest of
//           its points, and the tree's steps merge two sorted lists where they took the nearer of two.
// Cost      queries x points x dim operations; 7 merges of k one after the other; about k ln(points / (128
//           k)) insertions a thread and more, since each thread must learn for itself what is far.
// Limit     Shared memory: 128 lists of 16 are 16 KiB a block, so few blocks fit a multiprocessor. The lists
//           of a warp's threads start k entries apart and meet in the same banks. And the insertions: with
//           64 points a thread, most of them enter its list.
// Source    A rung of the reports.
#include "merged_lists.cuh"

namespace kith::ladder {

Answer merged_lists(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  return search_by_lists(gpu, problem, 128, run);
}

}  // namespace kith::ladder
