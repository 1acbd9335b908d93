// Robust prune: which of the nodes near a node become its neighbours.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codes/scalar.hpp"
#include "vamana/cpu/walk.hpp"

namespace kith::vamana {

/// Scratch space of one thread.
class Pruner {
 public:
  Pruner(const std::uint8_t* codes, std::int64_t code_bytes,
         decltype(codes::EstimateKernels::gathered) estimates, double alpha, std::int64_t max_degree);

  /// Robust prune (Subramanya et al. 2019, algorithm 2): from the nearest on, a candidate c becomes a
  /// neighbour of the node unless alpha * d(s, c) <= d(node, c) for a neighbour s chosen before.
  /// @param candidates their keys by the distance from the node, ascending, each once, without the node
  /// itself
  /// @return at most max_degree nodes, nearest first; valid until the next call
  std::span<const std::uint32_t> prune(std::span<const Key> candidates);

  /// The same for candidates in any order, some of them given more than once or the node itself.
  std::span<const std::uint32_t> prune(std::uint32_t node, std::span<const std::uint32_t> candidates);

 private:
  bool covered(Key candidate);

  const std::uint8_t* codes_;
  std::int64_t code_bytes_;
  std::int64_t alpha_;
  std::size_t max_degree_;
  decltype(codes::EstimateKernels::gathered) estimates_;
  std::vector<std::uint32_t> chosen_;
  std::vector<std::int32_t> distances_;
  std::vector<Key> keys_;
};

}  // namespace kith::vamana
