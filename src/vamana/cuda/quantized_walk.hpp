// Walks over codes that are not scalar, for walk.cu.
#pragma once

#include "vamana/cuda/kernels.hpp"

namespace kith::vamana::cuda {

/// walk() for RaBitQ and PQ codes, whose files are compiled without fused operations.
void walk_quantized(const WalkJob& job, Walked walked, int device, cudaStream_t stream);

}  // namespace kith::vamana::cuda
