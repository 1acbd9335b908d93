// A shard: rows of a dataset on one device, and the workspaces of searches there.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "brute_force/cuda/choice.hpp"
#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/partition.hpp"
#include "codes/cuda/codes.hpp"
#include "cuda/runtime.hpp"
#include "cuda/upload.hpp"
#include "cuda/workspace_pool.hpp"

namespace kith::brute_force {

/// What a search by lists needs beside.
struct ListWorkspace {
  cuda::Buffer<float> points, off, least;
  cuda::Buffer<std::uint64_t> nearest;
  cuda::Buffer<std::uint32_t> unsorted_keys, unsorted, keys, ids, visits, visit_counts;
  cuda::Buffer<unsigned char> scratch, queries, distances;
  cuda::Buffer<std::int64_t> indices;
};

/// Queries in the order of their thresholds, as cuda::order_by_thresholds wants it.
struct OrderWorkspace {
  cuda::Buffer<std::uint32_t> unsorted_keys, unsorted, keys, sorted, order;
  cuda::Buffer<std::uint8_t> codes;
  cuda::Buffer<unsigned char> scratch;
};

/// Everything one search needs on one device; reused by the next one.
struct Workspace {
  explicit Workspace(int device_ordinal) : device(device_ordinal) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  /// After a failure or a cancel kernels may still be on their way, into memory that is freed next.
  ~Workspace() {
    if (!cuda::driver_lost()) (void)cudaStreamSynchronize(stream);
  }
  int device;
  cuda::Stream stream;
  cuda::Uploader uploader;
  cuda::Buffer<unsigned char> queries, query_codes, lists, distances, best, scratch, partial;
  cuda::Buffer<double> values, coordinates;
  cuda::Buffer<float> floats;
  cuda::Buffer<std::int16_t> fine;
  cuda::Buffer<cuda::QueryScalars> scalars;
  cuda::Buffer<cuda::QueryBound> bounds;
  cuda::Buffer<std::uint64_t> candidates, first, part_first;
  cuda::Buffer<std::uint32_t> counts, exact_ids, arrived, heavy, second, part_second;
  cuda::Buffer<std::uint8_t> overflow;
  cuda::Buffer<unsigned long long> counters, totals;
  cuda::Buffer<std::int64_t> indices[3];
  cuda::Buffer<unsigned char> answers[3];
  cuda::PinnedBuffer<unsigned long long> seen;
  cuda::Event counted;  ///< queries off the directions are in `seen`
  ListWorkspace by_lists;
  OrderWorkspace by_thresholds;
  unsigned long long ticket = 0;  ///< of the last search without stages
};

/// Rows of a shard in lists; none where `count` is 0.
struct ShardLists {
  std::int64_t count = 0;
  cuda::Buffer<float> centres, radii;
  cuda::Buffer<std::uint32_t> first, tile_lists;  ///< as in cuda::ListBalls
  cuda::Buffer<std::uint32_t> order;              ///< the row in a place of the tiles, numbered by row_of
  double visited = 0;                             ///< rows that a query cannot leave out, on average

  cuda::ListBalls balls(std::int64_t dim) const {
    return {count, cuda::ball_stride(dim), centres.data(), radii.data(), first.data(), tile_lists.data()};
  }
  std::uint64_t bytes() const {
    return centres.bytes() + radii.bytes() + first.bytes() + tile_lists.bytes() + order.bytes();
  }
};

/// Rows [base, base + rows) of the dataset on one device: the rows, their codes, what a filter cannot speak
/// of.
struct Shard {
  Shard(int device_ordinal, const CudaChoice& choice, const DatasetView& shape, Metric metric,
        std::int64_t most_rows, const tuning::Policy& costs);

