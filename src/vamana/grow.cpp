// Builds the graph in batches (ParlayANN, Dobson et al. 2023): the nodes of a batch are found a place in the
// graph as it was before it, all at once; then the edges back to them are added, grouped by the node that
// they leave. Batches double until they are 2 % of all nodes. No step depends on the order in which threads
// come to their work, and distances are integers: the graph is the same bits for any number of them, and on
// every machine.
#include "vamana/grow.hpp"

#include <algorithm>
#include <array>
#include <future>
#include <utility>

#include "core/beside.hpp"
#include "vamana/cpu/walk.hpp"

namespace kith::vamana {
namespace {

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

class Grower {
 public:
  Grower(BuildMachine& machine, const Growth& growth, const std::vector<std::uint32_t>& added,
         const std::vector<std::uint32_t>& waiting)
      : machine_(machine), growth_(growth), added_(added), order_(added), waiting_(waiting) {}

  Graph grow(const Graph& old, const Look& look) {
    const std::int64_t nodes = growth_.nodes.count;
    before_ = old.nodes;
    std::future<void> shuffled = beside([&] { shuffle(before_ == 0 ? 1 : 0); });
    machine_.begin(old);
    present_.assign(static_cast<std::size_t>(nodes), 0);
    std::fill_n(present_.begin(), old.nodes, std::uint8_t{1});
    entries_ = old.entries;
    old_entries_ = entries_.size();
    const std::uint32_t medoid = before_ == 0 && !added_.empty() ? added_[machine_.medoid(added_)] : no_node;
    shuffled.get();
    // Where there is no graph yet the medoid comes first, and the first node where the medoid was.
    if (medoid != no_node) std::swap(order_.front(), *std::ranges::find(order_, medoid));
    // As many entries as all nodes want, of those that are new.
    const auto wanted = static_cast<std::size_t>(entry_count(nodes));
    for (std::size_t i = 0; entries_.size() < wanted && i < order_.size(); ++i) entries_.push_back(order_[i]);
    // The first node is there to begin with.
    insert_from(before_ == 0 ? 1 : 0);
    if (!waiting_.empty()) {
      Graph seen = look(finished({}));
      const std::int64_t done = size();
      order_.insert(order_.end(), waiting_.begin(), waiting_.end());
      shuffle(static_cast<std::size_t>(done));
      insert_from(done);
      return finished(std::move(seen));
    }
    return finished({});
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(order_.size()); }

  // The nodes from order_[done] on, in batches of as many as there are already, up to a share of all.
  void insert_from(std::int64_t done) {
    for (const std::uint32_t node : order_) present_[node] = 1;
    while (done < size()) {
      const std::int64_t there = before_ + done;
      const std::int64_t count = std::min({there, largest_batch(growth_.nodes.count), size() - done});
      // Entries that are not in the graph yet are left out.
      const std::size_t entries = std::min(old_entries_ + static_cast<std::size_t>(done), entries_.size());
      machine_.insert({order_.data() + done, static_cast<std::size_t>(count)}, {entries_.data(), entries},
                      std::min(growth_.parameters.build_list_size, there));
      done += count;
    }
  }

  // The graph as it is now, in the memory of an earlier one or its own.
  Graph finished(Graph graph) {
    graph.nodes = growth_.nodes.count;
    graph.max_degree = growth_.parameters.max_degree;
    if (graph.edges.size() != graph.list_values()) {
      graph.edges = AlignedBuffer<std::uint32_t>(graph.list_values());
    }
    graph.entries = entries_;
    machine_.finish(graph);
    connect(graph);
    return graph;
  }

  // The order from `first` on (Fisher and Yates 1938).
  void shuffle(std::size_t first) {
    if (order_.size() <= first) return;
    Random random(growth_.parameters.seed + static_cast<std::uint64_t>(before_) + (first > 1 ? first : 0));
    // Which places are exchanged is drawn well before they are, so that memory far away is on its way.
    constexpr std::size_t ahead = 32;
    std::array<std::size_t, ahead> with{};
    std::size_t drawn = order_.size();
    for (std::size_t i = order_.size() - 1; i > first; --i) {
      for (; drawn > first + 1 && drawn + ahead > i + 1; --drawn) {
        const std::size_t place = first + random.below(drawn - first);
        with[(drawn - 1) % ahead] = place;
        __builtin_prefetch(order_.data() + place, 1);
      }
      if (i % (1U << 20U) == 0) growth_.stop.check();
      std::swap(order_[i], order_[with[i % ahead]]);
    }
  }

