/// @file
/// Approximate nearest neighbours by a walk through a graph (Vamana: Subramanya et al. 2019), with a recall
/// that was measured against exact answers (docs/vamana.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "kith/codes.hpp"
#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/index_type.hpp"
#include "kith/metric.hpp"
#include "kith/neighbors.hpp"
#include "kith/recall.hpp"
#include "kith/tuning.hpp"

namespace kith {

namespace vamana {
struct Parts;
}

inline constexpr Metric vamana_metrics[] = {Metric::sqeuclidean, Metric::euclidean, Metric::inner_product,
                                            Metric::cosine};
inline constexpr Device::Kind vamana_backends[] = {Device::Kind::cpu, Device::Kind::cuda};
inline constexpr SearchOption vamana_options[] = {SearchOption::recall, SearchOption::list_size,
                                                  SearchOption::beam_width, SearchOption::rerank,
                                                  SearchOption::allowed};

struct VamanaParameters {
  Metric metric = Metric::sqeuclidean;  ///< sqeuclidean, euclidean, cosine or inner_product
  /// Most edges per row, 4 to 1024, of 4 bytes each. More edges find more with a list of the same length, and
  /// make each step dearer.
  std::int64_t max_degree = 64;
  /// Length of the list while a row's neighbours are searched for, max_degree to 65536. A longer one makes a
  /// better graph, more slowly. 0: 128, or 256 for 400,000 rows or more of 384 values or more; and never less
  /// than twice max_degree. An index has what was taken.
  std::int64_t build_list_size = 0;
  /// An edge to a row is left out where a neighbour chosen before is nearer to that row by this factor, 1 to
  /// 2. Above 1, more and longer edges stay.
  double alpha = 1.05;
  /// Decides the order in which rows are added.
  std::uint64_t seed = 0;
  /// Bits a value of the codes that walks compare: 8, or 4 for half the bytes and longer lists; or 0 for 4
  /// where 4,096 rows or more have codes of 384 values or more, and those of 4 bits order the nearest rows of
  /// a sample nearly as the rows do; else, and for integers that are their own codes, 8. An index has what
  /// was taken.
  std::int64_t code_bits = 0;
  /// Values a code: the leading principal directions, 32 to dim, a multiple of 32; or dim for all values; or
  /// 0 for the directions that hold 92.5 % of the variance where half of them do, else all values.
  std::int64_t code_dim = 0;
  /// What walks compare: the scalar codes that the graph is built by, or RaBitQ or PQ codes of those, which
  /// are kept in their place and take less memory; they want longer lists, and never code_bits 4.
  CodeKind codes = CodeKind::scalar;
  /// RaBitQ: bits a value, 1 to 8, and 12 bytes a row; 0: 4.
  std::int64_t rabitq_bits = 0;
  /// PQ: bytes a code, 1 to the values of a scalar code; 0: one for every four of these.
  std::int64_t pq_subspaces = 0;
};

/// k-nearest-neighbour search that visits a small share of the rows.
///
/// Each row has edges to rows around it, chosen so that from anywhere some edge leads nearer (robust prune).
/// A search walks along them on one-byte codes of the rows, keeping a list of the nearest rows it has met,
/// and then evaluates the rows of the list by the canonical distance. So distances are true, and ordered as
/// in every index; only the choice of rows is approximate.
///
/// A graph is a function of rows, parameters and seed, an answer one of the graph, the query and the search's
/// options: the same bits for any number of threads, every instruction set, on the CPU and on GPUs, and after
/// saving and loading. Any device searches any graph. A GPU keeps a copy of codes, graph and rows after its
/// first search; where the device memory limit has no room for all, it reads the rows, then the graph, too,
/// from page-locked host memory (`instruction_set` of the statistics says which).
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
  /// Of a search that asks for neither a recall nor a list size.
  static constexpr double default_recall = 0.95;

  /// Over rows that the caller owns and that must outlive the index.
  /// @param dataset [n, dim] on the host, n below 2^32 - 1
  /// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
  static Vamana build(const DatasetView& dataset, const VamanaParameters& parameters = {},
                      const Execution& execution = {});

  /// Over rows the index keeps alive itself.
  static Vamana build(const Dataset& dataset, const VamanaParameters& parameters = {},
                      const Execution& execution = {});

  /// k rows near each query, most of them the nearest, with their true distances.
  ///
  /// `options.list_size` L: the walk keeps the L nearest rows it has met, at least min(k, rows); a longer
  /// list finds more and takes longer. Or `options.recall`, above 0 and at most 1: the shortest list that
  /// reaches it with 99 % confidence, by recall_curve(); where none does, and for 1, the exact engine
  /// answers, and the statistics say `certified`. Without either: recall 0.95. `options.beam_width` (default
  /// 1, at most 64) rows of the list are expanded at a time. `options.rerank`: this many rows of the list,
  /// from k to L, are evaluated exactly; by default as many as the build found enough.
  ///
  /// `options.allowed`: only these rows may be found. The walk goes through the others too, and is repeated
  /// with longer lists until these hold as many allowed rows as a list would hold of all rows; where few are
  /// allowed, altogether or near a query, the exact engine answers over those (`fallbacks` counts such
  /// queries).
  /// @param queries [q, dim] of the dataset's dtype
  /// @param k at least 1; beyond the number of rows, answers are padded with -1 and +inf
  /// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
  Neighbors search(const DatasetView& queries, std::int64_t k, const Execution& execution = {},
                   const SearchOptions& options = {}) const;

  /// The same answer, into memory of the caller.
  /// @param out [queries.rows, k], its k is the k of the search; in GPU memory for searches on GPUs alone
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
  /// Values of the codes that walks compare: those of a row, or leading directions.
  std::int64_t code_dim() const noexcept;
  /// Bytes of a code that walks compare, of the kind that parameters() name.
  std::int64_t code_bytes() const noexcept;
  /// Bytes held beyond the dataset itself: codes and graph.
  std::uint64_t memory_bytes() const noexcept;
  /// Recall over list sizes: measured when the index was built, or that of tuned(); empty where there were
  /// too few rows for it (below 800).
  const RecallCurve& recall_curve() const noexcept;
  /// A hash of the graph's edges and entries, and of codes that are not scalar: equal for equal graphs.
  std::uint64_t graph_hash() const noexcept;

  struct State;

 private:
  friend struct vamana::Parts;
  explicit Vamana(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace kith
