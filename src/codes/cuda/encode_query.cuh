// Encoding one query by a warp or a block; what encode.cu does for rows and queries shares its helpers.
// Everything is float64; the sums may be taken in any order, as the factor 1 + 2^-30 on residuals and norms
// covers it (docs/exact-contract.md, step 3).
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_fp16.h>
#include <math_constants.h>

#include "codes/cuda/codes.hpp"
#include "distance/cuda/canonical.cuh"

namespace kith::codes::cuda {

using namespace distance::cuda;

// The threads of this thread's group, which come and go together.
template <int G>
__device__ inline unsigned group_mask() {
  return G == 32 ? 0xffffffffU : 0xffU << (threadIdx.x % 32 / 8 * 8);
}
// Of n values a thread, by a warp or less; more threads are a block, whose warps go on with what each has.
// `combine` is told which of the values it is given. Values that are there together are combined together:
// what takes long is the waiting, not the arithmetic.
template <int G, int n, class V, class Combine>
__device__ inline void group_combine(V (&values)[n], const Combine& combine) {
  constexpr int lanes = G < 32 ? G : 32;
  [[maybe_unused]] const unsigned mask = group_mask<lanes>();
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) {
#pragma unroll
    for (int i = 0; i < n; ++i) values[i] = combine(i, values[i], __shfl_xor_sync(mask, values[i], step));
  }
  if constexpr (G > 32) {
    __shared__ V of_warps[n][G / 32];
    __syncthreads();  // what was there before is read
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int i = 0; i < n; ++i) of_warps[i][threadIdx.x / 32] = values[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < n; ++i) {
      values[i] = of_warps[i][0];
#pragma unroll
      for (int w = 1; w < G / 32; ++w) values[i] = combine(i, values[i], of_warps[i][w]);
    }
  }
}
template <int G, int n, class V>
__device__ inline void group_sums(V (&values)[n]) {
  group_combine<G>(values, [](int, V a, V b) { return a + b; });
}
template <int G, class V>
__device__ inline V group_sum(V value) {
  V values[] = {value};
  group_sums<G>(values);
  return values[0];
}
template <int G>
__device__ inline double group_max(double value) {
  double values[] = {value};
  group_combine<G>(values, [](int, double a, double b) { return fmax(a, b); });
  return values[0];
}
// The largest of the first, the sum of the second.
template <int G>
__device__ inline void group_max_and_sum(double& largest, double& sum) {
  double values[] = {largest, sum};
  group_combine<G>(values, [](int i, double a, double b) { return i == 0 ? fmax(a, b) : a + b; });
  largest = values[0];
  sum = values[1];
}

// A block that encodes a query is alone on a processor that has not seen its code: what takes long is to
// bring instructions there, and a loop is shorter than its rounds one after the other.
template <int G>
constexpr int rounds_at_once = G > 32 ? 1 : 4;

struct Look {
  bool nan;
  bool infinite;
  double squares;  // cosine
  double inverse;  // cosine: 1 / |x|
};

template <int G, class T>
__device__ inline Look look_at(const T* row, std::int64_t dim, Metric metric, int lane) {
  int special[2] = {};  // NaN, infinite
  double squares = 0;
#pragma unroll rounds_at_once < G>
  for (std::int64_t i = lane; i < dim; i += G) {
    const double x = widen(row[i]);
    if (isnan(x)) special[0] = 1;
    if (isinf(x)) special[1] = 1;
    if (metric == Metric::cosine) squares += x * x;
  }
  Look look{};
  group_sums<G>(special);
  look.nan = special[0] > 0;
  look.infinite = special[1] > 0;
  if (metric == Metric::cosine) {
    look.squares = group_sum<G>(squares);
    look.inverse = look.squares > 0 ? 1 / sqrt(look.squares) : 0;
  }
  return look;
}

