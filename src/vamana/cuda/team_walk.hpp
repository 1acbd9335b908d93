// Walks of few queries, each by many warps.
#pragma once

#include "vamana/cuda/kernels.hpp"

namespace kith::vamana::cuda {

/// Walks for a job's queries, where they are few enough, their lists short and the codes scalar; false: it
/// did nothing.
bool walk_by_teams(const WalkJob& job, Walked walked, int device, cudaStream_t stream);

}  // namespace kith::vamana::cuda
