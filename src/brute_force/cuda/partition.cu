// Lists of rows: where rows and queries lie, which list is the nearest, what a block of queries leaves out.
#include "brute_force/cuda/partition.hpp"

#include <math_constants.h>
#include <cub/device/device_radix_sort.cuh>

#include "brute_force/cuda/bound.cuh"
#include "codes/cuda/encode_query.cuh"
#include "cuda/launch.hpp"
#include "cuda/visit_element.cuh"

namespace kith::brute_force::cuda {
namespace {

constexpr int threads = 256;
constexpr int depth = 16;  // values of points and centres in shared memory at once
constexpr int tile = 64;   // points, and centres, of a block

unsigned blocks_for(std::int64_t count, int each = threads) {
  return static_cast<unsigned>((count + each - 1) / each);
}

// A warp a point.
template <class T>
__global__ void __launch_bounds__(threads)
    place_kernel(const T* data, std::int64_t stride, std::int64_t count, CodeSpace space, std::int64_t width,
                 float* points, float* off) {
  const std::int64_t p = (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) / 32;
  if (p >= count) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const T* row = data + p * stride;
  const codes::cuda::Look look = codes::cuda::look_at<32>(row, space.dim, space.metric, lane);
  const bool real = !look.nan && !look.infinite;
  double norm_sq = 0;
  double rounded_sq = 0;
  for (std::int64_t i = lane; i < width; i += 32) {
    const double y = real && i < space.dim ? codes::cuda::in_code_space(row, i, space, look) : 0;
    const float z = fminf(fmaxf(static_cast<float>(y), -0x1p60F), 0x1p60F);
    points[p * width + i] = z;
    norm_sq += y * y;
    rounded_sq += (y - z) * (y - z);
  }
  if (off == nullptr) return;
  norm_sq = codes::cuda::group_sum<32>(norm_sq);
  rounded_sq = codes::cuda::group_sum<32>(rounded_sq);
  const double error = codes::cuda::space_error(space, sqrt(norm_sq));
  const double all = (sqrt(rounded_sq) * (1 + codes::sum_error) + error) * (1 + 0x1p-40) + 0x1p-500;
  if (lane == 0) off[p] = real && all < CUDART_INF ? __double2float_ru(all) : CUDART_INF_F;
}

// 64 points by 64 centres, a thread 4 by 4 of them. Sums of squares are taken one dimension after the other.
template <bool all>
__global__ void __launch_bounds__(threads)
    compare_kernel(const float* points, const float* off, std::int64_t count, ListBalls balls,
                   std::int64_t dim, std::uint64_t* nearest, float* least) {
  __shared__ float a[depth][tile + 4];
  __shared__ float b[depth][tile + 4];
  const int tid = static_cast<int>(threadIdx.x);
  const std::int64_t p0 = static_cast<std::int64_t>(blockIdx.x) * tile;
  const std::int64_t c0 = static_cast<std::int64_t>(blockIdx.y) * tile;
  const int px = tid / 16 * 4;
  const int cx = tid % 16 * 4;
  float sum[4][4] = {};
  for (std::int64_t from = 0; from < balls.stride; from += depth) {
    const int which = tid / 4;
    const int part = tid % 4 * 4;
    float4 x{};
    float4 y{};
    if (p0 + which < count)
      x = *reinterpret_cast<const float4*>(points + (p0 + which) * balls.stride + from + part);
    if (c0 + which < balls.count)
      y = *reinterpret_cast<const float4*>(balls.centres + (c0 + which) * balls.stride + from + part);
    __syncthreads();
    a[part][which] = x.x;
    a[part + 1][which] = x.y;
    a[part + 2][which] = x.z;
    a[part + 3][which] = x.w;
    b[part][which] = y.x;
    b[part + 1][which] = y.y;
    b[part + 2][which] = y.z;
    b[part + 3][which] = y.w;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < depth; ++i) {
      const float4 u = *reinterpret_cast<const float4*>(&a[i][px]);
      const float4 v = *reinterpret_cast<const float4*>(&b[i][cx]);
      const float us[4] = {u.x, u.y, u.z, u.w};
      const float vs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int p = 0; p < 4; ++p) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[p][c] = add_difference<true>(sum[p][c], us[p], vs[c]);
      }
    }
  }
  // At least the distance, however the sum was rounded.
  const double shrink = 1 - (static_cast<double>(dim) + 4) * 0x1p-24;
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    const std::int64_t point = p0 + px + p;
    std::uint64_t best = ~std::uint64_t{0};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const std::int64_t list = c0 + cx + c;
      if (list >= balls.count) continue;
      const std::uint64_t key =
          static_cast<std::uint64_t>(__float_as_uint(sum[p][c])) << 32U | static_cast<std::uint32_t>(list);
      best = key < best ? key : best;
      if constexpr (all) {
        if (point >= count) continue;
        const double length = sqrt(fmax(0.0, static_cast<double>(sum[p][c]) - 0x1p-100)) * shrink;
        const double beside = static_cast<double>(off[point]) + static_cast<double>(balls.radii[list]);
        const double near = length - beside - (length + beside) * 0x1p-40;
        // Beyond what float32 sums hold nothing is known.
        least[point * balls.count + list] =
            isfinite(sum[p][c]) && beside < CUDART_INF ? __double2float_rd(near) : -CUDART_INF_F;
      }
    }
    // The 16 threads of the point's centres.
