// From lists of neighbours to an answer.
#pragma once

#include "ladder.hpp"
#include "neighbor.hpp"

namespace kith::ladder {

/// The list of one query; what is nobody stays the answer's padding.
inline void put(Answer& answer, std::int64_t query, const Neighbor* list, int k) {
  for (int rank = 0; rank < k; ++rank) {
    const bool somebody = list[rank].index != INT_MAX;
    const auto at = static_cast<std::size_t>(query * k + rank);
    answer.indices[at] = somebody ? list[rank].index : -1;
    answer.distances[at] = list[rank].distance;
  }
}

/// Lists of all queries, one after the other.
inline Answer put_all(const Problem& problem, const std::vector<Neighbor>& lists) {
  Answer answer(problem);
  for (std::int64_t q = 0; q < problem.queries; ++q) {
    put(answer, q, lists.data() + q * problem.k, static_cast<int>(problem.k));
  }
  return answer;
}

}  // namespace kith::ladder
