// Queries into codes, as codes::ScalarCodec makes them: the same operations in the same order, none fused, so
// that a walk on a device begins with the same bytes. And into float64 for the canonical distance.
#include <math_constants.h>

#include "codes/cuda/row_sums.cuh"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"
#include "cuda/visit_element.cuh"
#include "vamana/cuda/kernels.hpp"
#include "vamana/cuda/tuning.hpp"

namespace kith::vamana::cuda {
namespace {

using namespace codes::cuda;

constexpr int threads = 128;

// ScalarCodec::transform of a query without a NaN, in place.
__device__ void transform(const SpaceView& space, double* y, double* sum, unsigned long long* most) {
  const std::int64_t dim = space.dim;
  const auto each = [&](const auto& change) {
    for (std::int64_t i = threadIdx.x; i < dim; i += threads) y[i] = change(y[i]);
    __syncthreads();
  };
  if (space.metric == Metric::cosine) {
    double norm = root(sum_of_squares(y, dim, sum));
    if (!(norm > 0x1p-500 && norm < 0x1p500)) {
      const double largest = largest_of(y, dim, most);
      if (!(largest > 0)) return;
      each([&](double v) { return isinf(v) ? copysign(1.0, v) : divide(v, largest); });
      norm = root(sum_of_squares(y, dim, sum));
    }
    each([&](double v) { return divide(v, norm); });
  } else if (space.metric == Metric::inner_product) {
    const double norm = root(sum_of_squares(y, dim, sum));
    if (norm > 0 && norm < CUDART_INF) {
      const double factor = divide(space.largest_norm, norm);
      each([&](double v) { return mul(v, factor); });
    }
    if (threadIdx.x == 0) y[dim] = 0;
    __syncthreads();
  }
}

__device__ int quantize(const SpaceView& space, double value) {
  const double largest = space.bits == 8 ? 127 : 7;
  double v = divide(value, space.step);
  v = v > -largest ? v : -largest;  // a NaN, of infinities, too
  v = v < largest ? v : largest;
  return static_cast<int>(rint(v)) + static_cast<int>(largest) + 1;
}

template <class T>
__global__ void __launch_bounds__(threads) encode_kernel(const __grid_constant__ EncodeJob job) {
  let_next_launch();
  __shared__ double sum;
  __shared__ unsigned long long most;
  // Values, where they fit, and a code of 4 bits a value before its halves are joined.
  extern __shared__ __align__(8) unsigned char shared[];
  unsigned char* bytes = shared + (job.values_in_shared ? job.space.full_dim * sizeof(double) : 0);
  const SpaceView& space = job.space;
  const std::int64_t q = blockIdx.x;
  const int tid = static_cast<int>(threadIdx.x);
  const T* row = static_cast<const T*>(job.rows) + q * job.stride;
  double* query = job.queries + q * job.padded;
  bool told = true;
  for (std::int64_t i = tid; i < job.padded; i += threads) {
    const double value = i < space.dim ? widen(row[i]) : 0;
    query[i] = value;
    told = told && !isnan(value);
  }
  told = __syncthreads_and(told ? 1 : 0) != 0;
  if (space.metric == Metric::cosine) {
    const double norm =
        root(sum_lanes(query, job.padded, &sum, [](double lane, double v) { return fma(v, v, lane); }));
    if (tid == 0) job.norms[q] = norm;
  } else if (space.metric == Metric::inner_product) {
    const double norm = root(sum_of_squares(query, space.dim, &sum));
    if (tid == 0) job.norms[q] = norm;
  }
  if (tid == 0) {
    job.usable[q] = told ? 1 : 0;
    if (!told) atomicAdd(job.nan_queries, 1ULL);
  }
  unsigned char* code = job.codes + q * space.code_bytes;
  if (space.raw_integers) {
    if constexpr (sizeof(T) == 1) {
      const auto flip = static_cast<unsigned char>(space.dtype == Dtype::i8 ? 0x80 : 0);
      const auto* from = reinterpret_cast<const unsigned char*>(row);
      for (int i = tid; i < space.code_bytes; i += threads)
        code[i] = i < space.dim ? static_cast<unsigned char>(from[i] ^ flip) : 0;
    }
    return;
  }
  if (!told) return;
  double* y = job.values_in_shared ? reinterpret_cast<double*>(shared) : job.values + q * space.full_dim;
  for (std::int64_t i = tid; i < space.dim; i += threads) y[i] = query[i];
  __syncthreads();
  transform(space, y, &sum, &most);
  for (std::int64_t i = tid; i < space.full_dim; i += threads)
    y[i] = mul(sub(y[i], space.mean[i]), space.unit);
  __syncthreads();
  const auto put = [&](std::int64_t i, double value) {
    const int quantized = quantize(space, value);
    (space.bits == 8 ? code : bytes)[i] = static_cast<unsigned char>(quantized);
  };
  for (std::int64_t j = tid; j < space.code_dim; j += threads) {
    if (space.leading == 0) {
      put(j, y[j]);
      continue;
    }
    float projected = 0;
#pragma unroll 32  // their loads at once: one query alone waits for every one of them
    for (std::int64_t i = 0; i < space.full_dim; ++i) {
      projected = __fadd_rn(projected, __fmul_rn(__double2float_rn(y[i]), space.map[i * space.leading + j]));
    }
    put(j, projected);
  }
  if (space.bits == 8) {
    for (std::int64_t i = space.code_dim + tid; i < space.code_bytes; i += threads) code[i] = 0;
    return;
  }
  __syncthreads();
  for (int i = tid; i < space.code_bytes; i += threads) {
    const unsigned low = 2 * i < space.code_dim ? bytes[2 * i] : 0U;
    const unsigned high = 2 * i + 1 < space.code_dim ? bytes[2 * i + 1] : 0U;
    code[i] = static_cast<unsigned char>(low | high << 4U);
  }
}

}  // namespace

void encode_queries(const EncodeJob& asked, cudaStream_t stream) {
  if (asked.count == 0) return;
  EncodeJob job = asked;
  const auto values = static_cast<std::size_t>(job.space.full_dim) * sizeof(double);
  job.values_in_shared = !job.space.raw_integers && values <= constants.largest_shared_values;
  const std::size_t bytes = (job.values_in_shared ? values : 0) +
                            static_cast<std::size_t>(job.space.bits == 8 ? 0 : job.space.code_dim);
  visit_element(job.space.dtype, [&]<class T>(T /*tag*/) {
    encode_kernel<T><<<static_cast<unsigned>(job.count), threads, bytes, stream>>>(job);
  });
  check_launch("encode_kernel");
}

}  // namespace kith::vamana::cuda
