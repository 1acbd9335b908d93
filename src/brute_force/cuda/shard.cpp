// Rows of a shard and their codes.
#include "brute_force/cuda/shard.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "brute_force/cuda/tuning.hpp"
#include "kith/error.hpp"

namespace kith::brute_force {

using cuda::code_tile_rows;

namespace {

// Rows, whole tiles of them, whose coordinates along directions are kept at once.
std::int64_t coded_at_once(std::int64_t map_width, std::int64_t rows) {
  const auto fit = static_cast<std::int64_t>(tuning::coordinate_bytes /
                                             (static_cast<std::uint64_t>(map_width + 1) * sizeof(double)));
  return (std::min(fit, rows) + code_tile_rows - 1) / code_tile_rows * code_tile_rows;
}

// Rows whose points pass by at once, and rows whose codes are made at once, whole tiles of them.
constexpr std::int64_t bytes_at_once = std::int64_t{64} << 20;
std::int64_t rows_compared_at_once(std::int64_t width, std::int64_t rows) {
  return std::min(rows, std::max<std::int64_t>(1024, bytes_at_once / (width * 4)));
}
std::int64_t rows_gathered_at_once(std::int64_t row_bytes, std::int64_t rows) {
  return std::min(rows,
                  std::max<std::int64_t>(1, bytes_at_once / row_bytes / code_tile_rows) * code_tile_rows);
}

}  // namespace

std::uint64_t lists_bytes(std::int64_t dim, std::int64_t rows, std::int64_t count) {
  const std::int64_t width = cuda::ball_stride(dim);
  // Nearest lists and two pairs of arrays to sort, and what a sort takes, some 8 bytes a row.
  const std::int64_t passing = rows_compared_at_once(width, rows) * width * 4 + rows * (8 + 16 + 8);
  return static_cast<std::uint64_t>(count * (width * 4 + 8) + rows * 5 + passing + bytes_at_once) +
         tuning::coordinate_bytes + (1U << 20U);
}

std::uint64_t directions_bytes(const CudaChoice& choice, std::int64_t dim, std::int64_t rows) {
  if (choice.projection == nullptr) return 0;
  const std::int64_t width = cuda::map_width(choice.directions());
  return static_cast<std::uint64_t>(cuda::map_rows(dim) * width +
                                    cuda::Coordinates::doubles(coded_at_once(width, rows), width)) *
         sizeof(double);
}

Shard::Shard(int device_ordinal, const CudaChoice& choice, const DatasetView& shape, Metric metric,
             std::int64_t most_rows, const tuning::Policy& costs)
    : device(device_ordinal), policy(costs), capacity(most_rows) {
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
  lists = {};  // of the space of before
  short_codes = nullptr;
  make_room(choice);
  encode(data, stride, rows, stream);
}

std::unique_ptr<Shard> Shard::coded_by(const CudaChoice& choice) const {
  const cuda::DeviceGuard guard(device);
  const DatasetView shape(data, space.dtype, rows, space.dim, stride);
  auto other = std::make_unique<Shard>(device, choice, shape, space.metric, rows, policy);
  other->base = base;
  other->data = data;
  other->stride = stride;
  other->encode(data, stride, rows, other->stream);
  return other;
}

void Shard::divide(const std::vector<float>& centres, const Execution& execution) {
  if (rows == 0 || centres.empty()) return;
  const cuda::DeviceGuard guard(device);
  const std::int64_t width = cuda::ball_stride(space.dim);
  const std::int64_t row_bytes = stride * static_cast<std::int64_t>(size_of(space.dtype));
  ShardLists its;
  its.count = std::ssize(centres) / space.dim;
  std::vector<float> padded(static_cast<std::size_t>(its.count * width), 0.0F);
  for (std::int64_t list = 0; list < its.count; ++list) {
    for (std::int64_t i = 0; i < space.dim; ++i) {
      const float value = centres[static_cast<std::size_t>(list * space.dim + i)];
      constexpr float most = cuda::largest_centre_entry;
      // Any values will do.
      padded[static_cast<std::size_t>(list * width + i)] =
          std::isfinite(value) ? std::clamp(value, -most, most) : 0;
    }
  }
  its.centres = cuda::Buffer<float>(its.count * width, stream);
  KITH_CUDA(cudaMemcpyAsync(its.centres.data(), padded.data(), its.centres.bytes(), cudaMemcpyHostToDevice,
                            stream));
  its.radii = cuda::Buffer<float>(its.count, stream);
  KITH_CUDA(cudaMemsetAsync(its.radii.data(), 0, its.radii.bytes(), stream));
  its.first = cuda::Buffer<std::uint32_t>(its.count + 1, stream);
  its.tile_lists = cuda::Buffer<std::uint32_t>(2 * tiles(), stream);
  its.order = cuda::Buffer<std::uint32_t>(tiles() * code_tile_rows, stream);
  const cuda::ListBalls balls = its.balls(space.dim);

  const cuda::Buffer<std::uint64_t> nearest(rows, stream);
  const std::int64_t at_once = rows_compared_at_once(width, rows);
  const cuda::Buffer<float> points(at_once * width, stream);
  for (std::int64_t at = 0; at < rows; at += at_once) {
    if (execution.cancelled && execution.cancelled())
      throw Cancelled("stopped because the caller asked to; nothing was produced");
    const std::int64_t count = std::min(at_once, rows - at);
    cuda::place_in_space(static_cast<const char*>(data) + at * row_bytes, stride, count, space, points.data(),
                         nullptr, stream);
    cuda::compare_with_centres(points.data(), nullptr, count, balls, nearest.data() + at, nullptr, stream);
  }
  cuda::measure_radii(data, stride, rows, space, nearest.data(), balls, its.radii.data(), stream);
  const cuda::Buffer<std::uint32_t> unsorted_keys(rows, stream);
  const cuda::Buffer<std::uint32_t> unsorted(rows, stream);
  const cuda::Buffer<std::uint32_t> keys(rows, stream);
  const cuda::Buffer<std::uint32_t> sequence(rows, stream);
  const auto sort = [&](void* scratch, std::size_t bytes) {
    return cuda::order_by_list(nearest.data(), rows, its.count, unsorted_keys.data(), unsorted.data(),
                               keys.data(), sequence.data(), scratch, bytes, stream);
  };
  const std::size_t bytes = sort(nullptr, 0);
  const cuda::Buffer<unsigned char> scratch(static_cast<std::int64_t>(bytes), stream);
  sort(scratch.data(), bytes);
  cuda::begins_of_lists(keys.data(), rows, its.count, its.first.data(), stream);
  cuda::fill_tiles(sequence.data(), keys.data(), rows, tiles(), its.order.data(), its.tile_lists.data(),
                   stream);
  lists = std::move(its);
  encode_in_order();
}

void Shard::undivide() {
  if (lists.count == 0) return;
  const cuda::DeviceGuard guard(device);
  lists = {};
  encode(data, stride, rows, stream);
}

void Shard::encode_in_order() {
  const auto row_bytes = space.dim * static_cast<std::int64_t>(size_of(space.dtype));
  const std::int64_t at_once = rows_gathered_at_once(row_bytes, rows);
  const cuda::Buffer<unsigned char> gathered(at_once * row_bytes, stream);
  begin(rows, stream);
  for (std::int64_t at = 0; at < rows; at += at_once) {
    const std::int64_t count = std::min(at_once, rows - at);
    cuda::gather_rows(data, stride * static_cast<std::int64_t>(size_of(space.dtype)), row_bytes,
                      lists.order.data() + at, count, gathered.data(), stream);
    encode_piece(gathered.data(), space.dim, at, count, stream);
  }
  finish(stream);
}

std::uint64_t Shard::bytes() const {
  return own_rows.bytes() + mean.bytes() + map.bytes() + codes.bytes() + fine.bytes() + bias.bytes() +
         maxima.bytes() + floats.bytes() + special.bytes() + counts.bytes() + lists.bytes() +
         (short_codes == nullptr ? 0 : short_codes->bytes());
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
  out.order = lists.order.data();
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
