// Builds the graph on the CPU: threads take parts of a batch, and walk and prune for its nodes.
#include "vamana/cpu/build.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <vector>

#include "core/parallel.hpp"
#include "core/parallel_sort.hpp"
#include "vamana/cpu/prune.hpp"
#include "vamana/cpu/walk.hpp"
#include "vamana/grow.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana {
namespace {

class CpuMachine : public BuildMachine {
 public:
  explicit CpuMachine(const Growth& growth)
      : growth_(growth),
        nodes_(growth.nodes),
        code_bytes_(growth.space.code_bytes()),
        estimates_(codes::estimates_of(growth.space)),
        threads_(resolve_threads(growth.execution)),
        stride_(build_stride(growth.parameters.max_degree)) {}

  // Nodes keep their edges but where they overflow.
  void begin(const Graph& old) override {
    edges_ = AlignedBuffer<std::uint32_t>(nodes_.count * stride_);
    in_parts(edges_.size(), std::int64_t{1} << 22U, [&](std::int64_t first, std::int64_t last) {
      std::fill(edges_.data() + first, edges_.data() + last, no_node);
    });
    constexpr std::int64_t part = 4096;
    in_parts(old.nodes, part, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) std::copy_n(old.of(i), old.max_degree, edges(i));
    });
  }

  // Sums of integers, whatever their order.
  std::size_t medoid(std::span<const std::uint32_t> order) override {
    const auto count_of_all = static_cast<std::int64_t>(order.size());
    constexpr std::int64_t part = 4096;
    const auto bytes = static_cast<std::size_t>(code_bytes_);
    const bool halves = growth_.space.bits == 4;
    std::vector<std::int64_t> sums(2 * bytes, 0);  // of low halves or whole bytes, then of high halves
    std::mutex mutex;
    in_parts(count_of_all, part, [&](std::int64_t first, std::int64_t last) {
      std::vector<std::int64_t> own(2 * bytes, 0);
      for (std::int64_t i = first; i < last; ++i) {
        const std::uint8_t* its = code(order[static_cast<std::size_t>(i)]);
        for (std::size_t j = 0; j < bytes; ++j) own[j] += halves ? its[j] & 15U : its[j];
        for (std::size_t j = 0; halves && j < bytes; ++j) own[bytes + j] += its[j] >> 4U;
      }
      const std::scoped_lock lock(mutex);
      for (std::size_t j = 0; j < own.size(); ++j) sums[j] += own[j];
    });
    std::vector<std::uint8_t> mean(bytes);
    for (std::size_t j = 0; j < bytes; ++j) {
      const auto rounded = [&](std::int64_t sum) { return (sum + count_of_all / 2) / count_of_all; };
      mean[j] = static_cast<std::uint8_t>(rounded(sums[j]) | rounded(sums[bytes + j]) << 4U);
    }
    Key best = ~Key{0};
    in_parts(count_of_all, part, [&](std::int64_t first, std::int64_t last) {
      const auto count = static_cast<std::size_t>(last - first);
      const std::uint32_t* these = order.data() + first;
      std::vector<std::int32_t> estimates(count);
      estimates_(nodes_.codes.data(), code_bytes_, mean.data(), these, static_cast<std::int64_t>(count),
                 estimates.data());
      Key own = ~Key{0};
      for (std::size_t i = 0; i < count; ++i) own = std::min(own, make_key(estimates[i], these[i]));
      const std::scoped_lock lock(mutex);
      best = std::min(best, own);
    });
    return static_cast<std::size_t>(std::lower_bound(order.begin(), order.end(), node_of(best)) -
                                    order.begin());
  }

  void insert(std::span<const std::uint32_t> added, std::span<const std::uint32_t> entries,
              std::int64_t list_size) override {
    const WalkedGraph graph{edges_.data(), stride_, nodes_.codes.data(), code_bytes_, estimates_, entries};
    in_parts(static_cast<std::int64_t>(added.size()), tuning::rows_a_task,
             [&](std::int64_t first, std::int64_t last) {
               find_neighbors(
                   graph,
                   added.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first)),
                   list_size);
               growth_.progress.advance(last - first);
             });
    add_back_edges(added);
  }

  void finish(Graph& graph) override {
    constexpr std::int64_t part = 256;
    const std::int64_t most = graph.max_degree;
    in_parts(nodes_.count, part, [&](std::int64_t first, std::int64_t last) {
      Pruner pruner = make_pruner();
      for (std::int64_t i = first; i < last; ++i) {
        std::uint32_t* out = graph.edges.data() + i * most;
        const std::int64_t degree = degree_of(edges(i), stride_);
        std::uint32_t* end = out;
        if (degree > most) {
          const auto chosen =
              pruner.prune(static_cast<std::uint32_t>(i), {edges(i), static_cast<std::size_t>(degree)});
          end = std::copy(chosen.begin(), chosen.end(), out);
        } else {
          end = std::copy(edges(i), edges(i) + degree, out);
        }
        std::fill(end, out + most, no_node);
      }
    });
  }

  void mark_reached(const Graph& graph, std::vector<std::uint8_t>& reached) override {
    std::vector<std::uint32_t> front = graph.entries;
    for (const std::uint32_t entry : graph.entries) reached[entry] = 1;
    spread(graph, reached, front, growth_.stop);
  }

 private:
  const std::uint8_t* code(std::int64_t node) const { return nodes_.codes.data() + node * code_bytes_; }
  std::uint32_t* edges(std::int64_t node) { return edges_.data() + node * stride_; }
  Pruner make_pruner() const {
    return {nodes_.codes.data(), code_bytes_, estimates_, growth_.parameters.alpha,
            growth_.parameters.max_degree};
  }

  // Runs body(first, last) over parts of [0, count).
  template <class Body>
  void in_parts(std::int64_t count, std::int64_t part, const Body& body) {
    parallel_for(threads_, (count + part - 1) / part, [&](std::int64_t task) {
      growth_.stop.check();
      body(task * part, std::min(count, (task + 1) * part));
    });
  }

  void find_neighbors(const WalkedGraph& graph, std::span<const std::uint32_t> added,
                      std::int64_t list_size) {
    struct Lane {
      Walk walk;
      std::uint32_t node = no_node;
      std::vector<Key> seen{};
    };
    std::vector<Lane> lanes;
    for (std::int64_t i = 0; i < tuning::walks_side_by_side; ++i) lanes.push_back({Walk(graph)});
    Pruner pruner = make_pruner();
    Walk::Counters counters;
    std::size_t next = 0;
    const auto begin = [&](Lane& lane) {
      if (next == added.size()) return false;
      lane.node = added[next++];
      lane.seen.clear();
      lane.walk.begin({.query = code(lane.node), .list_size = list_size, .seen = &lane.seen});
      return true;
    };
    const auto end = [&](Lane& lane) {
      std::vector<Key>& seen = lane.seen;
      std::sort(seen.begin(), seen.end());
      const auto most = std::min(seen.size(), static_cast<std::size_t>(tuning::most_candidates));
      const auto chosen = pruner.prune(std::span<const Key>(seen.data(), most));
      // No walk of this batch can come here: nothing leads to the node yet.
      std::copy(chosen.begin(), chosen.end(), edges(lane.node));
    };
    walk_side_by_side(std::span(lanes), growth_.stop, counters, begin, end);
  }

  void add_back_edges(std::span<const std::uint32_t> added) {
    back_.clear();  // target above source, so that sorting groups by target
    for (const std::uint32_t node : added) {
      for (const std::uint32_t* target = edges(node); *target != no_node; ++target) {
        back_.push_back(std::uint64_t{*target} << 32U | node);
        if (target + 1 == edges(node) + stride_) break;
      }
    }
    parallel_sort(threads_, back_);
    groups_.clear();
    for (std::size_t i = 0; i < back_.size(); ++i) {
      if (i == 0 || back_[i] >> 32U != back_[i - 1] >> 32U) groups_.push_back(i);
    }
    groups_.push_back(back_.size());
    in_parts(static_cast<std::int64_t>(groups_.size()) - 1, tuning::targets_a_task,
             [&](std::int64_t first, std::int64_t last) {
               Pruner pruner = make_pruner();
               std::vector<std::uint32_t> all;
               for (std::int64_t g = first; g < last; ++g)
                 add_group(static_cast<std::size_t>(g), pruner, all);
             });
  }

  // The edges of one target back to the nodes of a batch.
  void add_group(std::size_t group, Pruner& pruner, std::vector<std::uint32_t>& all) {
    const std::size_t begin = groups_[group];
    const std::size_t end = groups_[group + 1];
    const auto target = static_cast<std::uint32_t>(back_[begin] >> 32U);
    std::uint32_t* its = edges(target);
    const std::int64_t degree = degree_of(its, stride_);
    if (degree + static_cast<std::int64_t>(end - begin) <= stride_) {
      for (std::size_t i = begin; i < end; ++i) {
        its[degree + static_cast<std::int64_t>(i - begin)] = static_cast<std::uint32_t>(back_[i]);
      }
      return;
    }
    all.assign(its, its + degree);
    for (std::size_t i = begin; i < end; ++i) all.push_back(static_cast<std::uint32_t>(back_[i]));
    const auto chosen = pruner.prune(target, all);
    std::fill(std::copy(chosen.begin(), chosen.end(), its), its + stride_, no_node);
  }

  const Growth& growth_;
  const Nodes& nodes_;
  std::int64_t code_bytes_;
  decltype(codes::EstimateKernels::gathered) estimates_;
  int threads_;
  std::int64_t stride_;
  AlignedBuffer<std::uint32_t> edges_;
  std::vector<std::uint64_t> back_;
  std::vector<std::size_t> groups_;
};

}  // namespace

