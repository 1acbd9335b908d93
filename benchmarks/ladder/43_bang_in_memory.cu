// Rung 43: BANG In-memory, and rungs 47 to 53: the same with one part taken out or changed.
//
// Idea      Rung 41 for all queries at once, a step of every walk together, cut into kernels that each fill
//           the chip: filter the neighbours of the row expanded last (Bloom filter), estimate their
//           distances by product quantization (eight threads a row), choose the next row, sort the neighbours
//           (parallel merge sort), merge them into the worklist. Distances are sums of a code's entries in a
//           table that is made once a query. At the end the rows that were expanded are evaluated by their
//           full vectors.
// Cost      A step: five launches, and for each neighbour a code, m bytes, from anywhere in memory. A query:
//           256 m table entries of 4 bytes, 50 kB of filter.
// Limit     Lockstep: five launches a step whose kernels each last microseconds, and go on until the longest
//           walk has ended; what a kernel knows, the next reads from memory again. Tables and filters of
//           10,000 queries are more than any cache holds. The filter's false positives lose rows.
// Rungs     47 no filter: rows met before come again and fill the worklist. 48 the sum of a row by atomicAdd.
//           49 all blocks of one size. 50 to 53 codes of 8 to 64 bytes: smaller tables, worse estimates.
// Source    Karthik V. et al., BANG: Billion-Scale Approximate Nearest Neighbour Search using a Single GPU,
//           arXiv 2401.11324 (2024). Bloom (1970); Jégou et al. (2011).
#include "bang_walks.cuh"

namespace kith::ladder {
namespace bang {
namespace {

// T: the element type of the rows.
template <class T>
Answer search(const Problem& problem, Run& run, const Switches& switches) {
  constexpr int steps_between_looks = 8;  // how long walks may be idle before the host knows
  const Gpu gpu(run);
  const GraphCase& graph = *problem.graph;
  const auto lists = gpu.upload(graph.lists(), problem.points * graph.degree());
  const auto point = gpu.upload(problem.points_as<T>(), problem.points * problem.dim);
  const auto nearest = gpu.room<Neighbor>(problem.queries * problem.k);
  BatchOfWalks<T> walks(gpu, problem, switches, point.data(), 0);
  bool stopped = false;
  gpu.finish();
  run.search([&] {
    for (std::int64_t first = 0; first < problem.queries; first += walks.at_once()) {
      walks.begin(first, smaller(walks.at_once(), problem.queries - first));
      int step = 0;
      bool more = true;
      while (more && step < walks.most_steps()) {
        if (step > 0) walks.filter(lists.data(), walks.next());
        walks.measure();
        walks.choose(step);
        walks.sort();
        walks.merge();
        ++step;
        if (step % steps_between_looks != 0) continue;
        run.stop_if_cancelled();
        more = walks.any_goes_on();
      }
      stopped = stopped || (more && walks.any_goes_on());
      if (!switches.exact) walks.rerank(point.data(), step);
      walks.answer(step, nearest.data() + first * problem.k);
    }
    gpu.finish();
  });
  walks.tell(stopped, run);
  return put_all(problem, gpu.download(nearest));
}

}  // namespace

Answer search_in_memory(const Problem& problem, Run& run, const Switches& switches) {
  return problem.bytes() ? search<std::uint8_t>(problem, run, switches)
                         : search<float>(problem, run, switches);
}

}  // namespace bang

Answer bang_in_memory(const Problem& problem, Run& run) {
  return bang::search_in_memory(problem, run, {});
}
Answer bang_no_bloom(const Problem& problem, Run& run) {
  return bang::search_in_memory(problem, run, {.bloom = false});
}
Answer bang_atomic_add(const Problem& problem, Run& run) {
  return bang::search_in_memory(problem, run, {.atomic_add = true});
}
Answer bang_one_size(const Problem& problem, Run& run) {
  return bang::search_in_memory(problem, run, {.one_size = true});
}
Answer bang_8_bytes(const Problem& problem, Run& run) {
  return bang::search_in_memory(problem, run, {.subspaces = 8});
}
Answer bang_16_bytes(const Problem& problem, Run& run) {
  return bang::search_in_memory(problem, run, {.subspaces = 16});
}
Answer bang_32_bytes(const Problem& problem, Run& run) {
  return bang::search_in_memory(problem, run, {.subspaces = 32});
}
Answer bang_64_bytes(const Problem& problem, Run& run) {
  return bang::search_in_memory(problem, run, {.subspaces = 64});
}

}  // namespace kith::ladder
