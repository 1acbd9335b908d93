// Nearest neighbours by groups of queries: indices and distances.
#include <algorithm>

#include "point_tree/cuda/group_kernel.cuh"

namespace kith::point_tree::cuda {

int group_stack(std::int64_t levels) {
  // One node at a time leaves at most 15 entries a level; two at a time are taken below 40 entries only.
  constexpr int most = 512;
  const std::int64_t entries = 72 + 15 * (levels + 1);
  return entries > most ? 0 : static_cast<int>(entries);
}

void search_groups(GroupSearch search, int device, cudaStream_t stream) {
  if (search.count == 0) return;
  // A warp guesses from one group to the next: runs of them, but enough to fill the device a few times.
  const Policy& policy = policy_of(device);
  const std::int64_t groups = (search.count + 31) / 32;
  const std::int64_t at_once = static_cast<std::int64_t>(processors(device)) * policy.group_warps_at_once;
  const std::int64_t longest = search.queries == nullptr ? policy.most_own_groups : policy.most_groups;
  search.groups_a_warp = std::clamp<std::int64_t>(groups / (at_once * policy.group_waves), 1, longest);
  if (search.cells != nullptr) return search_columns(search, device, stream);
  visit_list(search.answer.k, [&]<int K>() {
    search.manhattan ? launch<K, true, Output::answer>(search, device, stream)
                     : launch<K, false, Output::answer>(search, device, stream);
  });
}

}  // namespace kith::point_tree::cuda
