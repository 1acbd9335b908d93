// Whether this device's tensor cores sum products of halves as the bound of half codes takes for granted.
//
// What is documented says little: products are exact, sums are in float32 "with at least single precision".
// What is known from measurements (Fasi, Higham, Mikaitis, Pranesh 2021) is that the addends of a block are
// aligned to the largest and cut off behind two more bits than a float has. Here sums are made of addends
// that such a cut takes the most from, by the filter's own kernels, and compared with exact ones.
#include <array>
#include <bit>
#include <cmath>
#include <mutex>
#include <vector>

#include "brute_force/cuda/kernels.hpp"
#include "cuda/runtime.hpp"
#include "kith/dtype.hpp"

namespace kith::brute_force::cuda {
namespace {

constexpr int dim = 512;
constexpr std::int64_t rows = code_tile_rows;

struct Halves {
  std::vector<float> values;  // [count, dim]
  std::vector<std::uint8_t> image;
};

// Vector i: 1, zeros up to 16, and behind them what is lost beside 1, of sizes that change with i; every
// fourth vector has values of all sizes and both signs instead.
Halves make(std::int64_t count, int tile, const CodeShape& shape, std::uint32_t seed) {
  Halves out;
  out.values.resize(static_cast<std::size_t>(count * dim));
  out.image.assign(static_cast<std::size_t>((count + tile - 1) / tile * tile * shape.row_bytes()), 0);
  std::uint32_t state = seed;
  for (std::int64_t i = 0; i < count; ++i) {
    for (int j = 0; j < dim; ++j) {
      const float all_ones = 2 - 0x1p-10F;
      float value = 0;
      if (i % 4 == 3) {
        state = state * 1664525U + 1013904223U;
        value =
            std::ldexp(1 + static_cast<float>(state >> 22U) * 0x1p-10F, -static_cast<int>(state >> 8U & 15U));
        if ((state >> 12U & 1U) != 0) value = -value;
      } else if (j == 0) {
        value = i % 2 == 0 ? 1.0F : -1.0F;
      } else if (j >= 16) {
        value = std::ldexp(all_ones, -1 - static_cast<int>(i / 4 % 14));
      }
      const float16 half = to_float16(value);
      out.values[static_cast<std::size_t>(i * dim + j)] = to_float(half);
      const auto bits = std::bit_cast<std::uint16_t>(half);
      for (int b = 0; b < 2; ++b) {
        out.image[static_cast<std::size_t>(shape.offset(i, 2 * j + b, tile))] =
            static_cast<std::uint8_t>(bits >> (8 * b));
      }
    }
  }
  return out;
}

template <class T>
Buffer<T> upload(const std::vector<T>& from, cudaStream_t stream) {
  Buffer<T> to(static_cast<std::int64_t>(from.size()), stream);
  KITH_CUDA(cudaMemcpyAsync(to.data(), from.data(), to.bytes(), cudaMemcpyHostToDevice, stream));
  return to;
}

// The scores that the kernel for so many queries gives, and whether each is as near to the exact sum as it
// must be.
bool sums_well(std::int64_t queries, int device) {
  const Stream stream;
  const CodeShape shape = CodeShape::of(2 * dim);
  const int tile = choose_query_tile(shape, queries, device);
  const Halves q = make(queries, tile, shape, 1);
  const Halves x = make(rows, code_tile_rows, shape, 2);
  const Buffer<std::uint8_t> query_codes = upload(q.image, stream);
  Buffer<std::uint8_t> codes = upload(x.image, stream);
  Buffer<std::int32_t> bias(rows, stream);
  Buffer<float> largest(largest_of::count, stream);
  Buffer<QueryBound> bounds(queries, stream);
  Buffer<std::uint64_t> entries(queries * rows, stream);
  Buffer<std::uint32_t> counts(queries, stream);
  for (void* zeros : {static_cast<void*>(bias.data()), static_cast<void*>(largest.data())}) {
    KITH_CUDA(cudaMemsetAsync(zeros, 0, zeros == bias.data() ? bias.bytes() : largest.bytes(), stream));
  }
  KITH_CUDA(cudaMemsetAsync(bounds.data(), 0, bounds.bytes(), stream));
  CodeSpace space;
  space.form = codes::Form::cauchy;
  space.half = true;
  space.dim = dim;
  CodeFilter filter{};
  filter.rows.codes = codes.data();
  filter.rows.bias = bias.data();
  filter.rows.largest = largest.data();
  filter.shard_rows = rows;
  filter.query_codes = query_codes.data();
  filter.bounds = bounds.data();
  filter.queries = queries;
  filter.query_tile = tile;
  filter.shape = shape;
  filter.test = space.test();
  filter.all = true;
  filter.stage = {1, 1, 0, 1};
  filter.out = {entries.data(), counts.data(), static_cast<std::uint32_t>(rows)};
  run_code_filter(filter, device, stream);
  std::vector<std::uint64_t> found(static_cast<std::size_t>(queries * rows));
  KITH_CUDA(cudaMemcpyAsync(found.data(), entries.data(), entries.bytes(), cudaMemcpyDeviceToHost, stream));
  stream.synchronize();
  for (std::int64_t i = 0; i < queries; ++i) {
    for (std::int64_t at = 0; at < rows; ++at) {
      const std::uint64_t entry = found[static_cast<std::size_t>(i * rows + at)];
      if (entry == no_candidate) return false;
      const auto row = static_cast<std::int64_t>(entry & 0xffffffffU);
      const auto order = static_cast<std::int32_t>(2147483647U - static_cast<std::uint32_t>(entry >> 32U));
      const auto score = static_cast<double>(std::bit_cast<float>(order < 0 ? order ^ 0x7fffffff : order));
      double sum = 0;
      double magnitude = 0;  // no partial sum is larger
      for (int j = 0; j < dim; ++j) {
        const double product = static_cast<double>(q.values[static_cast<std::size_t>(i * dim + j)]) *
                               static_cast<double>(x.values[static_cast<std::size_t>(row * dim + j)]);
        sum += product;
        magnitude += std::fabs(product);
      }
      if (!(std::fabs(score - sum) <= filter.test.rounding * magnitude)) return false;
    }
  }
  return true;
}

}  // namespace

bool halves_are_summed_well(int device) {
  constexpr std::size_t most_devices = 64;
  static std::array<std::once_flag, most_devices> once;
  static std::array<bool, most_devices> well{};
  const auto d = static_cast<std::size_t>(device);
  if (d >= most_devices) return false;
  std::call_once(once[d], [&] {
    const DeviceGuard guard(device);
    well[d] = sums_well(16, device) && sums_well(128, device);
  });
  return well[d];
}

}  // namespace kith::brute_force::cuda
