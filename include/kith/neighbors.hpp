/// @file
/// What searches answer: the k nearest rows of each query, or all within a radius.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/dtype.hpp"
#include "kith/error.hpp"

namespace kith {

/// What a search did; counters are exact but, except for the NaN counts, may differ from run to run.
struct SearchStatistics {
  std::string index;                ///< "brute_force", ...
  std::string filter;               ///< "int8", "fp16", "fp32", "none"
  std::int64_t directions = 0;      ///< leading directions that the filter compared; 0: all values
  std::int64_t lists = 0;           ///< lists that the rows are divided into; 0: every row is looked at
  std::string instruction_set;      ///< kernel path that ran
  std::int64_t pairs = 0;           ///< (query, row) pairs the filter compared
  std::int64_t candidates = 0;      ///< pairs the filter kept and that were evaluated exactly
  std::int64_t fallbacks = 0;       ///< queries that left the chosen filter for a finer one
  std::int64_t nan_rows = 0;        ///< dataset rows with a NaN: never returned
  std::int64_t nan_queries = 0;     ///< queries with a NaN: answered by -1 and +inf
  std::int64_t collapsed_rows = 0;  ///< rows equal to an earlier row, evaluated once with it
  std::int64_t hops = 0;            ///< graphs: nodes expanded
  std::int64_t cached_hops = 0;     ///< of them, those whose edges a GPU has while the graph is on the host
  std::int64_t distances = 0;       ///< graphs: distances of codes evaluated
  std::int64_t list_size = 0;       ///< graphs: length of the list, as given or as the recall required
  /// The answer is proved to be the nearest rows; false: most of them, as an approximate index finds them.
  bool certified = true;
  /// The least share of the nearest rows that the index has measured itself to find, with 99 % confidence; 1
  /// where certified, 0 where nothing is known.
  double recall = 1;
  double seconds = 0;  ///< wall time of the search
};

/// Indices and distances, both [queries, k] row-major. Each row ascends by (distance, index); rows
/// with fewer than k answers are padded with index -1 and distance +inf.
struct Neighbors {
  std::int64_t queries = 0;
  std::int64_t k = 0;
  std::vector<std::int64_t> indices;
  /// float for f32, f16, bf16, i8, u8 data; double for f64 data
  std::variant<std::vector<float>, std::vector<double>> distances;
  SearchStatistics statistics;

  Dtype distance_dtype() const noexcept { return distances.index() == 0 ? Dtype::f32 : Dtype::f64; }

  std::span<const std::int64_t> indices_of(std::int64_t query) const {
    return {indices.data() + query * k, static_cast<std::size_t>(k)};
  }

  /// All distances as T; T must be the type held.
  /// @throws InvalidArgument otherwise
  template <class T>
  std::span<const T> distances_as() const {
    if (const auto* held = std::get_if<std::vector<T>>(&distances)) {
      return {held->data(), held->size()};
    }
    throw InvalidArgument("distances are held as " +
                          std::string(distance_dtype() == Dtype::f32 ? "float" : "double") +
                          "; ask for that type, or use distance(query, rank)");
  }

  /// One distance, whatever the type held.
  double distance(std::int64_t query, std::int64_t rank) const {
    const auto at = static_cast<std::size_t>(query * k + rank);
    return std::visit([at](const auto& held) { return static_cast<double>(held[at]); }, distances);
  }
};

/// The rows within a radius of each query, as compressed sparse rows: those of query i are
/// [offsets[i], offsets[i + 1]).
struct RadiusNeighbors {
  std::int64_t queries = 0;
  std::vector<std::int64_t> offsets;  ///< queries + 1; offsets[0] is 0
  std::vector<std::int64_t> indices;
  /// float for f32, f16, bf16, i8, u8 data; double for f64 data
  std::variant<std::vector<float>, std::vector<double>> distances;
  SearchStatistics statistics;

  Dtype distance_dtype() const noexcept { return distances.index() == 0 ? Dtype::f32 : Dtype::f64; }

  std::span<const std::int64_t> indices_of(std::int64_t query) const {
    const auto first = static_cast<std::size_t>(offsets[static_cast<std::size_t>(query)]);
    const auto last = static_cast<std::size_t>(offsets[static_cast<std::size_t>(query) + 1]);
    return {indices.data() + first, last - first};
  }
  /// One distance, whatever the type held; `rank` counts from the query's first.
  double distance(std::int64_t query, std::int64_t rank) const {
    const auto at = static_cast<std::size_t>(offsets[static_cast<std::size_t>(query)] + rank);
    return std::visit([at](const auto& held) { return static_cast<double>(held[at]); }, distances);
  }
};

/// Memory that takes an answer: indices and distances, both [queries, k] row-major and contiguous, on the
/// host or on one CUDA device. Distances are float for f32, f16, bf16, i8 and u8 data, double for f64 data.
struct NeighborsView {
  std::int64_t* indices = nullptr;
  void* distances = nullptr;
  std::int64_t queries = 0;
  std::int64_t k = 0;
  MemorySpace space = MemorySpace::host;
  int device = 0;  ///< ordinal when space is cuda
};

}  // namespace kith
