// The ladder: the searches Kith began with, one idea a rung, each a function of one signature.
//
//   Answer rung(const Problem& problem, Run& run);
//
// A rung does its work inside run.build() (what is done once for the points) and run.search(); whoever calls
// it decides by the Run how often these run and what is timed. The engine uses none of the rungs.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kith/error.hpp"

namespace kith::ladder {

class GraphCase;

/// Find the k nearest of `points` for each of `queries`. Distances are squared Euclidean, float32; the rungs
/// sum them in whatever order suits them, so their answers are exact where float32 sums are: on the data of
/// grid.hpp. Rows of bytes, which no rung copies into floats, are searched by the rungs of graphs and the
/// engine.
struct Problem {
  std::int64_t dim = 0, queries = 0, points = 0, k = 0;
  const float* query = nullptr;      ///< [queries, dim]
  const float* point = nullptr;      ///< [points, dim]; null where they are bytes
  bool tiles = false;                ///< of --case tiles: rungs of two layers run without being named
  const GraphCase* graph = nullptr;  ///< of --case graph: what its rungs walk through
  const std::uint8_t* point_bytes = nullptr;  ///< [points, dim], in the place of `point`
  /// The values of `query`, for the engine, whose queries have the element type of its rows.
  const std::uint8_t* query_bytes = nullptr;

  bool bytes() const { return point_bytes != nullptr; }
  /// The points, T being their element type.
  template <class T>
  const T* points_as() const {
    if constexpr (std::is_same_v<T, float>) {
      return point;
    } else {
      return point_bytes;
    }
  }
};

/// The k nearest of each query, nearest first, equal distances by index; padded with -1 and infinity.
struct Answer {
  explicit Answer(const Problem& problem)
      : indices(static_cast<std::size_t>(problem.queries * problem.k), -1),
        distances(indices.size(), std::numeric_limits<float>::infinity()) {}
  std::vector<std::int64_t> indices;  ///< [queries, k]
  std::vector<float> distances;       ///< [queries, k]
};

/// A clock that never goes back. Apart, since each rung on a GPU is compiled with what stands here.
double now_ms();

/// How a rung runs, and what it says about its run.
class Run {
 public:
  std::vector<int> gpus;  ///< ordinals; rungs for one GPU take the first
  int threads = 0;        ///< of the engine on the CPU; 0: one a core. The rungs take one.
  int repeat = 1;         ///< timed runs of search(), after one that is not; 1: that one alone
  double seconds = 0.5;   ///< and no further run once they have taken so long together
  bool whole = false;     ///< the caller times the whole call, from host memory to host memory
  /// Bytes of each GPU's memory the rung may take, its points, queries and answers among them; 0: what there
  /// is.
  std::uint64_t device_memory_limit = 0;
  bool (*cancelled)() = nullptr;  ///< polled; true: stop

  std::vector<double> times;  ///< ms of each timed run
  double build_ms = -1;       ///< -1: nothing was built
  std::string fallback;       ///< what was done otherwise than the title says, and why
  int devices = 0;            ///< GPUs that took part

  /// Work done once for the points; complete when it returns.
  template <class Work>
  void build(Work&& work) {
    build_ms = time(work);
  }

  /// The search itself; complete when it returns, the same every time.
  template <class Work>
  void search(Work&& work) {
    times.assign(1, time(work));
    if (repeat == 1 || times[0] > 1e3 * seconds) return;
    times.clear();
    double sum = 0;
    while (static_cast<int>(times.size()) < repeat && sum < 1e3 * seconds) {
      times.push_back(time(work));
      sum += times.back();
    }
  }

  /// @throws Cancelled; long loops on the CPU call it
  void stop_if_cancelled() const {
    if (cancelled != nullptr && cancelled()) throw Cancelled("the ladder was cancelled");
  }

