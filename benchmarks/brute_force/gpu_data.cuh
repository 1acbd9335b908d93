// Rows for benchmarks on GPUs, made on the device: uniform values, and a mixture of gaussians like
// embeddings.
//
// The mixture is that of benchmarks/datasets/generated.py: in a latent basis the variances of the coordinates
// fall as exp(-i / tau), with tau such that their participation ratio (sum l)^2 / sum l^2 is what is asked
// for, and their sum is the dimension; 2,000 gaussians whose centres come from the same spectrum at 0.6 of
// its standard deviation, with a scale of 0.7 to 1.3 and a log-normal weight (sigma 0.5), all turned by one
// random rotation. Bytes are clip(round(36 z + 20), 0, 255). Row i is the same in every run.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime_api.h>

#include "kith/kith.hpp"

namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(status));
    std::exit(1);
  }
}

// Uniform in [0, 1): splitmix64 of the position (Steele et al. 2014).
__host__ __device__ inline std::uint64_t mix(std::uint64_t z) {
  z *= 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

__global__ void fill_floats(float* out, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    out[i] = static_cast<float>(mix(seed + static_cast<std::uint64_t>(i) + 1) >> 40U) * 0x1p-24F;
  }
}
__global__ void fill_bytes(std::uint8_t* out, std::int64_t count, std::uint64_t seed) {
  for (std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    out[i] = static_cast<std::uint8_t>(mix(seed + static_cast<std::uint64_t>(i) + 1) >> 56U);
  }
}

// Two normal values a position (Box and Muller 1958).
__host__ __device__ inline double uniform_at(std::uint64_t seed, std::uint64_t i) {
  return (static_cast<double>(mix(seed + i + 1) >> 11U) + 0.5) * 0x1p-53;
}
__host__ __device__ inline double normal_at(std::uint64_t seed, std::uint64_t i) {
  return sqrt(-2 * log(uniform_at(seed, 2 * i))) * cos(6.283185307179586 * uniform_at(seed, 2 * i + 1));
}

struct MixtureOnDevice {
  int dim;
  const float* spread;      // [dim] deviations
  const float* centres;     // [gaussians, dim], latent
  const float* scale;       // [gaussians]
  const float* cumulative;  // [gaussians] of the weights
  const float* basis;       // [dim, dim]
  int gaussians;
};

constexpr int mixed_rows = 8;  // a block

template <class T>
__global__ void mixture_kernel(MixtureOnDevice m, std::int64_t first, std::int64_t rows, T* out) {
  extern __shared__ float latent[];  // [mixed_rows][dim]
  const std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * mixed_rows;
  for (int at = threadIdx.x; at < mixed_rows * m.dim; at += blockDim.x) {
    const std::uint64_t row = static_cast<std::uint64_t>(first + base + at / m.dim);
    const int i = at % m.dim;
    const auto pick = static_cast<float>(uniform_at(0x5eedULL << 40U, row)) * m.cumulative[m.gaussians - 1];
    int low = 0;
    for (int high = m.gaussians - 1; low < high;) {
      const int middle = (low + high) / 2;
      if (m.cumulative[middle] > pick)
        high = middle;
      else
        low = middle + 1;
    }
    const double value =
        normal_at(0xda7aULL << 44U, row * static_cast<std::uint64_t>(m.dim) + static_cast<std::uint64_t>(i));
    latent[at] = m.centres[low * m.dim + i] + m.scale[low] * static_cast<float>(value) * m.spread[i];
  }
  __syncthreads();
  for (int j = threadIdx.x; j < m.dim; j += blockDim.x) {
    float sums[mixed_rows] = {};
    for (int i = 0; i < m.dim; ++i) {
      const float b = m.basis[i * m.dim + j];
      for (int r = 0; r < mixed_rows; ++r) sums[r] += latent[r * m.dim + i] * b;
    }
    for (int r = 0; r < mixed_rows && base + r < rows; ++r) {
      T& to = out[(base + r) * m.dim + j];
      if constexpr (sizeof(T) == 1) {
        to = static_cast<T>(fminf(fmaxf(rintf(36 * sums[r] + 20), 0), 255));
      } else {
        to = sums[r];
      }
    }
  }
}

