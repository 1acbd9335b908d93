// Rows of a shard and their codes.
#include "brute_force/cuda/shard.hpp"

#include <algorithm>

#include "brute_force/cuda/tuning.hpp"

namespace kith::brute_force {

using cuda::code_tile_rows;

namespace {

// Rows, whole tiles of them, whose coordinates along directions are kept at once.
std::int64_t coded_at_once(std::int64_t map_width, std::int64_t rows) {
  const auto fit = static_cast<std::int64_t>(tuning::coordinate_bytes /
                                             (static_cast<std::uint64_t>(map_width + 1) * sizeof(double)));
  return (std::min(fit, rows) + code_tile_rows - 1) / code_tile_rows * code_tile_rows;
}

}  // namespace

std::uint64_t directions_bytes(const CudaChoice& choice, std::int64_t dim, std::int64_t rows) {
  if (choice.projection == nullptr) return 0;
  const std::int64_t width = cuda::map_width(choice.directions());
  return static_cast<std::uint64_t>(cuda::map_rows(dim) * width +
                                    cuda::Coordinates::doubles(coded_at_once(width, rows), width)) *
         sizeof(double);
}

Shard::Shard(int device_ordinal, const CudaChoice& choice, const DatasetView& shape, Metric metric,
             std::int64_t most_rows)
    : device(device_ordinal), capacity(most_rows) {
  space.metric = metric;
  space.dtype = shape.dtype;
  space.dim = shape.dim;
  maxima = cuda::Buffer<float>(1 + cuda::largest_of::count, stream);
  special = cuda::Buffer<std::uint32_t>(std::max<std::int64_t>(1024, capacity / 8), stream);
  counts = cuda::Buffer<unsigned long long>(2, stream);
  make_room(choice);
}

void Shard::place_map(const CudaChoice& choice) {
  map = {};
  space.map = nullptr;
  space.directions = choice.directions();
  space.largest_rest = choice.largest_rest;
  if (space.directions == 0) return;
  const codes::Projection& projection = *choice.projection;
  space.map_width = cuda::map_width(space.directions);
  std::vector<double> values(static_cast<std::size_t>(cuda::map_rows(space.dim) * space.map_width));
  for (std::int64_t i = 0; i < space.dim; ++i) {
    for (std::int64_t j = 0; j < space.directions; ++j) {
      values[static_cast<std::size_t>(i * space.map_width + j)] = projection.at(i, j);
    }
  }
  map = cuda::Buffer<double>(static_cast<std::int64_t>(values.size()), stream);
  KITH_CUDA(cudaMemcpyAsync(map.data(), values.data(), map.bytes(), cudaMemcpyHostToDevice, stream));
  stream.synchronize();
  space.map = map.data();
}

void Shard::make_room(const CudaChoice& choice) {
  mean = {};
  space.mean = nullptr;
  if (!choice.mean.empty()) {
    mean = cuda::Buffer<double>(space.dim, stream);
    KITH_CUDA(cudaMemcpyAsync(mean.data(), choice.mean.data(), mean.bytes(), cudaMemcpyHostToDevice, stream));
    stream.synchronize();
    space.mean = mean.data();
  }
  place_map(choice);
  space.form = choice.form;
  space.unit = choice.unit;
  space.step = choice.step;
  space.half = choice.filter == Filter::fp16;
  space.typical_residual = choice.typical_residual;
  space.typical_reach = choice.typical_reach;
  space.residual_cap = choice.residual_cap;
  space.raw_integers = space.int8() && choice.exact_codes;
  space.shape = cuda::CodeShape::of(space.half ? 2 * space.dim : space.values());
  codes = {};
  fine = {};
  space.fine = choice.fine && space.map != nullptr;
  const std::int64_t code_tiles = (capacity + code_tile_rows - 1) / code_tile_rows;
  if (space.tiled()) {
    codes = cuda::Buffer<std::uint8_t>(code_tiles * code_tile_rows * space.shape.row_bytes(), stream);
    if (space.fine) fine = cuda::Buffer<std::int16_t>(capacity * space.fine_stride(), stream);
    if (bias.empty()) bias = cuda::Buffer<std::int32_t>(code_tiles * code_tile_rows, stream);
  } else if (space.form != codes::Form::none && space.dtype != Dtype::f32) {
    floats = cuda::Buffer<float>(capacity * space.dim, stream);
  }
  stream.synchronize();  // other streams use the memory from here on
}

void Shard::code_anew(const CudaChoice& choice) {
  const cuda::DeviceGuard guard(device);
  make_room(choice);
  encode(data, stride, rows, stream);
}

std::uint64_t Shard::bytes() const {
  return own_rows.bytes() + mean.bytes() + map.bytes() + codes.bytes() + fine.bytes() + bias.bytes() +
         maxima.bytes() + floats.bytes() + special.bytes() + counts.bytes();
}

cuda::RowCodes Shard::row_codes() const {
  cuda::RowCodes out;
  out.codes = codes.data();
  out.bias = bias.data();
  out.fine = fine.data();
  out.largest_residual = maxima.data();
  out.largest = maxima.data() + 1;
  out.floats = floats.data();
  out.special = special.data();
  out.special_room = static_cast<std::uint32_t>(std::min<std::int64_t>(special.size(), 0xffffffff));
  out.counts = counts.data();
  return out;
}

void Shard::begin(std::int64_t count, cudaStream_t on) {
  rows = count;
  KITH_CUDA(cudaMemsetAsync(maxima.data(), 0, maxima.bytes(), on));
  KITH_CUDA(cudaMemsetAsync(counts.data(), 0, counts.bytes(), on));
}

void Shard::encode_piece(const void* piece_rows, std::int64_t row_stride, std::int64_t first,
                         std::int64_t count, cudaStream_t on) {
  // The kernel numbers rows from the start of the shard: the pointer is moved back accordingly.
  const auto* start = static_cast<const char*>(piece_rows) -
                      first * row_stride * static_cast<std::int64_t>(size_of(space.dtype));
  const std::int64_t whole = (rows + code_tile_rows - 1) / code_tile_rows * code_tile_rows;
  const std::int64_t padded = space.tiled() && first + count == rows ? whole - first : count;
  cuda::RowCodes out = row_codes();
  cuda::Buffer<double> coordinates;
  if (space.map != nullptr) {
    const std::int64_t at_once = coded_at_once(space.map_width, padded);
    coordinates = cuda::Buffer<double>(cuda::Coordinates::doubles(at_once, space.map_width), on);
    out.coordinates = cuda::Coordinates::in(coordinates.data(), at_once, space.map_width);
  }
  cuda::encode_rows(start, row_stride, first, padded, rows, space, out, on);
}

void Shard::finish(cudaStream_t on) {
  unsigned long long seen[2] = {};
  KITH_CUDA(cudaMemcpyAsync(seen, counts.data(), sizeof seen, cudaMemcpyDeviceToHost, on));
  KITH_CUDA(cudaStreamSynchronize(on));
  nan_rows = static_cast<std::int64_t>(seen[0]);
  special_rows = static_cast<std::int64_t>(seen[1]);
}

void Shard::encode(const void* device_rows, std::int64_t row_stride, std::int64_t count, cudaStream_t on) {
  begin(count, on);
  encode_piece(device_rows, row_stride, 0, count, on);
  finish(on);
}

std::int64_t Shard::tiles() const {
  const std::int64_t size = space.tiled() ? code_tile_rows : tuning::float_tile_rows;
  return (rows + size - 1) / size;
}

bool Shard::filtered() const {
  return space.form != codes::Form::none && special_rows <= special.size();
}

const float* Shard::float_rows() const {
  return floats.empty() ? static_cast<const float*>(data) : floats.data();
}
std::int64_t Shard::float_stride() const {
  return floats.empty() ? stride : space.dim;
}

}  // namespace kith::brute_force
