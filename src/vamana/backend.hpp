// The seam between Vamana and the machines it runs on: one table of functions a backend.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "codes/pq.hpp"
#include "codes/scalar.hpp"
#include "core/memory_budget.hpp"
#include "kith/vamana.hpp"
#include "vamana/graph.hpp"
#include "vamana/walk_codes.hpp"

namespace kith::vamana {

struct DeviceGraph;

/// Copies of a graph, its codes and its rows that devices hold, by ordinal.
struct DeviceCopies {
  std::mutex mutex;
  std::map<int, std::shared_ptr<const DeviceGraph>> devices;
};

/// What a search walks through and re-ranks by.
struct Built {
  codes::ScalarSpace space;
  Nodes nodes;
  Graph graph;
  /// Where not null, walks compare these, and the nodes have codes only while the graph is built.
  std::shared_ptr<const WalkCodes> walked = nullptr;
  /// A search for k evaluates so many times k nodes of its list and a few more; 0: all of it.
  std::int64_t rerank_factor = 0;
  /// Of all that stands here: replaced with the graph, by set_graph().
  std::shared_ptr<DeviceCopies> copies = std::make_shared<DeviceCopies>();

  void set_graph(Graph its) {
    copies = std::make_shared<DeviceCopies>();  // first: they may hold on to the old one's memory
    graph = std::move(its);
  }
  /// Once it is built: scalar codes are not needed any more where walks go by others, and what the build has
  /// freed is the system's.
  void drop_what_built_it() {
    if (walked != nullptr) nodes.codes = {};
    return_freed_memory();
  }
  /// Of a code that walks compare.
  std::int64_t code_bytes() const { return walked != nullptr ? walked->code_bytes() : space.code_bytes(); }
  std::uint64_t bytes() const {
    return nodes.bytes() + graph.bytes() + (walked != nullptr ? walked->bytes() : 0);
  }
};

/// Arguments of a search, checked and with defaults filled in.
struct SearchPlan {
  std::int64_t k = 0;
  std::int64_t list_size = 0;
  std::int64_t beam_width = 1;
  std::int64_t rerank = 0;  ///< 0: what may change the answer, by the codes or by rerank_factor
  /// One node a query that its walk must not enter, or none at all: queries that are rows themselves.
  std::span<const std::uint32_t> left_out = {};
  /// Rows that may be found; null: every row. A walk's list then ends with its list_size-th node that holds
  /// some, or after longest_list nodes, see cpu/walk.hpp.
  const RowSet* allowed = nullptr;
  std::int64_t longest_list = 0;
};

/// A backend: plain functions, so that a build without it leaves no trace of it.
struct Backend {
  /// The graph, which may have no nodes yet, with those `added` inserted, which it does not have, and then
  /// those `waiting`. In between `look` gets the graph as it is without these, finished; not where none
  /// waits.
  /// @param added, waiting ascending
  Graph (*grow)(const Graph& graph, const Nodes& nodes, const codes::ScalarSpace& space,
                const VamanaParameters& parameters, const std::vector<std::uint32_t>& added,
                const std::vector<std::uint32_t>& waiting, const Look& look, const Execution& execution);
  /// What finds the centroids of PQ codes; empty: the host's threads do.
  codes::KMeansOfParts (*k_means)(const Execution& execution);
  /// Codes of rows by which walks compare these, [rows, coding's bytes].
  /// @param rows of u8: scalar codes of 8 bits
  void (*encode)(const codes::Coding& coding, const DatasetView& rows, std::uint8_t* codes,
                 const Execution& execution);
  /// Bytes that building takes at its peak, the graph included, the nodes not.
  std::uint64_t (*build_bytes)(std::int64_t nodes, const VamanaParameters& parameters, int threads);
  /// Into host memory.
  /// @param unanswered takes the queries, ascending, for which the longest list was too short for allowed
  /// rows
  SearchStatistics (*search_into)(const Built& built, const DatasetView& rows, const DatasetView& queries,
                                  const SearchPlan& plan, const NeighborsView& out,
                                  const Execution& execution, std::vector<std::int64_t>& unanswered);
  /// What search_into finds by each of some plans that allow every row and differ in their lists, ascending,
  /// in k and in `rerank`: by one walk for all that have the same list, or for all of them. Of the statistics
  /// the hops.
  std::vector<Neighbors> (*search_by_plans)(const Built& built, const DatasetView& rows,
                                            const DatasetView& queries, std::span<const SearchPlan> plans,
                                            const Execution& execution);
  bool one_walk_for_all;  ///< whether search_by_plans takes one walk for plans of all lists
  /// The rows where searches read them, if there is room for them beside a graph that grows and a search's
  /// own copy of that and its codes.
  std::optional<Dataset> (*place)(const Built& built, const DatasetView& rows,
                                  const VamanaParameters& parameters, const Execution& execution);
  /// Bytes that searching takes beyond the answer.
  std::uint64_t (*search_bytes)(const Built& built, const SearchPlan& plan, int threads);
};

const Backend& cpu_backend();
/// Of builds with CUDA alone.
const Backend& cuda_backend();

/// @throws DeviceError where `execution` names devices that Vamana has no backend for
const Backend& backend_for(const Execution& execution);

}  // namespace kith::vamana
