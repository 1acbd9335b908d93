// The steps of a build on a device, as the host calls them.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "cuda/host_device.hpp"
#include "vamana/cuda/kernels.hpp"

namespace kith::vamana::cuda {

/// The graph that grows.
struct BuildView {
  std::uint32_t* edges;  ///< [nodes, stride]
  std::int64_t stride;
  const unsigned char* codes;
  int code_bytes;
  bool four_bits;
  std::int64_t alpha;  ///< fixed_alpha()
  int max_degree;
};

/// Nodes that walk through the graph as it is, and get the edges that a prune of what they have seen leaves.
struct InsertJob {
  BuildView graph;
  const std::uint32_t* entries;
  int entry_count;
  WalkShape shape;
  const std::uint32_t* nodes;  ///< [count]: not in the graph yet
  std::int64_t count;
  Key* seen;                 ///< [count, seen_room]
  std::int32_t* seen_count;  ///< [count]
  Key* lists;                ///< [count, capacity] where the list is not in shared memory
};
inline constexpr int seen_room = 1024;
void insert(const InsertJob& job, int device, cudaStream_t stream);

/// Edges back: target above source in a key, those of node i in [i * max_degree, ...), all ones where it has
/// no more.
void list_back_edges(const BuildView& graph, const std::uint32_t* nodes, std::int64_t count,
                     std::uint64_t* back, unsigned long long* valid, cudaStream_t stream);
std::size_t sort_bytes(std::int64_t count);
/// @return which of the two holds them, ascending
int sort(std::uint64_t* const keys[2], std::int64_t count, void* temporary, std::size_t temporary_bytes,
         cudaStream_t stream);
/// Where the edges of each target begin among ascending ones, and how many targets there are.
std::size_t group_bytes(std::int64_t count);
void group(const std::uint64_t* back, std::int64_t count, std::uint32_t* begins, unsigned* groups,
           void* temporary, std::size_t temporary_bytes, cudaStream_t stream);

/// Targets that get the edges of their groups; those whose place is too small for them are pruned.
struct BackEdgeJob {
  BuildView graph;
  const std::uint64_t* back;
  std::uint32_t valid;  ///< edges of all groups
  const std::uint32_t* begins;
  std::uint32_t groups;  ///< of all
  std::uint32_t first, count;
  Key* room;  ///< room_of() keys, from `first` on
};
/// Keys of room that groups take that begin at `begin` and end at `end` of the back edges.
KITH_HOST_DEVICE constexpr std::int64_t room_of(std::int64_t groups, std::int64_t edges,
                                                std::int64_t stride) {
  return 2 * edges + groups * (2 * stride + 32);
}
void add_back_edges(const BackEdgeJob& job, int device, cudaStream_t stream);

/// Edges of nodes [first, first + count), pruned to max_degree, to out [count, max_degree]; the graph stays.
/// @param room room_of(count, 0, stride) keys
void finish_edges(const BuildView& graph, std::int64_t first, std::int64_t count, std::uint32_t* out,
                  Key* room, int device, cudaStream_t stream);

/// Sums of the codes' bytes over some nodes, [code_bytes]; with halves the sums of low halves, then those of
/// high ones, [2, code_bytes].
void sum_codes(const unsigned char* codes, int code_bytes, bool four_bits, const std::uint32_t* nodes,
               std::int64_t count, unsigned long long* sums, cudaStream_t stream);
/// The least key of some nodes by the distance of a code.
void find_nearest(const unsigned char* codes, int code_bytes, bool four_bits, const unsigned char* code,
                  const std::uint32_t* nodes, std::int64_t count, unsigned long long* least, int device,
                  cudaStream_t stream);

/// Nodes with the nearest of some others above each, in 64 bits: sorted, those that are near each other are
/// side by side.
void assign(const BuildView& graph, const std::uint32_t* nodes, std::int64_t count,
            const std::uint32_t* others, std::int64_t other_count, std::uint64_t* assigned, int device,
            cudaStream_t stream);
/// The nodes of assigned ones, in their order.
void take_assigned(const std::uint64_t* assigned, std::int64_t count, std::uint32_t* nodes,
                   cudaStream_t stream);

/// One step of a search in breadth: nodes that the front's edges lead to and that have no flag get it, and
/// are the next front.
void spread(const std::uint32_t* edges, std::int64_t stride, const std::uint32_t* front, std::uint32_t count,
            unsigned* flags, std::uint32_t* next, unsigned* next_count, cudaStream_t stream);

}  // namespace kith::vamana::cuda
