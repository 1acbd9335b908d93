// Functions that both the host's compiler and nvcc compile.
#pragma once

#ifdef __CUDACC__
#define KITH_HOST_DEVICE __host__ __device__
#else
#define KITH_HOST_DEVICE
#endif