// The mixture of a dimension and participation ratio.
class Mixture {
 public:
  Mixture(int dim, double ratio) {
    constexpr int gaussians = 2000;
    std::vector<double> deviation(static_cast<std::size_t>(dim));
    const double tau = decay_for(ratio, dim);
    double sum = 0;
    for (int i = 0; i < dim; ++i) sum += std::exp(-i / tau);
    std::vector<float> spread, centres, scale, cumulative, basis;
    for (int i = 0; i < dim; ++i) {
      deviation[static_cast<std::size_t>(i)] = std::sqrt(std::exp(-i / tau) * dim / sum);
      spread.push_back(static_cast<float>(deviation[static_cast<std::size_t>(i)]));
    }
    double weights = 0;
    for (int g = 0; g < gaussians; ++g) {
      for (int i = 0; i < dim; ++i) {
        const auto at =
            static_cast<std::uint64_t>(g) * static_cast<std::uint64_t>(dim) + static_cast<std::uint64_t>(i);
        centres.push_back(
            static_cast<float>(0.6 * deviation[static_cast<std::size_t>(i)] * normal_at(1ULL << 52U, at)));
      }
      scale.push_back(static_cast<float>(0.7 + 0.6 * uniform_at(2ULL << 52U, static_cast<std::uint64_t>(g))));
      weights += std::exp(0.5 * normal_at(3ULL << 52U, static_cast<std::uint64_t>(g)));
      cumulative.push_back(static_cast<float>(weights));
    }
    basis = rotation(dim);
    on_device_ = {dim,          place(spread), place(centres), place(scale), place(cumulative),
                  place(basis), gaussians};
  }
  Mixture(const Mixture&) = delete;
  Mixture& operator=(const Mixture&) = delete;
  ~Mixture() {
    for (void* memory : memory_) (void)cudaFree(memory);
  }

  // Rows [first, first + rows).
  template <class T>
  void draw(std::int64_t first, std::int64_t rows, T* out) const {
    mixture_kernel<T><<<static_cast<unsigned>((rows + mixed_rows - 1) / mixed_rows), 256,
                        static_cast<std::size_t>(mixed_rows * on_device_.dim) * sizeof(float)>>>(
        on_device_, first, rows, out);
    check(cudaDeviceSynchronize());
  }

 private:
  static double decay_for(double ratio, int dim) {
    double low = 1e-3, high = 1e6;
    for (int round = 0; round < 200; ++round) {
      const double tau = std::sqrt(low * high);
      double sum = 0, squares = 0;
      for (int i = 0; i < dim; ++i) {
        const double variance = std::exp(-i / tau);
        sum += variance;
        squares += variance * variance;
      }
      (sum * sum / squares < ratio ? low : high) = tau;
    }
    return std::sqrt(low * high);
  }

  // Gram and Schmidt, twice over.
  static std::vector<float> rotation(int dim) {
    const auto d = static_cast<std::size_t>(dim);
    std::vector<double> rows(d * d);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = normal_at(4ULL << 52U, i);
    for (std::size_t i = 0; i < d; ++i) {
      for (int round = 0; round < 2; ++round) {
        for (std::size_t o = 0; o < i; ++o) {
          double product = 0;
          for (std::size_t j = 0; j < d; ++j) product += rows[i * d + j] * rows[o * d + j];
          for (std::size_t j = 0; j < d; ++j) rows[i * d + j] -= product * rows[o * d + j];
        }
        double squares = 0;
        for (std::size_t j = 0; j < d; ++j) squares += rows[i * d + j] * rows[i * d + j];
        for (std::size_t j = 0; j < d; ++j) rows[i * d + j] /= std::sqrt(squares);
      }
    }
    return {rows.begin(), rows.end()};
  }

  const float* place(const std::vector<float>& values) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, values.size() * sizeof(float)));
    memory_.push_back(memory);
    check(cudaMemcpy(memory, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    return static_cast<const float*>(memory);
  }

  std::vector<void*> memory_;
  MixtureOnDevice on_device_{};
};

struct Rows {
  void* data = nullptr;
  kith::DatasetView view;
  Rows(std::int64_t rows, std::int64_t dim, kith::Dtype dtype, std::uint64_t seed) {
    const std::int64_t count = rows * dim;
    check(cudaMalloc(&data, static_cast<std::size_t>(count) * kith::size_of(dtype)));
    if (dtype == kith::Dtype::f32) {
      fill_floats<<<4096, 256>>>(static_cast<float*>(data), count, seed);
    } else {
      fill_bytes<<<4096, 256>>>(static_cast<std::uint8_t*>(data), count, seed);
    }
    check(cudaDeviceSynchronize());
    view = kith::DatasetView(data, dtype, rows, dim, dim);
    view.space = kith::MemorySpace::cuda;
  }
  // Rows [first, first + rows) of a mixture.
  Rows(const Mixture& mixture, std::int64_t first, std::int64_t rows, std::int64_t dim, kith::Dtype dtype) {
    check(cudaMalloc(&data, static_cast<std::size_t>(rows * dim) * kith::size_of(dtype)));
    if (dtype == kith::Dtype::f32) {
      mixture.draw(first, rows, static_cast<float*>(data));
    } else {
      mixture.draw(first, rows, static_cast<std::uint8_t*>(data));
    }
    view = kith::DatasetView(data, dtype, rows, dim, dim);
    view.space = kith::MemorySpace::cuda;
  }
  explicit Rows(const kith::DatasetView& from) {
    const auto bytes = static_cast<std::size_t>(from.rows * from.dim) * kith::size_of(from.dtype);
    check(cudaMalloc(&data, bytes));
    check(cudaMemcpy(data, from.data, bytes, cudaMemcpyHostToDevice));
    check(cudaDeviceSynchronize());
    view = kith::DatasetView(data, from.dtype, from.rows, from.dim, from.dim);
    view.space = kith::MemorySpace::cuda;
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  ~Rows() { (void)cudaFree(data); }
};

}  // namespace
