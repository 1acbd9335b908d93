// Radius search, a query a warp: any dimension.
#include "point_tree/cuda/warp_kernel.cuh"

namespace kith::point_tree::cuda {

template <class T>
void search_radius(WarpSearch<T> search, std::int64_t levels, const WarpMemory& memory,
                   unsigned char* scratch, int device, cudaStream_t stream) {
  launch<T, Collector<T>, sizeof(T) == 4>(search, levels, memory, scratch, device, stream);
}

template void search_radius<float>(WarpSearch<float>, std::int64_t, const WarpMemory&, unsigned char*, int,
                                   cudaStream_t);
template void search_radius<double>(WarpSearch<double>, std::int64_t, const WarpMemory&, unsigned char*, int,
                                    cudaStream_t);

}  // namespace kith::point_tree::cuda
