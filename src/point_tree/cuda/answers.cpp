// Answers of a search from its device to where the caller wants them.
#include "point_tree/cuda/answers.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "cuda/upload.hpp"

namespace kith::point_tree {

template <class T>
void copy_answers(const NeighborsView& out, std::int64_t first, std::int64_t count,
                  const std::int64_t* indices, const T* distances, cudaStream_t stream,
                  const Execution& execution) {
  const auto cells = static_cast<std::size_t>(count * out.k);
  if (out.space == MemorySpace::host) {
    cuda::download(indices, out.indices + first * out.k, cells * sizeof(std::int64_t), stream, execution);
    cuda::download(distances, static_cast<T*>(out.distances) + first * out.k, cells * sizeof(T), stream,
                   execution);
    return;
  }
  KITH_CUDA(cudaMemcpyAsync(out.indices + first * out.k, indices, cells * sizeof(std::int64_t),
                            cudaMemcpyDefault, stream));
  KITH_CUDA(cudaMemcpyAsync(static_cast<T*>(out.distances) + first * out.k, distances, cells * sizeof(T),
                            cudaMemcpyDefault, stream));
  KITH_CUDA(cudaStreamSynchronize(stream));
}

template <class T>
void scatter_answers(const Tree& tree, const DeviceTree& there, std::int64_t first, std::int64_t count,
                     const cuda::Answer<T>& answer, const NeighborsView& out, cudaStream_t stream,
                     const Execution& execution) {
  if (out.space != MemorySpace::host) refuse_far_answer(out, there.device);
  const auto cells = static_cast<std::size_t>(count * out.k);
  std::vector<std::int64_t> indices(cells);
  std::vector<T> distances(cells);
  const std::size_t each = tree.wide_rows ? 8 : 4;
  std::vector<unsigned char> rows(static_cast<std::size_t>(count) * each);
  KITH_CUDA(cudaMemcpyAsync(indices.data(), answer.indices, cells * sizeof(std::int64_t),
                            cudaMemcpyDeviceToHost, stream));
  KITH_CUDA(
      cudaMemcpyAsync(distances.data(), answer.distances, cells * sizeof(T), cudaMemcpyDeviceToHost, stream));
  KITH_CUDA(cudaMemcpyAsync(rows.data(), there.rows.data() + static_cast<std::size_t>(first) * each,
                            rows.size(), cudaMemcpyDeviceToHost, stream));
  KITH_CUDA(cudaStreamSynchronize(stream));
  constexpr std::int64_t block = 1 << 12;
  parallel_for(resolve_threads(execution), (count + block - 1) / block, [&](std::int64_t b) {
    for (std::int64_t i = b * block; i < std::min(count, (b + 1) * block); ++i) {
      std::int64_t row = 0;
      if (tree.wide_rows) {
        std::memcpy(&row, rows.data() + i * 8, 8);
      } else {
        std::uint32_t narrow = 0;
        std::memcpy(&narrow, rows.data() + i * 4, 4);
        row = narrow;
      }
      std::copy_n(indices.data() + i * out.k, out.k, out.indices + row * out.k);
      std::copy_n(distances.data() + i * out.k, out.k, static_cast<T*>(out.distances) + row * out.k);
    }
  });
}

void refuse_far_answer(const NeighborsView& out, int device) {
  throw DeviceError(fmt::format(
      "an answer in the memory of cuda:{} to a search on cuda:{} does not fit the latter as a whole; search "
      "where the answer is to lie",
      out.device, device));
}

#define KITH_INSTANTIATE(T)                                                                            \
  template void copy_answers<T>(const NeighborsView&, std::int64_t, std::int64_t, const std::int64_t*, \
                                const T*, cudaStream_t, const Execution&);                             \
  template void scatter_answers<T>(const Tree&, const DeviceTree&, std::int64_t, std::int64_t,         \
                                   const cuda::Answer<T>&, const NeighborsView&, cudaStream_t,         \
                                   const Execution&);
KITH_INSTANTIATE(float)
KITH_INSTANTIATE(double)

}  // namespace kith::point_tree
