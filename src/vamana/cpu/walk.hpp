// A walk through the graph: greedy search with a list (Subramanya et al. 2019), on estimates.
//
// What it finds is a function of graph, codes, entries, list size, beam width, query and allowed rows alone.
// The list holds the smallest pairs (estimate, node) met so far; a node that was dropped cannot come back,
// for the list only improves, and one in the list is met again by its number. So the table of nodes already
// visited saves work and decides nothing: it may forget, and its size does not matter.
//
// A walk among allowed rows goes through all nodes, since the path to an allowed one leads through others.
// Of the pairs met so far its list holds the smallest up to and including the list_size-th allowed one, at
// most `longest_list`; a node is allowed when any of its rows is. Both bounds are those of a set, and further
// pairs can only lower them: the order in which pairs are offered has no say, and what was dropped cannot
// come back. The walk ends when all of the list is expanded, and has failed when the list is full,
// `longest_list` long, with fewer than list_size allowed nodes: nearer ones may lie beyond.
//
// A walk waits for memory twice a hop: for a node's edges, and for the codes of its neighbours. So it stops
// after asking for either, and a thread takes other walks a step further in the meantime.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "codes/coding.hpp"
#include "codes/scalar.hpp"
#include "core/parallel.hpp"
#include "kith/row_set.hpp"
#include "vamana/graph.hpp"
#include "vamana/key.hpp"
#include "vamana/tuning.hpp"

namespace kith::vamana {

/// What is walked: a graph, finished or growing, of rows of edges `stride` apart.
struct WalkedGraph {
  const std::uint32_t* edges;
  std::int64_t stride;
  const std::uint8_t* codes;
  std::int64_t code_bytes;
  decltype(codes::EstimateKernels::gathered) estimates;
  std::span<const std::uint32_t> entries;
};

/// Nodes that have an allowed row.
struct AllowedNodes {
  const Nodes& nodes;
  const RowSet* rows;

  bool contains(std::uint32_t node) const {
    if (nodes.plain()) return rows->contains(node);
    for (std::int64_t j = 0; j < nodes.rows_of(node); ++j) {
      if (rows->contains(nodes.row(node, j))) return true;
    }
    return false;
  }
};

/// What walks with shorter lists would have found. The first time that all of a list's first L entries are
/// expanded, a walk with a list of L ends with those: until then both have seen the same nodes and expanded
/// the same, for the nearest node that is not expanded is among them. A beam of 1, and all rows allowed.
struct ShorterLists {
  std::vector<std::int64_t> sizes;      ///< ascending, none longer than the walk's own list
  std::vector<std::vector<Key>> lists;  ///< of each size, once the walk has ended
  std::vector<std::int64_t> hops;       ///< and the nodes expanded until then
  std::size_t taken = 0;
};

/// Where a walk begins and what it is to find.
struct WalkPlan {
  const std::uint8_t* query = nullptr;  ///< its code; stays where it is until the walk has ended
  codes::Worker* worker = nullptr;      ///< where not null: what estimates in place of codes, told the query
  std::int64_t list_size = 1;
  const AllowedNodes* allowed = nullptr;  ///< where not null: list_size counts these,
  std::int64_t longest_list = 0;          ///< and this all nodes
  std::int64_t beam_width = 1;
  std::uint32_t left_out = no_node;  ///< never entered
  std::vector<Key>* seen = nullptr;  ///< where not null: every node expanded is appended to it
  ShorterLists* shorter = nullptr;   ///< where not null: takes what shorter lists would have held
  bool alone = false;                ///< no other walk goes on meanwhile
};

/// Scratch space of one walk after the other.
class Walk {
 public:
  struct Counters {
    std::int64_t hops = 0;       ///< nodes expanded
    std::int64_t distances = 0;  ///< estimates evaluated
  };

  explicit Walk(const WalkedGraph& graph) : graph_(graph), stride_(static_cast<std::size_t>(graph.stride)) {}