#pragma unroll
    for (int step = 8; step > 0; step /= 2) {
      const std::uint64_t other = __shfl_xor_sync(0xffffffffU, best, step);
      best = other < best ? other : best;
    }
    if (tid % 16 == 0 && point < count) {
      atomicMin(reinterpret_cast<unsigned long long*>(nearest + point),
                static_cast<unsigned long long>(best));
    }
  }
}

__global__ void __launch_bounds__(threads) keys_kernel(const std::uint64_t* nearest, std::int64_t count,
                                                       std::uint32_t* keys, std::uint32_t* numbers) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  keys[i] = static_cast<std::uint32_t>(nearest[i]);
  numbers[i] = static_cast<std::uint32_t>(i);
}

__global__ void __launch_bounds__(threads)
    begins_kernel(const std::uint32_t* keys, std::int64_t count, std::int64_t lists, std::uint32_t* first) {
  const std::int64_t list = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (list > lists) return;
  std::int64_t low = 0;
  std::int64_t high = count;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (keys[middle] < list) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  first[list] = static_cast<std::uint32_t>(low);
}

// Rows of tile t: one more in the first rows % tiles of them.
__device__ inline std::int64_t begin_of_tile(std::int64_t t, std::int64_t rows, std::int64_t tiles) {
  const std::int64_t more = rows % tiles;
  return t * (rows / tiles) + (t < more ? t : more);
}
// Where row s of the sequence lies in the order of row_of.
__device__ inline std::int64_t place_of(std::int64_t s, std::int64_t rows, std::int64_t tiles) {
  const std::int64_t each = rows / tiles;
  const std::int64_t more = rows % tiles;
  const bool longer = s < more * (each + 1);
  const std::int64_t t = longer ? s / (each + 1) : more + (s - more * (each + 1)) / each;
  return row_of(t, s - begin_of_tile(t, rows, tiles), tiles);
}

__global__ void __launch_bounds__(threads)
    fill_tiles_kernel(const std::uint32_t* sequence, const std::uint32_t* keys, std::int64_t rows,
                      std::int64_t tiles, std::uint32_t* order, std::uint32_t* tile_lists) {
  const std::int64_t s = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (s < tiles) {
    tile_lists[s * 2] = keys[begin_of_tile(s, rows, tiles)];
    tile_lists[s * 2 + 1] = keys[begin_of_tile(s + 1, rows, tiles) - 1];
  }
  if (s < rows) order[place_of(s, rows, tiles)] = sequence[s];
  // Places without a row.
  if (s >= rows && s < tiles * code_tile_rows) order[s] = 0;
}

