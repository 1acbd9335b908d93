// k-means' kernels, plain C++.
#include "k_means/cpu/kernels.hpp"

namespace kith {
namespace {

#include "k_means/cpu/kernels_body.inc"

}  // namespace

extern constinit const KMeansKernels k_means_kernels_portable = {distances, nearest};

}  // namespace kith
