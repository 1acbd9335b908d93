// A walk through the graph: greedy search with a list (Subramanya et al. 2019), on estimates.
//
// What it finds is a function of graph, codes, entries, list size, beam width and query alone. The list holds
// the smallest pairs (estimate, node) met so far; a node that was dropped cannot come back, for the list only
// improves, and one in the list is met again by its number. So the table of nodes already visited saves
// work and decides nothing: it may forget, and its size does not matter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "codes/scalar.hpp"
#include "core/parallel.hpp"
#include "vamana/graph.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana {

/// (estimate, node, expanded), in this order of significance, in one number. Estimates have 31 bits.
using Key = std::uint64_t;
constexpr Key make_key(std::int32_t estimate, std::uint32_t node) {
  return static_cast<Key>(static_cast<std::uint32_t>(estimate)) << 33U | static_cast<Key>(node) << 1U;
}
constexpr std::uint32_t node_of(Key key) {
  return static_cast<std::uint32_t>(key >> 1U);
}
constexpr std::int32_t estimate_of(Key key) {
  return static_cast<std::int32_t>(key >> 33U);
}
constexpr Key expanded = 1;

/// What is walked: a graph, finished or growing, of rows of edges `stride` apart.
struct WalkedGraph {
  const std::uint32_t* edges;
  std::int64_t stride;
  const std::uint8_t* codes;
  std::int64_t code_bytes;
  std::span<const std::uint32_t> entries;
};

/// Scratch space of one thread.
class Walk {
 public:
  struct Counters {
    std::int64_t hops = 0;       ///< nodes expanded
    std::int64_t distances = 0;  ///< estimates evaluated
  };

  explicit Walk(const WalkedGraph& graph)
      : graph_(graph), kernels_(estimate_kernels()), stride_(static_cast<std::size_t>(graph.stride)) {}

  /// The list, ascending, every entry expanded; valid until the next run. `left_out` is never entered.
  /// @param seen where not null: every node expanded is appended to it
  /// @throws what `stop` throws
  std::span<const Key> run(const std::uint8_t* query, std::int64_t list_size, std::int64_t beam_width,
                           std::uint32_t left_out, StopRequest& stop, Counters& counters,
                           std::vector<Key>* seen = nullptr);

  /// Bytes it takes at most.
  static std::uint64_t bytes(std::int64_t list_size, std::int64_t beam_width, std::int64_t degree);

 private:
  static std::int64_t table_size(std::int64_t list_size);
  void offer(Key key);
  void evaluate_found(const std::uint8_t* query, Counters& counters);

  // Takes the neighbours of a node that were not visited yet.
  void gather(const std::uint32_t* neighbors, std::int64_t count, std::uint32_t left_out) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t node = neighbors[i];
      if (node == no_node) return;
      std::uint32_t& visited = table_[(node * 0x9E3779B1U) >> shift_];
      if (visited == node || node == left_out) continue;
      visited = node;
      found_[found_count_++] = node;
    }
  }

  WalkedGraph graph_;
  const EstimateKernels& kernels_;
  std::size_t stride_;
  std::vector<Key> list_;
  std::size_t size_ = 0;      // entries of list_ in use
  std::size_t capacity_ = 0;  // list size of this run
  std::size_t next_ = 0;      // no entry before it is unexpanded
  std::vector<std::uint32_t> table_;
  unsigned shift_ = 32;
  std::vector<std::uint32_t> found_;
  std::vector<std::int32_t> estimates_;
  std::size_t found_count_ = 0;
};

}  // namespace kith::vamana
