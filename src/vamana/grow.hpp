// A graph's growth: in which order nodes come in, in batches of how many, from which entries; what is done
// with a batch is the machine's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/parallel.hpp"
#include "kith/execution.hpp"
#include "kith/vamana.hpp"
#include "vamana/graph.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana {

/// Nodes that are inserted at once, at most.
inline std::int64_t largest_batch(std::int64_t nodes) {
  constexpr std::int64_t least = 64;
  return std::max(least, static_cast<std::int64_t>(static_cast<double>(nodes) * tuning::batch_share));
}

/// Places for a node's edges while the graph grows.
inline std::int64_t build_stride(std::int64_t max_degree) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(max_degree) * tuning::slack));
}

/// alpha^2 in units of 2^-16: squared distances are compared as integers.
inline std::int64_t fixed_alpha(double alpha) {
  return std::llround(alpha * alpha * 65536);
}

inline std::int64_t degree_of(const std::uint32_t* edges, std::int64_t stride) {
  return std::find(edges, edges + stride, no_node) - edges;
}

/// What is built, and how.
struct Growth {
  const Nodes& nodes;
  const codes::ScalarSpace& space;
  const VamanaParameters& parameters;
  const Execution& execution;
  ProgressCounter& progress;
  StopRequest& stop;
};

/// A machine that builds: the CPU or a GPU. Each step is a function of what it is given, the same bits on
/// every machine.
class BuildMachine {
 public:
  BuildMachine() = default;
  BuildMachine(const BuildMachine&) = delete;
  BuildMachine& operator=(const BuildMachine&) = delete;
  virtual ~BuildMachine() = default;

  /// Begins with the nodes and edges of a finished graph, which may have none.
  virtual void begin(const Graph& old) = 0;
  /// Where the node of `order`, which ascends, is that is nearest to the mean of them all.
  virtual std::size_t medoid(std::span<const std::uint32_t> order) = 0;
  /// Nodes that are not in the graph yet are found a place in it, all at once, as it was before; then the
  /// edges back to them are added.
  virtual void insert(std::span<const std::uint32_t> nodes, std::span<const std::uint32_t> entries,
                      std::int64_t list_size) = 0;
  /// The graph as it is now, its nodes pruned to max_degree edges. The machine's own stays as it is.
  virtual void finish(Graph& graph) = 0;
  /// Sets the flags of what can be reached from the entries of the graph that finish() gave last.
  virtual void mark_reached(const Graph& graph, std::vector<std::uint8_t>& reached) = 0;
};

/// A machine for one growth, which outlives it.
using MakeMachine = std::function<std::unique_ptr<BuildMachine>(const Growth& growth)>;

/// Backend::grow on a machine.
Graph grow_on(const MakeMachine& make_machine, const Graph& old, const Nodes& nodes,
              const codes::ScalarSpace& space, const VamanaParameters& parameters,
              const std::vector<std::uint32_t>& added, const std::vector<std::uint32_t>& waiting,
              const Look& look, const Execution& execution);

/// Marks what can be reached from the nodes in `front`, which are marked; `front` is empty afterwards.
void spread(const Graph& graph, std::vector<std::uint8_t>& reached, std::vector<std::uint32_t>& front,
            StopRequest& stop);

}  // namespace kith::vamana
