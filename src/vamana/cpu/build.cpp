// Builds the graph in batches (ParlayANN, Dobson et al. 2023): the nodes of a batch are found a place in the
// graph as it was before it, all at once; then the edges back to them are added, grouped by the node that
// they leave. Batches double until they are 2 % of all nodes. No step depends on the order in which threads
// come to their work, and distances are integers: the graph is the same bits for any number of them.
#include "vamana/cpu/build.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>
#include <vector>

#include "core/parallel.hpp"
#include "core/parallel_sort.hpp"
#include "vamana/cpu/prune.hpp"
#include "vamana/cpu/walk.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana {
namespace {

std::int64_t build_stride(std::int64_t max_degree) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(max_degree) * tuning::slack));
}

std::int64_t largest_batch(std::int64_t nodes) {
  constexpr std::int64_t least = 64;
  return std::max(least, static_cast<std::int64_t>(static_cast<double>(nodes) * tuning::batch_share));
}

std::int64_t entry_count(std::int64_t nodes) {
  return std::min(nodes,
                  std::clamp(nodes / tuning::nodes_an_entry, tuning::fewest_entries, tuning::most_entries));
}

__extension__ typedef unsigned __int128 uint128;

// splitmix64 (Steele et al. 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t bound) {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    z ^= z >> 31U;
    return static_cast<std::uint64_t>((static_cast<uint128>(z) * bound) >> 64U);
  }

 private:
  std::uint64_t state_;
};

std::int64_t degree_of(const std::uint32_t* edges, std::int64_t stride) {
  return std::find(edges, edges + stride, no_node) - edges;
}

class Builder {
 public:
  Builder(const Nodes& nodes, const ScalarSpace& space, const VamanaParameters& parameters,
          const Execution& execution)
      : nodes_(nodes),
        space_(space),
        code_bytes_(space.code_bytes()),
        estimates_(estimates_of(space)),
        parameters_(parameters),
        execution_(execution),
        threads_(resolve_threads(execution)),
        stride_(build_stride(parameters.max_degree)),
        progress_(execution, "build", std::max<std::int64_t>(1, nodes.count)),
        stop_(execution) {}

  Graph build() {
    Graph graph;
    graph.nodes = nodes_.count;
    graph.max_degree = parameters_.max_degree;
    graph.edges = AlignedBuffer<std::uint32_t>(nodes_.count * parameters_.max_degree);
    if (nodes_.count > 0) {
      edges_ = AlignedBuffer<std::uint32_t>(nodes_.count * stride_);
      fill(edges_);
      choose_order();
      graph.entries.assign(order_.begin(), order_.begin() + entry_count(nodes_.count));
      entries_ = graph.entries;
      for (std::int64_t done = 1, batch = 1; done < nodes_.count;) {
        const std::int64_t count = std::min({batch, largest_batch(nodes_.count), nodes_.count - done});
        insert(done, count);
        done += count;
        batch = done;  // as many again
      }
      finish_edges(graph);
      edges_ = {};
      connect(graph);
    }
    progress_.finish();
    return graph;
  }

 private:
  const std::uint8_t* code(std::int64_t node) const { return nodes_.codes.data() + node * code_bytes_; }
  std::uint32_t* edges(std::int64_t node) { return edges_.data() + node * stride_; }
  Pruner make_pruner() const {
    return {nodes_.codes.data(), code_bytes_, estimates_, parameters_.alpha, parameters_.max_degree};
  }

  // Runs body(first, last) over parts of [0, count).
  template <class Body>
  void in_parts(std::int64_t count, std::int64_t part, const Body& body) {
    parallel_for(threads_, (count + part - 1) / part, [&](std::int64_t task) {
      stop_.check();
      body(task * part, std::min(count, (task + 1) * part));
    });
  }

  void fill(AlignedBuffer<std::uint32_t>& buffer) {
    in_parts(buffer.size(), std::int64_t{1} << 22U, [&](std::int64_t first, std::int64_t last) {
      std::fill(buffer.data() + first, buffer.data() + last, no_node);
    });
  }

