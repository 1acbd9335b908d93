// Lists of neighbours reduced to normals and mean distances, a thread a row. Threads follow the tree's order:
// their neighbours are read from the same few cache lines, wherever the caller has the rows.
#include "point_tree/cuda/neighborhoods.hpp"

#include "cuda/runtime.hpp"
#include "point_tree/neighborhoods.hpp"

namespace kith::point_tree {
namespace {

constexpr int threads_a_block = 128;

// Entries of a list read together: whole sectors, which other threads would else have driven out of the cache
// before the rest of them is asked for.
constexpr int chunk = 8;

std::int64_t blocks_of(std::int64_t threads) {
  return (threads + threads_a_block - 1) / threads_a_block;
}

__device__ std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * threads_a_block + threadIdx.x;
}

// A warp for each child of each node: leaves alone have points.
template <class T, class Id>
__global__ void scatter_kernel(TreeView<T, Id> tree, RowTable<T> table, std::int64_t* numbers) {
  const std::int64_t warp = thread_number() / 32;
  const std::int64_t node = warp / node_width;
  const std::int64_t c = warp % node_width;
  if (node >= tree.nodes) return;
  const auto& links = *reinterpret_cast<const NodeLinks*>(tree.node_data + node * tree.node_stride +
                                                          2 * tree.dim * node_width * sizeof(T));
  if (c >= links.count || links.child[c] >= 0) return;
  const std::int64_t begin = links.begin[c];
  const std::int64_t count = links.begin[c + 1] - begin;
  const T* x = tree.coordinates + begin * tree.dim;
  for (std::int64_t i = threadIdx.x % 32; i < count; i += 32) {
    const auto row = static_cast<std::int64_t>(tree.rows[begin + i]);
    numbers[begin + i] = row;
    if (table.values == nullptr) continue;
    for (std::int64_t j = 0; j < tree.dim; ++j) table.values[row * table.stride + j] = x[j * count + i];
  }
}

template <class T>
__global__ void gather_kernel(RowTable<T> table, const std::int64_t* numbers, std::int64_t count,
                              std::int64_t dim, T* queries) {
  const std::int64_t i = thread_number();
  if (i >= count) return;
  for (std::int64_t j = 0; j < dim; ++j) queries[i * dim + j] = table.values[numbers[i] * table.stride + j];
}

// Rows of three have four places: a point is one aligned load, of doubles two.
template <int dim, class T>
__device__ void load_row(const RowTable<T>& table, std::int64_t row, T (&to)[dim]) {
  if constexpr (sizeof(T) == 4 && dim == 3) {
    const float4 all = __ldg(reinterpret_cast<const float4*>(table.values) + row);
    to[0] = all.x;
    to[1] = all.y;
    to[2] = all.z;
  } else if constexpr (sizeof(T) == 4) {
    const float2 all = __ldg(reinterpret_cast<const float2*>(table.values) + row);
    to[0] = all.x;
    to[1] = all.y;
  } else {
    const double2 first = __ldg(reinterpret_cast<const double2*>(table.values) + row * (dim == 3 ? 2 : 1));
    to[0] = first.x;
    to[1] = first.y;
    if constexpr (dim == 3) to[2] = __ldg(table.values + row * 4 + 2);
  }
}

struct Viewpoint {
  bool given;
  double at[3];
};

template <int dim, class T>
__global__ void __launch_bounds__(threads_a_block)
    fit_kernel(Lists<T> lists, RowTable<T> table, Viewpoint viewpoint, double* normals, double* curvature) {
  const std::int64_t i = thread_number();
  if (i >= lists.count) return;
  const std::int64_t row = lists.numbers[i];
  const std::int64_t* list = lists.indices + (lists.by_row ? row : i) * lists.k;
  T center[dim];
  load_row<dim>(table, row, center);
  PlaneFit<dim> fit;
  std::int64_t found = 0;
  for (std::int64_t from = 0; from < lists.k; from += chunk) {
    std::int64_t rows[chunk];
    KITH_UNROLL
    for (int c = 0; c < chunk; ++c) rows[c] = from + c < lists.k ? list[from + c] : -1;
    KITH_UNROLL
    for (int c = 0; c < chunk; ++c) {
      if (rows[c] < 0) continue;  // nor are those behind it
      T point[dim];
      load_row<dim>(table, rows[c], point);
      fit.add(point, center);
      ++found;
    }
    if (rows[chunk - 1] < 0) break;
  }
  double normal[dim];
  double share = 0;
  if (found < dim || !fit.solve(normal, share)) return;
  orient<dim>(normal, center, viewpoint.given ? viewpoint.at : nullptr);
  KITH_UNROLL
  for (int j = 0; j < dim; ++j) normals[row * dim + j] = normal[j];
  curvature[row] = share;
}

template <class T>
__global__ void reduce_kernel(Lists<T> lists, double* mean, double* farthest, std::int64_t* counts) {
  const std::int64_t i = thread_number();
  if (i >= lists.count) return;
  const std::int64_t row = lists.numbers[i];
  const std::int64_t at = (lists.by_row ? row : i) * lists.k;
  const std::int64_t most = lists.without_self ? lists.k - 1 : lists.k;
  double sum = 0;
  double last = 0;
  std::int64_t found = 0;
  for (std::int64_t from = 0; from < lists.k; from += chunk) {
    std::int64_t rows[chunk];
    T distances[chunk];
    KITH_UNROLL
    for (int c = 0; c < chunk; ++c) {
      const bool inside = from + c < lists.k;
      rows[c] = inside ? lists.indices[at + from + c] : -1;
      distances[c] = inside ? lists.distances[at + from + c] : T{0};
    }
    KITH_UNROLL
    for (int c = 0; c < chunk; ++c) {
      if (rows[c] < 0 || (lists.without_self && rows[c] == row) || found == most) continue;
      last = static_cast<double>(distances[c]);
      sum += last;
      ++found;
    }
    if (rows[chunk - 1] < 0) break;
  }
  if (counts != nullptr) counts[row] = found;
  if (found == 0) return;
  if (mean != nullptr) mean[row] = sum / static_cast<double>(found);
  if (farthest != nullptr) farthest[row] = last;
}

}  // namespace

