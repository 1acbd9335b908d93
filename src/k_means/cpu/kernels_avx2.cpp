// k-means' kernels, AVX2.
#include "k_means/cpu/kernels.hpp"

#if defined(__AVX2__)
namespace kith {
namespace {

#include "k_means/cpu/kernels_body.inc"

}  // namespace

extern constinit const KMeansKernels k_means_kernels_avx2 = {distances, nearest};

}  // namespace kith
#endif