  // The node nearest to the mean of all: sums of integers, whatever their order.
  std::uint32_t medoid() {
    constexpr std::int64_t part = 4096;
    const auto bytes = static_cast<std::size_t>(code_bytes_);
    const bool halves = space_.bits == 4;
    std::vector<std::int64_t> sums(2 * bytes, 0);  // of low halves or whole bytes, then of high halves
    std::mutex mutex;
    in_parts(nodes_.count, part, [&](std::int64_t first, std::int64_t last) {
      std::vector<std::int64_t> own(2 * bytes, 0);
      for (std::int64_t i = first; i < last; ++i) {
        const std::uint8_t* its = code(i);
        for (std::size_t j = 0; j < bytes; ++j) own[j] += halves ? its[j] & 15U : its[j];
        for (std::size_t j = 0; halves && j < bytes; ++j) own[bytes + j] += its[j] >> 4U;
      }
      const std::scoped_lock lock(mutex);
      for (std::size_t j = 0; j < own.size(); ++j) sums[j] += own[j];
    });
    std::vector<std::uint8_t> mean(bytes);
    for (std::size_t j = 0; j < bytes; ++j) {
      const auto rounded = [&](std::int64_t sum) { return (sum + nodes_.count / 2) / nodes_.count; };
      mean[j] = static_cast<std::uint8_t>(rounded(sums[j]) | rounded(sums[bytes + j]) << 4U);
    }
    Key best = ~Key{0};
    in_parts(nodes_.count, part, [&](std::int64_t first, std::int64_t last) {
      const auto count = static_cast<std::size_t>(last - first);
      std::vector<std::uint32_t> these(count);
      std::iota(these.begin(), these.end(), static_cast<std::uint32_t>(first));
      std::vector<std::int32_t> estimates(count);
      estimates_(nodes_.codes.data(), code_bytes_, mean.data(), these.data(),
                 static_cast<std::int64_t>(count), estimates.data());
      Key own = ~Key{0};
      for (std::size_t i = 0; i < count; ++i) own = std::min(own, make_key(estimates[i], these[i]));
      const std::scoped_lock lock(mutex);
      best = std::min(best, own);
    });
    return node_of(best);
  }

  // The medoid, then all others as the seed shuffles them (Fisher and Yates 1938).
  void choose_order() {
    order_.resize(static_cast<std::size_t>(nodes_.count));
    std::iota(order_.begin(), order_.end(), 0U);
    std::swap(order_[0], order_[medoid()]);
    Random random(parameters_.seed);
    for (std::size_t i = order_.size() - 1; i > 1; --i) {
      if (i % (1U << 20U) == 0) stop_.check();
      std::swap(order_[i], order_[1 + random.below(i)]);
    }
  }

  WalkedGraph walked(std::int64_t inserted) const {
    const std::size_t entries = std::min(static_cast<std::size_t>(inserted), entries_.size());
    return {edges_.data(), stride_,    nodes_.codes.data(),
            code_bytes_,   estimates_, std::span<const std::uint32_t>(order_.data(), entries)};
  }

  // Nodes order_[done, done + count) into the graph of those before them.
  void insert(std::int64_t done, std::int64_t count) {
    const WalkedGraph graph = walked(done);
    const std::int64_t list_size = std::min(parameters_.build_list_size, done);
    in_parts(count, tuning::rows_a_task, [&](std::int64_t first, std::int64_t last) {
      struct Lane {
        Walk walk;
        std::uint32_t node = no_node;
        std::vector<Key> seen{};
      };
      std::vector<Lane> lanes;
      for (std::int64_t i = 0; i < tuning::walks_side_by_side; ++i) lanes.push_back({Walk(graph)});
      Pruner pruner = make_pruner();
      Walk::Counters counters;
      std::int64_t next = first;
      const auto begin = [&](Lane& lane) {
        if (next == last) return false;
        lane.node = order_[static_cast<std::size_t>(done + next++)];
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
        return true;
      };
      walk_side_by_side(std::span(lanes), stop_, counters, begin, end);
      progress_.advance(last - first);
    });
    add_back_edges(done, count);
  }