  // Prunes may leave nodes that nothing leads to. Each gets an edge from the nearest node that has room for
  // one, or becomes an entry. Walks to several of them see the graph as it was before; since an edge to one
  // may lead to others, which need no walk then, it is few at first.
  void connect(Graph& graph) {
    std::vector<std::uint8_t> reached(static_cast<std::size_t>(graph.nodes), 0);
    machine_.mark_reached(graph, reached);
    std::vector<std::uint32_t> lost;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      if (reached[i] == 0 && present_[i] != 0) lost.push_back(static_cast<std::uint32_t>(i));
    }
    std::vector<std::uint32_t> some;
    std::vector<std::vector<Key>> near;
    std::vector<std::uint32_t> front;
    auto most = tuning::first_connected;
    for (auto next = lost.begin(); next != lost.end(); most = std::min(2 * most, tuning::most_connected)) {
      for (some.clear(); next != lost.end() && some.size() < most; ++next) {
        if (reached[*next] == 0) some.push_back(*next);
      }
      near.resize(some.size());
      find_near(graph, some, near);
      for (std::size_t i = 0; i < some.size(); ++i) {
        if (reached[some[i]] != 0) continue;
        if (!link(graph, some[i], near[i])) graph.entries.push_back(some[i]);
        reached[some[i]] = 1;
        front.push_back(some[i]);
        spread(graph, reached, front, growth_.stop);
      }
    }
  }

  // What walks to nodes find.
  void find_near(const Graph& graph, const std::vector<std::uint32_t>& nodes,
                 std::vector<std::vector<Key>>& near) {
    const codes::ScalarSpace& space = growth_.space;
    const std::uint8_t* codes = growth_.nodes.codes.data();
    const std::int64_t list_size = std::min(growth_.parameters.build_list_size, graph.nodes);
    parallel_for(growth_.execution, static_cast<std::int64_t>(nodes.size()), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      Walk walk({graph.edges.data(), graph.max_degree, codes, space.code_bytes(), codes::estimates_of(space),
                 graph.entries});
      Walk::Counters counters;
      growth_.stop.check();
      const auto list =
          walk.run({.query = codes + std::int64_t{nodes[at]} * space.code_bytes(), .list_size = list_size},
                   growth_.stop, counters);
      near[at].assign(list.begin(), list.end());
    });
  }

  // An edge to a node from the first of some that has room for it; false where none has.
  static bool link(Graph& graph, std::uint32_t node, std::span<const Key> near) {
    for (const Key key : near) {
      std::uint32_t* its = graph.edges.data() + std::int64_t{node_of(key)} * graph.max_degree;
      const std::int64_t degree = degree_of(its, graph.max_degree);
      if (degree == graph.max_degree) continue;
      its[degree] = node;
      return true;
    }
    return false;
  }

  BuildMachine& machine_;
  const Growth& growth_;
  const std::vector<std::uint32_t>& added_;    // nodes, ascending
  std::vector<std::uint32_t> order_;           // those, as the seed shuffles them
  const std::vector<std::uint32_t>& waiting_;  // and those that come last
  std::vector<std::uint32_t> entries_;
  std::int64_t before_ = 0;            // so many nodes were there already
  std::size_t old_entries_ = 0;        // and so many entries
  std::vector<std::uint8_t> present_;  // a flag a node: in the graph when it is finished
};

}  // namespace

Graph grow_on(const MakeMachine& make_machine, const Graph& old, const Nodes& nodes,
              const codes::ScalarSpace& space, const VamanaParameters& parameters,
              const std::vector<std::uint32_t>& added, const std::vector<std::uint32_t>& waiting,
              const Look& look, const Execution& execution) {
  ProgressCounter progress(
      execution, "build",
      std::max<std::int64_t>(1, static_cast<std::int64_t>(added.size() + waiting.size())));
  StopRequest stop(execution);
  const Growth growth{nodes, space, parameters, execution, progress, stop};
  const std::unique_ptr<BuildMachine> machine = make_machine(growth);
  Graph grown = Grower(*machine, growth, added, waiting).grow(old, look);
  progress.finish();
  return grown;
}

void spread(const Graph& graph, std::vector<std::uint8_t>& reached, std::vector<std::uint32_t>& front,
            StopRequest& stop) {
  std::uint32_t steps = 0;
  while (!front.empty()) {
    if ((++steps & 0xFFFFU) == 0) stop.check();
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

}  // namespace kith::vamana
