// Answers of searches in memory of their own.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/large_vector.hpp"
#include "kith/neighbors.hpp"
#include "vamana/backend.hpp"

namespace kith::vamana {

/// Bytes that a neighbour takes in an answer.
inline std::uint64_t answer_bytes(const DatasetView& rows) {
  return sizeof(std::int64_t) + size_of(distance_dtype(rows.dtype));
}

/// What search(view) leaves in the memory of `view`; it returns the statistics.
template <class Search>
Neighbors answered(const DatasetView& rows, std::int64_t queries, std::int64_t k, const Execution& execution,
                   const Search& search) {
  Neighbors out;
  out.queries = queries;
  out.k = k;
  NeighborsView view{.queries = queries, .k = k};
  const std::int64_t cells = queries * k;
  out.indices = large_vector<std::int64_t>(cells, execution, -1);
  view.indices = out.indices.data();
  const auto fill = [&]<class R>(std::vector<R> distances) {
    view.distances = distances.data();
    out.statistics = search(view);
    out.distances = std::move(distances);
  };
  if (rows.dtype == Dtype::f64) {
    fill(large_vector<double>(cells, execution));
  } else {
    fill(large_vector<float>(cells, execution));
  }
  return out;
}

/// Answers by several plans, in their order: what search(views), a view a plan, leaves in their memory; it
/// returns statistics, one a plan.
template <class Search>
std::vector<Neighbors> answered_by_plans(const DatasetView& rows, std::int64_t queries,
                                         std::span<const SearchPlan> plans, const Execution& execution,
                                         const Search& search) {
  std::vector<Neighbors> answers;
  std::vector<NeighborsView> views;
  answers.reserve(plans.size());
  for (const SearchPlan& plan : plans) {
    answers.push_back(answered(rows, queries, plan.k, execution, [&](const NeighborsView& view) {
      views.push_back(view);  // of memory that stays where it is when the answer moves
      return SearchStatistics{};
    }));
  }
  const std::vector<SearchStatistics> statistics = search(std::span<const NeighborsView>(views));
  for (std::size_t i = 0; i < answers.size(); ++i) answers[i].statistics = statistics[i];
  return answers;
}

}  // namespace kith::vamana