  void add_back_edges(std::int64_t done, std::int64_t count) {
    back_.clear();  // target above source, so that sorting groups by target
    for (std::int64_t i = done; i < done + count; ++i) {
      const std::uint32_t node = order_[static_cast<std::size_t>(i)];
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

  // From the rows of edges with slack to those of the index.
  void finish_edges(Graph& graph) {
    constexpr std::int64_t part = 256;
    const std::int64_t most = parameters_.max_degree;
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

  // Marks what can be reached from the marked nodes in `front`.
  void spread(const Graph& graph, std::vector<std::uint8_t>& reached, std::vector<std::uint32_t>& front) {
    std::uint32_t steps = 0;
    while (!front.empty()) {
      if ((++steps & 0xFFFFU) == 0) stop_.check();
      const std::uint32_t node = front.back();
      front.pop_back();
      const std::uint32_t* its = graph.of(node);
      for (std::int64_t i = 0; i < graph.max_degree && its[i] != no_node; ++i) {
        if (reached[its[i]] != 0) continue;
        reached[its[i]] = 1;
        front.push_back(its[i]);
      }
    }
  }

  // Prunes may leave nodes that nothing leads to. Each gets an edge from the nearest node that has room for
  // one, or becomes an entry.
  void connect(Graph& graph) {
    std::vector<std::uint8_t> reached(static_cast<std::size_t>(nodes_.count), 0);
    std::vector<std::uint32_t> front = graph.entries;
    for (const std::uint32_t entry : graph.entries) reached[entry] = 1;
    spread(graph, reached, front);
    Walk::Counters counters;
    for (std::int64_t i = 0; i < nodes_.count; ++i) {
      if (reached[static_cast<std::size_t>(i)] != 0) continue;
      const auto node = static_cast<std::uint32_t>(i);
      Walk walk({graph.edges.data(), graph.max_degree, nodes_.codes.data(), code_bytes_, estimates_,
                 graph.entries});
      stop_.check();
      bool linked = false;
      const WalkPlan plan{.query = code(i), .list_size = std::min(parameters_.build_list_size, nodes_.count)};
      for (const Key key : walk.run(plan, stop_, counters)) {
        std::uint32_t* its = graph.edges.data() + std::int64_t{node_of(key)} * graph.max_degree;
        const std::int64_t degree = degree_of(its, graph.max_degree);
        if (degree == graph.max_degree) continue;
        its[degree] = node;
        linked = true;
        break;
      }
      if (!linked) graph.entries.push_back(node);
      reached[static_cast<std::size_t>(i)] = 1;
      front.push_back(node);
      spread(graph, reached, front);
    }
  }

  const Nodes& nodes_;
  const ScalarSpace& space_;
  std::int64_t code_bytes_;
  decltype(EstimateKernels::gathered) estimates_;
  const VamanaParameters& parameters_;
  const Execution& execution_;
  int threads_;
  std::int64_t stride_;
  ProgressCounter progress_;
  StopRequest stop_;
  AlignedBuffer<std::uint32_t> edges_;
  std::vector<std::uint32_t> order_, entries_;
  std::vector<std::uint64_t> back_;
  std::vector<std::size_t> groups_;
};

}  // namespace

Graph build_graph(const Nodes& nodes, const ScalarSpace& space, const VamanaParameters& parameters,
                  const Execution& execution) {
  return Builder(nodes, space, parameters, execution).build();
}

std::uint64_t build_bytes(std::int64_t nodes, const VamanaParameters& parameters, int threads) {
  const auto n = static_cast<std::uint64_t>(nodes);
  const auto degree = static_cast<std::uint64_t>(parameters.max_degree);
  const auto stride = static_cast<std::uint64_t>(build_stride(parameters.max_degree));
  const auto batch = static_cast<std::uint64_t>(std::min(nodes, largest_batch(nodes)));
  // Both graphs, the order and what is reached; the back edges of a batch, and groups of them, in vectors
  // that grow by doubling; lists of the walks and what they saw.
  const std::uint64_t a_thread =
      static_cast<std::uint64_t>(tuning::walks_side_by_side) *
      (Walk::bytes(parameters.build_list_size, 1, build_stride(parameters.max_degree)) +
       static_cast<std::uint64_t>(parameters.build_list_size) * 64);
  return n * (4 * (degree + stride) + 4 + 1) + 2 * batch * degree * 16 +
         static_cast<std::uint64_t>(threads) * a_thread;
}

}  // namespace kith::vamana
