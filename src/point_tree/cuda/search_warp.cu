// Nearest neighbours, a query a warp: any dimension, any k.
#include "point_tree/cuda/warp_kernel.cuh"

namespace kith::point_tree::cuda {

template <class T>
WarpMemory warp_memory(const WarpSearch<T>& search, std::int64_t levels, int device) {
  const Policy& policy = policy_of(device);
  WarpSearch<T> plan = search;
  lay_out(plan, levels);
  WarpMemory memory;
  const bool is_long = !is_short(search.tree, search.answer.k);
  if (plan.scratch_bytes > policy.most_shared_scratch) memory.scratch = plan.scratch_bytes;
  if (is_long) memory.list = plan.list_room * static_cast<std::int64_t>(8 + sizeof(T));
  // Without memory of their own, as many warps as there are queries; else what the device runs at once.
  memory.warps = (search.count + warps_a_block - 1) / warps_a_block * warps_a_block;
  const bool takes = memory.scratch + memory.list > 0;
  const std::int64_t at_once = static_cast<std::int64_t>(processors(device)) *
                               (takes ? policy.warps_with_memory : policy.warps_without);
  memory.warps = std::min(memory.warps, at_once);
  return memory;
}

template <class T>
void search_warps(WarpSearch<T> search, std::int64_t levels, const WarpMemory& memory, unsigned char* scratch,
                  int device, cudaStream_t stream) {
  if constexpr (sizeof(T) == 4) {
    if (search.tree.packs && search.answer.k <= 32) {
      return launch<T, PackedList<1>, true>(search, levels, memory, scratch, device, stream);
    }
    if (search.tree.packs && search.answer.k <= 64) {
      return launch<T, PackedList<2>, true>(search, levels, memory, scratch, device, stream);
    }
    if (search.tree.packs && search.answer.k <= 128) {
      return launch<T, PackedList<4>, true>(search, levels, memory, scratch, device, stream);
    }
    if (search.tree.packs && search.answer.k <= largest_packed_k) {
      return launch<T, PackedList<8>, true>(search, levels, memory, scratch, device, stream);
    }
  }
  if (is_short(search.tree, search.answer.k)) {
    launch<T, LaneList<T>>(search, levels, memory, scratch, device, stream);
  } else {
    launch<T, LongList<T>>(search, levels, memory, scratch, device, stream);
  }
}

#define KITH_INSTANTIATE(T)                                                                          \
  template WarpMemory warp_memory<T>(const WarpSearch<T>&, std::int64_t, int);                       \
  template void search_warps<T>(WarpSearch<T>, std::int64_t, const WarpMemory&, unsigned char*, int, \
                                cudaStream_t);
KITH_INSTANTIATE(float)
KITH_INSTANTIATE(double)

}  // namespace kith::point_tree::cuda
