// Coordinates of rows and queries along leading directions: products with a map, in float64.
//
// Many rows: tensor cores. A block owns 128 rows and up to 128 directions, a warp 16 of the rows; tiles of 16
// values of the rows, brought to code space on the way, and of the map pass through shared memory. Each sum
// is of as many products as a row has values, rounded to nearest one by one or better;
// docs/exact-contract.md, step 11, allows for any order of them. Some rows, too few for such blocks to occupy
// all processors: 32 rows and directions a block, whose warps have a share of the values each. Few rows: a
// block a row and 32 directions, 32 threads a sum.
#include "codes/cuda/codes.hpp"
#include "codes/cuda/encode_query.cuh"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"
#include "cuda/visit_element.cuh"

namespace kith::codes::cuda {

using namespace kith::cuda;

namespace {

constexpr int block_threads = 256;
constexpr int block_rows = 128;
constexpr int depth = 16;  // values of a row in shared memory at once
// Strides that keep the 16 values of half a warp's read in different banks.
constexpr int row_stride = depth + 4;
constexpr std::int64_t few_rows = 256;
constexpr int few_threads = 1024;  // of a block
constexpr std::int64_t some_rows = 12800;
constexpr int some_tile = 32;  // rows and directions of a block

// 1 / |x| of each row; a warp a row.
template <class T>
__global__ void inverse_kernel(const T* data, std::int64_t stride, std::int64_t rows, CodeSpace space,
                               double* inverse) {
  const std::int64_t r = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (r >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Look look = look_at<32>(data + r * stride, space.dim, space.metric, lane);
  if (lane == 0) inverse[r] = look.inverse;
}

// Value i of a row in code space, 0 behind the last one.
template <class T>
__device__ inline double value_at(const T* row, std::int64_t i, const CodeSpace& space, double inverse) {
  if (i >= space.dim) return 0;
  Look look{};
  look.inverse = inverse;
  return in_code_space(row, i, space, look);
}

// c += a b, a of 8 x 4 and b of 4 x 8 values, over a warp: a has row lane / 4, column lane % 4, b has row
// lane % 4, column lane / 4, c has row lane / 4, columns 2 (lane % 4) and the next.
__device__ inline void multiply(double (&c)[2], double a, double b) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(c[0]), "+d"(c[1])
               : "d"(a), "d"(b));
}

template <class T, int columns>
__global__ void __launch_bounds__(block_threads)
    project_kernel(const T* data, std::int64_t stride, std::int64_t rows, CodeSpace space, Coordinates out) {
  constexpr int map_stride = columns + 4;
  constexpr int row_loads = block_rows * depth / block_threads;
  constexpr int map_loads = columns * depth / block_threads;
  __shared__ double row_tile[block_rows * row_stride];
  __shared__ double map_tile[depth * map_stride];
  const int tid = static_cast<int>(threadIdx.x);
  const int lane = tid % 32;
  const int warp = tid / 32;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * block_rows;
  const int column = static_cast<int>(blockIdx.y) * columns;

  double inverse[row_loads];
#pragma unroll
  for (int l = 0; l < row_loads; ++l) {
    const std::int64_t r = first + tid / depth + l * (block_threads / depth);
    inverse[l] = space.metric == Metric::cosine && r < rows ? out.inverse[r] : 1;
  }
  double next_row[row_loads];
  double next_map[map_loads];
  const auto load = [&](std::int64_t i) {
#pragma unroll
    for (int l = 0; l < row_loads; ++l) {
      const std::int64_t r = first + tid / depth + l * (block_threads / depth);
      next_row[l] = r < rows ? value_at(data + r * stride, i + tid % depth, space, inverse[l]) : 0;
    }
#pragma unroll
    for (int l = 0; l < map_loads; ++l) {
      const int at = tid + l * block_threads;
      const int c = column + at % columns;
      next_map[l] = c < space.map_width ? space.map[(i + at / columns) * space.map_width + c] : 0;
    }
  };
  double sums[2][columns / 8][2] = {};
  load(0);
  for (std::int64_t i = 0; i < space.dim; i += depth) {
#pragma unroll
    for (int l = 0; l < row_loads; ++l) {
      row_tile[(tid / depth + l * (block_threads / depth)) * row_stride + tid % depth] = next_row[l];
    }
#pragma unroll
    for (int l = 0; l < map_loads; ++l) {
      const int at = tid + l * block_threads;
      map_tile[at / columns * map_stride + at % columns] = next_map[l];
    }
    __syncthreads();
    if (i + depth < space.dim) load(i + depth);
#pragma unroll
    for (int k = 0; k < depth; k += 4) {
      double a[2];
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        a[m] = row_tile[(warp * 16 + m * 8 + lane / 4) * row_stride + k + lane % 4];
      }
#pragma unroll
      for (int n = 0; n < columns / 8; ++n) {
        const double b = map_tile[(k + lane % 4) * map_stride + n * 8 + lane / 4];
        multiply(sums[0][n], a[0], b);
        multiply(sums[1][n], a[1], b);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    const std::int64_t r = first + warp * 16 + m * 8 + lane / 4;
    if (r >= rows) continue;
#pragma unroll
    for (int n = 0; n < columns / 8; ++n) {
      const int c = column + n * 8 + lane % 4 * 2;
      if (c < space.map_width) {
        *reinterpret_cast<double2*>(out.values + r * space.map_width + c) =
            make_double2(sums[m][n][0], sums[m][n][1]);
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(few_threads)
    project_few_kernel(const T* data, std::int64_t stride, CodeSpace space, Coordinates out) {
  __shared__ double parts[few_threads];
  let_next_launch();
  const std::int64_t r = blockIdx.y;
  const int part = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x % 32;
  const double inverse = space.metric == Metric::cosine ? out.inverse[r] : 1;
  const T* row = data + r * stride;
  double sum = 0;
#pragma unroll 8
  for (std::int64_t i = part; i < space.dim; i += few_threads / 32) {
    sum = fma(value_at(row, i, space, inverse), space.map[i * space.map_width + column], sum);
  }
  parts[threadIdx.x] = sum;
  __syncthreads();
  if (part != 0) return;
  for (int p = 1; p < few_threads / 32; ++p) sum += parts[p * 32 + threadIdx.x];
  out.values[r * space.map_width + column] = sum;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    project_some_kernel(const T* data, std::int64_t stride, std::int64_t rows, CodeSpace space,
                        Coordinates out) {
  constexpr int warps = block_threads / 32;
  constexpr int parts = some_tile / 8;  // of eight rows or directions
  __shared__ double sent[warps / 2][parts * parts * 2][32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * some_tile;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * some_tile;

  const T* row[parts];
  double scale[parts];
#pragma unroll
  for (int m = 0; m < parts; ++m) {
    const std::int64_t r =
        min(first + m * 8 + lane / 4, rows - 1);  // behind the last one: as that, not written
    row[m] = data + r * stride;
    scale[m] = space.metric == Metric::cosine ? out.inverse[r] : space.unit;
  }
  const double* mean = space.metric == Metric::cosine ? nullptr : space.mean;
  double sums[parts][parts][2] = {};
  for (std::int64_t i = warp * depth; i < space.dim; i += warps * depth) {
#pragma unroll
    for (int k = 0; k < depth; k += 4) {
      const std::int64_t at = i + k + lane % 4;
      const bool here = at < space.dim;
      const double centre = here && mean != nullptr ? mean[at] : 0;  // one path: all loads at once
      double a[parts];
      double b[parts];
#pragma unroll
      for (int m = 0; m < parts; ++m) a[m] = here ? (widen(row[m][at]) - centre) * scale[m] : 0;
#pragma unroll
      for (int n = 0; n < parts; ++n) b[n] = space.map[at * space.map_width + column + n * 8 + lane / 4];
#pragma unroll
      for (int m = 0; m < parts; ++m) {
#pragma unroll
        for (int n = 0; n < parts; ++n) multiply(sums[m][n], a[m], b[n]);
      }
    }
  }
#pragma unroll
  for (int half = warps / 2; half > 0; half /= 2) {
    if (warp >= half && warp < 2 * half) {
#pragma unroll
      for (int j = 0; j < parts * parts * 2; ++j) {
        sent[warp - half][j][lane] = sums[j / 2 / parts][j / 2 % parts][j % 2];
      }
    }
    __syncthreads();
    if (warp < half) {
#pragma unroll
      for (int j = 0; j < parts * parts * 2; ++j) {
        sums[j / 2 / parts][j / 2 % parts][j % 2] += sent[warp][j][lane];
      }
    }
    __syncthreads();
  }
  if (warp > 0) return;
#pragma unroll
  for (int m = 0; m < parts; ++m) {
    const std::int64_t r = first + m * 8 + lane / 4;
    if (r >= rows) continue;
#pragma unroll
    for (int n = 0; n < parts; ++n) {
      *reinterpret_cast<double2*>(out.values + r * space.map_width + column + n * 8 + lane % 4 * 2) =
          make_double2(sums[m][n][0], sums[m][n][1]);
    }
  }
}

template <class T, int columns>
void project_many(const T* data, std::int64_t stride, std::int64_t rows, const CodeSpace& space,
                  const Coordinates& out, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((rows + block_rows - 1) / block_rows),
                  static_cast<unsigned>((space.map_width + columns - 1) / columns));
  project_kernel<T, columns><<<grid, block_threads, 0, stream>>>(data, stride, rows, space, out);
}

}  // namespace

void project(const void* data, std::int64_t stride, std::int64_t rows, const CodeSpace& space,
             const Coordinates& out, cudaStream_t stream) {
  if (rows <= 0) return;
  visit_element(space.dtype, [&]<class T>(T /*tag*/) {
    const auto* values = static_cast<const T*>(data);
    if (space.metric == Metric::cosine) {
      constexpr int per_block = block_threads / 32;
      inverse_kernel<T>
          <<<static_cast<unsigned>((rows + per_block - 1) / per_block), block_threads, 0, stream>>>(
              values, stride, rows, space, out.inverse);
      check_launch("inverse");
    }
    if (rows <= few_rows) {
      const dim3 grid(static_cast<unsigned>(space.map_width / 32), static_cast<unsigned>(rows));
      project_few_kernel<T><<<grid, few_threads, 0, stream>>>(values, stride, space, out);
    } else if (rows <= some_rows) {
      const dim3 grid(static_cast<unsigned>((rows + some_tile - 1) / some_tile),
                      static_cast<unsigned>(space.map_width / some_tile));
      project_some_kernel<T><<<grid, block_threads, 0, stream>>>(values, stride, rows, space, out);
    } else {
      switch (space.map_width) {
        case 32: project_many<T, 32>(values, stride, rows, space, out, stream); break;
        case 64: project_many<T, 64>(values, stride, rows, space, out, stream); break;
        case 96: project_many<T, 96>(values, stride, rows, space, out, stream); break;
        default: project_many<T, 128>(values, stride, rows, space, out, stream);
      }
    }
    check_launch("project");
  });
}

}  // namespace kith::codes::cuda
