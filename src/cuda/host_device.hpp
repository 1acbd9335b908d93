// Functions that both the host's compiler and nvcc compile.
#pragma once

#ifdef __CUDACC__
#define KITH_HOST_DEVICE __host__ __device__
/// Before a loop over the elements of a small array: unrolled, the array stays in registers.
#define KITH_UNROLL _Pragma("unroll")
#else
#define KITH_HOST_DEVICE
#define KITH_UNROLL
#endif
