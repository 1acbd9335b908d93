// k-means by a block: the operations of k_means.cpp in its order, none fused (-fmad=false). Sums over rows
// are taken row after row within the host's parts, by a thread each; what has no order is dealt out.
#include <math_constants.h>

#include "cuda/runtime.hpp"
#include "k_means/cuda/kernels.hpp"

namespace kith::clusters::cuda {
namespace {

constexpr int threads = most_centroids;  // of a block: one a centroid
constexpr int most_sums = 64;
constexpr std::uint16_t none = 0xFFFF;

// A part as its block sees it.
struct Part {
  const float* rows;  // [dim, n]
  std::int64_t n;
  std::int64_t dim;
  std::int64_t sums;
  int count;
  float* centroids;  // [dim, most_centroids]
  float* distances;
  std::uint16_t* nearest;

  __device__ std::int64_t first_of(std::int64_t sum) const { return n / sums * sum + min(sum, n % sums); }
  __device__ void take_row(int centroid, std::int64_t row) const {
    for (std::int64_t d = threadIdx.x; d < dim; d += threads) {
      centroids[d * most_centroids + centroid] = rows[d * n + row];
    }
  }
};

// Clustering::row_at, by one thread.
__device__ std::int64_t row_at(const Part& part, const double* sums, double target) {
  std::int64_t sum = 0;
  while (sum + 1 < part.sums && target >= sums[sum]) target -= sums[sum++];
  std::int64_t last = part.first_of(sum);
  const std::int64_t end = part.first_of(sum + 1);
  for (std::int64_t i = last; i < end; ++i) {
    const double square = part.distances[i];
    if (square == 0) continue;
    last = i;
    target -= square;
    if (target < 0) break;
  }
  return last;
}

// k-means++.
__device__ void choose_first(const Part& part, const double* uniforms) {
  __shared__ double sums[most_sums];
  __shared__ std::int64_t chosen;
  const int tid = static_cast<int>(threadIdx.x);
  const auto any = [&](double uniform) {
    const auto row = static_cast<std::int64_t>(uniform * static_cast<double>(part.n));
    return row < part.n - 1 ? row : part.n - 1;
  };
  part.take_row(0, any(uniforms[0]));
  for (std::int64_t i = tid; i < part.n; i += threads) part.distances[i] = CUDART_INF_F;
  __syncthreads();
  for (int c = 1; c < part.count; ++c) {
    for (std::int64_t i = tid; i < part.n; i += threads) {
      float square = 0;
      for (std::int64_t d = 0; d < part.dim; ++d) {
        const float difference = part.rows[d * part.n + i] - part.centroids[d * most_centroids + c - 1];
        square += difference * difference;
      }
      if (square < part.distances[i]) part.distances[i] = square;
    }
    __syncthreads();
    if (tid < part.sums) {
      double sum = 0;
      for (std::int64_t i = part.first_of(tid); i < part.first_of(tid + 1); ++i) sum += part.distances[i];
      sums[tid] = sum;
    }
    __syncthreads();
    if (tid == 0) {
      double total = 0;
      for (int s = 0; s < part.sums; ++s) total += sums[s];
      chosen = total > 0 ? row_at(part, sums, uniforms[c] * total) : any(uniforms[c]);
    }
    __syncthreads();
    part.take_row(c, chosen);
    __syncthreads();
  }
}

// Rows to their nearest centroids. Whether a row changed; all threads.
__device__ bool assign(const Part& part) {
  constexpr int together = 8;
  bool changed = false;
  for (std::int64_t i = threadIdx.x; i < part.n; i += threads) {
    float least = CUDART_INF_F;
    int nearest = 0;
    for (int c = 0; c < part.count; c += together) {
      float sums[together] = {};
      for (std::int64_t d = 0; d < part.dim; ++d) {
        const float value = part.rows[d * part.n + i];
        const float* its = part.centroids + d * most_centroids + c;
#pragma unroll
        for (int l = 0; l < together; ++l) {
          const float difference = value - its[l];
          sums[l] += difference * difference;
        }
      }
#pragma unroll
      for (int l = 0; l < together; ++l) {
        if (c + l >= part.count || !(sums[l] < least)) continue;
        least = sums[l];
        nearest = c + l;
      }
    }
    changed = changed || nearest != part.nearest[i];
    part.nearest[i] = static_cast<std::uint16_t>(nearest);
    part.distances[i] = least;
  }
  return __syncthreads_or(changed ? 1 : 0) != 0;
}

// The mean of a centroid's rows, by its thread; how many they are.
__device__ std::int64_t update(const Part& part, int centroid) {
  constexpr int together = 4;  // dimensions
  std::int64_t members = 0;
  for (std::int64_t from = 0; from < part.dim; from += together) {
    double totals[together] = {};
    members = 0;
    for (std::int64_t s = 0; s < part.sums; ++s) {
      double sums[together] = {};
      const std::int64_t end = part.first_of(s + 1);
      for (std::int64_t i = part.first_of(s); i < end; ++i) {
        if (part.nearest[i] != centroid) continue;
        ++members;
#pragma unroll
        for (int k = 0; k < together; ++k) {
          if (from + k < part.dim) sums[k] += part.rows[(from + k) * part.n + i];
        }
      }
#pragma unroll
      for (int k = 0; k < together; ++k) totals[k] += sums[k];
    }
    if (members == 0) continue;
#pragma unroll
    for (int k = 0; k < together; ++k) {
      if (from + k >= part.dim) continue;
      part.centroids[(from + k) * most_centroids + centroid] =
          static_cast<float>(totals[k] / static_cast<double>(members));
    }
  }
  return members;
}

// The row that is farthest from its centroid, the lowest of those equally far; the same in all threads.
__device__ std::int64_t farthest(const Part& part) {
  __shared__ float most[threads];
  __shared__ std::int64_t where[threads];
  const int tid = static_cast<int>(threadIdx.x);
  float its = -1;
  std::int64_t row = 0;
  for (std::int64_t i = tid; i < part.n; i += threads) {
    if (!(part.distances[i] > its)) continue;
    its = part.distances[i];
    row = i;
  }
  most[tid] = its;
  where[tid] = row;
  for (int apart = threads / 2; apart > 0; apart /= 2) {
    __syncthreads();
    if (tid >= apart) continue;
    const float other = most[tid + apart];
    if (other > most[tid] || (other == most[tid] && where[tid + apart] < where[tid])) {
      most[tid] = other;
      where[tid] = where[tid + apart];
    }
  }
  __syncthreads();
  const std::int64_t found = where[0];
  __syncthreads();
  return found;
}

// Centroids without rows take rows.
__device__ void fill_empty(const Part& part, const std::int64_t* members) {
  for (int c = 0; c < part.count; ++c) {
    if (members[c] > 0) continue;
    const std::int64_t row = farthest(part);
    if (!(part.distances[row] > 0)) break;  // every row is a centroid already
    __syncthreads();
    part.take_row(c, row);
    if (threadIdx.x == 0) part.distances[row] = 0;
    __syncthreads();
  }
}

__global__ void __launch_bounds__(threads) parts_kernel(const __grid_constant__ PartsJob job) {
  __shared__ std::int64_t members[most_centroids];
  const std::int64_t j = blockIdx.x;
  const int tid = static_cast<int>(threadIdx.x);
  const std::int64_t begin = job.starts[j];
  const Part part{job.rows + begin * job.n,
                  job.n,
                  job.starts[j + 1] - begin,
                  job.sums[j],
                  job.count,
                  job.centroids + begin * most_centroids,
                  job.distances + j * job.n,
                  job.nearest + j * job.n};
  choose_first(part, job.uniforms + j * job.count);
  for (std::int64_t i = tid; i < part.n; i += threads) part.nearest[i] = none;
  __syncthreads();
  for (std::int64_t i = 0; i < job.iterations; ++i) {
    if (!assign(part)) break;
    members[tid] = tid < part.count ? update(part, tid) : 1;
    __syncthreads();
    fill_empty(part, members);
    __syncthreads();
  }
}

__global__ void __launch_bounds__(threads)
    transpose_kernel(const float* from, std::int64_t n, std::int64_t dim, float* to) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  const std::int64_t d = blockIdx.y;
  if (i < n) to[d * n + i] = from[i * dim + d];
}

}  // namespace

void find_centroids(const PartsJob& job, cudaStream_t stream) {
  parts_kernel<<<static_cast<unsigned>(job.parts), threads, 0, stream>>>(job);
  kith::cuda::check_launch("parts_kernel");
}

void transpose(const float* from, std::int64_t n, std::int64_t dim, float* to, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((n + threads - 1) / threads), static_cast<unsigned>(dim));
  transpose_kernel<<<grid, threads, 0, stream>>>(from, n, dim, to);
  kith::cuda::check_launch("transpose_kernel");
}

}  // namespace kith::clusters::cuda