// Value i in code space.
template <class T>
__device__ inline double in_code_space(const T* row, std::int64_t i, const CodeSpace& space,
                                       const Look& look) {
  const double x = widen(row[i]);
  if (space.metric == Metric::cosine) return x * look.inverse;
  return space.mean == nullptr ? x * space.unit : (x - space.mean[i]) * space.unit;
}

// Bound on the 2-norm of the rounding errors in y itself.
__device__ inline double space_error(const CodeSpace& space, double norm) {
  if (space.metric == Metric::cosine) return 0x1p-50 * (1 + static_cast<double>(space.dim) * 0x1p-2);
  return 0x1p-1000 + (space.mean == nullptr ? 0 : 0x1p-52 * norm * 1.001);
}

// What codes of few directions hold in place of y: its coordinates and the length of the rest.
struct Along {
  const double* coordinates;  // null: y itself
  double half_rest;
  double rest;
  double error;    // of both, beside that of y itself
  double largest;  // of their sizes
};

// docs/exact-contract.md, step 11; project() in codes/projection.cpp does the same.
template <int G>
__device__ inline Along along(const CodeSpace& space, const double* coordinates, double norm_sq, int lane) {
  double largest = 0;
  double along_sq = 0;
#pragma unroll rounds_at_once < G>
  for (std::int64_t i = lane; i < space.directions; i += G) {
    largest = fmax(largest, fabs(coordinates[i]));
    along_sq += coordinates[i] * coordinates[i];
  }
  group_max_and_sum<G>(largest, along_sq);
  const double rounding =
      (static_cast<double>(space.dim) + 16) * sqrt(static_cast<double>(space.directions)) * 0x1p-51;
  const double slack = rounding * norm_sq + 0x1p-1000;
  const double rest = sqrt(fmax(0.0, norm_sq - along_sq));
  const double limit = sqrt(slack);
  const double of_rest = rest > limit ? slack / rest : limit;
  const double error = (of_rest + rounding * sqrt(norm_sq) + 0x1p-1000) * (1 + sum_error);
  return {coordinates, rest / 2, rest, error, fmax(largest, rest / 2)};
}

// Value i of what is encoded.
template <class T>
__device__ inline double coded_value(const T* row, std::int64_t i, const CodeSpace& space, const Look& look,
                                     const Along& a) {
  if (a.coordinates == nullptr) return in_code_space(row, i, space, look);
  return i < space.directions ? a.coordinates[i] : a.half_rest;
}

// Four values of a fine code: each the nearest, within the range, and what that leaves of the value.
struct FineCodes {
  short4 packed;
  double residual_sq = 0;
  double code_sq = 0;

  __device__ void set(int j, double y, double step, double inverse) {
    constexpr double most = CodeSpace::largest_fine;
    const double code = rint(fmin(fmax(y * inverse, -most), most));
    const double difference = y - code * step;
    residual_sq += difference * difference;
    code_sq += code * code;
    const auto value = static_cast<short>(code);
    (j == 0 ? packed.x : j == 1 ? packed.y : j == 2 ? packed.z : packed.w) = value;
  }
};