  /// Encodes the rows that lie at `device_rows` (stride in elements); waits for the result.
  void encode(const void* device_rows, std::int64_t row_stride, std::int64_t count, cudaStream_t on);
  /// The same for a piece [first, first + count) of shard rows, without waiting; begin() before, finish()
  /// after.
  void begin(std::int64_t count, cudaStream_t on);
  void encode_piece(const void* piece_rows, std::int64_t row_stride, std::int64_t first, std::int64_t count,
                    cudaStream_t on);
  void finish(cudaStream_t on);
  /// The same rows with other codes, in no lists.
  void code_anew(const CudaChoice& choice);
  /// Another shard that reads these rows where they are. @throws OutOfMemory
  std::unique_ptr<Shard> coded_by(const CudaChoice& choice) const;
  /// Divides rows that lie on the device into lists around these centres (in the space of the codes, [lists,
  /// dim]), and encodes them in the order of the lists. Nothing happens where there are no rows.
  void divide(const std::vector<float>& centres, const Execution& execution);
  /// In the order of their numbers again.
  void undivide();

  std::uint64_t bytes() const;

  int device;
  tuning::Policy policy;  ///< by which searches of it are planned
  std::int64_t base = 0;
  std::int64_t rows = 0;
  std::int64_t capacity;
  cuda::Stream stream;
  cuda::Buffer<unsigned char> own_rows;
  const void* data = nullptr;  ///< what the exact stage reads: device memory, or mapped host memory
  std::int64_t stride = 0;
  cuda::CodeSpace space;
  cuda::Buffer<double> mean, map;
  cuda::Buffer<std::uint8_t> codes;
  cuda::Buffer<std::int16_t> fine;
  cuda::Buffer<std::int32_t> bias;
  cuda::Buffer<float> maxima;  ///< float32 residual; behind it RowCodes::largest
  cuda::Buffer<float> floats;
  cuda::Buffer<std::uint32_t> special;
  cuda::Buffer<unsigned long long> counts;
  std::int64_t nan_rows = 0;
  std::int64_t special_rows = 0;
  double surplus = 1;  ///< how many times more rows the filter keeps than one without error would
  std::unique_ptr<Shard> short_codes;  ///< of these rows, for few queries (short_codes.cpp); or null
  cuda::WorkspacePool<Workspace> workspaces;

  std::int64_t tiles() const;  ///< of the filter's size
  bool filtered() const;       ///< false: every query is evaluated exactly
  cuda::RowCodes row_codes() const;
  /// The rows as the float32 filter reads them.
  const float* float_rows() const;
  std::int64_t float_stride() const;
  ShardLists lists;

 private:
  void encode_in_order();
  // Memory for codes of that choice.
  void make_room(const CudaChoice& choice);
  void place_map(const CudaChoice& choice);
};

/// Bytes of the coordinates of `rows` rows along directions, as many as are encoded at once, and of the map.
std::uint64_t directions_bytes(const CudaChoice& choice, std::int64_t dim, std::int64_t rows);

/// Bytes that `count` lists of `rows` rows take of a device, at the peak of making them.
std::uint64_t lists_bytes(std::int64_t dim, std::int64_t rows, std::int64_t count);

/// Queries on the device in the order of their nearest lists; what they are known by lies in the workspace.
cuda::ListedQueries order_queries(const Shard& shard, Workspace& workspace, const void* queries,
                                  std::int64_t stride, std::int64_t count);

/// Few queries by codes of their own (Shard::short_codes). False: some query is not answered by them.
template <class R>
bool search_by_short_codes(Shard& short_codes, Workspace& workspace, const void* queries,
                           std::int64_t query_stride, std::int64_t count, std::int64_t k,
                           std::int64_t* indices, R* distances, const Execution& execution,
                           std::uint64_t budget, SearchStatistics& statistics);

/// Searches one shard. Queries and answers lie on its device; `best` (or null) are distances known to bound
/// the answers. Counters are added to `statistics`. With `mind_rests` OffDirections may be thrown (plan.hpp).
template <class R>
void search_shard(Shard& shard, Workspace& workspace, const void* queries, std::int64_t query_stride,
                  std::int64_t count, std::int64_t k, const R* best, std::int64_t* indices, R* distances,
                  const Execution& execution, std::uint64_t budget, bool mind_rests,
                  SearchStatistics& statistics);

}  // namespace kith::brute_force