Graph grow_graph(const Graph& graph, const Nodes& nodes, const codes::ScalarSpace& space,
                 const VamanaParameters& parameters, const std::vector<std::uint32_t>& added,
                 const std::vector<std::uint32_t>& waiting, const Look& look, const Execution& execution) {
  return grow_on([](const Growth& growth) { return std::make_unique<CpuMachine>(growth); }, graph, nodes,
                 space, parameters, added, waiting, look, execution);
}

std::uint64_t build_bytes(std::int64_t nodes, const VamanaParameters& parameters, int threads) {
  const auto n = static_cast<std::uint64_t>(nodes);
  const auto degree = static_cast<std::uint64_t>(parameters.max_degree);
  const auto stride = static_cast<std::uint64_t>(build_stride(parameters.max_degree));
  const auto batch = static_cast<std::uint64_t>(std::min(nodes, largest_batch(nodes)));
  // The graph before, the one that grows and the finished one, the order and what is present and reached; the
  // back edges of a batch, and groups of them, in vectors
  // that grow by doubling; lists of the walks and what they saw.
  const std::uint64_t a_thread =
      static_cast<std::uint64_t>(tuning::walks_side_by_side) *
      (Walk::bytes(parameters.build_list_size, 0, 1, build_stride(parameters.max_degree)) +
       static_cast<std::uint64_t>(parameters.build_list_size) * 64);
  return n * (4 * (2 * degree + stride) + 8 + 2) + 2 * batch * degree * 16 +
         static_cast<std::uint64_t>(threads) * a_thread;
}

}  // namespace kith::vamana
