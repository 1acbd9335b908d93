// The nearest of a block's candidates, by a tree in shared memory (introduced by rung 3).
#pragma once

#include "neighbor.hpp"

namespace kith::ladder {

/// All threads of a block of `threads` (a power of two) call it together; thread 0's answer is the block's.
/// In each step the lower half of the threads takes over from the upper half: adjacent threads touch adjacent
/// words, so no two of a warp meet in a bank, and a warp is busy or idle as a whole until the last five
/// steps.
template <int threads>
__device__ inline Neighbor tree_reduce(Neighbor mine) {
  __shared__ Neighbor all[threads];
  const int t = static_cast<int>(threadIdx.x);
  all[t] = mine;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (t < half) all[t] = nearer(all[t], all[t + half]);
    __syncthreads();
  }
  return all[0];
}

}  // namespace kith::ladder
