// Climbing: every rung on one case, timed and checked against the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kith/dataset.hpp"
#include "ladder.hpp"

namespace kith::ladder {

/// Rows of a caller's, u8 and contiguous.
struct GivenRows {
  Dataset points, queries;
  std::string points_file, queries_file;  ///< what people call them
};
/// Rows of bytes of more dimensions have sums of squares that float32 does not hold.
inline constexpr std::int64_t most_byte_dims = 258;

/// Sizes of a problem; its points are made by grid(), of graphs by embeddings().
struct Case {
  std::int64_t dim = 0, queries = 0, points = 0, k = 0;
  bool tiles = false;                                ///< one of tile_cases()
  std::int64_t list_size = 0;                        ///< of --case graph; 0: another case
  std::shared_ptr<const GivenRows> given = nullptr;  ///< of graphs: rows in the place of those it would make
  std::string name() const;                          ///< "16,1024,1048576,1", "graph:96,1000,100000,10"
};

/// "16,1024,1048576" or "16,1024,1048576,1"; "graph:" before it: a case of graphs, of k = 10 where it is not
/// said. @throws InvalidArgument
Case parse_case(std::string_view text);
/// Those that the reports published figures of.
std::vector<Case> published_cases();
/// All that the reports' sizes combine to: {3, 16} x {1, 1024} x {65,536, 1,048,576, 16,777,216}, and the one
/// with k = 16.
std::vector<Case> all_cases();
/// Those of the reports' two layers, k = 20: one query and many, a cloud of sixteen of their tiles and one
/// larger than the largest leaf of the sweep.
std::vector<Case> tile_cases();
/// Embeddings whose graph walks go through: 1000 queries among 100,000 rows.
Case graph_case();
/// Numbers "8", ranges "2-10" and ids "fused", separated by commas. @throws InvalidArgument
std::set<int> parse_rungs(const std::vector<std::string>& texts);

struct ClimbOptions {
  std::set<int> chosen;   ///< numbers; empty: all that the case is fit for. What is named runs however long
  std::vector<int> gpus;  ///< empty: rungs on the CPU alone
  std::string no_gpus;    ///< why
  int threads = 0;        ///< of the engine on the CPU
  int repeat = 7;         ///< timed runs
  bool copies = false;    ///< time from host memory to host memory too
  /// Bytes of each GPU's memory a rung may take; one that needs more is left out. 0: no limit.
  std::uint64_t device_memory_limit = 0;
  double most_seconds = 10;  ///< a rung on the CPU that would take longer is left out unless it is chosen
  bool (*cancelled)() = nullptr;
  std::function<void(const Rung&, int done, int total)> progress;
};

/// One rung of a case. NaN: not measured.
struct Step {
  const Rung* rung = nullptr;
  std::string skipped;   ///< why; empty: it ran
  std::string fallback;  ///< what it did otherwise than its title says
  double ms = 0, min_ms = 0, max_ms = 0, ms_with_copies = 0, build_ms = 0;
  int runs = 0;
  int devices = 0;
  std::int64_t wrong = 0;   ///< cells of the answer that are not the engine's; of graphs: that cannot be
  double recall = 0;        ///< of --case graph; else NaN
  double recall_floor = 0;  ///< what it must not fall below; NaN: nothing
  bool below() const { return recall < recall_floor; }
};

struct Climb {
  Case sizes;
  std::int64_t largest = 0;  ///< coordinates are 0..largest
  std::vector<Step> steps;   ///< one a rung, in order
  /// Of --case graph: values a list of neighbours, time to build the graph, and its hash.
  std::int64_t degree = 0;
  double graph_ms = 0;
  std::uint64_t graph_hash = 0;
};

/// Cells whose index or whose distance's bits differ.
std::int64_t cells_that_differ(const Answer& a, const Answer& b);

/// @throws Cancelled, OutOfMemory, DeviceError
Climb climb(const Case& sizes, const ClimbOptions& options);

}  // namespace kith::ladder
