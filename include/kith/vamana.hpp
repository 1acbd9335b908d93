/// @file
/// Approximate nearest neighbours by a walk through a graph (Vamana: Subramanya et al. 2019), with a recall
/// that was measured against exact answers (docs/vamana.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/index_type.hpp"
#include "kith/metric.hpp"
#include "kith/neighbors.hpp"
#include "kith/recall.hpp"
#include "kith/tuning.hpp"

namespace kith {

inline constexpr Metric vamana_metrics[] = {Metric::sqeuclidean, Metric::euclidean, Metric::inner_product,
                                            Metric::cosine};
inline constexpr Device::Kind vamana_backends[] = {Device::Kind::cpu};
inline constexpr SearchOption vamana_options[] = {SearchOption::recall, SearchOption::list_size,
                                                  SearchOption::beam_width, SearchOption::rerank,
                                                  SearchOption::allowed};

struct VamanaParameters {
  Metric metric = Metric::sqeuclidean;  ///< sqeuclidean, euclidean, cosine or inner_product
  /// Most neighbours a row, 4 to 1024: 4 bytes each. More find more with a list as long, and cost more a
  /// step.
  std::int64_t max_degree = 32;
  /// Rows in view while a row's neighbours are looked for, max_degree to 65536. More make a better graph,
  /// more slowly.
  std::int64_t build_list_size = 128;
  /// How much longer than the direct way a detour may be that makes an edge superfluous, 1 to 2. Above 1 more
  /// and longer edges stay.
  double alpha = 1.1;
  /// Of the order in which rows are added.
  std::uint64_t seed = 0;
};

/// k-nearest-neighbour search that looks at a small share of the rows.
///
/// Each row has edges to rows around it, chosen so that from anywhere some edge leads nearer (robust prune).
/// A search walks along them with a list of the nearest rows it has met, on one-byte codes of the rows, and
/// then evaluates those of the list by the canonical distance. So distances are true and ordered as
/// everywhere, and what is approximate is only which rows were found.
///
/// A graph is a function of rows, parameters and seed, an answer one of the graph, the query and the search's
/// options: the same bits for any number of threads, every instruction set, and after saving and loading.
/// Thread-safe: any number of threads may search one index.
class Vamana {
 public:
  using Parameters = VamanaParameters;
  static constexpr IndexType index_type = {.name = "vamana",
                                           .class_name = "Vamana",
                                           .summary = "walks a graph to a stated share of the nearest rows",
                                           .guarantee = Guarantee::approximate,
                                           .largest_dim = 32768,
                                           .metrics = vamana_metrics,
                                           .backends = vamana_backends,
                                           .options = vamana_options};
  /// What a search asks for that says neither recall nor list size.
  static constexpr double default_recall = 0.95;

  /// Over rows that stay the caller's and must outlive the index.
  /// @param dataset [n, dim] on the host, n below 2^32 - 1
  /// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
  static Vamana build(const DatasetView& dataset, const VamanaParameters& parameters = {},
                      const Execution& execution = {});

  /// Over rows the index keeps alive itself.
  static Vamana build(const Dataset& dataset, const VamanaParameters& parameters = {},
                      const Execution& execution = {});

  /// Some k rows near each query, mostly the nearest, at their true distances.
  ///
  /// `options.list_size` L: the walk keeps the L nearest rows it has met, at least min(k, rows); longer finds
  /// more and takes longer. Or `options.recall`, above 0 and at most 1: the shortest list whose recall, as
  /// recall_curve() has it, is that with 95 % confidence; where none is, and for 1, the exact engine answers,
  /// and the statistics say `certified`. Without either: recall 0.95. `options.beam_width` (default 1, at
  /// most 64) rows of the list are looked around at a time. `options.rerank`: so many rows of the list, from
  /// k to L, are evaluated exactly; by default all that may change the answer.
  ///
  /// `options.allowed`: only these rows may be found. The walk goes through the others too, and is repeated
  /// with longer lists until as many allowed rows are in view as it would have of all rows; where few are
  /// allowed, altogether or near a query, the exact engine answers over those (`fallbacks` counts such
  /// queries).
  /// @param queries [q, dim] of the dataset's dtype
  /// @param k at least 1; more than the rows there are pads with -1 and +inf
  /// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
  Neighbors search(const DatasetView& queries, std::int64_t k, const Execution& execution = {},
                   const SearchOptions& options = {}) const;

  /// The same answer into memory of the caller's.
  /// @param out [queries.rows, k] on the host; its k is the k of the search
  SearchStatistics search_into(const DatasetView& queries, const NeighborsView& out,
                               const Execution& execution = {}, const SearchOptions& options = {}) const;

  /// An index over these rows too, numbered on from rows(): the new ones are added to the graph by the steps
  /// of the build, and its recall is measured again. This index stays as it is, and so does what is searched
  /// meanwhile. The new one has a copy of all rows, and its graph is a function of the old one, the new rows
  /// and parameters(), the same bits for any number of threads.
  ///
  /// Codes stay those of the first build. So rows that do not fit them are refused: for inner_product a row
  /// longer than all of the build's, otherwise more than one in a hundred with a value more than twice as far
  /// from the mean as codes reach; those few are held to the ends of the range, as in a build.
  /// @param rows [m, dim] of the dataset's dtype, on the host
  /// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
  Vamana insert(const DatasetView& rows, const Execution& execution = {}) const;

  /// The recall of lists of growing size for queries like these, measured against exact answers, which takes
  /// as long as an exact search for them and some walks each.
  /// @param queries [q, dim] of the dataset's dtype, at least 1
  /// @param ks neighbours to measure it for, each 1 to 4096 and at most rows()
  /// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
  Tuning tune(const DatasetView& queries, const std::vector<std::int64_t>& ks = {1, 10, 100},
              const Execution& execution = {}) const;

  /// The same index with the tuning's curve in the place of its own: searches by recall go by it. Shares all
  /// else with this one.
  /// @throws InvalidArgument for a tuning of another graph
  Vamana tuned(const Tuning& tuning) const;

  /// Writes one file, whole or not at all: rows, graph and recall curve.
  /// @throws IoError, Cancelled
  void save(const std::filesystem::path& path, const Execution& execution = {}) const;

  /// Memory-maps the rows of a saved index, reads its graph and makes the codes again.
  /// @throws IoError when the file is missing, truncated, corrupt or foreign; OutOfMemory, Cancelled
  static Vamana load(const std::filesystem::path& path, const Execution& execution = {});

  std::int64_t rows() const noexcept;
  std::int64_t dim() const noexcept;
  Dtype dtype() const noexcept;
  Metric metric() const noexcept;
  /// What it was built with.
  const VamanaParameters& parameters() const noexcept;
  /// Bytes held beyond the dataset itself: codes and graph.
  std::uint64_t memory_bytes() const noexcept;
  /// Recall over list sizes: measured when the index was built, or that of tuned(); empty where there were
  /// too few rows for it (below 800).
  const RecallCurve& recall_curve() const noexcept;
  /// A hash of the graph's edges and entries: equal for equal graphs.
  std::uint64_t graph_hash() const noexcept;

  struct State;

 private:
  explicit Vamana(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace kith
