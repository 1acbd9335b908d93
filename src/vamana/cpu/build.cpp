// Builds the graph in batches (ParlayANN, Dobson et al. 2023): the nodes of a batch are found a place in the
// graph as it was before it, all at once; then the edges back to them are added, grouped by the node that
// they leave. Batches double until they are 2 % of all nodes. No step depends on the order in which threads
// come to their work, and distances are integers: the graph is the same bits for any number of them.
#include "vamana/cpu/build.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
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
  Builder(const Nodes& nodes, const codes::ScalarSpace& space, const VamanaParameters& parameters,
          const std::vector<std::uint32_t>& added, const std::vector<std::uint32_t>& waiting,
          const Execution& execution)
      : nodes_(nodes),
        space_(space),
        code_bytes_(space.code_bytes()),
        estimates_(codes::estimates_of(space)),
        parameters_(parameters),
        execution_(execution),
        threads_(resolve_threads(execution)),
        stride_(build_stride(parameters.max_degree)),
        progress_(execution, "build",
                  std::max<std::int64_t>(1, static_cast<std::int64_t>(added.size() + waiting.size()))),
        stop_(execution),
        order_(added),
        waiting_(waiting) {}

  // The nodes of a finished graph keep their edges but where they overflow.
  Graph grow(const Graph& old, const std::function<void(Graph)>& look) {
    edges_ = AlignedBuffer<std::uint32_t>(nodes_.count * stride_);
    fill(edges_);
    constexpr std::int64_t part = 4096;
    in_parts(old.nodes, part, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) std::copy_n(old.of(i), old.max_degree, edges(i));
    });
    present_.assign(static_cast<std::size_t>(nodes_.count), 0);
    std::fill_n(present_.begin(), old.nodes, std::uint8_t{1});
    before_ = old.nodes;
    entries_ = old.entries;
    old_entries_ = entries_.size();
    choose_order();
    // As many entries as all nodes want, of those that are new.
    const auto wanted = static_cast<std::size_t>(entry_count(nodes_.count));
    for (std::size_t i = 0; entries_.size() < wanted && i < order_.size(); ++i) entries_.push_back(order_[i]);
    // The first node is there to begin with.
    insert_from(before_ == 0 ? 1 : 0);
    if (!waiting_.empty()) {
      look(finished());
      const std::int64_t done = size();
      order_.insert(order_.end(), waiting_.begin(), waiting_.end());
      shuffle(static_cast<std::size_t>(done));
      insert_from(done);
    }
    Graph graph = finished();
    progress_.finish();
    return graph;
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(order_.size()); }

  // The nodes from order_[done] on, in batches of as many as there are already, up to a share of all.
  void insert_from(std::int64_t done) {
    for (const std::uint32_t node : order_) present_[node] = 1;
    while (done < size()) {
      const std::int64_t count = std::min({before_ + done, largest_batch(nodes_.count), size() - done});
      insert(done, count);
      done += count;
    }
  }

  // The graph as it is now.
  Graph finished() {
    Graph graph;
    graph.nodes = nodes_.count;
    graph.max_degree = parameters_.max_degree;
    graph.edges = AlignedBuffer<std::uint32_t>(nodes_.count * parameters_.max_degree);
    graph.entries = entries_;
    finish_edges(graph);
    connect(graph);
    return graph;
  }
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

  // Where the node of order_ is that is nearest to the mean of all of them: sums of integers, whatever their
  // order.
  std::size_t medoid() {
    constexpr std::int64_t part = 4096;
    const auto bytes = static_cast<std::size_t>(code_bytes_);
    const bool halves = space_.bits == 4;
    std::vector<std::int64_t> sums(2 * bytes, 0);  // of low halves or whole bytes, then of high halves
    std::mutex mutex;
    in_parts(size(), part, [&](std::int64_t first, std::int64_t last) {
      std::vector<std::int64_t> own(2 * bytes, 0);
      for (std::int64_t i = first; i < last; ++i) {
        const std::uint8_t* its = code(order_[static_cast<std::size_t>(i)]);
        for (std::size_t j = 0; j < bytes; ++j) own[j] += halves ? its[j] & 15U : its[j];
        for (std::size_t j = 0; halves && j < bytes; ++j) own[bytes + j] += its[j] >> 4U;
      }
      const std::scoped_lock lock(mutex);
      for (std::size_t j = 0; j < own.size(); ++j) sums[j] += own[j];
    });
    std::vector<std::uint8_t> mean(bytes);
    for (std::size_t j = 0; j < bytes; ++j) {
      const auto rounded = [&](std::int64_t sum) { return (sum + size() / 2) / size(); };
      mean[j] = static_cast<std::uint8_t>(rounded(sums[j]) | rounded(sums[bytes + j]) << 4U);
    }
    Key best = ~Key{0};
    in_parts(size(), part, [&](std::int64_t first, std::int64_t last) {
      const auto count = static_cast<std::size_t>(last - first);
      const std::uint32_t* these = order_.data() + first;
      std::vector<std::int32_t> estimates(count);
      estimates_(nodes_.codes.data(), code_bytes_, mean.data(), these, static_cast<std::int64_t>(count),
                 estimates.data());
      Key own = ~Key{0};
      for (std::size_t i = 0; i < count; ++i) own = std::min(own, make_key(estimates[i], these[i]));
      const std::scoped_lock lock(mutex);
      best = std::min(best, own);
    });
    return static_cast<std::size_t>(std::lower_bound(order_.begin(), order_.end(), node_of(best)) -
                                    order_.begin());
  }

  // As the seed shuffles them; where there is no graph yet, the medoid comes first.
  void choose_order() {
    if (order_.empty()) return;
    if (before_ == 0) std::swap(order_[0], order_[medoid()]);
    shuffle(before_ == 0 ? 1 : 0);
  }

  // The order from `first` on (Fisher and Yates 1938).
  void shuffle(std::size_t first) {
    if (order_.size() <= first) return;
    Random random(parameters_.seed + static_cast<std::uint64_t>(before_) + (first > 1 ? first : 0));
    for (std::size_t i = order_.size() - 1; i > first; --i) {
      if (i % (1U << 20U) == 0) stop_.check();
      std::swap(order_[i], order_[first + random.below(i - first + 1)]);
    }
  }

  // As far as it is built: entries that are not in it yet are left out.
  WalkedGraph walked(std::int64_t done) const {
    const std::size_t some = old_entries_ + static_cast<std::size_t>(done);
    return {edges_.data(),
            stride_,
            nodes_.codes.data(),
            code_bytes_,
            estimates_,
            std::span<const std::uint32_t>(entries_.data(), std::min(some, entries_.size()))};
  }

  // Nodes order_[done, done + count) into the graph of those before them.
  void insert(std::int64_t done, std::int64_t count) {
    const WalkedGraph graph = walked(done);
    const std::int64_t list_size = std::min(parameters_.build_list_size, before_ + done);
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
      if (reached[static_cast<std::size_t>(i)] != 0 || present_[static_cast<std::size_t>(i)] == 0) continue;
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
  const codes::ScalarSpace& space_;
  std::int64_t code_bytes_;
  decltype(codes::EstimateKernels::gathered) estimates_;
  const VamanaParameters& parameters_;
  const Execution& execution_;
  int threads_;
  std::int64_t stride_;
  ProgressCounter progress_;
  StopRequest stop_;
  AlignedBuffer<std::uint32_t> edges_;
  std::vector<std::uint32_t> order_;           // nodes that are added
  const std::vector<std::uint32_t>& waiting_;  // and those that come last
  std::vector<std::uint32_t> entries_;
  std::int64_t before_ = 0;            // so many nodes were there already
  std::size_t old_entries_ = 0;        // and so many entries
  std::vector<std::uint8_t> present_;  // a flag a node: in the graph when it is finished
  std::vector<std::uint64_t> back_;
  std::vector<std::size_t> groups_;
};

}  // namespace

Graph grow_graph(const Graph& graph, const Nodes& nodes, const codes::ScalarSpace& space,
                 const VamanaParameters& parameters, const std::vector<std::uint32_t>& added,
                 const std::vector<std::uint32_t>& waiting, const std::function<void(Graph)>& look,
                 const Execution& execution) {
  return Builder(nodes, space, parameters, added, waiting, execution).grow(graph, look);
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
