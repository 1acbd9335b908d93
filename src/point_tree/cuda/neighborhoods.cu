// Lists of neighbours reduced to normals and mean distances, a thread a row. Threads follow the tree's order:
// their neighbours are read from the same few cache lines, wherever the caller has the rows.
#include "point_tree/cuda/neighborhoods.hpp"

#include "cuda/runtime.hpp"
#include "point_tree/cuda/tuning.hpp"
#include "point_tree/neighborhoods.hpp"

namespace kith::point_tree {
namespace {

constexpr int threads_a_block = cuda::constants.reduce_threads;

// Entries of a list read together: whole sectors, which other threads would else have driven out of the cache
// before the rest of them is asked for.
constexpr int chunk = 8;

// Of columns: behind a list's last.
constexpr std::uint32_t no_cell = 0xffffffffU;

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
    if (numbers != nullptr) numbers[begin + i] = row;
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

// The one that the host writes.
__device__ double not_a_number() {
  return __longlong_as_double(0x7ff8000000000000LL);
}

struct Viewpoint {
  bool given;
  double at[3];
};

Viewpoint viewpoint_of(const double* viewpoint, std::int64_t dim) {
  Viewpoint from{viewpoint != nullptr, {}};
  for (std::int64_t j = 0; j < dim && from.given; ++j) from.at[j] = viewpoint[j];
  return from;
}

// A row's normal and curvature, NaN where there is none: one sector, whole, wherever the row is.
template <int dim, class T>
__device__ void write_plane(const PlaneFit<dim>& fit, bool enough, std::int64_t row, const T* center,
                            const Viewpoint& viewpoint, double* planes) {
  double plane[plane_values];
  KITH_UNROLL
  for (double& v : plane) v = not_a_number();
  double normal[dim];
  double share = 0;
  if (enough && fit.solve(normal, share)) {
    orient<dim>(normal, center, viewpoint.given ? viewpoint.at : nullptr);
    KITH_UNROLL
    for (int j = 0; j < dim; ++j) plane[j] = normal[j];
    plane[3] = share;
  }
  auto* to = reinterpret_cast<double2*>(planes + row * plane_values);
  to[0] = make_double2(plane[0], plane[1]);
  to[1] = make_double2(plane[2], plane[3]);
}

template <int dim, class T>
__global__ void __launch_bounds__(threads_a_block)
    fit_kernel(Lists<T> lists, RowTable<T> table, Viewpoint viewpoint, double* planes) {
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
  write_plane<dim>(fit, found >= dim, row, center, viewpoint, planes);
}

// Neighbours in the tree's order are near in memory, too.
template <int dim>
__global__ void __launch_bounds__(threads_a_block, cuda::constants.plane_blocks)
    fit_columns_kernel(Columns columns, Viewpoint viewpoint, double* planes) {
  const std::int64_t i = thread_number();
  if (i >= columns.count) return;
  const float4 self = columns.points[columns.first + i];
  const float center[3] = {self.x, self.y, self.z};
  const std::uint32_t* cell = columns.cells + i;
  std::uint32_t places[chunk];
  KITH_UNROLL
  for (int c = 0; c < chunk; ++c) places[c] = c < columns.k ? cell[c * columns.stride] : no_cell;
  PlaneFit<dim> fit;
  std::int64_t found = 0;
  for (std::int64_t from = 0; from < columns.k; from += chunk) {
    float4 near[chunk];
    bool has[chunk];
    KITH_UNROLL
    for (int c = 0; c < chunk; ++c) {
      has[c] = places[c] != no_cell;  // nor are those behind it
      near[c] = has[c] ? columns.points[places[c]] : self;
    }
    // The next are on their way meanwhile.
    KITH_UNROLL
    for (int c = 0; c < chunk; ++c) {
      const std::int64_t at = from + chunk + c;
      places[c] = at < columns.k ? cell[at * columns.stride] : no_cell;
    }
    KITH_UNROLL
    for (int c = 0; c < chunk; ++c) {
      if (!has[c]) continue;
      const float point[3] = {near[c].x, near[c].y, near[c].z};
      fit.add(point, center);
      ++found;
    }
  }
  write_plane<dim>(fit, found >= dim, __float_as_uint(self.w), center, viewpoint, planes);
}

// A thread a value, so that they are written side by side.
__global__ void split_kernel(const double* planes, std::int64_t rows, std::int64_t dim, double* normals,
                             double* curvature) {
  const std::int64_t i = thread_number();
  if (i < rows * dim) {
    normals[i] = planes[i / dim * plane_values + i % dim];
  } else if (curvature != nullptr && i < rows * (dim + 1)) {
    const std::int64_t row = i - rows * dim;
    curvature[row] = planes[row * plane_values + 3];
  }
}

__global__ void reduce_columns_kernel(Columns columns, double* mean, double* farthest, std::int64_t* counts) {
  const std::int64_t i = thread_number();
  if (i >= columns.count) return;
  const std::int64_t row = __float_as_uint(columns.points[columns.first + i].w);
  double sum = 0;
  double last = 0;
  std::int64_t found = 0;
  for (; found < columns.k; ++found) {
    const std::uint32_t distance = columns.cells[found * columns.stride + i];
    if (distance == no_cell) break;
    last = static_cast<double>(__uint_as_float(distance));
    sum += last;
  }
  if (counts != nullptr) counts[row] = found;
  if (found == 0) return;
  if (mean != nullptr) mean[row] = sum / static_cast<double>(found);
  if (farthest != nullptr) farthest[row] = last;
}

__global__ void fill_kernel(double* values, std::int64_t count) {
  const std::int64_t i = thread_number();
  if (i < count) values[i] = not_a_number();
}

__global__ void rows_kernel(const float4* points, std::int64_t* numbers, std::int64_t count) {
  const std::int64_t i = thread_number();
  if (i < count) numbers[i] = __float_as_uint(points[numbers[i]].w);
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

void fill_with_nan(double* values, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return;
  fill_kernel<<<static_cast<unsigned>(blocks_of(count)), threads_a_block, 0, stream>>>(values, count);
  cuda::check_launch("fill_with_nan");
}

void rows_of_places(const float4* points, std::int64_t* numbers, std::int64_t count, cudaStream_t stream) {
  rows_kernel<<<static_cast<unsigned>(blocks_of(count)), threads_a_block, 0, stream>>>(points, numbers,
                                                                                       count);
  cuda::check_launch("rows_of_places");
}

template <class T>
void fit_planes(const Lists<T>& lists, const RowTable<T>& table, std::int64_t dim, const double* viewpoint,
                double* planes, cudaStream_t stream) {
  if (lists.count == 0) return;
  const Viewpoint from = viewpoint_of(viewpoint, dim);
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(blocks_of(lists.count)), threads_a_block, 0, stream>>>(lists, table, from,
                                                                                          planes);
    cuda::check_launch("fit_planes");
  };
  if (dim == 2) {
    launch(fit_kernel<2, T>);
  } else {
    launch(fit_kernel<3, T>);
  }
}

void fit_planes(const Columns& columns, std::int64_t dim, const double* viewpoint, double* planes,
                cudaStream_t stream) {
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(blocks_of(columns.count)), threads_a_block, 0, stream>>>(
        columns, viewpoint_of(viewpoint, dim), planes);
    cuda::check_launch("fit_planes");
  };
  if (dim == 2) {
    launch(fit_columns_kernel<2>);
  } else {
    launch(fit_columns_kernel<3>);
  }
}

void split_planes(const double* planes, std::int64_t rows, std::int64_t dim, double* normals,
                  double* curvature, cudaStream_t stream) {
  if (rows == 0) return;
  const std::int64_t values = rows * (dim + (curvature != nullptr ? 1 : 0));
  split_kernel<<<static_cast<unsigned>(blocks_of(values)), threads_a_block, 0, stream>>>(planes, rows, dim,
                                                                                         normals, curvature);
  cuda::check_launch("split_planes");
}

void reduce_distances(const Columns& columns, double* mean, double* farthest, std::int64_t* counts,
                      cudaStream_t stream) {
  reduce_columns_kernel<<<static_cast<unsigned>(blocks_of(columns.count)), threads_a_block, 0, stream>>>(
      columns, mean, farthest, counts);
  cuda::check_launch("reduce_distances");
}

template <class T>
void reduce_distances(const Lists<T>& lists, double* mean, double* farthest, std::int64_t* counts,
                      cudaStream_t stream) {
  if (lists.count == 0) return;
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
                           cudaStream_t);                                                               \
  template void reduce_distances(const Lists<T>&, double*, double*, std::int64_t*, cudaStream_t)
KITH_FOR(float);
KITH_FOR(double);

}  // namespace kith::point_tree
