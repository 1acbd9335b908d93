// The kernels that walk a graph on a device and re-rank what they found, as the host calls them.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "codes/cuda/quantized.hpp"
#include "cuda/runtime.hpp"
#include "kith/dtype.hpp"
#include "kith/metric.hpp"
#include "vamana/graph.hpp"
#include "vamana/key.hpp"
#include "vamana/ruled_out.hpp"

namespace kith::vamana::cuda {

using namespace kith::cuda;  // cuda::Buffer in kith::vamana, too

/// Neighbours that a warp evaluates and takes into its list together.
inline constexpr int most_offered = 64;

/// What is walked; pointers of the device, or of host memory that it reads.
struct GraphView {
  const std::uint32_t* edges;
  std::int64_t stride;
  const unsigned char* codes;
  const std::uint32_t* entries;
  int code_bytes;  ///< of scalar codes a multiple of 32, of RaBitQ codes one of 4
  int entry_count;
  /// Of edges in host memory: which nodes have a copy of theirs on the device (hot_nodes.hpp), and that copy;
  /// null: none.
  const uint2* hot = nullptr;
  const std::uint32_t* hot_edges = nullptr;
};

/// Which rows nodes stand for, and which are allowed.
struct NodeRows {
  const std::uint32_t* first;  ///< as in Nodes; null: node i is row i
  const std::uint32_t* rows;
  const unsigned long long* allowed;  ///< words of a RowSet; null: every row
};

/// The sizes of a walk.
struct WalkShape {
  int list_size;  ///< nodes to find, or allowed ones
  int capacity;   ///< of the list: list_size, or more where only allowed nodes count
  int beam_width;
  int table;  ///< entries of the table of visited nodes, a power of two
  bool list_in_shared;
  bool few = false;     ///< walks, of a graph on the device: they prefetch
  int query_bytes = 0;  ///< of the query in shared memory; 0: it is read from the device's
};

/// What walks compare.
enum class Walked : std::uint8_t { int8, int4, rabitq, pq };

/// Walks for queries [0, count) of a batch.
struct WalkJob {
  GraphView graph;
  NodeRows nodes;
  WalkShape shape;
  std::int64_t count;
  /// Queries as they are compared: codes, or of others than scalar ones what codes/cuda/quantized.hpp
  /// prepares.
  const unsigned char* codes;     ///< [count, code_stride]
  std::int64_t code_stride;       ///< in bytes
  const unsigned char* usable;    ///< a flag a query: no NaN
  const std::uint32_t* left_out;  ///< one node a query, or null
  Key* lists;                     ///< [count, capacity]: the list, or its allowed nodes
  unsigned char* marks;  ///< [count, capacity] for allowed nodes where the list is not in shared memory
  std::int32_t* found;   ///< [count]: entries of each list; -1: it was too short for allowed nodes
  unsigned long long* counters;  ///< hops, distances, hops to hot nodes
  unsigned* visits = nullptr;    ///< [nodes]: takes how often walks come to each; null: nobody asks
  codes::cuda::RabitqShape rabitq = {};
  const codes::RabitqQuery* rabitq_queries = nullptr;  ///< [count]
};

/// Picks where the list and the query lie. @param query_bytes of the query, in shared memory always where the
/// codes are scalar
void choose_memory(WalkShape& shape, Walked walked, std::int64_t query_bytes, int device);
void walk(const WalkJob& job, Walked walked, int device, cudaStream_t stream);

/// How near the nodes of the lists may be, as RaBitQ's bound says: estimates less their bounds.
struct BoundJob {
  const unsigned char* node_codes;
  int code_bytes;
  std::int64_t count;
  const unsigned char* codes;  ///< as those of the walks
  std::int64_t code_stride;
  codes::cuda::RabitqShape rabitq;
  const codes::RabitqQuery* rabitq_queries;
  const Key* lists;  ///< [count, list_stride]
  std::int64_t list_stride;
  const std::int32_t* found;
  double* nearest;  ///< [count, list_stride]
};
void bound(const BoundJob& job, cudaStream_t stream);

/// How much of a list is evaluated: as Task::to_evaluate of cpu/search.cpp has it.
struct Depth {
  std::int64_t rerank = 0;  ///< so many nodes; 0: as the codes allow
  bool raw_integers = false;
  std::int64_t factor_depth = 0;  ///< 0: all of the list
};

/// How the last kernel of a search tells the host that it is done, sooner than the driver does.
struct Report {
  unsigned long long* counters;  ///< [size], and behind them the blocks that have ended; all 0 afterwards
  int size;
  unsigned long long* to =
      nullptr;  ///< page-locked: takes the counters, and behind them a 1; null: no report
};

/// Canonical distances of what walks found, and the k nearest of them.
struct RerankJob {
  const void* data;  ///< rows
  Dtype dtype;
  Metric metric;
  std::int64_t stride;  ///< of rows, in elements
  std::int64_t dim;
  NodeRows nodes;
  std::int64_t count;
  const double* queries;  ///< [count, padded]
  std::int64_t padded;
  const double* norms;  ///< [count], for cosine, and inner product where there are bounds
  const Key* lists;     ///< [count, list_stride]
  std::int64_t list_stride;
  const std::int32_t* found;  ///< entries of each list
  Depth depth;
  /// [count, list_stride]: how near each node may be; what is farther than `limit` says of the k-th distance
  /// so far is left out, as Task::rerank of cpu/search.cpp does. Null: there are no bounds.
  const double* nearest;
  RuledOutLimit limit;
  std::int64_t k;               ///< to find: at most as many as there are rows
  std::int64_t out_k;           ///< of the answer, whose rest is padding
  std::int64_t rows_of_a_node;  ///< that may be in an answer
  void* room;                   ///< keys of each query where they do not fit shared memory, room_bytes() each
  std::int64_t* indices;        ///< [count, out_k]
  void* distances;              ///< [count, out_k] float, or double for f64 rows
  unsigned long long* evaluated;
  Report report = {};
};

/// Bytes of device memory that re-ranking takes a query; 0: it has them in shared memory.
std::int64_t room_bytes(Dtype dtype, std::int64_t k);
void rerank(const RerankJob& job, int device, cudaStream_t stream);

/// The transformation of queries into codes: codes::ScalarSpace on a device.
struct SpaceView {
  Dtype dtype;
  Metric metric;
  std::int64_t dim, full_dim, code_dim;
  int code_bytes;
  int bits;
  bool raw_integers;
  double step, largest_norm, unit;
  const double* mean;
  std::int64_t leading;  ///< 0: all values
  const float* map;      ///< [full_dim, leading]
};

/// Queries in all their forms.
struct EncodeJob {
  SpaceView space;
  const void* rows;     ///< [count, stride] of space.dtype
  std::int64_t stride;  ///< in elements
  std::int64_t count;
  double* queries;  ///< [count, padded]: values in float64
  std::int64_t padded;
  double* norms;          ///< [count]: the root of the sum of squares, for cosine and inner_product
  double* values;         ///< [count, full_dim]: scratch; unused for raw integers
  unsigned char* codes;   ///< [count, code_bytes]
  unsigned char* usable;  ///< [count]: 0 for a query with a NaN
  unsigned long long* nan_queries;
  bool values_in_shared = false;  ///< in place of `values`; chosen by encode_queries()
};
void encode_queries(const EncodeJob& job, cudaStream_t stream);

}  // namespace kith::vamana::cuda