/// Encodes query q by G threads (a block, a warp, or one), its code as row `place` of the image; behind the
/// last query that is filled with zeros. What is null in `out` is not written, but for an image. Coordinates
/// are read when `await_coordinates` has returned, which every thread calls once a query that there is. Every
/// thread returns the scalars.
template <int G, class T, class Await>
__device__ inline QueryScalars encode_query(const T* data, std::int64_t stride, std::int64_t q,
                                            std::int64_t queries, std::int64_t place, const CodeSpace& space,
                                            const QueryCodes& out, const Await& await_coordinates) {
  const int lane = static_cast<int>(threadIdx.x) % G;
  if (q >= queries) {
    if (space.tiled() && q < (queries + out.tile - 1) / out.tile * out.tile) {
      for (int base = lane * 4; base < space.shape.row_bytes(); base += G * 4) {
        *reinterpret_cast<std::uint32_t*>(out.codes + space.shape.offset(place, base, out.tile)) = 0;
      }
    }
    return {};
  }
  const T* row = data + q * stride;
  if (out.values != nullptr) {
    double* values = out.values + q * out.padded;
#pragma unroll rounds_at_once < G>
    for (std::int64_t i = lane; i < out.padded; i += G) values[i] = i < space.dim ? widen(row[i]) : 0;
  }

  QueryScalars s;
  Look look = look_at<G>(row, space.dim, space.metric, lane);
  if (space.metric == Metric::cosine) {
    // The y that the coordinates are of; it is there before they are.
    if (space.map != nullptr) look.inverse = out.coordinates.inverse[q];
    if constexpr (G == 1) {
      double sum[canonical_lanes] = {};
      for (std::int64_t i = 0; i < space.dim; i += canonical_lanes) {
#pragma unroll
        for (int l = 0; l < canonical_lanes; ++l) {
          const double x = i + l < space.dim ? widen(row[i + l]) : 0;
          sum[l] = canonical_step<Metric::cosine>(sum[l], x, x);
        }
      }
      s.canonical = root(canonical_sum(sum));
    } else {
      double sum = 0;
      for (std::int64_t i = lane % canonical_lanes; i < space.dim; i += canonical_lanes) {
        const double x = widen(row[i]);
        sum = canonical_step<Metric::cosine>(sum, x, x);
      }
      s.canonical = root(canonical_reduce(sum));
    }
  }
  double largest = 0;
  double norm = 0;
#pragma unroll rounds_at_once < G>
  for (std::int64_t i = lane; i < space.dim; i += G) {
    const double y = in_code_space(row, i, space, look);
    largest = fmax(largest, fabs(y));
    norm += space.form == Form::absolute ? fabs(y) : y * y;
  }
  group_max_and_sum<G>(largest, norm);
  const double norm_sq = norm;
  if (space.form != Form::absolute) norm = sqrt(norm);
  bool special = look.infinite;
  if (space.metric == Metric::cosine) {
    special = special || !(look.squares >= 0x1p-900 && look.squares <= 0x1p900);
  } else if (space.tiled()) {
    // A zero query ties with every row under the inner product.
    const double limit =
        space.half && space.form == Form::triangle ? largest_half_query_entry : largest_query_entry;
    special = special || !(largest <= limit) || (space.metric == Metric::inner_product && largest == 0);
  } else if (sizeof(T) == 8) {
    special = special || !(largest <= largest_query_entry);
  } else {
    special = false;  // float32 arithmetic says what is true of infinite values, too
  }
  s.kind = look.nan ? RowKind::nan : (special ? RowKind::special : RowKind::regular);
  double error = space_error(space, norm);

  const bool regular = s.kind == RowKind::regular;
  Along a{};
  await_coordinates();
  if constexpr (G > 1) {  // what encodes queries by single threads has no directions
    if (space.map != nullptr && regular) {
      a = along<G>(space, out.coordinates.values + q * space.map_width, norm_sq, lane);
      error += a.error;
      largest = a.largest;
      const double whole = space.form == Form::triangle ? 1 : norm;
      if (lane == 0 && out.off != nullptr && a.rest > space.largest_rest * whole) atomicAdd(out.off, 1ULL);
    }
  }
  if (space.tiled()) {
    double step = space.step;
    if (space.form == Form::cauchy && regular) {
      // Halves are scaled by a power of two, which loses nothing.
      step = space.half ? (largest >= 0x1p-60 ? ldexp(1.0, ilogb(largest)) : 0)
                        : static_cast<double>(static_cast<float>(largest / 127));
      if (step < 0x1p-60) step = 1;
    }
    const double inverse = 1 / step;
    double residual_sq = 0;
    double code_sq = 0;
    double code_sum = 0;
    double fine_residual_sq = 0;
    double fine_sq = 0;
    const double fine_step = step / CodeSpace::finer;
    const bool with_fine = G > 1 && out.fine != nullptr;
    const int width = static_cast<int>(space.shape.row_bytes());
#pragma unroll 1
    for (int base = lane * 4; base < width; base += G * 4) {
      std::uint32_t packed = 0;
      if (space.half) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int i = base / 2 + j;
          if (i >= space.dim || !regular) continue;
          const double y = in_code_space(row, i, space, look);
          const __half code = __double2half(y * inverse);
          const auto value = static_cast<double>(__half2float(code));
          const double difference = y - value * step;
          residual_sq += difference * difference;
          code_sq += value * value;
          packed |= static_cast<std::uint32_t>(__half_as_ushort(code)) << (16 * j);
        }
      } else {
        FineCodes fine{};
#pragma unroll rounds_at_once < G>
        for (int j = 0; j < 4; ++j) {
          const int i = base + j;
          if (i >= space.values() || !regular) continue;
          int code = 0;
          if (space.raw_integers) {
            code = static_cast<int>(widen(row[i])) - space.offset();
          } else {
            const double y = coded_value(row, i, space, look, a);
            code = static_cast<int>(rint(fmin(fmax(y * inverse, -127.0), 127.0)));
            const double difference = y - code * step;
            residual_sq += difference * difference;
            if (with_fine) fine.set(j, y, fine_step, inverse * CodeSpace::finer);
          }
          code_sq += code * code;
          code_sum += code;
          packed |= static_cast<std::uint32_t>(code & 255) << (8 * j);
        }
        if (with_fine && base < space.fine_stride()) {
          *reinterpret_cast<short4*>(out.fine + q * space.fine_stride() + base) = fine.packed;
          fine_residual_sq += fine.residual_sq;
          fine_sq += fine.code_sq;
        }
      }
      *reinterpret_cast<std::uint32_t*>(out.codes + space.shape.offset(place, base, out.tile)) = packed;
    }
    s.scale = space.raw_integers ? 1 : step;
    double sums[] = {code_sq, code_sum, residual_sq};
    group_sums<G>(sums);
    s.code_sq = sums[0];
    s.code_sum = sums[1];
    s.norm = sqrt(s.code_sq) * s.scale * (1 + sum_error);
    s.residual = sqrt(sums[2]) * (1 + sum_error) + (space.raw_integers ? 0 : error);
    if (with_fine) {
      double of_fine[] = {fine_sq, fine_residual_sq};
      group_sums<G>(of_fine);
      s.fine_norm = sqrt(of_fine[0]) * fine_step * (1 + sum_error);
      s.fine_residual = sqrt(of_fine[1]) * (1 + sum_error) + error;
    }
  } else if (out.floats != nullptr) {
    double residual = 0;
#pragma unroll rounds_at_once < G>
    for (std::int64_t i = lane; i < out.float_stride; i += G) {
      float code = 0;
      if (i < space.dim) {
        if constexpr (sizeof(T) == 8) {
          const double y = in_code_space(row, i, space, look);
          code = static_cast<float>(y);
          const double difference = y - static_cast<double>(code);
          residual += space.form == Form::absolute ? fabs(difference) : difference * difference;
        } else {
          code = static_cast<float>(widen(row[i]));
        }
      }
      out.floats[q * out.float_stride + i] = code;
    }
    if constexpr (sizeof(T) == 8) {
      residual = group_sum<G>(residual);
      s.residual = (space.form == Form::absolute ? residual : sqrt(residual)) * (1 + sum_error) + error;
    }
  }
  if (lane == 0) {
    if (look.nan && out.nan_queries != nullptr) atomicAdd(out.nan_queries, 1ULL);
    if (out.scalars != nullptr) out.scalars[q] = s;
  }
  return s;
}

/// What a search without stages begins with, by one thread a query.
template <class T>
__device__ inline void start_query(std::int64_t q, const QueryCodes& out) {
  if (out.best != nullptr) {
    using R = std::conditional_t<sizeof(T) == 8, double, float>;
    static_cast<R*>(out.best)[q] = static_cast<R>(CUDART_INF);
  }
}

}  // namespace kith::codes::cuda
