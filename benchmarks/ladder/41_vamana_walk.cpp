// Rung 41: a walk through the Vamana graph, one query at a time, full distances.
//
// Idea      Rows have edges to rows around them, and a few far ones. A walk keeps the L nearest rows it has
//           met, sorted, and expands the nearest that it has not expanded yet: it looks at all its
//           neighbours. It ends when all L are expanded.
// Cost      About L steps, and the distance of every neighbour met for the first time: a few thousand rows
//           in place of all.
// Limit     Each step needs the one before, each distance a row from anywhere in memory: the core waits. And
//           the L rows need not be the nearest: the answer is true, but may miss some.
// Source    Subramanya et al., DiskANN (2019), greedy search.
#include <algorithm>
#include <unordered_set>

#include "bang_parts.hpp"
#include "graph_case.hpp"
#include "neighbor.hpp"

namespace kith::ladder {
namespace {

// T: the element type of the rows.
template <class T>
class Walk {
 public:
  Walk(const Problem& problem, const GraphCase& graph)
      : problem_(problem),
        graph_(graph),
        point_(problem.points_as<T>()),
        longest_(static_cast<std::size_t>(graph.list_size())) {}

  /// The nearest rows met, ascending.
  const std::vector<Key>& run(std::int64_t query) {
    query_ = problem_.query + query * problem_.dim;
    list_.clear();
    met_.clear();
    offer(graph_.entry());
    while (true) {
      const auto next = std::find_if(list_.begin(), list_.end(), [](Key key) { return !expanded(key); });
      if (next == list_.end()) return list_;
      *next |= 1U;
      const std::uint32_t* neighbors = graph_.list_of(row_of(*next));
      for (std::int64_t j = 0; j < graph_.degree() && neighbors[j] != no_row; ++j) offer(neighbors[j]);
    }
  }

 private:
  void offer(std::uint32_t row) {
    if (!met_.insert(row).second) return;
    const auto dim = static_cast<int>(problem_.dim);
    const Key key = make_key(squared_distance(query_, point_ + std::int64_t{row} * dim, dim), row);
    if (list_.size() == longest_) {
      if (!before(key, list_.back())) return;
      list_.pop_back();
    }
    list_.insert(std::upper_bound(list_.begin(), list_.end(), key, before), key);
  }

  const Problem& problem_;
  const GraphCase& graph_;
  const T* point_;
  std::size_t longest_;
  const float* query_ = nullptr;
  std::vector<Key> list_;
  std::unordered_set<std::uint32_t> met_;
};

template <class T>
Answer walk_for_all(const Problem& problem, Run& run) {
  Walk<T> walk(problem, *problem.graph);
  Answer answer(problem);
  run.search([&] {
    for (std::int64_t q = 0; q < problem.queries; ++q) {
      if (q % 64 == 0) run.stop_if_cancelled();
      const std::vector<Key>& list = walk.run(q);
      const auto found = std::min(static_cast<std::int64_t>(list.size()), problem.k);
      for (std::int64_t rank = 0; rank < found; ++rank) {
        const auto at = static_cast<std::size_t>(q * problem.k + rank);
        answer.indices[at] = row_of(list[static_cast<std::size_t>(rank)]);
        answer.distances[at] = distance_of(list[static_cast<std::size_t>(rank)]);
      }
    }
  });
  return answer;
}

}  // namespace

Answer vamana_walk(const Problem& problem, Run& run) {
  return problem.bytes() ? walk_for_all<std::uint8_t>(problem, run) : walk_for_all<float>(problem, run);
}

}  // namespace kith::ladder