// A warp a row.
template <class T>
__global__ void __launch_bounds__(threads)
    radii_kernel(const T* data, std::int64_t stride, std::int64_t rows, CodeSpace space,
                 const std::uint64_t* nearest, ListBalls balls, float* radii) {
  const std::int64_t r = (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) / 32;
  if (r >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const T* row = data + r * stride;
  const codes::cuda::Look look = codes::cuda::look_at<32>(row, space.dim, space.metric, lane);
  if (look.nan || look.infinite) return;  // no answer, or evaluated by every query
  const auto list = static_cast<std::uint32_t>(nearest[r]);
  const float* centre = balls.centres + static_cast<std::int64_t>(list) * balls.stride;
  double norm_sq = 0;
  double sum = 0;
  for (std::int64_t i = lane; i < space.dim; i += 32) {
    const double y = codes::cuda::in_code_space(row, i, space, look);
    const double difference = y - static_cast<double>(centre[i]);
    norm_sq += y * y;
    sum += difference * difference;
  }
  norm_sq = codes::cuda::group_sum<32>(norm_sq);
  sum = codes::cuda::group_sum<32>(sum);
  if (lane != 0) return;
  const double error = codes::cuda::space_error(space, sqrt(norm_sq));
  const double length = (sqrt(sum) * (1 + codes::sum_error) + error) * (1 + 0x1p-40) + 0x1p-500;
  const float up = length < CUDART_INF ? __double2float_ru(length) : CUDART_INF_F;
  if (up > *reinterpret_cast<volatile float*>(radii + list))
    atomicMax(reinterpret_cast<int*>(radii + list), __float_as_int(up));
}

__global__ void __launch_bounds__(threads)
    own_list_kernel(Candidates candidates, ListedQueries queries, ListBalls balls, const std::uint32_t* order,
                    std::int64_t rows, std::int64_t tiles, std::int64_t count) {
  const std::int64_t q = blockIdx.x;
  const std::uint32_t list = queries.lists[q];
  std::int64_t begin = balls.first[list];
  std::int64_t end = balls.first[list + 1];
  if (end - begin < count) {  // as many on either side
    begin = (begin + end - count) / 2;
    begin = begin < 0 ? 0 : (begin + count > rows ? rows - count : begin);
    end = begin + count;
  }
  for (std::int64_t i = threadIdx.x; i < count; i += threads) {
    const std::int64_t s = begin + i * (end - begin) / count;
    candidates.entries[q * candidates.room + i] = order[place_of(s, rows, tiles)];
  }
  if (threadIdx.x == 0) candidates.counts[q] = static_cast<std::uint32_t>(count);
}

// No row whose canonical distance is at most `bound` lies farther than this in code space.
template <class R>
__device__ inline double reach_of(R bound, const CodeSpace& space) {
  const double real = real_bound(bound, space);
  if (!isfinite(real)) return CUDART_INF;
  if (space.metric == Metric::cosine) {
    const double error = (static_cast<double>(space.dim) + 64) * 0x1p-52;
    return sqrt(2 * fmax(0.0, real + error)) * (1 + 0x1p-40);
  }
  return sqrt(fmax(0.0, real)) * space.unit * (1 + 0x1p-40) + 0x1p-500;
}

constexpr int visit_threads = 512;
constexpr int most_block_queries = 256;

// A block for each block of the filter: first which lists are wanted, a bit each, then the tiles that have
// any, in the order of the stage.
template <class R>
__global__ void __launch_bounds__(visit_threads)
    visits_kernel(Batch<R> batch, ListedQueries queries, ListBalls balls, Stage stage, int block_queries,
                  std::uint32_t* tiles, std::uint32_t* counts, unsigned long long* pairs) {
  extern __shared__ std::uint32_t wanted[];
  __shared__ double reach[most_block_queries];
  __shared__ const float* rows[most_block_queries];
  __shared__ int warp_counts[visit_threads / 32];
  const int tid = static_cast<int>(threadIdx.x);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * block_queries;
  for (int i = tid; i < block_queries; i += visit_threads) {
    const std::int64_t q = first + i;
    const bool looks = q < batch.count && batch.scalars[q].kind == codes::RowKind::regular;
    reach[i] = looks ? reach_of(batch.best[q], batch.space) : CUDART_NAN;  // which nothing is below
    rows[i] =
        queries.least + static_cast<std::int64_t>(queries.ids[q < batch.count ? q : first]) * balls.count;
  }
  __syncthreads();
  const std::int64_t padded = (balls.count + 31) / 32 * 32;
  for (std::int64_t list = tid; list < padded; list += visit_threads) {
    bool some = false;
    if (list < balls.count && balls.first[list] < balls.first[list + 1]) {
#pragma unroll 8
      for (int i = 0; i < block_queries; ++i) some |= static_cast<double>(rows[i][list]) <= reach[i];
    }
    const unsigned bits = __ballot_sync(0xffffffffU, some);
    if (tid % 32 == 0) wanted[list / 32] = bits;
  }
  __syncthreads();
  std::int64_t kept = 0;
  std::uint32_t* out = tiles + static_cast<std::int64_t>(blockIdx.x) * stage.count;
  for (std::int64_t base = 0; base < stage.count; base += visit_threads) {
    const std::int64_t position = base + tid;
    bool visited = false;
    std::int64_t which = 0;
    if (position < stage.count) {
      which = stage.tile(position);
      const std::uint32_t last = balls.tile_lists[which * 2 + 1];
      for (std::uint32_t list = balls.tile_lists[which * 2]; list <= last && !visited; ++list)
        visited = (wanted[list / 32] >> (list % 32) & 1U) != 0;
    }
    const unsigned votes = __ballot_sync(0xffffffffU, visited);
    if (tid % 32 == 0) warp_counts[tid / 32] = __popc(votes);
    __syncthreads();
    std::int64_t at = kept + __popc(votes & ((1U << (tid % 32)) - 1U));
    int here = 0;
#pragma unroll
    for (int w = 0; w < visit_threads / 32; ++w) {
      at += w < tid / 32 ? warp_counts[w] : 0;
      here += warp_counts[w];
    }
    if (visited) out[at] = static_cast<std::uint32_t>(which);
    kept += here;
    __syncthreads();
  }
  if (tid != 0) return;
  counts[blockIdx.x] = static_cast<std::uint32_t>(kept);
  const std::int64_t own = batch.count - first < block_queries ? batch.count - first : block_queries;
  atomicAdd(pairs, static_cast<unsigned long long>(kept * code_tile_rows * own));
}

// A warp a query.
template <class R>
__global__ void __launch_bounds__(threads)
    visited_kernel(Batch<R> batch, ListedQueries queries, ListBalls balls, unsigned long long* sum) {
  const std::int64_t q = (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) / 32;
  if (q >= batch.count || batch.scalars[q].kind != codes::RowKind::regular) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const double reach = reach_of(batch.best[q], batch.space);
  const float* least = queries.least + static_cast<std::int64_t>(queries.ids[q]) * balls.count;
  double rows = 0;
  for (std::int64_t list = lane; list < balls.count; list += 32) {
    if (static_cast<double>(least[list]) <= reach) rows += balls.first[list + 1] - balls.first[list];
  }
  rows = codes::cuda::group_sum<32>(rows);
  if (lane == 0) atomicAdd(sum, static_cast<unsigned long long>(rows));
}

}  // namespace

