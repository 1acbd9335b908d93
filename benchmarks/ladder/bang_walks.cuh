// What the rungs of BANG have in common: the arrays of a batch of walks, and a call a kernel.
#pragma once

#include <cstdint>

#include "bang_parts.hpp"
#include "gpu.cuh"
#include "graph_case.hpp"

namespace kith::ladder::bang {

/// What an ablation turns off.
struct Switches {
  bool exact = false;          ///< distances of full rows in place of codes
  bool bloom = true;           ///< off: a row that was met is met again
  bool atomic_add = false;     ///< in place of sums by shuffles
  bool prefetch = true;        ///< off: the next row is known when the merge is done
  bool async = true;           ///< off: the host waits for every copy
  bool one_size = false;       ///< every kernel's blocks have as many threads
  std::int64_t subspaces = 0;  ///< bytes a code; 0: default_subspaces()
};

/// Threads of a block of each kernel, multiples of 32. A step has up to `degree` neighbours, eight threads
/// each for their distances, one for all else.
struct BlockSizes {
  int table = 256, filter = 64, measure = 256, choose = 32, sort = 64, merge = 128, select = 128;
};
inline constexpr int only_size = 256;

struct Walks;  // bang_kernels.cuh

/// Walks of as many queries at once as memory takes. T: the element type of the rows, float or std::uint8_t.
template <class T>
class BatchOfWalks {
 public:
  /// @param point of all rows on the device; used where distances are exact @param more_a_query bytes that
  ///   the rung takes besides for each query of a batch
  BatchOfWalks(const Gpu& gpu, const Problem& problem, const Switches& switches, const T* point,
               std::int64_t more_a_query);

  std::int64_t at_once() const { return at_once_; }
  int most_steps() const { return most_steps_; }
  const std::uint32_t* next() const { return next_.data(); }  ///< on the device: the rows to expand

  /// Empty worklists, empty filters, the queries' tables; the entry is the first neighbour.
  void begin(std::int64_t first, std::int64_t queries);
  /// As filter_neighbors().
  void filter(const std::uint32_t* lists, const std::uint32_t* rows);
  void measure();
  /// By the switch: before sort() and merge(), or after them.
  void choose(int step);
  void sort();
  void merge();
  /// Whether any walk goes on after the last choose(). Waits for the GPU.
  bool any_goes_on();

  /// Re-ranking of what was expanded in so many steps. @param point all rows, on the device
  void rerank(const T* point, int steps);
  /// The same for one step, whose vectors are those of `next`, [queries, dim]; on a stream that comes after
  /// choose(step).
  void rerank_arrived(const T* vectors, int step, cudaStream_t stream);
  /// The k nearest of those, or of the worklists where these are exact.
  void answer(int steps, Neighbor* nearest);
  /// Says in how many batches the queries went, and how many steps were not enough.
  void tell(bool stopped, Run& run) const;

 private:
  Walks walks() const;

  const Gpu& gpu_;
  const Problem& problem_;
  const Switches switches_;
  const T* point_;
  BlockSizes sizes_;
  int list_size_, degree_, dim_, subspaces_ = 0, most_steps_;
  std::int64_t at_once_, first_ = 0, queries_ = 0;

  cuda::Buffer<float> query_, mean_, centroid_, table_;
  cuda::Buffer<int> starts_, size_, count_, any_;
  cuda::Buffer<std::uint8_t> code_;
  cuda::Buffer<Key> list_, key_, exact_;
  cuda::Buffer<std::uint32_t> fresh_, next_, bloom_, candidates_;
  cuda::PinnedBuffer<int> any_here_{1};
};

/// Rung 43 and what is left of it without some part; rung 44.
Answer search_in_memory(const Problem& problem, Run& run, const Switches& switches);
/// Rung 42, and the same.
Answer search_base(const Problem& problem, Run& run, const Switches& switches);

}  // namespace kith::ladder::bang
