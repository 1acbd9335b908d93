// Rung 9: several GPUs.
//
// Idea      Each GPU holds an even share of the points and answers all queries for it, as rung 8 does; the
//           host takes the nearest of the GPUs' answers. No GPU needs to know of another.
// Cost      points / GPUs for each; queries x GPUs candidates of 8 bytes to the host.
// Limit     What does not shrink with the share: launches, the copy of the answers, and the host waiting for
//           one GPU after the other. Case by case that is more than the search of one GPU, and then one is
//           faster. With copies: all shares leave the same host memory.
// Source    The reports' four-GPU version.
#include <memory>

#include "parts.cuh"
#include "transpose.cuh"

namespace kith::ladder {
namespace {

// One GPU's points [first, first + problem.points) of all, and its answers.
struct Share {
  Share(int device, std::int64_t first_, const Problem& problem_, Run& run)
      : gpu(device, run),
        first(first_),
        problem(problem_),
        on(gpu, problem, run),
        parts(parts_to_fill(nearest_of_part, part_threads, problem.queries, problem.points, device)),
        of_part(gpu.room<Neighbor>(problem.queries * parts)),
        nearest(gpu.room<Neighbor>(problem.queries)) {}
  Gpu gpu;
  std::int64_t first;
  Problem problem;
  Transposed on;
  int parts;
  cuda::Buffer<Neighbor> of_part, nearest;
};

}  // namespace

Answer several_gpus(const Problem& problem, Run& run) {
  const auto count = static_cast<std::int64_t>(run.gpus.size());
  run.devices = static_cast<int>(count);
  if (count == 1) run.fallback = "there is one GPU: it has all the points";
  const cuda::DeviceGuard back(run.gpus.front());  // whatever the shares' guards leave behind
  std::vector<std::unique_ptr<Share>> shares;
  double build_ms = 0;
  for (std::int64_t g = 0; g < count; ++g) {
    Problem part = problem;
    const std::int64_t first = problem.points * g / count;
    part.points = problem.points * (g + 1) / count - first;
    part.point += first * problem.dim;
    shares.push_back(std::make_unique<Share>(run.gpus[static_cast<std::size_t>(g)], first, part, run));
    if (run.build_ms > build_ms) build_ms = run.build_ms;
  }
  run.build_ms = build_ms;  // the shares need not wait for each other

  std::vector<Neighbor> nearest;
  run.search([&] {
    for (const auto& share : shares) {
      const cuda::DeviceGuard guard(share->gpu.ordinal());
      launch_parts(share->gpu, share->on.query, share->on.point, share->problem, share->parts, share->of_part,
                   share->nearest);
    }
    nearest.assign(static_cast<std::size_t>(problem.queries), nobody());
    for (const auto& share : shares) {
      const cuda::DeviceGuard guard(share->gpu.ordinal());
      const std::vector<Neighbor> theirs = share->gpu.download(share->nearest);
      for (std::size_t q = 0; q < nearest.size(); ++q) {
        if (theirs[q].index == INT_MAX) continue;  // a share without points
        const Neighbor candidate{theirs[q].distance, theirs[q].index + static_cast<int>(share->first)};
        nearest[q] = nearer(nearest[q], candidate);
      }
    }
  });
  return put_all(problem, nearest);
}

}  // namespace kith::ladder