std::int64_t ball_stride(std::int64_t dim) {
  return (dim + depth - 1) / depth * depth;
}

void place_in_space(const void* data, std::int64_t stride, std::int64_t count, const CodeSpace& space,
                    float* points, float* off, cudaStream_t stream) {
  if (count <= 0) return;
  visit_element(space.dtype, [&]<class T>(T /*tag*/) {
    place_kernel<T><<<blocks_for(count * 32), threads, 0, stream>>>(
        static_cast<const T*>(data), stride, count, space, ball_stride(space.dim), points, off);
    check_launch("place_in_space");
  });
}

void compare_with_centres(const float* points, const float* off, std::int64_t count, const ListBalls& balls,
                          std::uint64_t* nearest, float* least, cudaStream_t stream) {
  if (count <= 0) return;
  KITH_CUDA(cudaMemsetAsync(nearest, 0xff, static_cast<std::size_t>(count) * sizeof(std::uint64_t), stream));
  const dim3 grid(blocks_for(count, tile), blocks_for(balls.count, tile));
  if (least == nullptr) {
    compare_kernel<false>
        <<<grid, threads, 0, stream>>>(points, off, count, balls, balls.stride, nearest, least);
  } else {
    compare_kernel<true>
        <<<grid, threads, 0, stream>>>(points, off, count, balls, balls.stride, nearest, least);
  }
  check_launch("compare_with_centres");
}

