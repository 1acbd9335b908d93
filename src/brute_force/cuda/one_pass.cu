// One look at every pair, without a bound to begin with: each query's rows are dealt into lists, and of each
// list the nearest row by the filter's estimate is kept, with the estimate of the second. A few hundred lists
// suffice for small k: with the exact distances of the first entries as a bound, hardly any list has a second
// entry within it, and those that have are looked through again (rerank_lists). So a search is three launches
// that follow each other, where stages with ever tighter bounds are nine or more: the way for searches whose
// time is launches.
//
// A pair costs a few instructions more than in a stage, since two values are carried along.
#include <algorithm>

#include "brute_force/cuda/scan.cuh"
#include "cuda/launch.hpp"

namespace kith::brute_force::cuda {

bool packed_rows(const CodeSpace& space, const float* rows, std::int64_t stride) {
  return space.dim < 4 && stride == space.dim && reinterpret_cast<std::uintptr_t>(rows) % 16 == 0;
}

ListShape scan_shape(const CodeSpace& space, std::int64_t rows, std::int64_t looked, std::int64_t queries,
                     bool packed, int device) {
  ListShape shape;
  shape.rows = rows;
  shape.tiles = (rows + code_tile_rows - 1) / code_tile_rows;
  shape.looked = (looked + code_tile_rows - 1) / code_tile_rows;
  const std::int64_t places = processors(device);
  if (queries <= few_queries) {
    // As many blocks as hide the latency of memory and find room; no more than there are rows for, each
    // thread's first ones. A place is left for the block beside the scan.
    std::int64_t at_once = 4;
    std::int64_t block_rows = 2048;
    if (space.int8()) {
      const std::size_t bytes = few_code_bytes(space.shape, queries == 1 ? 1 : few_queries) + 1024;
      const auto fit = static_cast<std::int64_t>(static_cast<std::size_t>(shared_limit(device)) / bytes);
      at_once = std::clamp<std::int64_t>(fit, 1, few_code_blocks);
      block_rows = few_code_threads * few_ring;
    }
    const std::int64_t blocks =
        std::min({places * at_once - 1, std::int64_t{most_few_blocks}, (rows + block_rows - 1) / block_rows});
    if (space.int8()) {
      shape.kind = ListShape::Kind::positions;
      shape.group = few_code_group;
      shape.lists = blocks * (few_code_threads / few_code_group);
    } else {
      shape.kind = ListShape::Kind::strided;
      shape.group = few_threads * (packed ? few_packed : 1);
      shape.lists = blocks;
    }
    const std::int64_t of = space.int8() ? shape.tiles * code_tile_rows : rows;
    const std::int64_t round = shape.lists * shape.group;
    shape.length = (of + round - 1) / round * shape.group;
    return shape;
  }
  const std::int64_t query_tiles = (queries + many_threads - 1) / many_threads;
  static_assert(many_threads == scan_query_tile);
  // Four blocks a processor, none much longer than the others, and enough lists for the largest k.
  const std::int64_t slices = (places * 4 + query_tiles - 1) / query_tiles;
  if (space.int8()) {
    shape.kind = ListShape::Kind::quarters;
    const std::int64_t most = slices < 32 ? 32 : slices;
    shape.slice = (shape.looked + most - 1) / most;
    shape.lists = 4 * ((shape.looked + shape.slice - 1) / shape.slice);
    shape.length = shape.slice * 64;
  } else {
    const std::int64_t most = slices < 64 ? 64 : slices;
    shape.length = (looked + most - 1) / most;
    shape.lists = (looked + shape.length - 1) / shape.length;
  }
  return shape;
}

bool scan_codes_queries(const CodeSpace& space, const ListShape& shape) {
  // float64 values do not fit float32, the step of an inner product's query is its own, and coordinates along
  // directions take a block a query: encoded apart.
  if (!space.int8()) return space.dtype != Dtype::f64;
  return shape.kind == ListShape::Kind::quarters && space.form != codes::Form::cauchy && space.map == nullptr;
}

void scan_rows(const Scan& s, int device, cudaStream_t stream) {
  if (s.count <= 0) return;
  if (s.space.int8()) {
    scan_code_rows(s, device, stream);
  } else {
    scan_float_rows(s, device, stream);
  }
}

}  // namespace kith::brute_force::cuda