  void begin(const WalkPlan& plan);
  /// Goes on to where memory has to be waited for. False when the walk has ended.
  bool step(Counters& counters);
  /// The list, ascending, every entry expanded, of a walk that has ended; valid until the next begins.
  std::span<const Key> list() const { return {list_.data(), size_}; }
  /// The allowed of them, of a walk among allowed rows.
  std::span<const Key> allowed() const { return allowed_; }
  /// Whether the list of such a walk had too few of them, and a longer one may have more.
  bool failed() const { return size_ == capacity_ && !enough_allowed(); }

  /// A whole walk. @throws what `stop` throws
  std::span<const Key> run(const WalkPlan& plan, StopRequest& stop, Counters& counters);

  /// Bytes it takes at most. @param longest_list 0 where all rows are allowed
  static std::uint64_t bytes(std::int64_t list_size, std::int64_t longest_list, std::int64_t beam_width,
                             std::int64_t degree);

 private:
  static std::int64_t table_size(std::int64_t list_size, std::int64_t longest_list);
  void insert(Key key);
  void offer_found();
  void offer_among_allowed(Key key);
  bool enough_allowed() const { return static_cast<std::int64_t>(allowed_.size()) == plan_.list_size; }
  void estimate_found();
  void evaluate_found(Counters& counters);
  bool choose();
  void take_shorter_lists();
  void fetch_codes() const;
  void fetch_edges(std::uint32_t node) const;
  void fetch_next_edges() const;

  // Takes the neighbours of a node that were not visited yet. Whether one was is as likely as not: each is
  // written, and counted if it is new.
  void gather(const std::uint32_t* neighbors, std::int64_t count) {
    std::uint32_t* const table = table_.data();
    std::uint32_t* const found = found_.data();
    std::size_t taken = found_count_;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t node = neighbors[i];
      if (node == no_node) break;
      std::uint32_t& visited = table[(node * 0x9E3779B1U) >> shift_];
      found[taken] = node;
      taken += static_cast<std::size_t>(visited != node) & static_cast<std::size_t>(node != plan_.left_out);
      visited = node;
    }
    found_count_ = taken;
  }

  WalkedGraph graph_;
  std::size_t stride_;
  WalkPlan plan_;
  std::vector<Key> list_;
  std::size_t size_ = 0;      // entries of list_ in use
  std::size_t capacity_ = 0;  // most entries of this walk's list
  std::size_t next_ = 0;      // no entry before it is unexpanded
  std::int64_t hops_ = 0;     // of this walk
  std::vector<Key> allowed_;  // the allowed entries, ascending, none marked as expanded
  std::vector<std::uint32_t> table_;
  unsigned shift_ = 32;
  std::vector<std::uint32_t> found_;
  std::vector<std::int32_t> estimates_;
  std::vector<float> distances_;  // as a worker has them
  std::size_t found_count_ = 0;
  std::vector<std::uint32_t> beam_;  // nodes whose edges are on their way
};

/// Walks side by side in one thread: one goes on while others wait for memory. Each lane has a walk;
/// `begin(lane)` begins its next one, or returns false where there is none left, and `end(lane)` takes what
/// it found.
/// @throws what `stop` throws
template <class Lane, class Begin, class End>
void walk_side_by_side(std::span<Lane> lanes, StopRequest& stop, Walk::Counters& counters, const Begin& begin,
                       const End& end) {
  std::vector<Lane*> going;
  for (Lane& lane : lanes) {
    if (begin(lane)) going.push_back(&lane);
  }
  for (std::int64_t rounds = 1; !going.empty(); ++rounds) {
    if (rounds % tuning::rounds_between_polls == 0) stop.check();
    std::erase_if(going, [&](Lane* lane) {
      if (lane->walk.step(counters)) return false;
      end(*lane);
      return !begin(*lane);
    });
  }
}

}  // namespace kith::vamana
