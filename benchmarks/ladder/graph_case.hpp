// The case of graphs: data like embeddings, a Vamana graph over them and product quantization, which all
// rungs 41 and up share; and what is asked of an answer that may miss rows.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "graph_files/row_graph.hpp"
#include "kith/vamana.hpp"
#include "ladder.hpp"

namespace kith::ladder {

/// Rows of whole numbers 0..largest_coordinate(dim), so that float32 sums are exact whatever their order: 200
/// clusters, around whose centres lie few directions with much of the variance, more with less, and a little
/// noise in all of them.
Dataset embeddings(std::int64_t rows, std::int64_t dim, std::int64_t first_row,
                   const Execution& execution = {});

/// Product quantization as kernels read it.
struct PqTables {
  int subspaces = 0;
  std::vector<int> starts;            ///< [subspaces + 1] first dimension of each
  std::vector<float> mean;            ///< [dim], taken off a query first
  std::vector<float> centroid;        ///< [dim, 256]: of a dimension all centroids side by side
  AlignedBuffer<std::uint8_t> codes;  ///< [points, subspaces]
};

inline constexpr int pq_centroids = 256;
/// Of the worklist and of an adjacency list: shared memory of a block holds one of each.
inline constexpr std::int64_t longest_worklist = 4096;

/// What the rungs of graphs search. Built once a case.
class GraphCase {
 public:
  /// @param gpus the first of them builds the graph and finds the codes with what is free there, where there
  ///   is one and that is enough, else the CPU: the same
  GraphCase(const Problem& problem, std::int64_t list_size, const std::vector<int>& gpus,
            const Execution& execution);

  std::int64_t list_size() const { return list_size_; }
  std::int64_t degree() const {
    return graph_.max_degree;
  }  ///< values a list of neighbours, no_row at its end
  std::uint32_t entry() const { return graph_.start; }
  const std::uint32_t* lists() const { return graph_.edges; }
  const std::uint32_t* list_of(std::int64_t row) const { return graph_.of(row); }
  const Vamana& index() const { return index_; }
  double build_ms() const { return build_ms_; }

  /// Trained and encoded when first asked for, kept until those of another length are asked for.
  std::shared_ptr<const PqTables> pq(std::int64_t subspaces) const;

 private:
  template <class Work>
  auto shared_by_rungs(const Work& work) const;

  DatasetView points_;
  std::int64_t list_size_;
  std::vector<int> gpus_;
  Execution execution_;
  double build_ms_ = 0;
  Vamana index_;
  graph_files::RowGraph graph_;
  mutable std::shared_ptr<const PqTables> pq_;
};

/// Bytes a code of the rungs that do not name another number: 74, or one a dimension.
std::int64_t default_subspaces(const Problem& problem);

/// For each query that has one, the list of neighbours of its row; else one that begins with no_row. This is
/// what the host does in BANG Base, on `threads` cores.
void gather_lists(const GraphCase& graph, const std::uint32_t* rows, std::int64_t queries,
                  std::uint32_t* lists, int threads);
/// The vectors of those rows. T: their element type, float or std::uint8_t.
template <class T>
void gather_vectors(const Problem& problem, const std::uint32_t* rows, std::int64_t queries, T* vectors,
                    int threads);

/// Cells of an answer that cannot be: a distance that is not the row's own, rows out of order or repeated,
/// something after the padding.
std::int64_t untrue_cells(const Problem& problem, const Answer& answer);
/// Share of the k nearest found; a row as near as the k-th of `truth` counts as one of them.
double recall_of(const Problem& problem, const Answer& answer, const Answer& truth);

}  // namespace kith::ladder
