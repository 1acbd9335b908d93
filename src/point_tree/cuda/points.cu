// Around searches of trees: a tree as groups of queries read it, points out of a tree, what was found sorted,
// answers that are empty.
#include <algorithm>

#include "cuda/launch.hpp"
#include "point_tree/cuda/search_kernels.hpp"
#include "point_tree/cuda/warp_lists.cuh"

namespace kith::point_tree::cuda {
namespace {

// A warp a node: its leaves' points, coordinate by coordinate, to places point by point.
template <class T>
__global__ void __launch_bounds__(128)
    unpack_kernel(const AnyTree<T> tree, std::int64_t first, std::int64_t last, T* values) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t node = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (node >= tree.nodes) return;
  const auto* boxes = reinterpret_cast<const T*>(tree.node_data + node * tree.node_stride);
  const auto* links = reinterpret_cast<const NodeLinks*>(boxes + 2 * tree.dim * node_width);
  for (int c = 0; c < links->count; ++c) {
    if (links->child[c] >= 0) continue;
    const std::int64_t begin = links->begin[c];
    const std::int64_t count = links->begin[c + 1] - begin;
    const T* x = tree.coordinates + begin * tree.dim;
    if (begin + count <= first || begin >= last) continue;
    for (std::int64_t i = lane; i < count * tree.dim; i += 32) {
      const std::int64_t place = begin + i / tree.dim;
      if (place < first || place >= last) continue;
      values[(place - first) * tree.dim + i % tree.dim] = x[i % tree.dim * count + i / tree.dim];
    }
  }
}

template <class T>
__global__ void __launch_bounds__(256)
    sort_kernel(const std::int64_t* offsets, std::int64_t count, std::int64_t* rows, T* distances) {
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const std::int64_t from = offsets[i];
    sort_entries(distances + from, rows + from, offsets[i + 1] - from, static_cast<int>(threadIdx.x),
                 static_cast<int>(blockDim.x), [] { __syncthreads(); });
  }
}

template <class T>
__global__ void clear_kernel(std::int64_t* indices, T* distances, std::int64_t cells) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < cells;
       i += step) {
    indices[i] = -1;
    distances[i] = infinite<T>();
  }
}

// A warp a node: its children's boxes side by side, its leaves' points as (x, y, z, row).
__global__ void __launch_bounds__(128)
    pack_kernel(const TreeView<float, std::uint32_t> tree, float4* points, PackedChild* nodes) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t node = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (node >= tree.nodes) return;
  constexpr int width = static_cast<int>(node_width);
  const int dim = static_cast<int>(tree.dim);
  const auto* boxes = reinterpret_cast<const float*>(tree.node_data + node * tree.node_stride);
  const auto* links = reinterpret_cast<const NodeLinks*>(boxes + 2 * dim * width);
  const int count = static_cast<int>(links->count);
  std::int64_t child = 0;
  std::int64_t begin = 0;
  std::int64_t size = 0;
  if (lane < width) {
    PackedChild out{{INFINITY, INFINITY, INFINITY}, 0, {-INFINITY, -INFINITY, -INFINITY}, 0};
    if (lane < count) {
      for (int j = 0; j < 3; ++j) {
        out.lower[j] = j < dim ? boxes[j * width + lane] : 0.0f;
        out.upper[j] = j < dim ? boxes[(dim + j) * width + lane] : 0.0f;
      }
      child = links->child[lane];
      begin = links->begin[lane];
      size = links->begin[lane + 1] - begin;
      out.begin = static_cast<std::uint32_t>(child >= 0 ? child : begin);
      out.count = child >= 0
                      ? node_mark
                      : static_cast<std::uint32_t>(size) | (child == identical_child ? identical_mark : 0U);
      if (child >= 0) size = 0;
    }
    nodes[node * width + lane] = out;
  }
  for (int c = 0; c < count; ++c) {
    const std::int64_t from = __shfl_sync(everyone, begin, c);
    const std::int64_t n = __shfl_sync(everyone, size, c);
    const float* x = tree.coordinates + from * dim;
    for (std::int64_t i = lane; i < n; i += 32) {
      points[from + i] = make_float4(x[i], dim > 1 ? x[n + i] : 0.0f, dim > 2 ? x[2 * n + i] : 0.0f,
                                     __uint_as_float(tree.rows[from + i]));
    }
  }
}

}  // namespace

void pack_tree(const TreeView<float, std::uint32_t>& tree, float4* points, PackedChild* nodes,
               cudaStream_t stream) {
  if (tree.nodes == 0) return;
  pack_kernel<<<static_cast<unsigned>((tree.nodes + 3) / 4), 128, 0, stream>>>(tree, points, nodes);
  check_launch("pack_kernel");
}

template <class T>
void sort_segments(const std::int64_t* offsets, std::int64_t count, std::int64_t* rows, T* distances,
                   cudaStream_t stream) {
  if (count == 0) return;
  sort_kernel<T><<<static_cast<unsigned>(std::min<std::int64_t>(count, 1 << 20)), 256, 0, stream>>>(
      offsets, count, rows, distances);
  check_launch("sort_kernel");
}

template <class T>
void unpack_points(const AnyTree<T>& tree, std::int64_t first, std::int64_t last, T* values,
                   cudaStream_t stream) {
  if (tree.nodes == 0) return;
  unpack_kernel<T>
      <<<static_cast<unsigned>((tree.nodes + 3) / 4), 128, 0, stream>>>(tree, first, last, values);
  check_launch("unpack_kernel");
}

template <class T>
void clear_answer(std::int64_t* indices, T* distances, std::int64_t cells, cudaStream_t stream) {
  if (cells == 0) return;
  clear_kernel<T>
      <<<static_cast<unsigned>(std::min<std::int64_t>((cells + 255) / 256, 1 << 16)), 256, 0, stream>>>(
          indices, distances, cells);
  check_launch("clear_kernel");
}

#define KITH_INSTANTIATE(T)                                                                           \
  template void sort_segments<T>(const std::int64_t*, std::int64_t, std::int64_t*, T*, cudaStream_t); \
  template void unpack_points<T>(const AnyTree<T>&, std::int64_t, std::int64_t, T*, cudaStream_t);    \
  template void clear_answer<T>(std::int64_t*, T*, std::int64_t, cudaStream_t);
KITH_INSTANTIATE(float)
KITH_INSTANTIATE(double)

}  // namespace kith::point_tree::cuda
