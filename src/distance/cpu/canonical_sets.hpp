// The canonical kernels of each instruction set.
#pragma once

#include "cuda/host_device.hpp"
#include "distance/canonical.hpp"

namespace kith {

CanonicalFunction canonical_portable(Dtype dtype, Metric metric);
CanonicalFunction canonical_avx2(Dtype dtype, Metric metric);
CanonicalFunction canonical_avx512(Dtype dtype, Metric metric);
CanonicalFunction canonical_neon(Dtype dtype, Metric metric);

}  // namespace kith
