// Nodes and leaves laid out: points, boxes and links.
#include <math_constants.h>

#include "point_tree/cuda/build_common.cuh"

namespace kith::point_tree::build_steps {
namespace {

template <class T, class Id>
__global__ void __launch_bounds__(block_threads)
    write_equal_kernel(Source<T> rows, const Id* numbers, const Range<Id>* stuck, std::int64_t ranges,
                       std::int64_t points, const unsigned char* different, T* coordinates) {
  const std::int64_t i = this_thread();
  if (i >= points) return;
  const std::int64_t number = range_of(stuck, ranges, i);
  if (different[number] != 0) return;
  const Range<Id> range = stuck[number];
  const auto begin = static_cast<std::int64_t>(range.begin);
  const std::int64_t place = i - static_cast<std::int64_t>(range.offset);
  const auto row = static_cast<std::int64_t>(numbers[begin + place]);
  for (std::int64_t j = 0; j < rows.dim; ++j) {
    coordinates[begin * rows.dim + j * static_cast<std::int64_t>(range.count) + place] =
        rows.data[row * rows.stride + j];
  }
}

// A warp writes a child: its link, and, where it is a leaf, its points and its box. Those of equal points
// are written already, whatever their number: one of them is the box. With D the dimension is known, and a
// point's coordinates are all on their way at once.
template <class T, class Id, int D>
__global__ void __launch_bounds__(block_threads)
    write_nodes_kernel(Source<T> rows, const Id* numbers, const Sketch<Id>* sketches, std::int64_t nodes,
                       std::int64_t stride, unsigned char* to, T* coordinates) {
  const std::int64_t warp = this_thread() / 32;
  const std::int64_t node = warp / node_width;
  const std::int64_t slot = warp % node_width;
  if (node >= nodes) return;
  const Sketch<Id>& sketch = sketches[node];
  if (slot >= sketch.count) return;
  const std::int64_t lane = threadIdx.x % 32;
  const std::int64_t dim = D > 0 ? D : rows.dim;
  unsigned char* mine = to + node * stride;
  auto* boxes = reinterpret_cast<T*>(mine);
  auto* links = reinterpret_cast<NodeLinks*>(mine + 2 * dim * node_width * sizeof(T));
  const std::int32_t child = sketch.child[slot];
  const auto begin = static_cast<std::int64_t>(sketch.begin[slot]);
  const std::int64_t count = static_cast<std::int64_t>(sketch.begin[slot + 1]) - begin;
  if (lane == 0) {
    links->child[slot] = child;
    links->begin[slot] = begin;
    if (slot == sketch.count - 1) {
      links->begin[slot + 1] = begin + count;
      links->count = sketch.count;
    }
  }
  if (child >= 0) return;
  const bool write = child == leaf_child;
  const std::int64_t looked = write ? count : 1;
  constexpr int together = D > 0 ? D : 1;  // axes
  for (std::int64_t j = 0; j < dim; j += together) {
    T lower[together];
    T upper[together];
    for (int a = 0; a < together; ++a) {
      lower[a] = static_cast<T>(CUDART_INF);
      upper[a] = -lower[a];
    }
    for (std::int64_t i = lane; i < looked; i += 32) {
      const T* point = rows.data + static_cast<std::int64_t>(numbers[begin + i]) * rows.stride + j;
      T value[together];
#pragma unroll
      for (int a = 0; a < together; ++a) value[a] = point[a];
#pragma unroll
      for (int a = 0; a < together; ++a) {
        if (write) coordinates[begin * dim + (j + a) * count + i] = value[a];
        lower[a] = value[a] < lower[a] ? value[a] : lower[a];
        upper[a] = value[a] > upper[a] ? value[a] : upper[a];
      }
    }
#pragma unroll
    for (int a = 0; a < together; ++a) {
      const T low = smallest(lower[a]);
      const T high = -smallest(-upper[a]);
      if (lane == 0) {
        boxes[(j + a) * node_width + slot] = low;
        boxes[(dim + j + a) * node_width + slot] = high;
      }
    }
  }
}

// A warp a node: half of its lanes take the lower bounds of the children, half the upper ones.
template <class T, class Id>
__global__ void __launch_bounds__(block_threads)
    lift_kernel(const Sketch<Id>* sketches, std::int64_t first, std::int64_t count, std::int64_t dim,
                std::int64_t stride, unsigned char* nodes) {
  const std::int64_t i = this_thread() / 32;
  if (i >= count) return;
  const Sketch<Id>& sketch = sketches[first + i];
  const std::int64_t lane = threadIdx.x % 32;
  const std::int64_t child = lane % node_width;
  const auto* boxes = reinterpret_cast<const T*>(nodes + (first + i) * stride);
  auto* parent = reinterpret_cast<T*>(nodes + sketch.parent * stride);
  const std::int64_t slot = sketch.level_slot % node_width;
  for (std::int64_t j = 0; j < dim; ++j) {
    const std::int64_t axis = lane < node_width ? j : dim + j;
    const T value = child < sketch.count ? boxes[axis * node_width + child] : static_cast<T>(CUDART_INF);
    // The largest is the smallest of the negative ones.
    const bool negate = lane >= node_width && child < sketch.count;
    const T found = smallest(negate ? -value : value, static_cast<int>(node_width));
    if (child == 0) parent[axis * node_width + slot] = lane == 0 ? found : -found;
  }
}

template <class T, class Id>
__global__ void gather_kernel(Source<T> rows, const Id* numbers, std::int64_t count, double* to,
                              std::int64_t* row) {
  const std::int64_t i = this_thread();
  if (i >= count) return;
  row[i] = static_cast<std::int64_t>(numbers[i]);
  for (std::int64_t j = 0; j < rows.dim; ++j) {
    to[i * rows.dim + j] = static_cast<double>(rows.data[row[i] * rows.stride + j]);
  }
}

}  // namespace

template <class T, class Id>
void write_equal(const Source<T>& rows, const Id* numbers, const Range<Id>* stuck, std::int64_t ranges,
                 std::int64_t points, const unsigned char* different, T* coordinates, cudaStream_t stream) {
  write_equal_kernel<<<blocks_for(points), block_threads, 0, stream>>>(rows, numbers, stuck, ranges, points,
                                                                       different, coordinates);
  cuda::check_launch("write_equal");
}

template <class T, class Id>
void write_nodes(const Source<T>& rows, const Id* numbers, const Sketch<Id>* sketches, std::int64_t nodes,
                 unsigned char* to, T* coordinates, cudaStream_t stream) {
  const auto launch = [&]<int D>() {
    write_nodes_kernel<T, Id, D><<<blocks_for(nodes * node_width * 32), block_threads, 0, stream>>>(
        rows, numbers, sketches, nodes, node_bytes<T>(rows.dim), to, coordinates);
  };
  if (rows.dim == 3) {
    launch.template operator()<3>();
  } else {
    launch.template operator()<0>();
  }
  cuda::check_launch("write_nodes");
}

template <class T, class Id>
void lift(const Sketch<Id>* sketches, std::int64_t first, std::int64_t count, std::int64_t dim,
          unsigned char* nodes, cudaStream_t stream) {
  lift_kernel<T><<<blocks_for(count * 32), block_threads, 0, stream>>>(sketches, first, count, dim,
                                                                       node_bytes<T>(dim), nodes);
  cuda::check_launch("lift");
}

template <class T, class Id>
void gather(const Source<T>& rows, const Id* numbers, std::int64_t count, double* to, std::int64_t* row,
            cudaStream_t stream) {
  gather_kernel<<<blocks_for(count), block_threads, 0, stream>>>(rows, numbers, count, to, row);
  cuda::check_launch("gather");
}

#define KITH_FOR_BOTH(T, Id)                                                                             \
  template void write_equal<T, Id>(const Source<T>&, const Id*, const Range<Id>*, std::int64_t,          \
                                   std::int64_t, const unsigned char*, T*, cudaStream_t);                \
  template void write_nodes<T, Id>(const Source<T>&, const Id*, const Sketch<Id>*, std::int64_t,         \
                                   unsigned char*, T*, cudaStream_t);                                    \
  template void lift<T, Id>(const Sketch<Id>*, std::int64_t, std::int64_t, std::int64_t, unsigned char*, \
                            cudaStream_t);                                                               \
  template void gather<T, Id>(const Source<T>&, const Id*, std::int64_t, double*, std::int64_t*,         \
                              cudaStream_t);
KITH_FOR_BOTH(float, std::uint32_t)
KITH_FOR_BOTH(float, std::int64_t)
KITH_FOR_BOTH(double, std::uint32_t)
KITH_FOR_BOTH(double, std::int64_t)

}  // namespace kith::point_tree::build_steps