 private:
  template <class Work>
  double time(Work& work) const {
    stop_if_cancelled();
    const double start = now_ms();
    work();
    return now_ms() - start;
  }
};

enum class Hardware : std::uint8_t { cpu, gpu, gpus };

/// A rung of the table.
struct Rung {
  int number;
  const char* id;     ///< as in --rungs
  const char* title;  ///< for people
  Hardware hardware;
  bool engine;                              ///< one of Kith's own
  Answer (*search)(const Problem&, Run&);   ///< null where this build has no CUDA
  std::string (*refuses)(const Problem&);   ///< why it cannot; empty where it can
  std::string (*declines)(const Problem&);  ///< why it should not, unless it is asked for; empty where it may
  /// Below 1: one of the rungs of graphs, whose answers may miss rows, and must find this share of them with
  /// lists of default_list_size or more, on the data of embeddings().
  double recall_floor = 1;
};

/// All rungs in order, whatever this build can run.
const std::vector<Rung>& rungs();

/// Most neighbours that rungs with a list in registers or shared memory find.
inline constexpr int longest_list = 32;
/// A texture's width: more points are folded.
inline constexpr std::int64_t texture_width = 65536;
/// Values that constant memory holds: 64 KiB.
inline constexpr std::int64_t constant_values = 16384;

/// Of the worklists in --case graph.
inline constexpr std::int64_t default_list_size = 64;
/// Bytes a code that BANG took for its largest data sets.
inline constexpr std::int64_t most_subspaces = 74;

// One a file, in the order of the table.
Answer serial(const Problem& problem, Run& run);
Answer matrix_thrust(const Problem& problem, Run& run);
Answer matrix_reduction(const Problem& problem, Run& run);
Answer fused(const Problem& problem, Run& run);
Answer by_coordinate(const Problem& problem, Run& run);
Answer texture(const Problem& problem, Run& run);
Answer constant(const Problem& problem, Run& run);
Answer occupancy(const Problem& problem, Run& run);
Answer several_gpus(const Problem& problem, Run& run);
Answer unrolled(const Problem& problem, Run& run);
Answer insertion(const Problem& problem, Run& run);
Answer tiled(const Problem& problem, Run& run);
Answer merged_lists(const Problem& problem, Run& run);
Answer tuned_lists(const Problem& problem, Run& run);
Answer kd_tree(const Problem& problem, Run& run);
Answer kd_tree_gpu(const Problem& problem, Run& run);
Answer octree(const Problem& problem, Run& run);
Answer octree_gpu(const Problem& problem, Run& run);
Answer insertion_sort(const Problem& problem, Run& run);
Answer engine_cpu(const Problem& problem, Run& run);
Answer engine_kd_tree_cpu(const Problem& problem, Run& run);
Answer engine_octree_cpu(const Problem& problem, Run& run);
Answer engine_gpu(const Problem& problem, Run& run);
Answer engine_kd_tree_gpu(const Problem& problem, Run& run);
Answer engine_octree_gpu(const Problem& problem, Run& run);
Answer engine_several_gpus(const Problem& problem, Run& run);
Answer best_first(const Problem& problem, Run& run);
Answer engine_tiles(const Problem& problem, Run& run);

// Of --case graph.
Answer vamana_walk(const Problem& problem, Run& run);
Answer bang_base(const Problem& problem, Run& run);
Answer bang_in_memory(const Problem& problem, Run& run);
Answer bang_exact(const Problem& problem, Run& run);
// Rung 42 with a part of it taken out:
Answer bang_no_prefetch(const Problem& problem, Run& run);
Answer bang_no_async(const Problem& problem, Run& run);
// and rung 43.
Answer bang_no_bloom(const Problem& problem, Run& run);
Answer bang_atomic_add(const Problem& problem, Run& run);
Answer bang_one_size(const Problem& problem, Run& run);
Answer bang_8_bytes(const Problem& problem, Run& run);
Answer bang_16_bytes(const Problem& problem, Run& run);
Answer bang_32_bytes(const Problem& problem, Run& run);
Answer bang_64_bytes(const Problem& problem, Run& run);
Answer engine_graph_cpu(const Problem& problem, Run& run);
Answer engine_graph_gpu(const Problem& problem, Run& run);

}  // namespace kith::ladder
