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
    if (space.int8()) {
      // As many blocks as find room; a warp of few rows begins with all of them.
      const auto fit =
          static_cast<std::int64_t>(static_cast<std::size_t>(shared_limit(device)) /
                                    (few_code_bytes(space.shape, queries == 1 ? 1 : few_queries) + 1024));
      // A place is left for the block that goes on with what they find.
      std::int64_t blocks = places * std::clamp<std::int64_t>(fit, 1, few_code_blocks) - 1;
      if (blocks > most_few_blocks) blocks = most_few_blocks;
      const std::int64_t most = (rows + few_code_threads * few_ring - 1) / (few_code_threads * few_ring);
      if (blocks > most) blocks = most;
      shape.kind = ListShape::Kind::positions;
      shape.lists = blocks * (few_code_threads / few_code_group);
      shape.group = few_code_group;
    } else {
      // Four blocks a processor hide the latency of memory; no more than there are rows for.
      // A place is left for the block beside the scan.
      std::int64_t blocks = places * 4 - 1;
      if (blocks > most_few_blocks) blocks = most_few_blocks;
      const std::int64_t most = (rows + 2047) / 2048;
      if (blocks > most) blocks = most;
      shape.kind = ListShape::Kind::strided;
      shape.lists = blocks;
      shape.group = few_threads * (packed ? few_packed : 1);
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