std::size_t order_by_list(const std::uint64_t* nearest, std::int64_t count, std::int64_t lists,
                          std::uint32_t* unsorted_keys, std::uint32_t* unsorted, std::uint32_t* keys,
                          std::uint32_t* sorted, void* scratch, std::size_t scratch_bytes,
                          cudaStream_t stream) {
  int bits = 1;
  while (bits < 32 && std::int64_t{1} << bits < lists) ++bits;
  std::size_t bytes = scratch_bytes;
  if (scratch != nullptr) {
    keys_kernel<<<blocks_for(count), threads, 0, stream>>>(nearest, count, unsorted_keys, unsorted);
    check_launch("order_by_list");
  }
  KITH_CUDA(cub::DeviceRadixSort::SortPairs(scratch, bytes, unsorted_keys, keys, unsorted, sorted, count, 0,
                                            bits, stream));
  return bytes;
}

void begins_of_lists(const std::uint32_t* keys, std::int64_t count, std::int64_t lists, std::uint32_t* first,
                     cudaStream_t stream) {
  begins_kernel<<<blocks_for(lists + 1), threads, 0, stream>>>(keys, count, lists, first);
  check_launch("begins_of_lists");
}

void fill_tiles(const std::uint32_t* sequence, const std::uint32_t* keys, std::int64_t rows,
                std::int64_t tiles, std::uint32_t* order, std::uint32_t* tile_lists, cudaStream_t stream) {
  fill_tiles_kernel<<<blocks_for(tiles * code_tile_rows), threads, 0, stream>>>(sequence, keys, rows, tiles,
                                                                                order, tile_lists);
  check_launch("fill_tiles");
}

void measure_radii(const void* data, std::int64_t stride, std::int64_t rows, const CodeSpace& space,
                   const std::uint64_t* nearest, const ListBalls& balls, float* radii, cudaStream_t stream) {
  if (rows <= 0) return;
  visit_element(space.dtype, [&]<class T>(T /*tag*/) {
    radii_kernel<T><<<blocks_for(rows * 32), threads, 0, stream>>>(static_cast<const T*>(data), stride, rows,
                                                                   space, nearest, balls, radii);
    check_launch("measure_radii");
  });
}

void fill_from_own_list(const Candidates& candidates, const ListedQueries& queries, std::int64_t query_count,
                        const ListBalls& balls, const std::uint32_t* order, std::int64_t rows,
                        std::int64_t tiles, std::int64_t count, cudaStream_t stream) {
  own_list_kernel<<<static_cast<unsigned>(query_count), threads, 0, stream>>>(candidates, queries, balls,
                                                                              order, rows, tiles, count);
  check_launch("fill_from_own_list");
}

template <class R>
void choose_visits(const Batch<R>& batch, const ListedQueries& queries, const ListBalls& balls,
                   const Stage& stage, int block_queries, std::uint32_t* tiles, std::uint32_t* counts,
                   unsigned long long* pairs, cudaStream_t stream) {
  const std::size_t shared = static_cast<std::size_t>((balls.count + 31) / 32) * sizeof(std::uint32_t);
  visits_kernel<R><<<blocks_for(batch.count, block_queries), visit_threads, shared, stream>>>(
      batch, queries, balls, stage, block_queries, tiles, counts, pairs);
  check_launch("choose_visits");
}

template <class R>
void count_visited(const Batch<R>& batch, const ListedQueries& queries, const ListBalls& balls,
                   unsigned long long* sum, cudaStream_t stream) {
  visited_kernel<R><<<blocks_for(batch.count * 32), threads, 0, stream>>>(batch, queries, balls, sum);
  check_launch("count_visited");
}

template void choose_visits<float>(const Batch<float>&, const ListedQueries&, const ListBalls&, const Stage&,
                                   int, std::uint32_t*, std::uint32_t*, unsigned long long*, cudaStream_t);
template void choose_visits<double>(const Batch<double>&, const ListedQueries&, const ListBalls&,
                                    const Stage&, int, std::uint32_t*, std::uint32_t*, unsigned long long*,
                                    cudaStream_t);
template void count_visited<float>(const Batch<float>&, const ListedQueries&, const ListBalls&,
                                   unsigned long long*, cudaStream_t);
template void count_visited<double>(const Batch<double>&, const ListedQueries&, const ListBalls&,
                                    unsigned long long*, cudaStream_t);

}  // namespace kith::brute_force::cuda
