// k-means' kernels, AVX-512.
#include "k_means/cpu/kernels.hpp"

#if defined(__AVX512F__)
namespace kith {
namespace {

#include "k_means/cpu/kernels_body.inc"

}  // namespace

extern constinit const KMeansKernels k_means_kernels_avx512 = {distances, nearest};

}  // namespace kith
#endif
