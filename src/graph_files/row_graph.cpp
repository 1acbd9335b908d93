#include "graph_files/row_graph.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/parallel.hpp"
#include "kith/error.hpp"

namespace kith::graph_files {
namespace {

using vamana::Graph;
using vamana::no_node;
using vamana::Nodes;

void check_memory(std::uint64_t need, const Execution& execution) {
  if (execution.memory_limit == 0 || need <= execution.memory_limit) return;
  throw OutOfMemory(fmt::format("a node for each row takes {} bytes, the limit is {}; raise the limit", need,
                                execution.memory_limit));
}

struct Strays {
  std::vector<std::uint32_t> nodes;
  std::vector<bool> from_start;  // of each node: whether a walk from the first entry comes to it
};

// Entries that no walk from the first one comes to, in their order: each stands for what only it leads to.
Strays find_strays(const Graph& graph, StopRequest& stop) {
  Strays strays;
  if (graph.entries.size() < 2) return strays;
  std::vector<bool> reached(static_cast<std::size_t>(graph.nodes), false);
  std::vector<std::uint32_t> front;
  const auto visit = [&](std::uint32_t node) {
    if (reached[node]) return;
    reached[node] = true;
    front.push_back(node);
  };
  const auto spread = [&] {
    for (std::int64_t steps = 0; !front.empty(); ++steps) {
      if (steps % (1 << 16) == 0) stop.check();
      const std::uint32_t* its = graph.of(front.back());
      front.pop_back();
      for (std::int64_t j = 0; j < graph.max_degree && its[j] != no_node; ++j) visit(its[j]);
    }
  };
  visit(graph.entries.front());
  spread();
  strays.from_start = reached;
  for (const std::uint32_t entry : graph.entries) {
    if (reached[entry]) continue;
    strays.nodes.push_back(entry);
    visit(entry);
    spread();
  }
  return strays;
}

// The node that leads to each stray: one with room for an edge that the start leads to, and for another stray
// another one. Where there is none, strays follow the start in a chain.
std::vector<std::uint32_t> links_to(const Strays& strays, const Graph& graph, const Nodes& nodes) {
  std::vector<std::uint32_t> links;
  std::int64_t candidate = 0;
  const auto has_room = [&](std::int64_t node) {
    return graph.of(node)[graph.max_degree - 1] == no_node && nodes.rows_of(node) == 1 &&
           strays.from_start[static_cast<std::size_t>(node)];
  };
  std::uint32_t end_of_chain = graph.entries.front();
  for (const std::uint32_t stray : strays.nodes) {
    while (candidate < graph.nodes && !has_room(candidate)) ++candidate;
    links.push_back(candidate < graph.nodes ? static_cast<std::uint32_t>(candidate++) : end_of_chain);
    if (links.back() == end_of_chain) end_of_chain = stray;
  }
  return links;
}

}  // namespace

std::int64_t RowGraph::degree(std::int64_t row) const {
  return std::find(of(row), of(row) + max_degree, no_node) - of(row);
}

RowGraph row_graph(const vamana::Contents& contents, const Execution& execution) {
  const Graph& graph = contents.built.graph;
  const Nodes& nodes = contents.built.nodes;
  StopRequest stop(execution);
  // An imported graph may have nodes that nothing leads to; it stays as it is.
  const Strays strays = contents.plain ? Strays{} : find_strays(graph, stop);
  RowGraph out;
  out.rows = contents.dataset.rows();
  out.max_degree = graph.max_degree;
  out.edges = graph.lists();
  const auto row_of = [&](std::uint32_t node) { return static_cast<std::uint32_t>(nodes.row(node, 0)); };
  out.start = graph.entries.empty() ? 0 : row_of(graph.entries.front());
  if (nodes.plain() && strays.nodes.empty()) return out;

  const auto degree = [&](std::int64_t node) {
    return std::find(graph.of(node), graph.of(node) + graph.max_degree, no_node) - graph.of(node);
  };
  const std::vector<std::uint32_t> links =
      strays.nodes.empty() ? std::vector<std::uint32_t>{} : links_to(strays, graph, nodes);
  std::int64_t longest = graph.max_degree;
  const auto with_chain = [&](std::int64_t node) { return degree(node) + (nodes.rows_of(node) > 1 ? 1 : 0); };
  for (std::int64_t node = 0; node < graph.nodes; ++node) longest = std::max(longest, with_chain(node));
  for (const std::uint32_t node : links) longest = std::max(longest, with_chain(node) + 1);

  check_memory(static_cast<std::uint64_t>(out.rows) * static_cast<std::uint64_t>(longest) * 4, execution);
  out.max_degree = longest;
  out.held = AlignedBuffer<std::uint32_t>(out.rows * longest);
  std::fill_n(out.held.data(), out.held.size(), no_node);
  out.edges = out.held.data();
  const auto append = [&](std::uint32_t row, std::uint32_t to) {
    std::uint32_t* its = out.held.data() + std::int64_t{row} * longest;
    *std::find(its, its + longest, no_node) = to;
  };
  for (std::int64_t node = 0; node < graph.nodes; ++node) {
    if (node % (1 << 16) == 0) stop.check();
    std::uint32_t* to = out.held.data() + nodes.row(node, 0) * longest;
    std::transform(graph.of(node), graph.of(node) + degree(node), to, row_of);
    for (std::int64_t j = 1; j < nodes.rows_of(node); ++j) {
      append(static_cast<std::uint32_t>(nodes.row(node, j - 1)),
             static_cast<std::uint32_t>(nodes.row(node, j)));
    }
  }
  for (std::size_t i = 0; i < links.size(); ++i) append(row_of(links[i]), row_of(strays.nodes[i]));
  return out;
}

}  // namespace kith::graph_files