template <class T, class Id>
void scatter_points(const TreeView<T, Id>& tree, const RowTable<T>& table, std::int64_t* numbers,
                    cudaStream_t stream) {
  if (tree.nodes == 0) return;
  scatter_kernel<<<static_cast<unsigned>(blocks_of(tree.nodes * node_width * 32)), threads_a_block, 0,
                   stream>>>(tree, table, numbers);
  cuda::check_launch("scatter_points");
}

template <class T>
void gather_queries(const RowTable<T>& table, const std::int64_t* numbers, std::int64_t count,
                    std::int64_t dim, T* queries, cudaStream_t stream) {
  gather_kernel<<<static_cast<unsigned>(blocks_of(count)), threads_a_block, 0, stream>>>(table, numbers,
                                                                                         count, dim, queries);
  cuda::check_launch("gather_queries");
}

template <class T>
void fit_planes(const Lists<T>& lists, const RowTable<T>& table, std::int64_t dim, const double* viewpoint,
                double* normals, double* curvature, cudaStream_t stream) {
  Viewpoint from{viewpoint != nullptr, {}};
  for (std::int64_t j = 0; j < dim && from.given; ++j) from.at[j] = viewpoint[j];
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(blocks_of(lists.count)), threads_a_block, 0, stream>>>(lists, table, from,
                                                                                          normals, curvature);
    cuda::check_launch("fit_planes");
  };
  if (dim == 2) {
    launch(fit_kernel<2, T>);
  } else {
    launch(fit_kernel<3, T>);
  }
}

template <class T>
void reduce_distances(const Lists<T>& lists, double* mean, double* farthest, std::int64_t* counts,
                      cudaStream_t stream) {
  reduce_kernel<<<static_cast<unsigned>(blocks_of(lists.count)), threads_a_block, 0, stream>>>(
      lists, mean, farthest, counts);
  cuda::check_launch("reduce_distances");
}

#define KITH_FOR(T)                                                                                     \
  template void scatter_points(const TreeView<T, std::uint32_t>&, const RowTable<T>&, std::int64_t*,    \
                               cudaStream_t);                                                           \
  template void scatter_points(const TreeView<T, std::int64_t>&, const RowTable<T>&, std::int64_t*,     \
                               cudaStream_t);                                                           \
  template void gather_queries(const RowTable<T>&, const std::int64_t*, std::int64_t, std::int64_t, T*, \
                               cudaStream_t);                                                           \
  template void fit_planes(const Lists<T>&, const RowTable<T>&, std::int64_t, const double*, double*,   \
                           double*, cudaStream_t);                                                      \
  template void reduce_distances(const Lists<T>&, double*, double*, std::int64_t*, cudaStream_t)
KITH_FOR(float);
KITH_FOR(double);

}  // namespace kith::point_tree
