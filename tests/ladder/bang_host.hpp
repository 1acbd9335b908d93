// A case of graphs, small, and BANG's walks through it on the host: what a GPU must give bit for bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "bang_parts.hpp"
#include "bang_steps.hpp"
#include "graph_case.hpp"
#include "kith/kith.hpp"

namespace kith::ladder {

/// Rows like embeddings, as bytes where they are to be: those above 255 are 255 then.
inline Dataset rows_like_embeddings(std::int64_t rows, std::int64_t dim, std::int64_t first, bool bytes) {
  Dataset made = embeddings(rows, dim, first);
  if (!bytes) return made;
  for (float& value : made.mutable_values<float>()) value = std::min(value, 255.0F);
  return convert(made, Dtype::u8);
}

struct Instance {
  Instance(std::int64_t points_, std::int64_t dim, std::int64_t queries_, std::int64_t k,
           std::int64_t list_size, bool bytes = false)
      : points(rows_like_embeddings(points_, dim, 0, bytes)),
        asked(rows_like_embeddings(queries_, dim, points_, bytes)),
        queries(convert(asked, Dtype::f32)) {
    problem = {dim, queries_, points_, k, static_cast<const float*>(queries.view().data), nullptr};
    if (bytes) {
      problem.point_bytes = static_cast<const std::uint8_t*>(points.view().data);
      problem.query_bytes = static_cast<const std::uint8_t*>(asked.view().data);
    } else {
      problem.point = static_cast<const float*>(points.view().data);
    }
    graph.emplace(problem, list_size, std::vector<int>{}, Execution{});
    problem.graph = &*graph;
  }
  Answer truth() const {
    Answer answer(problem);
    knn_into(points, asked, {answer.indices.data(), answer.distances.data(), problem.queries, problem.k});
    return answer;
  }
  Dataset points, asked, queries;
  Problem problem;
  std::optional<GraphCase> graph;
};

/// BANG's steps for one query after the other, every array a vector.
class OnHost {
 public:
  OnHost(const Problem& problem, std::int64_t subspaces, bool bloom)
      : problem_(problem), graph_(*problem.graph), bloom_(bloom) {
    if (subspaces > 0) pq_ = graph_.pq(subspaces);
  }

  Answer search() {
    Answer answer(problem_);
    for (std::int64_t q = 0; q < problem_.queries; ++q) {
      const std::vector<Key> list = walk(problem_.query + q * problem_.dim);
      for (std::int64_t rank = 0; rank < std::min<std::int64_t>(problem_.k, std::ssize(list)); ++rank) {
        const auto at = static_cast<std::size_t>(q * problem_.k + rank);
        answer.indices[at] = row_of(list[static_cast<std::size_t>(rank)]);
        answer.distances[at] = distance_of(list[static_cast<std::size_t>(rank)]);
      }
    }
    return answer;
  }
  std::int64_t longest_walk() const { return longest_walk_; }

 private:
  // Eight shares, summed as the shuffles do.
  template <class Term>
  static float in_eight_shares(int count, const Term& term) {
    float share[8] = {};
    for (int j = 0; j < count; ++j) share[j % 8] = term(share[j % 8], j);
    for (int step = 4; step > 0; step /= 2) {
      for (int lane = 0; lane < step; ++lane) share[lane] += share[lane + step];
    }
    return share[0];
  }
  float full(std::uint32_t row) const {
    return problem_.bytes() ? full(problem_.point_bytes, row) : full(problem_.point, row);
  }
  template <class T>
  float full(const T* point, std::uint32_t row) const {
    const T* its = point + std::int64_t{row} * problem_.dim;
    return in_eight_shares(static_cast<int>(problem_.dim), [&](float sum, int c) {
      return add_square(sum, query_[c] - static_cast<float>(its[c]));
    });
  }
  float estimate(std::uint32_t row) const {
    if (pq_ == nullptr) return full(row);
    const std::uint8_t* code = pq_->codes.data() + std::int64_t{row} * pq_->subspaces;
    return in_eight_shares(pq_->subspaces, [&](float sum, int part) {
      return sum + table_[static_cast<std::size_t>(part * pq_centroids + code[part])];
    });
  }
  void fill_table() {
    if (pq_ == nullptr) return;
    table_.assign(static_cast<std::size_t>(pq_->subspaces * pq_centroids), 0);
    for (int part = 0; part < pq_->subspaces; ++part) {
      for (int c = 0; c < pq_centroids; ++c) {
        float sum = 0;
        for (auto d = static_cast<std::size_t>(pq_->starts[static_cast<std::size_t>(part)]);
             d < static_cast<std::size_t>(pq_->starts[static_cast<std::size_t>(part) + 1]); ++d) {
          sum = add_square(
              sum, query_[d] - pq_->mean[d] - pq_->centroid[d * pq_centroids + static_cast<std::size_t>(c)]);
        }
        table_[static_cast<std::size_t>(part * pq_centroids + c)] = sum;
      }
    }
  }

  std::vector<Key> walk(const float* query) {
    query_ = query;
    fill_table();
    std::vector<std::uint32_t> words(static_cast<std::size_t>(bloom_words), 0);
    const auto set = [&](std::uint32_t bit) { words[bit / 32] |= 1U << bit % 32; };
    const auto longest = static_cast<std::size_t>(graph_.list_size());
    std::vector<Key> list;
    std::unordered_set<std::uint32_t> candidates;
    std::vector<std::uint32_t> fresh = {graph_.entry()};
    const std::int64_t most_steps = 4 * graph_.list_size() + 64;
    std::int64_t step = 0;
    while (step < most_steps) {
      for (const std::uint32_t row : fresh) {
        set(first_bit(row));
        set(second_bit(row));
      }
      std::vector<Key> keys;
      for (const std::uint32_t row : fresh) keys.push_back(make_key(estimate(row), row));
      list = merged(list, merge_sorted(keys), longest);
      ++step;
      const auto next = std::find_if(list.begin(), list.end(), [](Key key) { return !expanded(key); });
      if (next == list.end()) break;
      const std::uint32_t row = row_of(*next);
      for (Key& key : list) key |= row_of(key) == row ? 1U : 0U;
      candidates.insert(row);
      fresh.clear();
      const std::uint32_t* neighbors = graph_.list_of(row);
      for (std::int64_t j = 0; j < graph_.degree() && neighbors[j] != no_row; ++j) {
        if (!bloom_ || !maybe_met(words.data(), neighbors[j])) fresh.push_back(neighbors[j]);
      }
    }
    longest_walk_ = std::max(longest_walk_, step);
    if (pq_ == nullptr) return list;
    std::vector<Key> exact;
    for (const std::uint32_t row : candidates) exact.push_back(make_key(full(row), row));
    std::sort(exact.begin(), exact.end());
    return exact;
  }

  const Problem& problem_;
  const GraphCase& graph_;
  std::shared_ptr<const PqTables> pq_;
  bool bloom_;
  const float* query_ = nullptr;
  std::vector<float> table_;
  std::int64_t longest_walk_ = 0;
};

}  // namespace kith::ladder
